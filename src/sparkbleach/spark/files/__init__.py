"""Files as the source and the sink of a stream."""
