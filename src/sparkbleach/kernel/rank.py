"""The best few of a set of candidates whose weights only grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .jit import inline, jit
from .table import NONE, Records
from .values import Values, value_less

TOP = 5


@inline
def raised(values: Values, records: Records, top: NDArray[np.int32], c: int) -> None:
    """Keep the order of the best after the weight of candidate `c` has grown.

    Args:
        values: The value dictionary.
        records: The candidates, with the fields `weight` and `value`.
        top: The best of them, best first, then NONE.
        c: Which one has grown.
    """
    if top[0] != c and (top[TOP - 1] == NONE or records[c]["weight"] >= records[top[TOP - 1]]["weight"]):
        _place(values, records, top, c)


@jit
def _place(values: Values, records: Records, top: NDArray[np.int32], c: int) -> None:
    at = 0
    while at < TOP and top[at] != c and top[at] != NONE:
        at += 1
    if at == TOP:
        at = TOP - 1
        if not _beats(values, records, c, top[at]):
            return
    while at > 0 and _beats(values, records, c, top[at - 1]):
        top[at] = top[at - 1]
        at -= 1
    top[at] = c


@jit
def _beats(values: Values, records: Records, a: int, b: int) -> bool:
    if records[a]["weight"] != records[b]["weight"]:
        return records[a]["weight"] > records[b]["weight"]
    return value_less(values, records[a]["value"], records[b]["value"])


@jit
def place(
    values: Values, best: NDArray[np.int32], counts: NDArray[np.int64], row: int, value: int, count: int
) -> None:
    """Put a value, or its count that has grown, where it belongs among the best of a row.

    Args:
        values: The value dictionary.
        best: By row: the best values, best first, then NONE.
        counts: Their counts.
        row: Which row.
        value: The value.
        count: Its count.
    """
    at = TOP
    for k in range(TOP):
        if best[row, k] == value:
            at = k
    while at > 0 and (
        best[row, at - 1] == NONE
        or counts[row, at - 1] < count
        or (counts[row, at - 1] == count and value_less(values, value, best[row, at - 1]))
    ):
        if at < TOP:
            best[row, at] = best[row, at - 1]
            counts[row, at] = counts[row, at - 1]
        at -= 1
    if at < TOP:
        best[row, at] = value
        counts[row, at] = count
