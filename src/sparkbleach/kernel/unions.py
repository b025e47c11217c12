"""What several groups count together, kept: with `vote`, the best candidates of a set of hub groups.

Of several groups each super cell counts once, so a value's count in their union is the sum of its counts in
them, less what lies in more than one, its overlap. To find the best of these sums takes a walk over all
super cells of all groups but the largest. With large groups the same few sets are asked for again and again:
a union keeps its answer, and its overlaps. The log of raises says which values have grown in a group since;
no other can be among the best now, because counts only grow.

A union is good for one graph: a slide of the window clears them all. Room is bounded. When there is none
left, all unions are forgotten, and made again as they are asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import Store, cell_find, set_hash
from .graph import Graph, Mode, candidate_find, cell_weight, link_of
from .hashing import mix64
from .jit import i64, inline, jit
from .rank import TOP, place
from .table import (
    NONE,
    Records,
    Table,
    clear_table,
    grow,
    new_table,
    pool_live,
    table_first,
    table_insert,
    table_remove,
)
from .values import begin_marks, is_marked, mark

UNION = np.dtype(
    [
        ("hash", np.uint64),  # of the set of groups
        ("total", np.int64),  # sum of all counts
        ("made", np.int64),  # when it was made, by the clock
        ("seen", np.int64),  # the raise before which its answer holds
        ("n_raises", np.int64),  # how many raises its groups had had then
        ("next", np.int32),  # in the table
    ],
    align=True,
)

OVERLAP = np.dtype(
    [
        ("hash", np.uint64),  # of the union and the value
        ("count", np.int64),  # how much the sum of the groups' counts is too large
        ("next", np.int32),  # in the table
    ],
    align=True,
)

RAISE = np.dtype(
    [
        ("before", np.int64),  # the raise of this group before this one, NO_RAISE if there was none
        ("weight", np.int64),  # of the value in this group, then
        ("group", np.int32),  # NONE where no group of this column was raised
    ],
    align=True,
)

WALK_MAX = 16  #: a walk over no more super cells than this is cheaper than to keep its result
_CELLS_PER_UNION = 16
_CELLS_PER_RAISE = 8
_RAISES_MIN = 64
_PAIR = 2  # of two rules the overlap of a value is a super cell, and need not be kept
_UNIONS, _OVERLAPS, _RAISES, _OLDEST, _CLOCK = 0, 1, 2, 3, 4
_NO_VALUE = i64(0)
NO_RAISE: int = i64(0)  # raises are numbered from 1 on


class Unions(NamedTuple):
    """The unions of groups that were asked for, and the log of raises."""

    records: Records  #: UNION
    table: Table
    groups: NDArray[np.int32]  #: by union and column: its group, or NONE
    values: NDArray[np.int32]  #: by union: the best candidates, best first, then NONE
    counts: NDArray[np.int64]  #: their counts
    overlaps: Records  #: OVERLAP
    overlap_table: Table
    raises: Records  #: RAISE by number, modulo its length, and column: a ring
    raised_value: NDArray[np.int32]  #: likewise: the value whose count has grown
    raised_by: NDArray[np.int64]  #: likewise: by how much
    latest: NDArray[np.int64]  #: by group: its last raise, or NO_RAISE
    n_raises: NDArray[np.int64]  #: by group: how many raises it has had
    born: NDArray[np.int64]  #: by group: when it took its slot, by the clock
    state: NDArray[np.int64]  #: unions, overlaps, the next raise, the oldest in the ring, the clock


def new_unions(n_columns: int) -> Unions:
    """Return no unions."""
    return Unions(
        np.zeros(0, UNION),
        new_table(),
        np.zeros((0, n_columns), np.int32),
        np.zeros((0, TOP), np.int32),
        np.zeros((0, TOP), np.int64),
        np.zeros(0, OVERLAP),
        new_table(),
        np.zeros((0, n_columns), RAISE),
        np.zeros(0, np.int32),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.array([0, 0, NO_RAISE + 1, 0, 0], np.int64),
    )


def reserve_unions(unions: Unions, store: Store, n_tuples: int) -> None:
    """Make room for some unions of the super cells that `n_tuples` more tuples can make."""
    n_cells = pool_live(store.cell_pool) + n_tuples
    n_unions = n_cells // _CELLS_PER_UNION
    for array in (unions.records, unions.groups, unions.values, unions.counts):
        grow(array, n_unions)
    grow(unions.table.heads, unions.records.size + 1)
    if store.set.size > _PAIR:
        grow(unions.overlaps, 2 * n_cells)
        grow(unions.overlap_table.heads, unions.overlaps.size + 1)
    for array in (unions.latest, unions.n_raises, unions.born):
        grow(array, store.groups.records.shape[0])
    length = max(_RAISES_MIN, unions.raised_by.size)
    while length < n_cells // _CELLS_PER_RAISE:
        length *= 2
    _lengthen(unions, length)


def _lengthen(unions: Unions, length: int) -> None:
    """Let the ring have this length, a power of two; raises are found where they were or in a copy."""
    old = unions.raised_by.size
    for ring in (unions.raises, unions.raised_value, unions.raised_by):
        ring.resize((length, *ring.shape[1:]), refcheck=False)
        for at in range(old, length, max(old, 1)):
            ring[at : at + old] = ring[:old]


@jit
def clear_unions(unions: Unions) -> None:
    """Forget all unions."""
    clear_table(unions.table)
    clear_table(unions.overlap_table)
    unions.state[_UNIONS] = 0
    unions.state[_OVERLAPS] = 0


@inline
def begin_group(unions: Unions, g: int) -> None:
    """Make a group's slot fit for another group."""
    unions.latest[g] = NO_RAISE
    unions.n_raises[g] = 0
    unions.state[_CLOCK] += 1
    unions.born[g] = unions.state[_CLOCK]


