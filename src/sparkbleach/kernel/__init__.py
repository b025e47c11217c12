"""The nouns: arrays and the compiled free functions on them. No Spark, no clock, no I/O, no randomness."""
