"""The violation graph of an attribute: subgraphs, and how often each candidate value occurs in them.

A `Graph` is the violation graph as it is for one window. It only ever grows: groups enter, super cells
appear and gain cells, subgraphs merge. Union-find does merging, and because no count ever falls, the best
five candidates of a subgraph are kept up to date in constant time. What shrinks a graph - a slide of the
window, the deletion of a rule - never happens to a `Graph`; another one takes its place, which has been
built from the super cells that stay (window.py).

With `repair: vote` groups are not united: every group is a subgraph of its own, and a super cell counts
once in each of its groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import Store
from .hashing import mix64
from .jit import i64, inline, jit
from .panes import window_count
from .rank import TOP, raised
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

SUBGRAPH = np.dtype(
    [
        ("total", np.int64),  # sum of all counts; this and what follows is kept at the root only
        ("generation", np.int32),  # of the graph in which the rest of the record means something
        ("parent", np.int32),  # in the union-find; itself for a root
        ("n_groups", np.int32),
        ("n_candidates", np.int32),
        ("first", np.int32),  # candidate
        ("top", np.int32, (TOP,)),  # the best candidates, best first, then NONE
    ],
    align=True,
)

CANDIDATE = np.dtype(
    [
        ("hash", np.uint64),  # of the subgraph and the value
        ("weight", np.int64),  # sum of the counts of its super cells
        ("next", np.int32),  # in the table
        ("value", np.int32),
        ("subgraph", np.int32),  # a group in it; its root, unless subgraphs were united since
        ("forward", np.int32),  # the candidate that took over the count of this one, or NONE
        ("sibling", np.int32),  # next candidate of the same subgraph
    ],
    align=True,
)

GENERATION, USED, LINKED, GRAPH_START, _REMEMBERED, WHICH, FREE, RETIRED = 0, 1, 2, 3, 4, 5, 6, 7
_GENERATION_MAX = 2**31 - 1
FIRST_SLOT = i64(0)  # slot
_ONE = i64(1)  # cell


class Graph(NamedTuple):
    """The violation graph for one window."""

    subgraphs: Records  #: SUBGRAPH by group
    candidates: Records  #: CANDIDATE
    table: Table  #: of candidates
    queue: NDArray[np.int32]  #: scratch: groups
    retired: NDArray[np.int32]  #: groups that may be in it and leave before it is the current one
    #: generation, candidates ever used, links in force, first pane, first remembered pane, 0 or 1, first of
    #: the candidates that are free again, retired groups
    state: NDArray[np.int64]


class Mode(NamedTuple):
    """The two choices a user has: which counts, and over what."""

    basic: bool  #: window counts instead of cumulative ones
    vote: bool  #: the tuple's own groups instead of the whole subgraph


def new_graph(which: int) -> Graph:
    """Return a graph with no group in it; an attribute has two, 0 and 1."""
    return Graph(
        np.zeros(0, SUBGRAPH),
        np.zeros(0, CANDIDATE),
        new_table(),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
        np.array([0, 0, 0, 0, 0, which, NONE, 0], np.int64),
    )


@jit
def clear_graph(graph: Graph, store: Store, start: int, remembered: int) -> None:
    """Forget everything, as good as always in constant time, and begin again for another window.

    Args:
        graph: The graph.
        store: The cells.
        start: The first pane of the window.
        remembered: The first pane that is remembered.
    """
    if graph.state[GENERATION] == _GENERATION_MAX:
        for g in range(graph.subgraphs.size):
            graph.subgraphs[g]["generation"] = 0
        for x in range(store.members.shape[0]):
            for j in range(store.set.size):
                store.members[x, j]["link"][graph.state[WHICH]] = 0
        graph.state[GENERATION] = 0
    graph.state[GENERATION] += 1
    graph.state[USED] = 0
    graph.state[LINKED] = 0
    graph.state[GRAPH_START] = start
    graph.state[_REMEMBERED] = remembered
    graph.state[FREE] = NONE
    graph.state[RETIRED] = 0
    clear_table(graph.table)


def first_pane(graph: Graph) -> int:
    """Return the first pane of the window that the graph is for."""
    return int(graph.state[GRAPH_START])


def reserve_graph(graph: Graph, store: Store, mode: Mode, n_tuples: int, n_retired: int) -> None:
    """Make room for what `n_tuples` more tuples, the entry of any group, and retired groups can need."""
    slots = store.set.size if mode.vote else 1
    grow(graph.subgraphs, store.groups.records.shape[0])
    grow(graph.queue, store.groups.records.shape[0])
    links = pool_live(store.cell_pool) * slots
    unlinked = links - int(graph.state[LINKED])
    # At least as many as there are links, always: a graph that is cleared then needs no more room at once.
    reserve_candidates(graph, max(int(graph.state[USED]) + unlinked, links) + n_tuples * slots)
    grow(graph.retired, int(graph.state[RETIRED]) + n_retired)


def reserve_candidates(graph: Graph, n_candidates: int) -> None:
    """Make room for some candidates."""
    grow(graph.candidates, n_candidates)
    grow(graph.table.heads, n_candidates + 1)


@inline
def n_slots(store: Store, mode: Mode) -> int:
    """Return in how many subgraphs a super cell may count: one, or with `vote` one for each group."""
    return store.set.size if mode.vote else 1


@inline
def in_graph(store: Store, g: int, start: int) -> bool:
    """Return whether the group is in the graph of the window that starts at pane `start`."""
    group = store.groups.records[g]
    return group["in_graph"] == 1 and group["last_pane"] >= start


@inline
def cell_in_graph(store: Store, x: int, start: int) -> bool:
    """Return whether one of the super cell's groups is in the graph."""
    for j in range(store.set.size):
        g = store.members[x, j]["group"]
        if g != NONE and in_graph(store, g, start):
            return True
    return False


