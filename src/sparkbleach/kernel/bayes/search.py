"""The search for the most probable reading of a tuple: single cells are read differently, best first."""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import apart, entry, i64, inline
from ..refs import prefetch, ref
from ..table import NONE
from ..values import value_less
from .count import Tuples
from .evidence import Parameters, background, listen, probability
from .explain import Reasons, explain
from .found import Found, has_room
from .groups import group_find
from .judge import MOVES, Changes, Moves, conclude
from .layout import Layout, is_key
from .likeness import likeness
from .scores import (
    TIE,
    UNKNOWN,
    Room,
    begin_reading,
    find_candidates,
    find_error,
    left_bound,
    left_score,
    may_be_unknown,
    own_cell,
    read_as,
    recurrence_of,
    right_score,
)
from .store import SIDE, TOP, Store
from .votes import Sources

_ROUNDING = 1e-6  # a bound within this of what it is compared with may be off


# ------------------------------------------------------------------------------------------ which tuples


@apart
def find_doubtful(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    first: int,
    last: int,
    room: Room,
    doubtful: NDArray[np.int32],
) -> int:
    """Find the tuples, and the components of rules, of which a rule would not pick every cell as it is.

    Each is written to `doubtful` with its component.

    Returns:
        How many there are.
    """
    n = i64(0)
    for i in range(first, last):
        for component in range(layout.component_first.size - 1):
            for k in range(layout.component_first[component], layout.component_first[component + 1]):
                r = layout.component[k]
                if (
                    parameters.is_active[r]
                    and tuples.may_apply[r, i]
                    and _is_doubtful(store, layout, parameters, sources, tuples, i, r, room)
                ):
                    doubtful[n, 0] = i
                    doubtful[n, 1] = component
                    n += 1
                    break
    return n


@inline
def _is_doubtful(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    r: int,
    room: Room,
) -> bool:
    side = store.state[SIDE]
    v = tuples.values[layout.rhs[r], i]
    if v == NONE:
        for j in range(layout.n_lhs[r]):
            room.left[j] = tuples.values[layout.lhs[r, j], i]
            if room.left[j] == NONE:
                return False
        g = group_find(store, layout, r, room.left)
        return g != NONE and store.groups[g]["n"][side] > 0
    if tuples.cell[r, i] == NONE:
        return False
    x = own_cell(store, layout, tuples, i, r, NONE, room)
    if x == NONE:  # it went when a change was accepted: all others are as frequent
        return True
    g = i64(store.cells[x]["group"])
    group = store.groups[g]
    if group["n_values"][side] <= 1 and store.cells[x]["total"][side] > 0:
        return False
    if sources.accuracy.size > 0 and layout.is_user[r]:
        return _is_less_probable(store, layout, parameters, sources, tuples, i, r, g, x, room)
    other = group["top"][side * TOP]
    if other == x:
        other = group["top"][side * TOP + 1]
    return other != NONE and store.cells[other]["total"][side] >= store.cells[x]["total"][side]


@apart
def _is_less_probable(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    r: int,
    g: int,
    x: int,
    room: Room,
) -> bool:
    """Return whether another value of a group is more probable than the tuple's own."""
    row = room.said.size - 1
    listen(store, layout, parameters, sources, r, g, x, i64(tuples.source[i]), room.said, row)
    if room.said[row]["group"] == NONE:
        return False
    own = probability(store, layout, sources, r, room.said, row, x)
    y = i64(store.groups[g]["first_cell"])
    while y != NONE:
        if y != x and probability(store, layout, sources, r, room.said, row, y) > own:
            return True
        y = i64(store.cells[y]["next_cell"])
    return False


# ------------------------------------------------------------------------------------------ the search


class Search(NamedTuple):
    """How far the search of a block is."""

    doubtful: NDArray[np.int32]  #: the doubtful tuples, each with a component
    state: NDArray[np.int64]  #: how many there are, NOT_BEGUN before they are looked for; how many are done


NOT_BEGUN = -1
N_DOUBTFUL, N_DONE = 0, 1


def new_search(n_tuples: int, n_components: int) -> Search:
    """Return a search of up to `n_tuples` tuples that has not begun."""
    return Search(np.empty((n_tuples * n_components, 2), np.int32), np.array([NOT_BEGUN, 0], np.int64))


@entry
def search(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    first: int,
    last: int,
    progress: Search,
    threshold: float,
    repair_left: bool,
    room: Room,
    moves: Moves,
    changes: Changes,
    reasons: Reasons,
    found: Found,
) -> bool:
    """Search for the most probable readings of the tuples `first` to `last`, or go on with that.

    Returns:
        Whether it is done; if not, there is no room for what is found.
    """
    return search_block(
        ref(store),
        ref(layout),
        ref(parameters),
        ref(sources),
        ref(tuples),
        first,
        last,
        ref(progress),
        threshold,
        repair_left,
        ref(room),
        ref(moves),
        ref(changes),
        ref(reasons),
        ref(found),
    )


