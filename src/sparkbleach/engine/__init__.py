"""The engine: Arrow batches in, clean batches and their audit out."""