@inline
def cell_weight(store: Store, graph: Graph, mode: Mode, x: int, newest: int) -> int:
    """Return what a super cell in the graph counts: its cells in the window, or all of them.

    Args:
        store: The cells.
        graph: The graph.
        mode: Which counts, and over what.
        x: The super cell.
        newest: The pane of its newest cell, by which it is remembered or not.
    """
    if mode.basic:
        return window_count(store, x, graph.state[GRAPH_START])
    return store.cells[x]["cumulative"] if newest >= graph.state[_REMEMBERED] else i64(0)


@inline
def _subgraph_of(graph: Graph, g: int) -> int:
    """Return the root of the group's subgraph; a group that is new to the graph is one by itself."""
    subgraph = graph.subgraphs[g]
    if subgraph["generation"] != graph.state[GENERATION]:
        subgraph["generation"] = graph.state[GENERATION]
        subgraph["parent"] = g
        subgraph["n_groups"] = 1
        subgraph["n_candidates"] = 0
        subgraph["total"] = 0
        subgraph["first"] = NONE
        for k in range(TOP):
            subgraph["top"][k] = NONE
        return g
    return find_root(graph.subgraphs, g)


@inline
def find_root(subgraphs: Records, g: int) -> int:
    """Return the root of a group's tree, and halve the path to it."""
    g = i64(g)
    parent = i64(subgraphs[g]["parent"])
    while parent != g:
        grandparent = i64(subgraphs[parent]["parent"])
        subgraphs[g]["parent"] = grandparent
        g = grandparent
        parent = i64(subgraphs[g]["parent"])
    return g


@inline
def find_candidate(graph: Graph, c: int) -> int:
    """Return the candidate that took over from `c` in the end, and halve the path to it."""
    candidates = graph.candidates
    c = i64(c)
    forward = i64(candidates[c]["forward"])
    while forward != NONE:
        further = i64(candidates[forward]["forward"])
        if further == NONE:
            return forward
        candidates[c]["forward"] = further
        c = further
        forward = i64(candidates[c]["forward"])
    return c


