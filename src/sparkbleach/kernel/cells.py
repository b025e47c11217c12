"""Super cells: the cells of an attribute with one value in exactly one set of groups, as counts.

A super cell has a count per pane, newest first, and a cumulative count that means something only while one
of its groups is in the graph. Its groups hang on it by column (the rule they are of); each group threads a
doubly linked list through the super cells that it is a member of.

Groups that left the window are taken out of super cells late, by the sweep (window.py); everything that
reads a super cell asks its groups whether they are in the window.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .groups import Groups, group_free, new_groups, reserve_groups
from .hashing import mix64
from .jit import jit
from .table import (
    NONE,
    Pool,
    Records,
    Table,
    arrays_of,
    grow,
    new_pool,
    new_table,
    pool_give,
    pool_take,
    pool_used,
    table_buckets,
    table_first,
    table_insert,
    table_items,
    table_remove,
)
from .values import Values, arena_used, new_values, reserve_values, value_release

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
    ],
    align=True,
)

PANE_COUNT = np.dtype([("pane", np.int64), ("count", np.int64), ("next", np.int32)], align=True)


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
    set: NDArray[np.int32]  #: scratch: the groups of a set by column, NONE where there is none
    owners: NDArray[np.int32]  #: scratch: some of these groups
    rescued: NDArray[np.bool_]  #: scratch: by column, False between tuples


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
        np.full(n_columns, NONE, np.int32),
        np.full(n_columns, NONE, np.int32),
        np.zeros(n_columns, np.bool_),
    )


def store_arrays(store: Store) -> list[NDArray[Any]]:
    """Return the arrays of a store in a fixed order, without the room at their ends."""
    groups, values = store.groups, store.values
    n_groups = pool_used(groups.pool)
    n_values = pool_used(values.pool)
    n_cells = pool_used(store.cell_pool)
    used = {
        id(groups.records): n_groups,
        id(groups.table.heads): table_buckets(groups.table),
        id(values.records): n_values,
        id(values.table.heads): table_buckets(values.table),
        id(values.arena): arena_used(values),
        id(values.scratch_count): n_values,
        id(values.scratch_stamp): n_values,
        id(values.scratch_list): n_values,
        id(store.cells): n_cells,
        id(store.cell_table.heads): table_buckets(store.cell_table),
        id(store.members): n_cells,
        id(store.panes): pool_used(store.pane_pool),
    }
    return [array[: used.get(id(array), len(array))] for array in arrays_of(store)]


def store_of_arrays(arrays: list[NDArray[Any]]) -> Store:
    """Return the store that `store_arrays` was given."""
    left = iter([array.copy() for array in arrays])  # arrays that own their memory can grow
    return Store(
        Groups(next(left), Table(next(left), next(left)), Pool(next(left))),
        Values(next(left), Table(next(left), next(left)), Pool(next(left)), *islice(left, 6)),
        next(left),
        Table(next(left), next(left)),
        Pool(next(left)),
        next(left),
        next(left),
        Pool(next(left)),
        *left,
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


@jit
def set_hash(set: NDArray[np.int32], value: int) -> np.uint64:
    """Return the hash of a super cell; it does not depend on the columns, only on the groups."""
    hash = mix64(np.uint64(value + 1))
    for j in range(set.size):
        if set[j] != NONE:
            hash += mix64(np.uint64(set[j] + 1) << np.uint64(32))
    return mix64(hash)


@jit
def _is_set(store: Store, x: int, value: int) -> bool:
    if store.cells[x]["value"] != value:
        return False
    for j in range(store.set.size):
        if store.members[x, j]["group"] != store.set[j]:
            return False
    return True


@jit
def cell_find(store: Store, hash: np.uint64, value: int) -> int:
    """Return the super cell of `store.set` and the value, NONE if there is none."""
    x = table_first(store.cell_table, hash)
    while x != NONE:
        if store.cells[x]["hash"] == hash and _is_set(store, x, value):
            return x
        x = store.cells[x]["next"]
    return NONE


@jit
def cell_of(store: Store, value: int, pane: int) -> int:
    """Return the super cell of `store.set` and the value; make it if it is new."""
    for j in range(store.set.size):
        if store.set[j] != NONE:
            recent = store.groups.records[store.set[j]]["recent_cell"]
            if recent != NONE and _is_set(store, recent, value):
                return recent
    hash = set_hash(store.set, value)
    x = cell_find(store, hash, value)
    if x == NONE:
        x = pool_take(store.cell_pool, store.cells)
        store.cells[x]["hash"] = hash
        store.cells[x]["pane"] = pane
        store.cells[x]["count"] = 0
        store.cells[x]["cumulative"] = 0
        store.cells[x]["value"] = value
        store.cells[x]["older"] = NONE
        store.values.records[value]["refs"] += 1
        for j in range(store.set.size):
            _enlist(store, x, j, store.set[j])
        table_insert(store.cell_table, store.cells, x)
    for j in range(store.set.size):
        if store.set[j] != NONE:
            store.groups.records[store.set[j]]["recent_cell"] = x
    return x


@jit
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
    g = member["group"]
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
        group_free(store.groups, g)


@jit
def cell_free(store: Store, x: int) -> None:
    """Drop a super cell that is in the table."""
    table_remove(store.cell_table, store.cells, x)
    for j in range(store.set.size):
        if store.members[x, j]["group"] != NONE:
            cell_leave(store, x, j)
    forget_panes_before(store, x, 1 << 62)
    value_release(store.values, store.cells[x]["value"])
    store.cells[x]["value"] = NONE
    pool_give(store.cell_pool, store.cells, x)


@jit
def cell_add(store: Store, x: int, pane: int, start: int) -> None:
    """Count one more cell in the newest pane."""
    cell = store.cells[x]
    if cell["pane"] != pane:
        if cell["count"] > 0 and cell["pane"] >= start:
            forget_panes_before(store, x, start)
            node = pool_take(store.pane_pool, store.panes)
            store.panes[node]["pane"] = cell["pane"]
            store.panes[node]["count"] = cell["count"]
            store.panes[node]["next"] = cell["older"]
            cell["older"] = node
        else:
            forget_panes_before(store, x, 1 << 62)
        cell["pane"] = pane
        cell["count"] = 0
    cell["count"] += 1


@jit
def forget_panes_before(store: Store, x: int, start: int) -> None:
    """Free the counts of older panes that left the window."""
    last = NONE
    node = store.cells[x]["older"]
    while node != NONE and store.panes[node]["pane"] >= start:
        last = node
        node = store.panes[node]["next"]
    if last == NONE:
        store.cells[x]["older"] = NONE
    elif node != NONE:
        store.panes[last]["next"] = NONE
    while node != NONE:
        following = store.panes[node]["next"]
        pool_give(store.pane_pool, store.panes, node)
        node = following


@jit
def window_count(store: Store, x: int, start: int) -> int:
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


@jit
def add_counts(store: Store, source: int, target: int) -> None:
    """Add the counts of one super cell to those of another; the older counts of both become one list.

    The source is left with none, and is good for nothing but cell_free.
    """
    cells = store.cells
    panes = store.panes
    cells[target]["cumulative"] += cells[source]["cumulative"]
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
            a = panes[a]["next"]
        elif a == NONE or panes[b]["pane"] > panes[a]["pane"]:
            node = b
            b = panes[b]["next"]
        else:
            node = b
            b = panes[b]["next"]
            panes[node]["count"] += panes[a]["count"]
            doubled = a
            a = panes[a]["next"]
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
def _push_newest(store: Store, x: int) -> int:
    node = pool_take(store.pane_pool, store.panes)
    store.panes[node]["pane"] = store.cells[x]["pane"]
    store.panes[node]["count"] = store.cells[x]["count"]
    store.panes[node]["next"] = store.cells[x]["older"]
    return node