@jit
def log_raise(store: Store, graph: Graph, unions: Unions, x: int, amount: int) -> None:
    """Note that a super cell counts more, in all its groups of the graph."""
    number = unions.state[_RAISES]
    at = number & (unions.raised_by.size - 1)
    unions.state[_RAISES] = number + 1
    unions.state[_OLDEST] = max(unions.state[_OLDEST], number + 1 - unions.raised_by.size)
    unions.raised_value[at] = store.cells[x]["value"]
    unions.raised_by[at] = amount
    for j in range(store.set.size):
        one = unions.raises[at, j]
        c = link_of(store, graph, x, j)
        if c == NONE:
            one["group"] = NONE
        else:
            g = i64(store.members[x, j]["group"])
            one["group"] = g
            one["weight"] = graph.candidates[c]["weight"]
            one["before"] = unions.latest[g]
            unions.latest[g] = number
            unions.n_raises[g] += 1


@jit
def find_union(store: Store, unions: Unions, n_cells: int) -> int:
    """Return the union of the groups in `store.set`, NONE if it has to be made.

    Args:
        store: The cells.
        unions: The unions.
        n_cells: How many super cells a walk would go over; a union with as many raises to look at is no use.
    """
    hash = set_hash(store.set, _NO_VALUE)
    u = i64(table_first(unions.table, hash))
    while u != NONE:
        if unions.records[u]["hash"] == hash and _is_union(store, unions, u):
            n_raises = _n_raises(store, unions) - unions.records[u]["n_raises"]
            if unions.records[u]["seen"] >= unions.state[_OLDEST] and n_raises <= n_cells:
                return u
            table_remove(unions.table, unions.records, u)
            return NONE
        u = i64(unions.records[u]["next"])
    return NONE


@inline
def _n_raises(store: Store, unions: Unions) -> int:
    n = i64(0)
    for j in range(store.set.size):
        if store.set[j] != NONE:
            n += unions.n_raises[store.set[j]]
    return n


@inline
def _is_union(store: Store, unions: Unions, u: int) -> bool:
    for j in range(store.set.size):
        g = store.set[j]
        if unions.groups[u, j] != g or (g != NONE and unions.born[g] > unions.records[u]["made"]):
            return False
    return True


@jit
def new_union(store: Store, unions: Unions, n_cells: int) -> int:
    """Return a new union of the groups in `store.set`, without an answer; NONE if there is no room for it.

    Args:
        store: The cells.
        unions: The unions.
        n_cells: How many super cells may have an overlap.
    """
    needed = n_cells if store.set.size > _PAIR else i64(0)
    if (
        unions.state[_UNIONS] == unions.records.size
        or unions.state[_OVERLAPS] + needed > unions.overlaps.size
    ):
        clear_unions(unions)
        if unions.records.size == 0 or needed > unions.overlaps.size:
            return NONE
    u = unions.state[_UNIONS]
    unions.state[_UNIONS] = u + 1
    unions.records[u]["hash"] = set_hash(store.set, _NO_VALUE)
    unions.records[u]["made"] = unions.state[_CLOCK]
    unions.records[u]["seen"] = unions.state[_RAISES]
    unions.records[u]["n_raises"] = _n_raises(store, unions)
    for j in range(store.set.size):
        unions.groups[u, j] = store.set[j]
    table_insert(unions.table, unions.records, u)
    return u


@inline
def _find_overlap(unions: Unions, u: int, value: int) -> int:
    hash = mix64(np.uint64(u) << np.uint64(32) | np.uint64(value))
    o = i64(table_first(unions.overlap_table, hash))
    while o != NONE:
        if unions.overlaps[o]["hash"] == hash:  # the hash is a bijection of the two numbers
            return o
        o = i64(unions.overlaps[o]["next"])
    return NONE