@inline
def link_of(store: Store, graph: Graph, x: int, slot: int) -> int:
    """Return the candidate that a super cell counts in, NONE if it does not count in this graph."""
    link = store.members[x, slot]["link"][graph.state[WHICH]]
    if link >> 32 != graph.state[GENERATION]:
        return NONE
    return find_candidate(graph, link & 0xFFFFFFFF)


@inline
def _candidate_hash(root: int, value: int) -> np.uint64:
    return mix64(np.uint64(root) << np.uint64(32) | np.uint64(value))


@inline
def candidate_find(graph: Graph, root: int, value: int) -> int:
    """Return the candidate with this value in a subgraph, NONE if there is none."""
    hash = _candidate_hash(root, value)
    c = i64(table_first(graph.table, hash))
    candidates = graph.candidates
    while c != NONE:
        if candidates[c]["hash"] == hash:  # the hash is a bijection of the two numbers
            return c
        c = i64(candidates[c]["next"])
    return NONE


@inline
def _raise(store: Store, graph: Graph, root: int, c: int, amount: int) -> None:
    """Add to the weight of a candidate, and keep the order of the best."""
    graph.candidates[c]["weight"] += amount
    graph.subgraphs[root]["total"] += amount
    raised(store.values, graph.candidates, graph.subgraphs[root]["top"], c)


@jit
def _unite(store: Store, graph: Graph, a: int, b: int) -> int:
    """Merge two subgraphs given by their roots; the candidates of the smaller go to the larger."""
    subgraphs = graph.subgraphs
    if subgraphs[a]["n_candidates"] < subgraphs[b]["n_candidates"]:
        large, small = b, a
    else:
        large, small = a, b
    subgraphs[small]["parent"] = large
    subgraphs[large]["n_groups"] += subgraphs[small]["n_groups"]
    candidates = graph.candidates
    c = i64(subgraphs[small]["first"])
    while c != NONE:
        following = i64(candidates[c]["sibling"])
        table_remove(graph.table, candidates, c)
        value = candidates[c]["value"]
        same = candidate_find(graph, large, value)
        if same != NONE:
            candidates[c]["forward"] = same
            _raise(store, graph, large, same, candidates[c]["weight"])
        else:
            candidates[c]["hash"] = _candidate_hash(large, value)
            candidates[c]["subgraph"] = large
            candidates[c]["sibling"] = subgraphs[large]["first"]
            subgraphs[large]["first"] = c
            subgraphs[large]["n_candidates"] += 1
            subgraphs[large]["total"] += candidates[c]["weight"]
            table_insert(graph.table, candidates, c)
            raised(store.values, candidates, subgraphs[large]["top"], c)
        c = following
    return large


@inline
def _attach(store: Store, graph: Graph, x: int, slot: int, root: int, weight: int) -> None:
    """Let a super cell count in a subgraph."""
    candidates = graph.candidates
    value = store.cells[x]["value"]
    c = candidate_find(graph, root, value)
    if c == NONE:
        c = graph.state[FREE]
        if c == NONE:
            c = graph.state[USED]
            graph.state[USED] = c + 1
        else:
            graph.state[FREE] = candidates[c]["next"]
        candidates[c]["hash"] = _candidate_hash(root, value)
        candidates[c]["weight"] = 0
        candidates[c]["value"] = value
        candidates[c]["subgraph"] = root
        candidates[c]["forward"] = NONE
        candidates[c]["sibling"] = graph.subgraphs[root]["first"]
        graph.subgraphs[root]["first"] = c
        graph.subgraphs[root]["n_candidates"] += 1
        table_insert(graph.table, candidates, c)
    store.members[x, slot]["link"][graph.state[WHICH]] = graph.state[GENERATION] << 32 | c
    graph.state[LINKED] += 1
    _raise(store, graph, root, c, weight)


@inline
def link(store: Store, graph: Graph, mode: Mode, x: int) -> None:
    """Bring a super cell into the graph as far as it belongs there; again is harmless.

    With all its groups that are in the graph, which it thereby links, and with its count.
    """
    _link(store, graph, mode, x, i64(store.cells[x]["pane"]))


