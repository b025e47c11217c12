"""The Spark room: lane, state, topology, sources and sinks."""
