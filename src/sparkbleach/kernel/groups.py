"""Cell groups, and detection.

A group remembers, of all the cells it ever had, only the newest one's value and pane, and the pane of the
newest cell with any other value. That is enough to detect exactly, for any window: the group has a second
value in the window if and only if that other pane is in it. So nothing has to be done to a group when the
window slides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import i64, inline, jit
from .table import (
    NONE,
    UNLINKED,
    Pool,
    Records,
    Table,
    grow,
    new_pool,
    new_table,
    pool_give,
    pool_take,
    pool_used,
    table_first,
    table_insert,
    table_items,
    table_remove,
)
from .values import Values, value_release

GROUP_FIELDS = [
    ("hash", np.uint64),  # low half of the 128-bit key: rule and LHS value
    ("hash_hi", np.uint64),  # high half
    ("last_pane", np.int64),  # of the newest cell; once retired: the last pane that it lives to see
    ("other_pane", np.int64),  # of the newest cell with another value than `last`
    ("last", np.int32),  # value of the newest cell
    ("next", np.int32),  # in the table or the pool
    ("n_cells", np.int32),  # how many super cells it has
    ("recent_cell", np.int32),  # the super cell that a cell of it joined last
    ("held", np.int32),  # the value that it holds to be true; see truth.py
    ("seen", np.int16),  # how often it was seen, up to SEEN_MAX of truth.py
    ("lead", np.int16),  # by how much the challenger leads
    ("column", np.int16),  # which rule of the attribute; NONE if the slot is free
    ("in_graph", np.int16),  # 1 from the first violation on
    # What most tuples do not need comes last.
    ("first_cell", np.int32),  # of the group's super cells
    ("challenger", np.int32),  # the value that may be accepted next
]
GROUP = np.dtype(GROUP_FIELDS, align=True)

DEAD: int = i64(-(1 << 62))  # a pane before all others


class Groups(NamedTuple):
    """The cell groups of an attribute, of all its rules."""

    records: Records  #: GROUP
    table: Table
    pool: Pool


def new_groups() -> Groups:
    """Return no groups."""
    return Groups(np.zeros(0, GROUP), new_table(), new_pool())


def reserve_groups(groups: Groups, n: int) -> None:
    """Make room for `n` more groups."""
    grow(groups.records, pool_used(groups.pool) + n)
    grow(groups.table.heads, table_items(groups.table) + n + 1)


@inline
def group_find(groups: Groups, lo: np.uint64, hi: np.uint64) -> int:
    """Return the group with this key, NONE if there is none. It may have left the window."""
    g = i64(table_first(groups.table, lo))
    records = groups.records
    while g != NONE:
        if records[g]["hash"] == lo and records[g]["hash_hi"] == hi:
            return g
        g = i64(records[g]["next"])
    return NONE


@inline
def group_of(groups: Groups, lo: np.uint64, hi: np.uint64, column: int, start: int) -> int:
    """Return the group with this key that has a cell in the window, or a new one without cells.

    A group that left the window keeps its slot, because super cells still name it, until the sweep has
    been there; but another one takes its place.
    """
    g = group_find(groups, lo, hi)
    if g != NONE and groups.records[g]["last_pane"] >= start:
        return g
    return group_new(groups, lo, hi, column, g)


@jit
def group_new(groups: Groups, lo: np.uint64, hi: np.uint64, column: int, replaced: int) -> int:
    """Return a new group in the place of another, or NONE, that is found by its key no more."""
    records = groups.records
    if replaced != NONE:
        table_remove(groups.table, records, replaced)
    g = pool_take(groups.pool, records)
    records[g]["hash"] = lo
    records[g]["hash_hi"] = hi
    records[g]["last_pane"] = DEAD
    records[g]["other_pane"] = DEAD
    records[g]["last"] = NONE
    records[g]["first_cell"] = NONE
    records[g]["n_cells"] = 0
    records[g]["recent_cell"] = NONE
    records[g]["column"] = column
    records[g]["in_graph"] = 0
    records[g]["held"] = NONE
    records[g]["seen"] = 0
    records[g]["lead"] = 0
    records[g]["challenger"] = NONE
    table_insert(groups.table, records, g)
    return g


@jit
def forget_truth(groups: Groups, values: Values, g: int) -> None:
    """Let go of the values that a group names."""
    group = groups.records[g]
    if group["held"] != NONE:
        value_release(values, i64(group["held"]))
        group["held"] = NONE
    if group["challenger"] != NONE:
        value_release(values, i64(group["challenger"]))
        group["challenger"] = NONE


@jit
def group_free(groups: Groups, values: Values, g: int) -> None:
    """Give up a group that no super cell names any more."""
    records = groups.records
    forget_truth(groups, values, g)
    if records[g]["next"] != UNLINKED:
        table_remove(groups.table, records, g)
    records[g]["column"] = NONE
    records[g]["last_pane"] = DEAD
    pool_give(groups.pool, records, g)


@inline
def group_detect(groups: Groups, g: int, value: int, pane: int, start: int) -> bool:
    """Return whether a cell with this value violates the group, then add the cell to it.

    Args:
        groups: The groups.
        g: The group, as `group_of` returns it: with a cell in the window, or new.
        value: The value of the cell.
        pane: The pane of the cell.
        start: The first pane of the window.
    """
    group = groups.records[g]
    if group["last"] == value:
        group["last_pane"] = pane
        return group["other_pane"] >= start
    group["other_pane"] = group["last_pane"]
    group["last"] = value
    group["last_pane"] = pane
    return group["other_pane"] >= start
