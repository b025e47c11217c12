"""The engine and its stages, from outside."""
