"""Where the horizon is, and how far clearing and sweep have come.

A clock is a few numbers in an array, so that compiled functions can go on with it: they take a batch through
any number of slides in one call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import apart, entry, i64
from ..refs import ref
from ..table import POOL_USED, TABLE_ITEMS
from .expire import (
    clear_groups,
    clear_values,
    count_level_room,
    halve,
    sweep_groups,
    sweep_reverses,
    sweep_rows,
    sweep_values,
)
from .layout import Layout
from .store import CARRY, HALVINGS, LEVELS_PER_CELL, SIDE, SWEEP, SWEEPING, Store
from .votes import Sources

#: what a clock has: the pane of the newest tuple, how many tuples it has, how many it will have, 0 if unknown
PANE, TUPLES, LENGTH = 0, 1, 2
#: how far the clearing is; where the groups end that it goes over, and where the values after them do
CLEARED, CLEAR_GROUPS, CLEAR_VALUES = 3, 4, 5
#: how far the sweep is; where groups, reverse groups, values and rows of sources end, one after the other
SWEPT, SWEEP_GROUPS, SWEEP_REVERSES, SWEEP_VALUES, SWEEP_ROWS = 6, 7, 8, 9, 10
#: the first pane of the horizon that the sweep prepares
NEXT_START = 11
#: for how many levels there must be room before the sweep can go on; 0 if there is
LEVELS_NEEDED = 12
_N_CLOCK = 13

Clock = NDArray[np.int64]


class Horizon(NamedTuple):
    """How far back cells are counted, in panes."""

    n_panes: int  #: of the window; 0 for no window
    n_counted: int  #: whose cells are counted; 0 for all
    pane_length: int  #: tuples of a pane, if that is known; else 0


def new_clock(horizon: Horizon, pane: int) -> Clock:
    """Return the clock of a horizon whose newest pane is this one."""
    clock = np.zeros(_N_CLOCK, np.int64)
    clock[PANE] = pane
    clock[LENGTH] = horizon.pane_length
    return clock


@entry
def start_of(horizon: Horizon, pane: int) -> int:
    """Return the first pane of the horizon, seen from a pane."""
    return max(0, pane - horizon.n_counted + 1) if horizon.n_counted > 0 else 0


@entry
def window_start_of(horizon: Horizon, pane: int) -> int:
    """Return the first pane of the window, seen from a pane."""
    return max(0, pane - horizon.n_panes + 1) if horizon.n_panes > 0 else 0


# ------------------------------------------------------------------------------------------ slides


@entry
def reach_pane(
    store: Store, layout: Layout, sources: Sources, clock: Clock, horizon: Horizon, pane: int
) -> bool:
    """Do what `slide_to` does, for Python."""
    return slide_to(ref(store), ref(layout), ref(sources), clock, horizon, pane, 0)


@apart
def slide_to(
    store: Store, layout: Layout, sources: Sources, clock: Clock, horizon: Horizon, pane: int, n_tuples: int
) -> bool:
    """Sweep as far as the tuples so far ask for, let the window reach a pane, and leave room for some tuples.

    Returns:
        Whether it is done; if not, there is no room for levels, and the clock says for how many. Then it goes
        on when it is called again.
    """
    if not _sweep_some(store, sources, clock, horizon, n_tuples):
        return False
    if horizon.n_panes == 0:
        clock[PANE] = pane
    if pane == clock[PANE]:
        return True
    if horizon.n_counted > 0:
        target = start_of(horizon, pane)
        if store.state[SWEEPING] == 0:
            _begin_sweep(store, sources, clock, target)
        while True:
            if not _sweep_to(store, sources, clock, horizon, i64(clock[SWEEP_ROWS]), n_tuples):
                return False
            store.state[SIDE] = 1 - store.state[SIDE]
            store.state[SWEEPING] = 0
            store.state[CARRY] = 0
            if clock[NEXT_START] == target:
                break
            _begin_sweep(store, sources, clock, target)
    times = pane // horizon.n_panes - clock[PANE] // horizon.n_panes
    if times > 0:
        store.state[HALVINGS] += times
        halve(store, layout, sources, i64(times))
    if clock[TUPLES] > 0 and horizon.pane_length == 0:
        clock[LENGTH] = clock[TUPLES]
    clock[PANE] = pane
    clock[TUPLES] = 0
    if horizon.n_counted > 0:
        clock[CLEARED] = 0
        clock[CLEAR_GROUPS] = store.group_pool.state[POOL_USED]
        clock[CLEAR_VALUES] = clock[CLEAR_GROUPS] + store.values.pool.state[POOL_USED]
    return True


# ------------------------------------------------------------------------------------------ bit by bit


@apart
def _sweep_some(store: Store, sources: Sources, clock: Clock, horizon: Horizon, n_tuples: int) -> bool:
    """Clear and sweep as far as the tuples of the pane ask for: its end finds little left to do.

    A pane without tuples asks for nothing: those that come first may have their numbers, but no count yet.

    Returns:
        Whether there was room for that, and for some tuples.
    """
    length = clock[LENGTH]
    if horizon.n_counted == 0 or length == 0 or clock[TUPLES] == 0:
        return True
    half = length // 2
    if clock[TUPLES] < half:
        _clear_to(store, clock, horizon, i64(clock[CLEAR_VALUES] * clock[TUPLES] // half))
        return True
    _clear_to(store, clock, horizon, i64(clock[CLEAR_VALUES]))
    if store.state[SWEEPING] == 0:
        _begin_sweep(store, sources, clock, start_of(horizon, clock[PANE] + 1))
    done = min(1.0, (clock[TUPLES] - half) / max(1, length - half))
    return _sweep_to(store, sources, clock, horizon, i64(clock[SWEEP_ROWS] * done), n_tuples)


@apart
def _clear_to(store: Store, clock: Clock, horizon: Horizon, place: int) -> None:
    """Clear groups and values, up to a place among all of them."""
    start = start_of(horizon, clock[PANE])
    n_groups = i64(clock[CLEAR_GROUPS])
    at = i64(clock[CLEARED])
    if at < min(place, n_groups):
        clear_groups(store, at, min(place, n_groups), start)
    if max(at, n_groups) < place:
        clear_values(store, max(at, n_groups) - n_groups, place - n_groups, start)
    clock[CLEARED] = max(at, place)


@apart
def _begin_sweep(store: Store, sources: Sources, clock: Clock, start: int) -> None:
    state = store.state
    state[SWEEP] += 1
    state[SWEEPING] = 1
    state[CARRY] = start <= clock[PANE]
    other = 1 - state[SIDE]
    sums = store.sums
    for r in range(sums.cells.shape[1]):
        sums.cells[other, r] = 0
        sums.majority[other, r] = 0
        sums.groups[other, r] = 0
        sums.large[other, r] = 0
        sums.contradicting[other, r] = 0
    for a in range(sums.once.shape[1]):
        sums.occurrences[other, a] = 0
        sums.once[other, a] = 0
    clock[NEXT_START] = start
    clock[SWEPT] = 0
    clock[SWEEP_GROUPS] = store.group_pool.state[POOL_USED]
    clock[SWEEP_REVERSES] = clock[SWEEP_GROUPS] + store.reverse_pool.state[POOL_USED]
    clock[SWEEP_VALUES] = clock[SWEEP_REVERSES] + store.values.pool.state[POOL_USED]
    clock[SWEEP_ROWS] = clock[SWEEP_VALUES] + sources.row_pool.state[POOL_USED]


@apart
def _sweep_to(
    store: Store, sources: Sources, clock: Clock, horizon: Horizon, place: int, n_tuples: int
) -> bool:
    """Sweep over groups, reverse groups, values and rows, up to a place among all of them.

    Returns:
        Whether there was room for that, and for some tuples; if not, nothing was done.
    """
    start = start_of(horizon, clock[PANE])
    target = i64(clock[NEXT_START])
    at = i64(clock[SWEPT])
    n_groups, n_reverses = i64(clock[SWEEP_GROUPS]), i64(clock[SWEEP_REVERSES])
    n_values, n_rows = i64(clock[SWEEP_VALUES]), i64(clock[SWEEP_ROWS])
    clock[LEVELS_NEEDED] = 0
    if at < min(place, n_groups):
        needed = count_level_room(store, at, min(place, n_groups))
        if needed > 0:
            needed += n_tuples * store.sums.cells.shape[1] * LEVELS_PER_CELL
            if (
                store.level_pool.state[POOL_USED] + needed > store.levels.size
                or store.level_table.state[TABLE_ITEMS] + needed >= store.level_table.heads.size
            ):
                clock[LEVELS_NEEDED] = needed
                return False
        sweep_groups(store, at, min(place, n_groups), start, target)
    if max(at, n_groups) < min(place, n_reverses):
        sweep_reverses(store, max(at, n_groups) - n_groups, min(place, n_reverses) - n_groups)
    if max(at, n_reverses) < min(place, n_values):
        sweep_values(
            store, max(at, n_reverses) - n_reverses, min(place, n_values) - n_reverses, start, target
        )
    if max(at, n_values) < min(place, n_rows):
        sweep_rows(sources, max(at, n_values) - n_values, min(place, n_rows) - n_values, start)
    clock[SWEPT] = max(at, place)
    return True
