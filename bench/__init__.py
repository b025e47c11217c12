"""Benchmarks, kept with the project."""
