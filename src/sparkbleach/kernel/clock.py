"""Where the window of an attribute is, and how far the sweep has come.

A clock is a few numbers in an array, so that compiled functions can go on with it: they take a batch through
any number of slides in one call. Tuples that lie alike, in one pane and in one half of it, are a segment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .groups import DEAD
from .jit import entry, i64, inline

TIMED = -1  # a number of tuples per pane

#: what a clock has: the pane of the newest tuple
PANE = 0
#: the first pane of the window
START = 1
#: the first pane that is remembered: a super cell whose cells are all older counts no more
REMEMBERED = 2
#: how many tuples of the pane there were
TUPLES = 3
#: how many there will be: a guess if panes are given
LENGTH = 4
#: 1 from the middle of each pane to its end
SWEEPING = 5
#: the sweep has been at all super cells below this slot
SWEEP_AT = 6
#: it need not go to this slot or above
SWEEP_END = 7
#: for how many counts of older panes there must be room before it can go on; 0 if there is
COUNTS_NEEDED = 8
#: the same for the candidates of the upcoming graph
CANDIDATES_NEEDED = 9
_N_CLOCK = 10

Clock = NDArray[np.int64]


class PaneWindow(NamedTuple):
    """A sliding window in panes."""

    slide: int  #: tuples per pane; 0 for no window, TIMED if the caller says which pane a tuple is in
    n_panes: int  #: panes per window
    n_remembered: int  #: panes in which the newest cell of a super cell may lie, 0 for all


def new_clock(window: PaneWindow, basic: bool, pane: int) -> Clock:
    """Return the clock of a window that begins in a pane, and with basic windowing remembers no more."""
    clock = np.zeros(_N_CLOCK, np.int64)
    clock[LENGTH] = max(0, window.slide)
    set_pane(clock, window, basic, pane)
    return clock


@entry
def set_pane(clock: Clock, window: PaneWindow, basic: bool, pane: int) -> None:
    """Let the window be where its newest pane is this one."""
    clock[PANE] = pane
    clock[START] = pane - window.n_panes + 1
    if basic:
        clock[REMEMBERED] = clock[START]
    elif window.n_remembered > 0:
        clock[REMEMBERED] = pane - window.n_remembered + 1
    else:
        clock[REMEMBERED] = DEAD


@inline
def remembered_after_slide(clock: Clock) -> int:
    """Return the first pane that is remembered after the next slide."""
    return DEAD if clock[REMEMBERED] == DEAD else clock[REMEMBERED] + 1


@inline
def pane_of(clock: Clock, window: PaneWindow, panes: NDArray[np.int64], position: int, i: int) -> int:
    """Return the pane of tuple `i` of a batch, whose first tuple has this position."""
    if window.slide == 0:
        return i64(clock[PANE])
    if window.slide == TIMED:
        return i64(panes[i])
    return i64((position + i) // window.slide)


@inline
def slide_to(clock: Clock, window: PaneWindow, basic: bool, pane: int) -> None:
    """Let the window reach a pane; the sweep is over."""
    set_pane(clock, window, basic, pane)
    clock[SWEEPING] = 0
    if window.slide == TIMED:
        clock[LENGTH] = (clock[LENGTH] + clock[TUPLES] + 1) // 2
        clock[TUPLES] = 0


@inline
def begin_segment(
    clock: Clock,
    window: PaneWindow,
    panes: NDArray[np.int64],
    position: int,
    first: int,
    last: int,
    n_slots: int,
) -> int:
    """Begin the segment of tuple `first`, and in the second half of the pane the sweep; return its end.

    Args:
        clock: The clock; the window has reached the tuple.
        window: The window.
        panes: By tuple: its pane, if these are given.
        position: The position of the first tuple of the batch.
        first: The tuple.
        last: Where the segment ends at the latest.
        n_slots: The slots of super cells that the sweep has to go over.
    """
    if window.slide == 0:
        return last
    if window.slide == TIMED:
        end = first + 1
        while end < last and panes[end] == panes[first]:
            end += 1
    else:
        clock[TUPLES] = (position + first) % window.slide
        end = min(last, first + window.slide - clock[TUPLES])
    half = clock[LENGTH] // 2
    if clock[TUPLES] < half:
        return min(end, first + half - clock[TUPLES])
    if clock[SWEEPING] == 0:
        begin_sweep(clock, n_slots)
    return end


@inline
def begin_sweep(clock: Clock, n_slots: int) -> None:
    """Begin to sweep over the super cells in all slots that were ever in use."""
    clock[SWEEPING] = 1
    clock[SWEEP_AT] = 0
    clock[SWEEP_END] = n_slots


@inline
def sweep_goal(clock: Clock) -> int:
    """Return how far the sweep must be after the tuples so far, so that a slide finds nothing left to do."""
    half = clock[LENGTH] // 2
    done = clock[TUPLES] - half
    whole = clock[LENGTH] - half
    if done >= whole:
        return i64(clock[SWEEP_END])
    return i64((clock[SWEEP_END] * done + whole - 1) // whole)