@inline
def _link(store: Store, graph: Graph, mode: Mode, x: int, newest: int) -> None:
    start = graph.state[GRAPH_START]
    weight = cell_weight(store, graph, mode, x, newest)
    if weight == 0:
        return
    if mode.vote:
        for j in range(store.set.size):
            g = i64(store.members[x, j]["group"])
            if g != NONE and in_graph(store, g, start) and link_of(store, graph, x, j) == NONE:
                _attach(store, graph, x, j, _subgraph_of(graph, g), weight)
        return
    root = NONE
    for j in range(store.set.size):
        g = i64(store.members[x, j]["group"])
        if g != NONE and in_graph(store, g, start):
            other = _subgraph_of(graph, g)
            if root == NONE:
                root = other
            elif root != other:
                root = _unite(store, graph, root, other)
    if root != NONE and link_of(store, graph, x, FIRST_SLOT) == NONE:
        _attach(store, graph, x, FIRST_SLOT, root, weight)


@jit
def link_as_of(store: Store, graph: Graph, mode: Mode, x: int, newest: int) -> None:
    """Bring a super cell into the graph as if its newest cell were of another pane."""
    _link(store, graph, mode, x, newest)


@jit
def link_group(store: Store, graph: Graph, mode: Mode, g: int) -> None:
    """Bring all super cells of a group into the graph."""
    j = store.groups.records[g]["column"]
    x = i64(store.groups.records[g]["first_cell"])
    while x != NONE:
        link(store, graph, mode, x)
        x = i64(store.members[x, j]["next"])


@inline
def count_one(store: Store, graph: Graph, mode: Mode, x: int) -> bool:
    """Count one more cell of a super cell wherever it counts already; return whether it does anywhere."""
    counted = False
    for slot in range(n_slots(store, mode)):
        c = link_of(store, graph, x, slot)
        if c != NONE:
            _raise(store, graph, find_root(graph.subgraphs, graph.candidates[c]["subgraph"]), c, _ONE)
            counted = True
    return counted


@inline
def forget_group(graph: Graph, g: int) -> None:
    """Make a group's slot fit for another group."""
    graph.subgraphs[g]["generation"] = 0


@jit
def unlink(store: Store, graph: Graph, x: int) -> None:
    """Make a super cell's slot fit for another super cell."""
    for slot in range(store.set.size):
        unlink_slot(store, graph, x, slot)


@jit
def unlink_slot(store: Store, graph: Graph, x: int, slot: int) -> None:
    """Let a super cell have no candidate that it counts in."""
    link = store.members[x, slot]["link"]
    if link[graph.state[WHICH]] >> 32 == graph.state[GENERATION]:
        graph.state[LINKED] -= 1
    link[graph.state[WHICH]] = 0


@jit
def hand_over(store: Store, graph: Graph, source: int, target: int) -> None:
    """Let the target count where the source did and it did not, before its counts are added."""
    which = graph.state[WHICH]
    for slot in range(store.set.size):
        link = store.members[source, slot]["link"][which]
        if link >> 32 == graph.state[GENERATION]:
            if store.members[target, slot]["link"][which] >> 32 == graph.state[GENERATION]:
                graph.state[LINKED] -= 1
            else:
                store.members[target, slot]["link"][which] = link
            store.members[source, slot]["link"][which] = 0


@jit
def enter(store: Store, current: Graph, upcoming: Graph, with_upcoming: bool, mode: Mode, g: int) -> None:
    """Let a group that has a cell in the window enter the graph."""
    start = current.state[GRAPH_START]
    group = store.groups.records[g]
    j = group["column"]
    x = i64(group["first_cell"])
    while x != NONE:
        if not cell_in_graph(store, x, start):
            store.cells[x]["cumulative"] = window_count(store, x, start)
        x = i64(store.members[x, j]["next"])
    group["in_graph"] = 1
    link_group(store, current, mode, g)
    if with_upcoming:
        link_group(store, upcoming, mode, g)