@jit
def add_overlap(store: Store, unions: Unions, u: int, value: int, count: int) -> bool:
    """Add to the overlap of a value in a union; return whether there was room."""
    if store.set.size <= _PAIR:
        return True
    o = _find_overlap(unions, u, value)
    if o == NONE:
        o = unions.state[_OVERLAPS]
        if o == unions.overlaps.size:
            return False
        unions.state[_OVERLAPS] = o + 1
        unions.overlaps[o]["hash"] = mix64(np.uint64(u) << np.uint64(32) | np.uint64(value))
        unions.overlaps[o]["count"] = 0
        table_insert(unions.overlap_table, unions.overlaps, o)
    unions.overlaps[o]["count"] += count
    return True


@inline
def _overlap(store: Store, graph: Graph, mode: Mode, unions: Unions, u: int, value: int) -> int:
    """Return the overlap of a value in a union, that of the groups in `store.set`."""
    if store.set.size > _PAIR:
        o = _find_overlap(unions, u, value)
        return i64(0) if o == NONE else i64(unions.overlaps[o]["count"])
    x = cell_find(store, set_hash(store.set, value), value)
    return i64(0) if x == NONE else i64(cell_weight(store, graph, mode, x, i64(store.cells[x]["pane"])))


@inline
def _weight(graph: Graph, g: int, value: int) -> int:
    """Return the count of a value in a group."""
    c = candidate_find(graph, g, value)
    return i64(0) if c == NONE else i64(graph.candidates[c]["weight"])


@jit
def union_count(store: Store, graph: Graph, mode: Mode, unions: Unions, u: int, value: int) -> int:
    """Return the count of a value in a union, that of the groups in `store.set`."""
    count = -_overlap(store, graph, mode, unions, u, value)
    for j in range(store.set.size):
        if store.set[j] != NONE:
            count += _weight(graph, store.set[j], value)
    return count


@jit
def catch_up(store: Store, graph: Graph, mode: Mode, unions: Unions, u: int) -> bool:
    """Bring the answer of the groups in `store.set` up to date; return whether there was room for that."""
    seen = unions.records[u]["seen"]
    unions.records[u]["seen"] = unions.state[_RAISES]
    unions.records[u]["n_raises"] = _n_raises(store, unions)
    ring = unions.raised_by.size - 1
    for j in range(store.set.size):
        if store.set[j] == NONE:
            continue
        number = unions.latest[store.set[j]]
        while number >= seen:
            at = number & ring
            n_groups = i64(0)
            is_first = True
            for k in range(store.set.size):
                if store.set[k] != NONE and unions.raises[at, k]["group"] == store.set[k]:
                    n_groups += 1
                    is_first = is_first and k >= j
            if is_first:
                unions.records[u]["total"] += unions.raised_by[at]
                if n_groups > 1 and not add_overlap(
                    store, unions, u, i64(unions.raised_value[at]), (n_groups - 1) * unions.raised_by[at]
                ):
                    return False
            number = unions.raises[at, j]["before"]
    limits = _mark_best(store, graph)
    for j in range(store.set.size):
        if store.set[j] == NONE:
            continue
        others = limits - _limit(graph, store.set[j])
        number = unions.latest[store.set[j]]
        while number >= seen:
            at = number & ring
            value = i64(unions.raised_value[at])
            weight = unions.raises[at, j]["weight"]
            if (
                unions.values[u, TOP - 1] == NONE
                or weight + others >= unions.counts[u, TOP - 1]
                or is_marked(store.values, value)
            ) and _may_be_best(store, graph, unions, u, j, value, weight):
                count = union_count(store, graph, mode, unions, u, value)
                place(store.values, unions.values, unions.counts, u, value, count)
            number = unions.raises[at, j]["before"]
    return True


@inline
def _may_be_best(
    store: Store, graph: Graph, unions: Unions, u: int, column: int, value: int, weight: int
) -> bool:
    """Return whether a value may be among the best of a union even if it has no overlap."""
    if unions.values[u, TOP - 1] == NONE:
        return True
    count = weight
    for j in range(store.set.size):
        if store.set[j] != NONE and j != column:
            count += _weight(graph, store.set[j], value)
    return count >= unions.counts[u, TOP - 1]


@inline
def _limit(graph: Graph, g: int) -> int:
    """Return what a value counts in a group at the most, unless it is one of the best there."""
    c = i64(graph.subgraphs[g]["top"][TOP - 1])
    return i64(0) if c == NONE else i64(graph.candidates[c]["weight"])


@inline
def _mark_best(store: Store, graph: Graph) -> int:
    """Mark the best values of each group in `store.set`; return the sum of the groups' limits."""
    limits = i64(0)
    begin_marks(store.values)
    for j in range(store.set.size):
        g = store.set[j]
        if g != NONE:
            limits += _limit(graph, g)
            for k in range(TOP):
                c = graph.subgraphs[g]["top"][k]
                if c != NONE:
                    mark(store.values, i64(graph.candidates[c]["value"]))
    return limits
