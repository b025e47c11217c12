"""Rule updates on their way to a stream, and what became of them."""
