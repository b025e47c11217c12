"""The slow oracle."""
