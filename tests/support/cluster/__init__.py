"""A Spark cluster of several processes, and a program that runs on it."""
