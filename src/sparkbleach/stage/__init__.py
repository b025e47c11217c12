"""The verbs: encode, apply, audit, snapshot. Arrow batches in, Arrow batches out. No Spark."""
