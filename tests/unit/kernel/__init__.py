"""The kernel, from inside."""
