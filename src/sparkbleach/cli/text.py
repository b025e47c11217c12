"""Words for numbers."""

from __future__ import annotations


def count(n: int, noun: str) -> str:
    """Return a number of things, such as `1 cell` or `2,000 cells`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
