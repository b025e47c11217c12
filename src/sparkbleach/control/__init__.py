"""Rule updates on their way to a stream, and their outcomes."""
