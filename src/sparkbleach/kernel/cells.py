"""Super cells: the cells of an attribute with one value in exactly one set of groups, as counts.

A super cell has a count per pane, newest first, and a cumulative count that means something only while one
of its groups is in the graph. Its groups hang on it by column (the rule they are of); each group threads a
doubly linked list through the super cells that it is a member of.

Groups that left the window are taken out of super cells late, by the sweep (window.py); everything that
reads a super cell asks its groups whether they are in the window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .groups import Groups, group_free, new_groups, reserve_groups
from .hashing import mix64
from .jit import i64, inline, jit
from .panes import PANE_COUNT, forget_panes
from .table import (
    NONE,
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
from .values import Values, new_values, reserve_values, value_release

SUPER_CELL = np.dtype(
    [
        ("hash", np.uint64),  # of the set of groups and the value
        ("pane", np.int64),  # the newest pane with a cell
        ("count", np.int64),  # cells in that pane
        ("cumulative", np.int64),  # cells since it entered the graph
        ("value", np.int32),  # NONE if the slot is free
        ("next", np.int32),  # in the table or the pool
        ("older", np.int32),  # first of the counts of older panes
    ],
    align=True,
)

MEMBER = np.dtype(
    [
        ("group", np.int32),  # NONE if the super cell has no group of this column
        ("next", np.int32),  # super cell after this one in the group's list
        ("prev", np.int32),  # super cell before it
        ("link", np.int64, (2,)),  # by graph: generation << 32 | the candidate that it counts in
    ],
    align=True,
)


class Store(NamedTuple):
    """All that is known of the cells of one attribute."""

    groups: Groups
    values: Values
    cells: Records  #: SUPER_CELL
    cell_table: Table
    cell_pool: Pool
    members: NDArray[Any]  #: MEMBER by super cell and column
    panes: Records  #: PANE_COUNT
    pane_pool: Pool
    set: NDArray[np.int64]  #: scratch: the groups of a set by column, NONE where there is none
    owners: NDArray[np.int64]  #: scratch: some of these groups


def new_store(n_columns: int) -> Store:
    """Return an empty store for rules in `n_columns` columns."""
    return Store(
        new_groups(),
        new_values(),
        np.zeros(0, SUPER_CELL),
        new_table(),
        new_pool(),
        np.zeros((0, n_columns), MEMBER),
        np.zeros(0, PANE_COUNT),
        new_pool(),
        np.full(n_columns, NONE, np.int64),
        np.full(n_columns, NONE, np.int64),
    )


def reserve_store(store: Store, n_tuples: int, n_bytes: int) -> None:
    """Make room for what `n_tuples` more tuples can need, with `n_bytes` in their cells."""
    reserve_groups(store.groups, n_tuples * store.members.shape[1])
    reserve_values(store.values, n_tuples, n_bytes)
    cells = pool_used(store.cell_pool) + n_tuples
    grow(store.cells, cells)
    grow(store.members, cells)
    grow(store.cell_table.heads, table_items(store.cell_table) + n_tuples + 1)
    grow(store.panes, pool_used(store.pane_pool) + n_tuples)


@inline
def set_hash(set: NDArray[np.int64], value: int) -> np.uint64:
    """Return the hash of a super cell; it does not depend on the columns, only on the groups."""
    hash = np.uint64(value + 1)
    for j in range(set.size):
        if set[j] != NONE:
            hash += mix64(np.uint64(set[j] + 1) << np.uint64(32))
    return mix64(hash)


@inline
def is_set(store: Store, x: int, value: int) -> bool:
    """Return whether a super cell is that of `store.set` and the value."""
    if store.cells[x]["value"] != value:
        return False
    for j in range(store.set.size):  # noqa: SIM110 - compiled code has no generators
        if store.members[x, j]["group"] != store.set[j]:
            return False
    return True


@inline
def cell_find(store: Store, hash: np.uint64, value: int) -> int:
    """Return the super cell of `store.set` and the value, NONE if there is none."""
    x = i64(table_first(store.cell_table, hash))
    while x != NONE:
        if store.cells[x]["hash"] == hash and is_set(store, x, value):
            return x
        x = i64(store.cells[x]["next"])
    return NONE


@inline
def cell_of(store: Store, value: int, pane: int) -> int:
    """Return the super cell of `store.set` and the value; make it if it is new."""
    for j in range(store.set.size):
        if store.set[j] != NONE:
            recent = store.groups.records[store.set[j]]["recent_cell"]
            if recent != NONE and is_set(store, recent, value):
                return i64(recent)
    hash = set_hash(store.set, value)
    x = cell_find(store, hash, value)
    if x == NONE:
        x = _cell_new(store, hash, value, pane)
    for j in range(store.set.size):
        if store.set[j] != NONE:
            store.groups.records[store.set[j]]["recent_cell"] = x
    return x


@inline
def _cell_new(store: Store, hash: np.uint64, value: int, pane: int) -> int:
    x = pool_take(store.cell_pool, store.cells)
    store.cells[x]["hash"] = hash
    store.cells[x]["pane"] = pane
    store.cells[x]["count"] = 0
    store.cells[x]["cumulative"] = 0
    store.cells[x]["value"] = value
    store.cells[x]["older"] = NONE
    store.values.records[value]["refs"] += 1
    for j in range(store.set.size):
        store.members[x, j]["link"][0] = 0
        store.members[x, j]["link"][1] = 0
        _enlist(store, x, j, store.set[j])
    table_insert(store.cell_table, store.cells, x)
    return x


@inline
def _enlist(store: Store, x: int, j: int, g: int) -> None:
    member = store.members[x, j]
    member["group"] = g
    if g == NONE:
        return
    group = store.groups.records[g]
    first = group["first_cell"]
    member["prev"] = NONE
    member["next"] = first
    if first != NONE:
        store.members[first, j]["prev"] = x
    group["first_cell"] = x
    group["n_cells"] += 1


@jit
def cell_leave(store: Store, x: int, j: int) -> None:
    """Take the super cell out of its group in column `j`; a group with none left is freed."""
    member = store.members[x, j]
    g = i64(member["group"])
    member["group"] = NONE
    group = store.groups.records[g]
    before = member["prev"]
    after = member["next"]
    if before == NONE:
        group["first_cell"] = after
    else:
        store.members[before, j]["next"] = after
    if after != NONE:
        store.members[after, j]["prev"] = before
    group["n_cells"] -= 1
    if group["n_cells"] == 0:
        group_free(store.groups, store.values, g)


@jit
def cell_free(store: Store, x: int) -> None:
    """Drop a super cell that is in the table."""
    table_remove(store.cell_table, store.cells, x)
    for j in range(store.set.size):
        if store.members[x, j]["group"] != NONE:
            cell_leave(store, x, j)
    forget_panes(store, x)
    value_release(store.values, i64(store.cells[x]["value"]))
    store.cells[x]["value"] = NONE
    pool_give(store.cell_pool, store.cells, x)
