"""The documents, run."""
