"""What a violating cell becomes: the candidates for it, counted.

`class` counts over the tuple's whole subgraph, `vote` over the super cells of the tuple's own groups. Both
come down to one or more subgraphs of the graph: with a single one its best candidates are at hand; several
are added up here, value by value, unless the sum was kept (unions.py). ARCHITECTURE.md lists what another
algorithm has to change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import Store
from .graph import Graph, Mode, candidate_find, cell_weight, find_root
from .jit import i64, inline, jit
from .rank import TOP, place
from .table import NONE, Records
from .unions import WALK_MAX, Unions, add_overlap, catch_up, clear_unions, find_union, new_union, union_count
from .values import begin_marks, is_marked, mark


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
    store: Store, graph: Graph, unions: Unions, mode: Mode, repairs: Repairs, row: int, own: int
) -> int:
    """Write the candidates of the groups in `store.set`, each super cell counted once, into a row.

    Args:
        store: The cells; the groups of its set are all in the graph.
        graph: The current graph.
        unions: What several groups count together.
        mode: Which counts, and over what.
        repairs: Where to write.
        row: Which row.
        own: The value of the cell, NONE for a null.

    Returns:
        The count of the cell's own value, or less than it if another one has more.
    """
    if not mode.vote:
        return _candidates_of_subgraphs(store, graph, repairs, row, own)
    largest = NONE
    n_groups = i64(0)
    n_cells = i64(0)
    for j in range(store.set.size):
        g = store.set[j]
        if g != NONE:
            n_groups += 1
            n_cells += store.groups.records[g]["n_cells"]
            if (
                largest == NONE
                or store.groups.records[g]["n_cells"] > store.groups.records[largest]["n_cells"]
            ):
                largest = g
    repairs.groups[row] = n_groups
    n_cells -= store.groups.records[largest]["n_cells"]
    if n_cells <= WALK_MAX:
        return _walk(store, graph, unions, mode, largest, NONE, repairs, row, own)
    u = find_union(store, unions, n_cells)
    if u != NONE and not catch_up(store, graph, mode, unions, u):
        clear_unions(unions)
        u = NONE
    if u == NONE:
        u = new_union(store, unions, n_cells)
        own_count = _walk(store, graph, unions, mode, largest, u, repairs, row, own)
        if u != NONE:
            unions.records[u]["total"] = repairs.total[row]
            for k in range(TOP):
                unions.values[u, k] = repairs.values[row, k]
                unions.counts[u, k] = repairs.counts[row, k]
        return own_count
    repairs.total[row] = unions.records[u]["total"]
    own_count = i64(-1)
    for k in range(TOP):
        repairs.values[row, k] = unions.values[u, k]
        repairs.counts[row, k] = unions.counts[u, k]
        if unions.values[u, k] == own:
            own_count = unions.counts[u, k]
    # Beyond the best five it may still be as frequent as all of these.
    if own_count < 0 and unions.counts[u, TOP - 1] == unions.counts[u, 0] and own != NONE:
        own_count = union_count(store, graph, mode, unions, u, own)
    return own_count


@jit
def _walk(
    store: Store,
    graph: Graph,
    unions: Unions,
    mode: Mode,
    largest: int,
    u: int,
    repairs: Repairs,
    row: int,
    own: int,
) -> int:
    """Count the super cells of the groups in `store.set`; add overlaps to union `u` unless it is NONE."""
    begin_marks(store.values)
    n_seen = i64(0)
    total = i64(0)
    for j in range(store.set.size):
        if store.set[j] == NONE or store.set[j] == largest:
            continue
        x = i64(store.groups.records[store.set[j]]["first_cell"])
        while x != NONE:
            if not _is_counted(store, x, j, largest):
                weight = i64(cell_weight(store, graph, mode, x, i64(store.cells[x]["pane"])))
                n_groups, in_largest = _n_common_groups(store, x, largest)
                value = i64(store.cells[x]["value"])
                if weight > 0 and not in_largest:
                    n_seen = _see(store, value, weight, n_seen)
                    total += weight
                if weight > 0 and n_groups > 1 and u != NONE:
                    add_overlap(store, unions, u, value, (n_groups - 1) * weight)
            x = i64(store.members[x, j]["next"])
    return _add_largest(store, graph, largest, n_seen, total, repairs, row, own)


@inline
def _is_counted(store: Store, x: int, column: int, largest: int) -> bool:
    """Return whether a super cell lies in another group of the set that was walked over before."""
    for j in range(column):
        g = store.members[x, j]["group"]
        if g != NONE and g == store.set[j] and g != largest:
            return True
    return False


@inline
def _n_common_groups(store: Store, x: int, largest: int) -> tuple[int, bool]:
    """Return how many groups of the set a super cell lies in, and whether the largest is one of them."""
    n = i64(0)
    in_largest = False
    for j in range(store.set.size):
        g = store.members[x, j]["group"]
        if g != NONE and g == store.set[j]:
            n += 1
            in_largest = in_largest or g == largest
    return n, in_largest


@jit
def _candidates_of_subgraphs(store: Store, graph: Graph, repairs: Repairs, row: int, own: int) -> int:
    """Write the candidates of the subgraphs of the groups in `store.set` into a row."""
    begin_marks(store.values)
    n_seen = i64(0)
    total = i64(0)
    counted_groups = i64(0)
    largest = NONE
    for j in range(store.set.size):
        if store.set[j] != NONE:
            root = find_root(graph.subgraphs, store.set[j])
            if (
                largest == NONE
                or graph.subgraphs[root]["n_candidates"] > graph.subgraphs[largest]["n_candidates"]
            ):
                largest = root
    for j in range(store.set.size):
        if store.set[j] == NONE:
            continue
        root = find_root(graph.subgraphs, store.set[j])
        repeated = root == largest
        for before in range(j):
            repeated = repeated or (
                store.set[before] != NONE and find_root(graph.subgraphs, store.set[before]) == root
            )
        if repeated:
            continue
        counted_groups += graph.subgraphs[root]["n_groups"]
        c = graph.subgraphs[root]["first"]
        while c != NONE:
            count = graph.candidates[c]["weight"]
            n_seen = _see(store, graph.candidates[c]["value"], count, n_seen)
            total += count
            c = graph.candidates[c]["sibling"]
    repairs.groups[row] = counted_groups + graph.subgraphs[largest]["n_groups"]
    return _add_largest(store, graph, largest, n_seen, total, repairs, row, own)


@jit
def _add_largest(
    store: Store, graph: Graph, largest: int, n_seen: int, total: int, repairs: Repairs, row: int, own: int
) -> int:
    """Write the best of the values seen and of the largest subgraph into a row; return the own value's count.

    Only the best of the largest are looked at, since any other of it is behind these in the sum as well.
    """
    values = store.values
    for k in range(TOP):
        repairs.values[row, k] = NONE
        c = graph.subgraphs[largest]["top"][k]
        if c != NONE:
            n_seen = _see(store, graph.candidates[c]["value"], i64(0), n_seen)
    own_count = i64(0)
    for i in range(n_seen):
        value = i64(values.scratch_list[i])
        count = values.scratch_count[value]
        c = candidate_find(graph, largest, value)
        if c != NONE:
            count += graph.candidates[c]["weight"]
        if value == own:
            own_count = count
        place(values, repairs.values, repairs.counts, row, value, count)
    if own != NONE and not is_marked(values, own):
        c = candidate_find(graph, largest, own)
        if c != NONE:
            own_count = graph.candidates[c]["weight"]
    repairs.total[row] = total + graph.subgraphs[largest]["total"]
    return own_count


@jit
def _see(store: Store, value: int, count: int, n_seen: int) -> int:
    values = store.values
    if not is_marked(values, value):
        mark(values, value)
        values.scratch_count[value] = 0
        values.scratch_list[n_seen] = value
        n_seen += 1
    values.scratch_count[value] += count
    return n_seen
