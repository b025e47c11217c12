"""The loop over segments, for attributes with several rules: clean, sweep, slide.

A call goes through any number of slides. What they can need beside what the tuples need is seldom more than
there is room for; if it is, the call ends there, says in the clock how much it needs, and is made again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .cells import Store
from .clean import Cells, clean_segment
from .clock import (
    CANDIDATES_NEEDED,
    COUNTS_NEEDED,
    PANE,
    REMEMBERED,
    START,
    SWEEP_AT,
    SWEEP_END,
    SWEEPING,
    TUPLES,
    Clock,
    PaneWindow,
    begin_segment,
    begin_sweep,
    pane_of,
    remembered_after_slide,
    slide_to,
    sweep_goal,
)
from .graph import Graph, Mode, clear_graph
from .groups import DEAD
from .jit import entry, i64, inline, jit
from .refs import ref
from .repair import Repairs
from .splits import candidates_for_splits, split_retired
from .table import POOL_LIVE, POOL_USED
from .truth import Acceptances
from .unions import Unions, clear_unions
from .window import sweep


@entry
def clean_hinged(
    store: Store,
    current: Graph,
    upcoming: Graph,
    unions: Unions,
    clock: Clock,
    window: PaneWindow,
    mode: Mode,
    panes: NDArray[np.int64],
    position: int,
    accept_after: NDArray[np.int64],
    cells: Cells,
    first: int,
    last: int,
    repairs: Repairs,
    n_repairs: int,
    violations: NDArray[np.int64],
    acceptances: Acceptances,
) -> tuple[int, int]:
    """Clean the cells of the tuples `first` to `last`, and slide the window as they ask for.

    Args:
        store: All earlier cells of the attribute.
        current: The violation graph.
        upcoming: The violation graph after the next slide: with each slide the two change places.
        unions: What several groups of the current graph count together.
        clock: Where the window is.
        window: The window.
        mode: Which counts, and over what.
        panes: By tuple: its pane, if these are given.
        position: The position of the first tuple of the batch.
        accept_after: By column: the threshold of an accepted change, 0 for never.
        cells: The cells of the batch.
        first: The first tuple.
        last: The tuple after the last one.
        repairs: Receives a row for each cell that changes.
        n_repairs: How many rows it has already.
        violations: By column: grows by one for each tuple that violates that rule.
        acceptances: Receives a row for each accepted change.

    Returns:
        The first tuple that was not cleaned, and how many rows `repairs` has now.
    """
    store = ref(store)
    current = ref(current)
    upcoming = ref(upcoming)
    unions = ref(unions)
    cells = ref(cells)
    repairs = ref(repairs)
    acceptances = ref(acceptances)
    while True:
        # Before the first segment it finds something to do only if there was no room for it.
        if clock[SWEEPING] and not _sweep_to(
            store, current, upcoming, clock, mode, sweep_goal(clock), last - first
        ):
            break
        if first == last:
            break
        pane = pane_of(clock, window, panes, position, first)
        if pane > clock[PANE]:
            if clock[SWEEPING] == 0:
                begin_sweep(clock, store.cell_pool.state[POOL_USED])
            if not _sweep_to(store, current, upcoming, clock, mode, i64(clock[SWEEP_END]), last - first):
                break
            if pane == clock[PANE] + 1:
                needed = candidates_for_splits(store, upcoming, last - first)
                if needed > upcoming.candidates.size:
                    clock[CANDIDATES_NEEDED] = needed
                    break
                slide_to(clock, window, mode.basic, pane)
                split_retired(store, upcoming, mode)
                current, upcoming = upcoming, current
                if mode.vote:
                    clear_unions(unions)
                # Now, and not when the sweep begins, so that it gets its room little by little.
                clear_graph(upcoming, store, i64(clock[START]) + 1, remembered_after_slide(clock))
            else:
                if not _is_room(store, clock, i64(store.cell_pool.state[POOL_LIVE]), last - first):
                    break
                slide_to(clock, window, mode.basic, pane)
                _build(store, current, upcoming, unions, clock, mode)
        end = begin_segment(clock, window, panes, position, first, last, store.cell_pool.state[POOL_USED])
        n_repairs = clean_segment(
            store,
            current,
            upcoming,
            unions,
            clock[SWEEPING] == 1,
            mode,
            i64(clock[PANE]),
            i64(clock[START]),
            i64(clock[REMEMBERED]),
            i64(clock[START]) if window.slide else DEAD,
            accept_after,
            cells,
            first,
            end,
            repairs,
            n_repairs,
            violations,
            acceptances,
        )
        clock[TUPLES] += end - first
        first = end
    return first, n_repairs


@inline
def _is_room(store: Store, clock: Clock, n_slots: int, n_tuples: int) -> bool:
    """Return whether there is room to sweep over some slots, and for some tuples; if not, the clock says so.

    Two super cells that are added together have one count more in their list than the two had.
    """
    needed = store.pane_pool.state[POOL_LIVE] + n_slots + n_tuples + 2
    if needed <= store.panes.size:
        return True
    clock[COUNTS_NEEDED] = needed
    return False


@inline
def _sweep_to(
    store: Store, current: Graph, upcoming: Graph, clock: Clock, mode: Mode, slot: int, n_tuples: int
) -> bool:
    """Bring super cells into the upcoming graph, up to a slot; return whether there was room for that.

    After it there is room for some tuples.
    """
    at = i64(clock[SWEEP_AT])
    if slot > at:
        if not _is_room(store, clock, slot - at, n_tuples):
            return False
        sweep(store, upcoming, current, mode, i64(clock[START]), i64(clock[REMEMBERED]), at, slot)
        clock[SWEEP_AT] = slot
    return True


@entry
def build_graphs(
    store: Store, current: Graph, upcoming: Graph, unions: Unions, clock: Clock, mode: Mode
) -> None:
    """Build the current graph anew from the super cells."""
    _build(ref(store), ref(current), ref(upcoming), ref(unions), clock, mode)


@jit
def _build(store: Store, current: Graph, upcoming: Graph, unions: Unions, clock: Clock, mode: Mode) -> None:
    start = i64(clock[START])
    remembered = i64(clock[REMEMBERED])
    clock[SWEEPING] = 0
    clear_unions(unions)
    clear_graph(current, store, start, remembered)
    clear_graph(upcoming, store, start + 1, remembered_after_slide(clock))
    sweep(store, current, upcoming, mode, start, remembered, i64(0), i64(store.cell_pool.state[POOL_USED]))