@apart
def search_block(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    first: int,
    last: int,
    progress: Search,
    threshold: float,
    repair_left: bool,
    room: Room,
    moves: Moves,
    changes: Changes,
    reasons: Reasons,
    found: Found,
) -> bool:
    """Do what `search` does, for compiled callers."""
    state = progress.state
    doubtful = progress.doubtful
    if state[N_DOUBTFUL] == NOT_BEGUN:
        state[N_DOUBTFUL] = find_doubtful(
            store, layout, parameters, sources, tuples, first, last, room, doubtful
        )
        state[N_DONE] = 0
    n = state[N_DOUBTFUL]
    n_terms = reasons.rule.shape[2]
    for k in range(state[N_DONE], n):
        state[N_DONE] = k
        if not has_room(found, MOVES, n_terms):
            return False
        i = i64(doubtful[k, 0])
        if k + 2 < n:
            _look_ahead(store, layout, tuples, doubtful[k + 2], doubtful[k + 1])
        component = i64(doubtful[k, 1])
        n_moves = _search_tuple(
            store, layout, parameters, sources, tuples, i, component, threshold, room, moves, reasons
        )
        if n_moves > 0:
            conclude(
                store, layout, parameters, tuples, i, moves, n_moves, reasons, repair_left, changes, found
            )
    state[N_DOUBTFUL] = NOT_BEGUN
    return True


@inline
def _look_ahead(
    store: Store, layout: Layout, tuples: Tuples, second: NDArray[np.int32], next: NDArray[np.int32]
) -> None:
    """Have the processor read what the next two tuples will need."""
    for k in range(layout.component_first[second[1]], layout.component_first[second[1] + 1]):
        x = i64(tuples.cell[layout.component[k], second[0]])
        if x != NONE:
            prefetch(store.cells, x, 0)
    for k in range(layout.component_first[next[1]], layout.component_first[next[1] + 1]):
        x = i64(tuples.cell[layout.component[k], next[0]])
        if x != NONE:
            g = i64(store.cells[x]["group"])
            if g != NONE:  # it went when a change was accepted
                prefetch(store.groups, g, 0)
                prefetch(store.groups, g, 64)
                prefetch(store.groups, g, 128)


@inline
def _search_tuple(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    component: int,
    threshold: float,
    room: Room,
    moves: Moves,
    reasons: Reasons,
) -> int:
    """Read the cells of a tuple that a component of rules has differently, best first.

    Returns:
        How many moves were made.
    """
    n_moves = i64(0)
    members = layout.members[layout.members_first[component] : layout.members_first[component + 1]]
    begin_reading(store, layout, parameters, sources, tuples, i, component, room)
    for a in members:
        room.is_stale[a] = True
    for _ in range(MOVES):
        for a in members:
            if room.is_stale[a]:
                room.is_stale[a] = False
                room.to[a] = NONE
                if is_open(layout, parameters, tuples, i, a):
                    _find_best_move(store, layout, parameters, sources, tuples, i, a, threshold, room)
        _let_keys_compete(layout, parameters, tuples, i, members, room)
        best = NONE
        for a in members:
            if (
                room.to[a] != NONE
                and room.may_move[a]
                and (best == NONE or room.gain[a] > room.gain[best] + TIE)
            ):
                best = a
        if best == NONE:
            break
        moves.attribute[n_moves] = best
        moves.value[n_moves] = room.to[best]
        moves.gain[n_moves] = room.gain[best]
        explain(store, layout, parameters, sources, tuples, i, best, room, reasons, n_moves)
        n_moves += 1
        read_as(store, layout, parameters, sources, tuples, i, best, room.to[best], room)
    return n_moves


@inline
def _let_keys_compete(
    layout: Layout, parameters: Parameters, tuples: Tuples, i: int, members: NDArray[np.int64], room: Room
) -> None:
    """Find the moves that may be made: a key's, or those of right sides that it would make needless.

    Among right sides, what is unlike the observed value counts less than in a move's gain.
    """
    for a in members:
        room.may_move[a] = True
    for key in members:
        if room.to[key] == NONE or not is_key(layout, key) or room.reading[key] != tuples.values[key, i]:
            continue
        gain = 0.0
        for a in members:
            if room.to[a] != NONE and _depends(layout, parameters, tuples, i, a, key):
                gain += room.gain[a] + room.unlike[a]
        wins = room.gain[key] > gain + TIE
        if not wins:
            room.may_move[key] = False
        else:
            for a in members:
                if room.to[a] != NONE and _depends(layout, parameters, tuples, i, a, key):
                    room.may_move[a] = False


@inline
def _depends(layout: Layout, parameters: Parameters, tuples: Tuples, i: int, a: int, key: int) -> bool:
    """Return whether an active rule that may apply has an attribute on the right and a key on the left."""
    for k in range(layout.left_first[key], layout.left_first[key + 1]):
        r = layout.left[k]
        if layout.rhs[r] == a and parameters.is_active[r] and tuples.may_apply[r, i]:
            return True
    return False


