"""The paper's topology as stages of a streaming query."""
