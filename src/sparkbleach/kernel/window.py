"""Sliding the window without a long stop.

Nothing is done to groups and counts when the window slides: they carry their panes, and whoever reads them
compares. What a slide does take away is links and candidates, and those are not taken away but built anew:
in the second half of every pane the sweep goes once over all super cells, a few per tuple, and brings those
that will stay into the upcoming graph. Tuples that arrive meanwhile go into both graphs. When the window
slides, the upcoming graph becomes the current one.

On its way the sweep tidies: groups that left the window leave their super cells, super cells that have
thereby become equal are added together, and what nothing refers to any more is given back.
"""

from __future__ import annotations

from .cells import Store, cell_find, cell_free, cell_leave, set_hash
from .graph import Graph, Mode, cell_in_graph, hand_over, link, link_as_of, unlink
from .jit import apart, i64, inline, jit
from .panes import add_counts, forget_panes_before
from .table import NONE, table_insert, table_remove


@apart
def sweep(
    store: Store, target: Graph, other: Graph, mode: Mode, start: int, remembered: int, first: int, last: int
) -> None:
    """Tidy the super cells in the slots `first` to `last` and bring them into the target graph.

    Args:
        store: The cells.
        target: The graph that is being built.
        other: The graph that is not; what it says must stay true.
        mode: Which counts, and over what.
        start: The first pane of the window as it is now.
        remembered: The first pane that is remembered now.
        first: The first slot.
        last: The slot after the last one.
    """
    for slot in range(first, last):
        if store.cells[slot]["value"] != NONE:
            x = _tidy(store, target, other, mode, slot, start, remembered)
            if x != NONE:
                link(store, target, mode, x)


@inline
def _tidy(store: Store, target: Graph, other: Graph, mode: Mode, x: int, start: int, remembered: int) -> int:
    """Return the super cell that `x` is after all that the last slides ask for, NONE if it is dropped."""
    forget_panes_before(store, x, start)
    alive = 0
    dead = 0
    for j in range(store.set.size):
        g = i64(store.members[x, j]["group"])
        if g == NONE:
            store.set[j] = NONE
        elif store.groups.records[g]["last_pane"] >= start:
            store.set[j] = g
            alive += 1
        else:
            store.set[j] = NONE
            dead += 1
    newest = store.cells[x]["pane"]
    if alive == 0 or newest < remembered or (newest < start and not cell_in_graph(store, x, start)):
        _drop(store, target, other, x)
        return NONE
    if dead == 0:
        return x

    return _without_dead_groups(store, target, other, mode, x, remembered)


@jit
def _without_dead_groups(
    store: Store, target: Graph, other: Graph, mode: Mode, x: int, remembered: int
) -> int:
    """Take the groups that are not in `store.set` out of a super cell; return what it is then."""
    value = i64(store.cells[x]["value"])
    hash = set_hash(store.set, value)
    same = cell_find(store, hash, value)
    if same != NONE and store.cells[same]["pane"] < remembered:
        _drop(store, target, other, same)  # it was forgotten before the groups died
        same = NONE
    if same != NONE:
        # Either may be in the target graph already: bring both in, so that their sum is.
        newest = max(i64(store.cells[x]["pane"]), i64(store.cells[same]["pane"]))
        link_as_of(store, target, mode, x, newest)
        link_as_of(store, target, mode, same, newest)
        hand_over(store, target, x, same)
        hand_over(store, other, x, same)
        store.cells[same]["cumulative"] += store.cells[x]["cumulative"]
        add_counts(store, x, same)
        _drop(store, target, other, x)
        return same
    table_remove(store.cell_table, store.cells, x)
    for j in range(store.set.size):
        if store.members[x, j]["group"] != store.set[j]:
            cell_leave(store, x, j)
    store.cells[x]["hash"] = hash
    table_insert(store.cell_table, store.cells, x)
    return x


@jit
def _drop(store: Store, target: Graph, other: Graph, x: int) -> None:
    unlink(store, target, x)
    unlink(store, other, x)
    cell_free(store, x)
