"""Groups that leave the graph before a slide takes it away: their subgraphs are built anew, without them.

A group is retired when it accepts another truth (truth.py). With `vote` it is a subgraph by itself and leaves
at once. With `class` its subgraph may be the whole graph: if there are slides, it leaves with the next one.
"""

from __future__ import annotations

from .cells import Store
from .graph import (
    FIRST_SLOT,
    FREE,
    GENERATION,
    GRAPH_START,
    RETIRED,
    USED,
    WHICH,
    Graph,
    Mode,
    forget_group,
    in_graph,
    link_group,
    unlink_slot,
)
from .jit import i64, inline, jit
from .table import NONE, POOL_LIVE, table_remove


@jit
def split(store: Store, graph: Graph, mode: Mode, g: int) -> None:
    """Build the subgraph of a group that is no longer in the graph anew, without it.

    It takes time in proportion to the subgraph, which falls apart as its links ask for.
    """
    n = _take_apart(store, graph, mode, g)
    for i in range(n):
        if in_graph(store, i64(graph.queue[i]), graph.state[GRAPH_START]):
            link_group(store, graph, mode, i64(graph.queue[i]))


@jit
def _take_apart(store: Store, graph: Graph, mode: Mode, g: int) -> int:
    """Take all groups of a subgraph and their super cells out of the graph; return how many are queued."""
    subgraphs = graph.subgraphs
    queue = graph.queue
    generation = graph.state[GENERATION]
    which = graph.state[WHICH]
    if subgraphs[g]["generation"] != generation:
        return i64(0)
    forget_group(graph, g)
    queue[0] = g
    n = i64(1)
    at = i64(0)
    while at < n:
        group = store.groups.records[queue[at]]
        at += 1
        column = i64(group["column"])
        slot = column if mode.vote else FIRST_SLOT
        x = i64(group["first_cell"])
        while x != NONE:
            link = store.members[x, slot]["link"][which]
            if link >> 32 == generation:
                _free_candidates(graph, link & 0xFFFFFFFF)
                unlink_slot(store, graph, x, slot)
                for j in range(0 if mode.vote else store.set.size):
                    other = i64(store.members[x, j]["group"])
                    if other != NONE and subgraphs[other]["generation"] == generation:
                        forget_group(graph, other)
                        queue[n] = other
                        n += 1
            x = i64(store.members[x, column]["next"])
    return n


@jit
def _free_candidates(graph: Graph, c: int) -> None:
    """Free a candidate and those that took over from it, as far as they are not free already."""
    candidates = graph.candidates
    c = i64(c)
    while c != NONE and candidates[c]["value"] != NONE:
        following = i64(candidates[c]["forward"])
        if following == NONE:
            table_remove(graph.table, candidates, c)
        candidates[c]["value"] = NONE
        candidates[c]["next"] = graph.state[FREE]
        graph.state[FREE] = c
        c = following


@inline
def retire(graph: Graph, g: int) -> None:
    """Note that a group leaves the graph before it becomes the current one."""
    graph.retired[graph.state[RETIRED]] = g
    graph.state[RETIRED] += 1


@inline
def candidates_for_splits(store: Store, graph: Graph, n_tuples: int) -> int:
    """Return for how many candidates there must be room before `split_retired` and some tuples.

    Super cells that shared a candidate may each need one, and those that were dropped left theirs behind.
    """
    if graph.state[RETIRED] == 0:
        return i64(0)
    return i64(graph.state[USED] + store.cell_pool.state[POOL_LIVE] + n_tuples)


@jit
def split_retired(store: Store, graph: Graph, mode: Mode) -> None:
    """Build the subgraphs of retired groups anew, without them."""
    for i in range(graph.state[RETIRED]):
        split(store, graph, mode, i64(graph.retired[i]))
    graph.state[RETIRED] = 0
