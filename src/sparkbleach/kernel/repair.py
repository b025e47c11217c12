"""What a violating cell becomes: the candidates for it, counted.

`class` counts over the tuple's whole subgraph, `vote` over the super cells of the tuple's own groups. Both
come down to one or more subgraphs of the graph ("owners"): with a single one its best candidates are at hand;
several are added up here, value by value. ARCHITECTURE.md lists what another algorithm has to change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import Store
from .graph import Graph, Mode, candidate_find, cell_weight, find_root
from .jit import i64, jit
from .rank import TOP
from .table import NONE, Records
from .values import value_less

_STAMP = 2  # in Values.state


class Repairs(NamedTuple):
    """What became of the violating cells of a segment, a row each."""

    tuple: NDArray[np.int32]  #: which tuple of the batch
    values: NDArray[np.int32]  #: the best candidates, best first, then NONE
    counts: NDArray[np.int64]  #: their counts
    total: NDArray[np.int64]  #: sum of the counts of all candidates
    groups: NDArray[np.int64]  #: how many groups these counts come from
    violated: NDArray[np.bool_]  #: by column: whether that rule is violated


def new_repairs(n_tuples: int, n_columns: int) -> Repairs:
    """Return room for the repairs of `n_tuples` tuples."""
    return Repairs(
        np.empty(n_tuples, np.int32),
        np.empty((n_tuples, TOP), np.int32),
        np.empty((n_tuples, TOP), np.int64),
        np.empty(n_tuples, np.int64),
        np.empty(n_tuples, np.int64),
        np.empty((n_tuples, n_columns), np.bool_),
    )


@jit
def no_candidates(repairs: Repairs, row: int) -> None:
    """Write a row for a cell that no group speaks about."""
    for k in range(TOP):
        repairs.values[row, k] = NONE
    repairs.total[row] = 0
    repairs.groups[row] = 0


@jit
def candidates_of_one(
    repairs: Repairs, row: int, records: Records, top: NDArray[np.int32], total: int, n_groups: int
) -> None:
    """Write the best of one set of candidates into a row."""
    for k in range(TOP):
        c = top[k]
        if c == NONE:
            repairs.values[row, k] = NONE
        else:
            repairs.values[row, k] = records[c]["value"]
            repairs.counts[row, k] = records[c]["weight"]
    repairs.total[row] = total
    repairs.groups[row] = n_groups


@jit
def candidates_of_several(
    store: Store,
    graph: Graph,
    mode: Mode,
    groups: NDArray[np.int64],
    n_groups: int,
    repairs: Repairs,
    row: int,
    own: int,
) -> int:
    """Write the candidates of several groups, each super cell counted once, into a row.

    Only the candidates that can be among the best are looked at: all of the smaller owners, and the best of
    the largest, since any other of the largest is behind these in the sum as well.

    Args:
        store: The cells.
        graph: The current graph.
        mode: Which counts, and over what.
        groups: The groups, all in the graph.
        n_groups: How many.
        repairs: Where to write.
        row: Which row.
        own: The value of the cell, NONE for a null.

    Returns:
        The count of the cell's own value.
    """
    values = store.values
    values.state[_STAMP] += 1
    n_seen = i64(0)
    total = i64(0)
    counted_groups = i64(0)
    if mode.vote:
        largest = groups[0]
        for i in range(1, n_groups):
            if store.groups.records[groups[i]]["n_cells"] > store.groups.records[largest]["n_cells"]:
                largest = groups[i]
        counted_groups = n_groups
        for i in range(n_groups):
            if groups[i] == largest:
                continue
            j = store.groups.records[groups[i]]["column"]
            x = i64(store.groups.records[groups[i]]["first_cell"])
            while x != NONE:
                if not _counted(store, x, groups, i, largest):
                    weight = cell_weight(store, graph, mode, x, i64(store.cells[x]["pane"]))
                    if weight > 0:
                        n_seen = _see(store, store.cells[x]["value"], weight, n_seen)
                        total += weight
                x = i64(store.members[x, j]["next"])
    else:
        largest = NONE
        for i in range(n_groups):
            root = find_root(graph.subgraphs, groups[i])
            if (
                largest == NONE
                or graph.subgraphs[root]["n_candidates"] > graph.subgraphs[largest]["n_candidates"]
            ):
                largest = root
        for i in range(n_groups):
            root = find_root(graph.subgraphs, groups[i])
            repeated = root == largest
            for before in range(i):
                repeated = repeated or find_root(graph.subgraphs, groups[before]) == root
            if repeated:
                continue
            counted_groups += graph.subgraphs[root]["n_groups"]
            c = graph.subgraphs[root]["first"]
            while c != NONE:
                count = graph.candidates[c]["weight"]
                n_seen = _see(store, graph.candidates[c]["value"], count, n_seen)
                total += count
                c = graph.candidates[c]["sibling"]
        counted_groups += graph.subgraphs[largest]["n_groups"]
    total += graph.subgraphs[largest]["total"]

    for k in range(TOP):
        repairs.values[row, k] = NONE
        c = graph.subgraphs[largest]["top"][k]
        if c != NONE:
            n_seen = _see(store, graph.candidates[c]["value"], i64(0), n_seen)
    own_count = i64(0)
    for i in range(n_seen):
        value = values.scratch_list[i]
        count = values.scratch_count[value]
        c = candidate_find(graph, largest, i64(value))
        if c != NONE:
            count += graph.candidates[c]["weight"]
        if value == own:
            own_count = count
        _place(store, repairs, row, value, count)
    if own != NONE and values.scratch_stamp[own] != values.state[_STAMP]:
        c = candidate_find(graph, largest, own)
        if c != NONE:
            own_count = graph.candidates[c]["weight"]
    repairs.total[row] = total
    repairs.groups[row] = counted_groups
    return own_count


@jit
def _counted(store: Store, x: int, groups: NDArray[np.int64], n_before: int, largest: int) -> bool:
    """Return whether a super cell has been counted with the largest group or an earlier one."""
    for j in range(store.set.size):
        g = store.members[x, j]["group"]
        if g != NONE:
            if g == largest:
                return True
            for i in range(n_before):
                if groups[i] == g:
                    return True
    return False


@jit
def _see(store: Store, value: int, count: int, n_seen: int) -> int:
    values = store.values
    if values.scratch_stamp[value] != values.state[_STAMP]:
        values.scratch_stamp[value] = values.state[_STAMP]
        values.scratch_count[value] = 0
        values.scratch_list[n_seen] = value
        n_seen += 1
    values.scratch_count[value] += count
    return n_seen


@jit
def _place(store: Store, repairs: Repairs, row: int, value: int, count: int) -> None:
    """Put a candidate where it belongs among the best of the row."""
    values = repairs.values
    counts = repairs.counts
    at = TOP
    while at > 0 and (
        values[row, at - 1] == NONE
        or counts[row, at - 1] < count
        or (counts[row, at - 1] == count and value_less(store.values, value, values[row, at - 1]))
    ):
        if at < TOP:
            values[row, at] = values[row, at - 1]
            counts[row, at] = counts[row, at - 1]
        at -= 1
    if at < TOP:
        values[row, at] = value
        counts[row, at] = count
