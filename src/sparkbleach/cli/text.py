"""Words for numbers, and values that are short enough."""

from __future__ import annotations


def count(n: int, noun: str) -> str:
    """Return a number of things, such as `1 cell` or `2,000 cells`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def shortened(text: str, length: int = 30) -> str:
    """Return a text of at most this length: of a longer one the beginning and the end."""
    end = length * 2 // 5
    return text if len(text) <= length else f"{text[: length - end - 1]}…{text[-end:]}"


def percent(share: float) -> str:
    """Return a share in percent; one that is nearly nothing or nearly all as such."""
    if 0.0 < share < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= share < 1.0 else f"{share:.1%}"
