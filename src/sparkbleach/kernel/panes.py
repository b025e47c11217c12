"""Counts by pane: how many cells a super cell has in each pane of the window, newest first.

The newest count lies in the super cell itself; older ones, which few super cells have, in a list.
The functions take any store with `cells`, `panes` and `pane_pool`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .jit import i64, inline, jit
from .table import NONE, Pool, Records, pool_give, pool_take

PANE_COUNT = np.dtype([("pane", np.int64), ("count", np.int64), ("next", np.int32)], align=True)

_NEVER = i64(1 << 62)  # a pane


class CountedCells(Protocol):
    """Super cells with the fields `pane`, `count` and `older`."""

    @property
    def cells(self) -> Records:
        """The super cells."""

    @property
    def panes(self) -> Records:
        """PANE_COUNT."""

    @property
    def pane_pool(self) -> Pool:
        """The slots of `panes`."""


@inline
def cell_add(store: CountedCells, x: int, pane: int, start: int) -> None:
    """Count one more cell in the newest pane."""
    if store.cells[x]["pane"] != pane:
        _begin_pane(store, x, pane, start)
    store.cells[x]["count"] += 1


@inline
def add_cells(store: CountedCells, x: int, pane: int, count: int) -> None:
    """Count more cells in any pane."""
    cell = store.cells[x]
    if cell["pane"] == pane:
        cell["count"] += count
    elif cell["count"] == 0:
        cell["pane"] = pane
        cell["count"] = count
    else:
        _add_cells(store, x, pane, count)


@jit
def _add_cells(store: CountedCells, x: int, pane: int, count: int) -> None:
    cell = store.cells[x]
    panes = store.panes
    if pane > cell["pane"]:
        cell["older"] = _push_newest(store, x)
        cell["pane"] = pane
        cell["count"] = count
        return
    before = NONE
    node = i64(cell["older"])
    while node != NONE and panes[node]["pane"] > pane:
        before = node
        node = i64(panes[node]["next"])
    if node != NONE and panes[node]["pane"] == pane:
        panes[node]["count"] += count
        return
    new = pool_take(store.pane_pool, panes)
    panes[new]["pane"] = pane
    panes[new]["count"] = count
    panes[new]["next"] = node
    if before == NONE:
        cell["older"] = new
    else:
        panes[before]["next"] = new


@jit
def _begin_pane(store: CountedCells, x: int, pane: int, start: int) -> None:
    cell = store.cells[x]
    if cell["count"] > 0 and cell["pane"] >= start:
        forget_panes_before(store, x, start)
        cell["older"] = _push_newest(store, x)
    else:
        forget_panes(store, x)
    cell["pane"] = pane
    cell["count"] = 0


@jit
def window_count(store: CountedCells, x: int, start: int) -> int:
    """Return how many cells the super cell has in the panes from `start` on."""
    cell = store.cells[x]
    if cell["pane"] < start:
        return 0
    count = cell["count"]
    node = cell["older"]
    while node != NONE and store.panes[node]["pane"] >= start:
        count += store.panes[node]["count"]
        node = store.panes[node]["next"]
    return count


@inline
def forget_panes_before(store: CountedCells, x: int, start: int) -> None:
    """Free the counts of older panes that left the window."""
    if store.cells[x]["older"] != NONE:
        _free_panes_before(store, x, start)


@inline
def forget_panes(store: CountedCells, x: int) -> None:
    """Free all counts of older panes."""
    forget_panes_before(store, x, _NEVER)


@jit
def _free_panes_before(store: CountedCells, x: int, start: int) -> None:
    last = NONE
    node = i64(store.cells[x]["older"])
    while node != NONE and store.panes[node]["pane"] >= start:
        last = node
        node = i64(store.panes[node]["next"])
    if last == NONE:
        store.cells[x]["older"] = NONE
    elif node != NONE:
        store.panes[last]["next"] = NONE
    while node != NONE:
        following = i64(store.panes[node]["next"])
        pool_give(store.pane_pool, store.panes, node)
        node = following


@jit
def add_counts(store: CountedCells, source: int, target: int) -> None:
    """Add the counts of one super cell to those of another; the source is left with none."""
    cells = store.cells
    panes = store.panes
    # The newest count of a super cell is not in its list: put both there, merge, take the newest out.
    a = _push_newest(store, source)
    b = _push_newest(store, target)
    cells[source]["older"] = NONE
    cells[source]["count"] = 0
    head = NONE
    last = NONE
    while a != NONE or b != NONE:
        if b == NONE or (a != NONE and panes[a]["pane"] > panes[b]["pane"]):
            node = a
            a = i64(panes[a]["next"])
        elif a == NONE or panes[b]["pane"] > panes[a]["pane"]:
            node = b
            b = i64(panes[b]["next"])
        else:
            node = b
            b = i64(panes[b]["next"])
            panes[node]["count"] += panes[a]["count"]
            doubled = a
            a = i64(panes[a]["next"])
            pool_give(store.pane_pool, panes, doubled)
        if last == NONE:
            head = node
        else:
            panes[last]["next"] = node
        last = node
    panes[last]["next"] = NONE
    cells[target]["pane"] = panes[head]["pane"]
    cells[target]["count"] = panes[head]["count"]
    cells[target]["older"] = panes[head]["next"]
    pool_give(store.pane_pool, panes, head)


@jit
def _push_newest(store: CountedCells, x: int) -> int:
    node = pool_take(store.pane_pool, store.panes)
    store.panes[node]["pane"] = store.cells[x]["pane"]
    store.panes[node]["count"] = store.cells[x]["count"]
    store.panes[node]["next"] = store.cells[x]["older"]
    return node
