"""What the moves of a tuple come down to: which cells are read differently in the end, which change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import entry, i64, inline
from ..refs import ref
from ..table import NONE
from .count import Tuples
from .evidence import Parameters
from .layout import Layout
from .search import Moves

UNREPORTED, CHANGED, FLAGGED = 0, 1, 2


class Changes(NamedTuple):
    """Cells that are read differently in the end, a row each, in the order of tuples and of last moves."""

    tuple: NDArray[np.int32]
    attribute: NDArray[np.int32]
    value: NDArray[np.int32]
    gain: NDArray[np.float64]  #: of its last move
    step: NDArray[np.int32]  #: the order of the last moves of reported cells, from 1
    move: NDArray[np.int32]  #: which of the moves is its last one


def new_changes(n: int) -> Changes:
    """Return room for `n` changes."""
    return Changes(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
    )


@entry
def find_changes(tuples: Tuples, moves: Moves, n_moves: int, changes: Changes) -> int:
    """Find the cells that are read differently after all moves; return how many."""
    tuples = ref(tuples)
    moves = ref(moves)
    changes = ref(changes)
    n = i64(0)
    first = i64(0)
    while first < n_moves:
        i = moves.tuple[first]
        last = first
        while last < n_moves and moves.tuple[last] == i:
            last += 1
        for m in range(first, last):
            a = moves.attribute[m]
            is_last = moves.value[m] != tuples.values[a, i]
            for later in range(m + 1, last):
                is_last = is_last and moves.attribute[later] != a
            if is_last:
                changes.tuple[n] = i
                changes.attribute[n] = a
                changes.value[n] = moves.value[m]
                changes.gain[n] = moves.gain[m]
                changes.move[n] = m
                n += 1
        first = last
    return n


@entry
def judge(
    layout: Layout,
    parameters: Parameters,
    tuples: Tuples,
    changes: Changes,
    n_changes: int,
    repair_left: bool,
    verdicts: NDArray[np.uint8],
) -> None:
    """Write for each change whether the cell changes, is flagged, or is left as it is without a word.

    A cell on left sides only is flagged, unless `repair_left`; so are the right sides of rules that read it.
    """
    layout = ref(layout)
    parameters = ref(parameters)
    tuples = ref(tuples)
    changes = ref(changes)
    first = i64(0)
    while first < n_changes:
        last = first
        while last < n_changes and changes.tuple[last] == changes.tuple[first]:
            verdicts[last] = _judge_cell(layout, parameters, tuples, changes, last, repair_left)
            last += 1
        for c in range(first, last):
            if verdicts[c] == CHANGED:
                for other in range(first, last):
                    a = changes.attribute[other]
                    if (
                        verdicts[other] == FLAGGED
                        and not is_right_side(layout, parameters, a)
                        and _is_read_through(layout, parameters, tuples, changes, c, a)
                    ):
                        verdicts[c] = FLAGGED
                        break
        step = 0
        for c in range(first, last):
            step += verdicts[c] != UNREPORTED
            changes.step[c] = step
        first = last


@inline
def is_right_side(layout: Layout, parameters: Parameters, a: int) -> bool:
    """Return whether an active rule has the attribute on the right."""
    for k in range(layout.on_first[a], layout.on_first[a + 1]):  # noqa: SIM110 - there are no generators
        if parameters.is_active[layout.on[k]]:
            return True
    return False


@inline
def _judge_cell(
    layout: Layout, parameters: Parameters, tuples: Tuples, changes: Changes, c: int, repair_left: bool
) -> int:
    a = changes.attribute[c]
    i = changes.tuple[c]
    if tuples.values[a, i] == NONE:
        for k in range(layout.on_first[a], layout.on_first[a + 1]):
            r = layout.on[k]
            if layout.is_user[r] and layout.fills[r] and tuples.may_apply[r, i]:
                return CHANGED
        return UNREPORTED
    return CHANGED if repair_left or is_right_side(layout, parameters, a) else FLAGGED


@inline
def _is_read_through(
    layout: Layout, parameters: Parameters, tuples: Tuples, changes: Changes, c: int, a: int
) -> bool:
    """Return whether an active rule with the attribute `a` on the left has the change on the right."""
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        if (
            parameters.is_active[r]
            and tuples.may_apply[r, changes.tuple[c]]
            and layout.rhs[r] == changes.attribute[c]
        ):
            return True
    return False
