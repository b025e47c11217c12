"""Tests that need no JVM."""
