"""Benchmarks: speed, latency, memory."""