@inline
def is_open(layout: Layout, parameters: Parameters, tuples: Tuples, i: int, a: int) -> bool:
    """Return whether a cell may be read differently: an active rule has it, and no constant decides it."""
    if not layout.is_movable[a] or tuples.fixed[a, i] != NONE:
        return False
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        if parameters.is_active[layout.on[k]]:
            return True
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        if parameters.is_active[layout.left[k]]:
            return True
    return False


# ------------------------------------------------------------------------------------------ moves


@inline
def _find_best_move(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    threshold: float,
    room: Room,
) -> None:
    if tuples.values[a, i] == NONE:
        n = find_candidates(store, layout, parameters, sources, tuples, i, a, room)
        if n > 0:
            _find_best_fill(store, layout, parameters, sources, tuples, i, a, threshold, n, room)
    else:
        _find_best_change(store, layout, parameters, sources, tuples, i, a, threshold, room)


@apart
def _find_best_fill(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    threshold: float,
    n: int,
    room: Room,
) -> None:
    """Find the best value for a null cell; room.scores has the scores of all candidates."""
    best = i64(0)
    for k in range(n):
        v = room.candidates[k]
        score = log(background(store, a, v, NONE))
        score += right_score(store, layout, parameters, sources, tuples, i, a, v, room)
        score += left_score(store, layout, parameters, sources, tuples, i, a, v, room)
        room.scores[k] = score
        if score > room.scores[best] + TIE or (
            score > room.scores[best] - TIE and value_less(store.values, v, room.candidates[best])
        ):
            best = i64(k)
    nothing = 0.0
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        r = layout.on[k]
        if parameters.is_active[r] and room.said[r]["group"] != NONE:
            nothing += log(room.said[r]["background"])
    most = max(room.scores[best], nothing)
    rest = exp(nothing - most)
    for k in range(n):
        if k != best:
            rest += exp(room.scores[k] - most)
    gain = room.scores[best] - most - log(rest) if rest > 0.0 else 99.0
    if room.candidates[best] != room.reading[a] and gain > threshold:
        room.gain[a] = gain
        room.to[a] = room.candidates[best]
        room.unlike[a] = 0.0


@inline
def _find_best_change(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    threshold: float,
    room: Room,
) -> None:
    """Find the best other value for a cell; values that cannot be the best are not looked at closely."""
    observed = i64(tuples.values[a, i])
    now = room.reading[a]
    if room.error[a] < 0.0:
        find_error(store, layout, parameters, sources, tuples, i, a, room)
    keep = log(1.0 - room.error[a])
    change = log(room.error[a])
    recurrence = recurrence_of(store, layout, parameters, tuples, i, a, room)
    left_now = left_score(store, layout, parameters, sources, tuples, i, a, now, room)
    bound = left_bound(store, layout, parameters, tuples, i, a, room)
    here = right_score(store, layout, parameters, sources, tuples, i, a, now, room) + left_now
    if now == observed:
        here += keep
        least = threshold
    elif now == NONE:
        here += change
        least = TIE
    else:
        alike = max(parameters.bonus[a, likeness(store, room.texts, observed, now)], recurrence)
        here += change + alike + log(background(store, a, now, observed))
        least = TIE
    most_alike = max(parameters.bonus_max[a], recurrence)
    # How common a value is, times what one rule makes of it, is a probability: its logarithm adds nothing.
    if (
        now == observed
        and layout.on_first[a + 1] - layout.on_first[a] <= 1
        and change + most_alike + bound <= here + least - _ROUNDING
    ):
        return
    n = find_candidates(store, layout, parameters, sources, tuples, i, a, room)
    if now != observed:
        room.candidates[n] = observed
        n += 1
    for k in range(n):
        v = room.candidates[k]
        if v == now:
            continue
        score = keep
        if v != observed:
            score = change + log(background(store, a, v, observed))
        # What is left to add, most of it costly, adds no more than this.
        rest = bound + (most_alike if v != observed else 0.0)
        if layout.on_first[a + 1] > layout.on_first[a]:
            score += right_score(store, layout, parameters, sources, tuples, i, a, v, room)
        needed = here + (least if room.to[a] == NONE else room.gain[a]) - _ROUNDING
        if score + rest <= needed:
            continue
        if v != observed:
            score += max(parameters.bonus[a, likeness(store, room.texts, observed, v)], recurrence)
        if score + bound <= needed:
            continue
        score += left_score(store, layout, parameters, sources, tuples, i, a, v, room)
        gain = score - here
        if gain > least and (room.to[a] == NONE or gain > room.gain[a] + TIE):
            room.gain[a] = gain
            room.to[a] = v
            room.unlike[a] = 0.0
            if v != observed:
                like = likeness(store, room.texts, observed, v)
                if recurrence <= parameters.bonus[a, like] + TIE:
                    room.unlike[a] = parameters.unlike[a, like]
    if now == observed and may_be_unknown(layout, sources, a, left_now):
        gain = change - here
        if gain > least and (room.to[a] == NONE or gain > room.gain[a] + TIE):
            room.gain[a] = gain
            room.to[a] = UNKNOWN
