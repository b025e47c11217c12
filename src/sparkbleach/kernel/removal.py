"""Deleting a rule: what stays is copied into a new store, in one pass over the super cells.

With a rule's groups most of its hinges become equal to others: of half a million super cells a hundred may
be left. To find these in a small new table, and let the old store go as a whole, takes a fifth of the time
that it takes to take the others apart one by one; and the memory is given back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .cells import MEMBER, SUPER_CELL, Store, cell_of, new_store
from .groups import GROUP, Groups, forget_truth, new_groups
from .jit import entry, i64
from .panes import PANE_COUNT, add_cells
from .refs import ref
from .table import NONE, UNLINKED, Table, new_table, pool_live, pool_take, pool_used, table_insert
from .values import value_release


def without_column(store: Store, column: int, start: int, remembered: int) -> Store:
    """Return a store without the groups of a column; the values, which it shares, are released by the old.

    Args:
        store: The store; it must not be used any more.
        column: The column of the deleted rule.
        start: The first pane of the window.
        remembered: The first pane that is remembered.
    """
    n_cells = pool_live(store.cell_pool)
    n_columns = store.set.size - 1
    number: NDArray[np.int32] = np.empty(pool_used(store.groups.pool), np.int32)
    n_groups = _number_groups(store, column, start, number)
    # Zeros that nobody writes to take no memory; what is left over is given back below.
    rest = new_store(n_columns)._replace(
        groups=Groups(np.zeros(n_groups, GROUP), _table(n_groups), new_groups().pool),
        values=store.values,
        cells=np.zeros(n_cells, SUPER_CELL),
        cell_table=_table(n_cells),
        members=np.zeros((n_cells, n_columns), MEMBER),
        panes=np.zeros(n_cells + pool_used(store.pane_pool), PANE_COUNT),
    )
    _copy_groups(store, rest, column, number)
    _copy_cells(store, rest, column, number, start, remembered)
    for array, n in (
        (rest.cells, pool_used(rest.cell_pool)),
        (rest.members, pool_used(rest.cell_pool)),
        (rest.panes, pool_used(rest.pane_pool)),
        (rest.cell_table.heads, pool_used(rest.cell_pool) + new_table().heads.size),
    ):
        array.resize((min(n, array.shape[0]), *array.shape[1:]), refcheck=False)
    return rest


def _table(n_items: int) -> Table:
    """Return an empty table with room for some items."""
    table = new_table()
    heads = np.empty(n_items + table.heads.size, np.int32)
    heads[: table.heads.size] = table.heads
    return Table(heads, table.state)


@entry
def _number_groups(store: Store, column: int, start: int, number: NDArray[np.int32]) -> int:
    """Give the groups that stay new numbers, the others NONE; return how many stay."""
    n = i64(0)
    for g in range(number.size):
        group = store.groups.records[g]
        stays = group["column"] != NONE and group["column"] != column and group["last_pane"] >= start
        number[g] = n if stays else NONE
        n += stays
    return n


@entry
def _copy_groups(store: Store, rest: Store, column: int, number: NDArray[np.int32]) -> None:
    store = ref(store)
    rest = ref(rest)
    for old in range(number.size):
        source = store.groups.records[old]
        if number[old] == NONE:
            if source["column"] != NONE:
                forget_truth(store.groups, store.values, old)
            continue
        g = pool_take(rest.groups.pool, rest.groups.records)
        group = rest.groups.records[g]
        group["hash"] = source["hash"]
        group["hash_hi"] = source["hash_hi"]
        group["last_pane"] = source["last_pane"]
        group["other_pane"] = source["other_pane"]
        group["last"] = source["last"]
        group["first_cell"] = NONE
        group["n_cells"] = 0
        group["recent_cell"] = NONE
        group["column"] = source["column"] - (source["column"] > column)
        group["in_graph"] = source["in_graph"]
        group["held"] = source["held"]
        group["seen"] = source["seen"]
        group["lead"] = source["lead"]
        group["challenger"] = source["challenger"]
        if source["next"] != UNLINKED:  # or it is retired, and another one is found by its key
            table_insert(rest.groups.table, rest.groups.records, g)


@entry
def _copy_cells(
    store: Store, rest: Store, column: int, number: NDArray[np.int32], start: int, remembered: int
) -> None:
    """Let each super cell join the one with its remaining groups and its value."""
    store = ref(store)
    rest = ref(rest)
    for x in range(store.cell_pool.state[1]):
        value = i64(store.cells[x]["value"])
        if value == NONE:
            continue
        alive = False
        in_graph = False
        k = i64(0)
        for j in range(store.set.size):
            if j == column:
                continue
            g = i64(store.members[x, j]["group"])
            if g != NONE:
                g = i64(number[g])
            rest.set[k] = g
            k += 1
            if g != NONE:
                alive = True
                in_graph = in_graph or rest.groups.records[g]["in_graph"] == 1
        pane = i64(store.cells[x]["pane"])
        if alive and pane >= remembered and (pane >= start or in_graph):
            y = cell_of(rest, value, pane)
            if pane > rest.cells[y]["pane"] and rest.cells[y]["count"] == 0:
                rest.cells[y]["pane"] = pane
            if in_graph:
                rest.cells[y]["cumulative"] += store.cells[x]["cumulative"]
            if pane >= start:
                add_cells(rest, y, pane, i64(store.cells[x]["count"]))
                node = store.cells[x]["older"]
                while node != NONE and store.panes[node]["pane"] >= start:
                    add_cells(rest, y, i64(store.panes[node]["pane"]), i64(store.panes[node]["count"]))
                    node = store.panes[node]["next"]
        value_release(store.values, value)
