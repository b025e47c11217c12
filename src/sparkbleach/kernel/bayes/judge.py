"""What the moves of a tuple come down to: which cells are read differently in the end, which change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import apart, i64, inline
from ..table import NONE
from .count import Tuples
from .evidence import Parameters
from .explain import Reasons
from .found import N_CELLS, Found, add_reasons
from .layout import Layout
from .scores import UNKNOWN
from .store import Store

MOVES = 12  #: at most, in a tuple

UNREPORTED, CHANGED, FLAGGED = 0, 1, 2


class Moves(NamedTuple):
    """The moves of a tuple, in the order in which they were made."""

    attribute: NDArray[np.int32]
    value: NDArray[np.int32]
    gain: NDArray[np.float64]


class Changes(NamedTuple):
    """The cells of a tuple that are read differently in the end, in the order of their last moves."""

    attribute: NDArray[np.int32]
    move: NDArray[np.int32]  #: which of the moves is its last one
    verdict: NDArray[np.uint8]


def new_moves() -> Moves:
    """Return room for the moves of a tuple."""
    return Moves(np.empty(MOVES, np.int32), np.empty(MOVES, np.int32), np.empty(MOVES))


def new_changes() -> Changes:
    """Return room for the changes of a tuple."""
    return Changes(np.empty(MOVES, np.int32), np.empty(MOVES, np.int32), np.empty(MOVES, np.uint8))


@apart
def conclude(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    tuples: Tuples,
    i: int,
    moves: Moves,
    n_moves: int,
    reasons: Reasons,
    repair_left: bool,
    changes: Changes,
    found: Found,
) -> None:
    """Add the cells of a tuple that change or are flagged to what was found."""
    n = find_changes(tuples, i, moves, n_moves, changes)
    judge(layout, parameters, tuples, i, moves, changes, n, repair_left)
    step = i64(0)
    for c in range(n):
        if changes.verdict[c] == UNREPORTED:
            continue
        step += 1
        move = i64(changes.move[c])
        cell = found.n[N_CELLS]
        found.cells.tuple[cell] = i
        found.cells.attribute[cell] = changes.attribute[c]
        found.cells.value[cell] = moves.value[move]
        found.cells.gain[cell] = moves.gain[move]
        found.cells.step[cell] = step
        found.cells.verdict[cell] = changes.verdict[c]
        add_reasons(store, found, reasons, move)
        found.n[N_CELLS] = cell + 1


@inline
def find_changes(tuples: Tuples, i: int, moves: Moves, n_moves: int, changes: Changes) -> int:
    """Find the cells of a tuple that are read differently after all moves; return how many."""
    n = i64(0)
    for m in range(n_moves):
        a = moves.attribute[m]
        is_last = moves.value[m] != tuples.values[a, i]
        for later in range(m + 1, n_moves):
            is_last = is_last and moves.attribute[later] != a
        if is_last:
            changes.attribute[n] = a
            changes.move[n] = m
            n += 1
    return n


@inline
def judge(
    layout: Layout,
    parameters: Parameters,
    tuples: Tuples,
    i: int,
    moves: Moves,
    changes: Changes,
    n: int,
    repair_left: bool,
) -> None:
    """Write for each change whether the cell changes, is flagged, or is left as it is without a word.

    A cell on left sides only is flagged, unless `repair_left`; so are the right sides of rules that read it.
    """
    verdict = changes.verdict
    for c in range(n):
        # Where a key is unknown, there is nothing to repair it with.
        may_repair = repair_left and moves.value[changes.move[c]] != UNKNOWN
        verdict[c] = _judge_cell(layout, parameters, tuples, i, changes.attribute[c], may_repair)
    for c in range(n):
        if verdict[c] == CHANGED:
            for other in range(n):
                a = changes.attribute[other]
                if (
                    verdict[other] == FLAGGED
                    and not is_right_side(layout, parameters, a)
                    and _is_read_through(layout, parameters, tuples, i, changes.attribute[c], a)
                ):
                    verdict[c] = FLAGGED
                    break


@inline
def is_right_side(layout: Layout, parameters: Parameters, a: int) -> bool:
    """Return whether an active rule has the attribute on the right."""
    for k in range(layout.on_first[a], layout.on_first[a + 1]):  # noqa: SIM110 - there are no generators
        if parameters.is_active[layout.on[k]]:
            return True
    return False


@inline
def _judge_cell(
    layout: Layout, parameters: Parameters, tuples: Tuples, i: int, a: int, repair_left: bool
) -> int:
    if tuples.values[a, i] == NONE:
        for k in range(layout.on_first[a], layout.on_first[a + 1]):
            r = layout.on[k]
            if layout.is_user[r] and layout.fills[r] and tuples.may_apply[r, i]:
                return CHANGED
        return UNREPORTED
    return CHANGED if repair_left or is_right_side(layout, parameters, a) else FLAGGED


@inline
def _is_read_through(
    layout: Layout, parameters: Parameters, tuples: Tuples, i: int, right: int, a: int
) -> bool:
    """Return whether an active rule with the attribute `a` on the left has another one on the right."""
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        if parameters.is_active[r] and tuples.may_apply[r, i] and layout.rhs[r] == right:
            return True
    return False
