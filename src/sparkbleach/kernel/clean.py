"""The loop over tuples: detect, keep the graph, repair."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import Store, cell_of
from .graph import (
    Graph,
    Mode,
    cell_weight,
    count_one,
    enter,
    find_root,
    forget_group,
    in_graph,
    link,
    link_group,
    link_of,
)
from .groups import DEAD, forget_truth, group_detect, group_find, group_of
from .hashing import U64
from .jit import apart, i64, inline, jit
from .panes import cell_add
from .repair import Repairs, candidates_of_one, candidates_of_several, no_candidates
from .splits import retire, split
from .table import NONE
from .truth import Acceptances, is_accepted, replace_group
from .unions import Unions, begin_group, log_raise
from .values import Column, value_of

# What the pattern tableaux say of a cell.
NO_CONSTANT, CONSTANT_HOLDS, CONSTANT_BROKEN = 0, 1, 2


class Cells(NamedTuple):
    """The cells of one attribute in a batch, and the groups that its rules put them in."""

    column: Column
    applies: NDArray[np.bool_]  #: by column and tuple: whether that rule applies
    key_lo: U64  #: by column and tuple: the group's key, low half
    key_hi: U64  #: high half
    constant: NDArray[np.uint8]  #: by tuple: NO_CONSTANT, CONSTANT_HOLDS or CONSTANT_BROKEN
    broken: NDArray[np.bool_]  #: by column and tuple: whether a constant of the rule is; or empty


@apart
def clean_segment(
    store: Store,
    current: Graph,
    upcoming: Graph,
    unions: Unions,
    with_upcoming: bool,
    mode: Mode,
    pane: int,
    start: int,
    remembered: int,
    retire_at: int,
    accept_after: NDArray[np.int64],
    cells: Cells,
    first: int,
    last: int,
    repairs: Repairs,
    n_repairs: int,
    violations: NDArray[np.int64],
    acceptances: Acceptances,
) -> int:
    """Clean the cells of a segment: the tuples `first` to `last`.

    Args:
        store: All earlier cells of the attribute.
        current: The violation graph.
        upcoming: The violation graph after the next slide.
        unions: What several groups of the current graph count together.
        with_upcoming: Whether that graph is being built.
        mode: Which counts, and over what.
        pane: The pane of these tuples.
        start: The first pane of the window.
        remembered: The first pane that is remembered.
        retire_at: The last pane that a group which is retired now lives to see: `start`, so that it is gone
            after the next slide; or DEAD if there are no slides, and it is to be gone at once.
        accept_after: By column: the threshold of an accepted change, 0 for never.
        cells: The cells of the batch.
        first: The first tuple.
        last: The tuple after the last one.
        repairs: Receives a row for each cell that changes.
        n_repairs: How many rows it has already.
        violations: By column: grows by one for each tuple that violates that rule.
        acceptances: Receives a row for each accepted change.

    Returns:
        How many rows `repairs` has now.
    """
    for i in range(first, last):
        if cells.column.valid[i]:
            changed = _clean_cell(
                store,
                current,
                upcoming,
                unions,
                with_upcoming,
                mode,
                pane,
                start,
                remembered,
                retire_at,
                accept_after,
                cells,
                i,
                repairs,
                n_repairs,
                acceptances,
            )
        else:
            changed = _fill_cell(
                store, current, upcoming, unions, with_upcoming, mode, start, cells, i, repairs, n_repairs
            )
        for j in range(store.set.size):
            if cells.broken.shape[1] > 0 and cells.broken[j, i]:
                repairs.violated[n_repairs, j] = True
            violations[j] += repairs.violated[n_repairs, j]
        if changed:
            repairs.tuple[n_repairs] = i
            n_repairs += 1
    return n_repairs


@inline
def _clean_cell(
    store: Store,
    current: Graph,
    upcoming: Graph,
    unions: Unions,
    with_upcoming: bool,
    mode: Mode,
    pane: int,
    start: int,
    remembered: int,
    retire_at: int,
    accept_after: NDArray[np.int64],
    cells: Cells,
    i: int,
    repairs: Repairs,
    row: int,
    acceptances: Acceptances,
) -> bool:
    """Clean a cell that has a value; return whether it changes."""
    n_columns = store.set.size
    groups = store.groups.records
    n_violated = i64(0)
    n_in_graph = i64(0)  # before this tuple
    n_rescued = i64(0)
    n_more = i64(0)  # cells that count beside this one
    value = NONE
    for j in range(n_columns):
        repairs.violated[row, j] = False
        store.set[j] = NONE
        if not cells.applies[j, i]:
            continue
        if value == NONE:
            value = i64(value_of(store.values, cells.column, i))
        g = group_of(store.groups, cells.key_lo[j, i], cells.key_hi[j, i], j, start)
        if accept_after[j] > 0 and is_accepted(store.groups, store.values, g, value, accept_after[j]):
            n_more = max(n_more, accept_after[j] - 1)
            g = _accept(
                store,
                current,
                upcoming,
                with_upcoming,
                mode,
                retire_at,
                acceptances,
                i,
                g,
                value,
                accept_after[j],
            )
        if groups[g]["n_cells"] == 0:
            forget_group(current, g)
            forget_group(upcoming, g)
            if mode.vote:
                begin_group(unions, g)
        elif groups[g]["in_graph"]:
            n_in_graph += 1
            # With this cell the group, and with it all its super cells, outlives the next slide.
            if with_upcoming and not mode.basic and groups[g]["last_pane"] <= start < pane:
                store.owners[n_rescued] = g
                n_rescued += 1
        if group_detect(store.groups, g, value, pane, start):
            n_violated += 1
            repairs.violated[row, j] = True
        store.set[j] = g

    constant = cells.constant[i]
    if value == NONE:
        no_candidates(repairs, row)
        return constant == CONSTANT_BROKEN

    x = cell_of(store, value, pane)
    if store.cells[x]["pane"] < remembered:
        store.cells[x]["cumulative"] = 0  # it was forgotten, and begins anew
    cell_add(store, x, pane, start)
    if n_more > 0:
        store.cells[x]["count"] += n_more
    if n_in_graph > 0:
        store.cells[x]["cumulative"] += 1 + n_more
        amount = i64(1)
        for later in range(1 + with_upcoming):
            graph = upcoming if later else current
            if not count_one(store, graph, mode, x):
                link(store, graph, mode, x)
                if not later:
                    amount = cell_weight(store, graph, mode, x, pane)
        if mode.vote:
            log_raise(store, current, unions, x, amount)
        for r in range(n_rescued):
            link_group(store, upcoming, mode, store.owners[r])
    if n_violated > 0:
        for j in range(n_columns):
            if repairs.violated[row, j] and not groups[store.set[j]]["in_graph"]:
                enter(store, current, upcoming, with_upcoming, mode, store.set[j])
                n_in_graph += 1

    if constant == CONSTANT_HOLDS:
        return False
    if n_violated == 0:
        no_candidates(repairs, row)
        return constant == CONSTANT_BROKEN

    # The subgraph is found by way of the super cell, which all its groups in the graph have in common.
    if mode.vote and n_in_graph > 1:
        own_count = _candidates_of_set(store, current, unions, mode, start, repairs, row, value)
        return constant == CONSTANT_BROKEN or own_count < repairs.counts[row, 0]
    slot = i64(0)
    if mode.vote:
        while store.set[slot] == NONE or not in_graph(store, store.set[slot], start):
            slot += 1
    c = link_of(store, current, x, slot)
    root = find_root(current.subgraphs, current.candidates[c]["subgraph"])
    best = current.subgraphs[root]["top"][0]
    if constant == NO_CONSTANT and current.candidates[c]["weight"] >= current.candidates[best]["weight"]:
        return False
    subgraph = current.subgraphs[root]
    candidates_of_one(
        repairs, row, current.candidates, subgraph["top"], subgraph["total"], i64(subgraph["n_groups"])
    )
    return True


@jit
def _accept(
    store: Store,
    current: Graph,
    upcoming: Graph,
    with_upcoming: bool,
    mode: Mode,
    retire_at: int,
    acceptances: Acceptances,
    i: int,
    g: int,
    value: int,
    accept_after: int,
) -> int:
    """Return the group that takes the place of one that has accepted a value, and retire that one.

    From the current graph it leaves with the next slide, because that is replaced; from the upcoming one by
    `split_retired`. With `vote`, or if there are no slides, it leaves them at once (splits.py).
    """
    new = replace_group(store.groups, store.values, acceptances, i, g, value, accept_after)
    forget_truth(store.groups, store.values, g)
    store.groups.records[g]["last_pane"] = retire_at
    if mode.vote:
        store.groups.records[g]["in_graph"] = 0
        split(store, current, mode, g)
        if with_upcoming:
            split(store, upcoming, mode, g)
    elif retire_at == DEAD:
        split(store, current, mode, g)
    elif with_upcoming:
        retire(upcoming, g)
    return new


@jit
def _candidates_of_set(
    store: Store, graph: Graph, unions: Unions, mode: Mode, start: int, repairs: Repairs, row: int, own: int
) -> int:
    """Write the candidates of those groups of the set that are in the graph into a row."""
    for j in range(store.set.size):
        if store.set[j] != NONE and not in_graph(store, store.set[j], start):
            store.set[j] = NONE
    return candidates_of_several(store, graph, unions, mode, repairs, row, own)


@jit
def _fill_cell(
    store: Store,
    current: Graph,
    upcoming: Graph,
    unions: Unions,
    with_upcoming: bool,
    mode: Mode,
    start: int,
    cells: Cells,
    i: int,
    repairs: Repairs,
    row: int,
) -> bool:
    """Fill a null cell, which is never stored or counted; return whether it changes."""
    groups = store.groups.records
    n_violated = 0
    for j in range(store.set.size):
        repairs.violated[row, j] = False
        store.set[j] = NONE
        if cells.applies[j, i]:
            g = i64(group_find(store.groups, cells.key_lo[j, i], cells.key_hi[j, i]))
            if g != NONE and groups[g]["last_pane"] >= start:
                if not groups[g]["in_graph"]:
                    enter(store, current, upcoming, with_upcoming, mode, g)
                store.set[j] = g
                repairs.violated[row, j] = True
                n_violated += 1
    if n_violated == 0:
        no_candidates(repairs, row)
        return cells.constant[i] == CONSTANT_BROKEN
    _candidates_of_set(store, current, unions, mode, start, repairs, row, NONE)
    return True
