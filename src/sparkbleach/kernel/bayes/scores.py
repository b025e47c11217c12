"""Scores: how probable a reading of one cell is, given how all others are read.

A score is a sum of logarithms: how likely the observed value is if this is the true one (how often such a
cell is wrong, how alike the two are), how common the value is, and what each rule with the attribute adds.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import apart, i64, inline
from ..table import NONE, Records
from ..values import value_less
from .count import NOT_COMPARED, OUTVOTED, Tuples
from .evidence import PRIOR_CELLS, SAID, Parameters, background, count_without_own, listen, probability
from .groups import cell_find, group_find, reverse_find
from .layout import Layout, is_key
from .likeness import Texts, new_texts
from .store import HALVINGS, REVERSE_TOP, SIDE, TOP, Store
from .votes import Sources, source_accuracy

BEST = 3  #: of the values of a group: candidates
UNKNOWN = -2  #: a candidate for a key: another one, whichever it is
TIE = 1e-9  #: two scores that differ by no more are equal

_PRIOR_SEEN = 2.0
_ERROR_MAX = 0.9
_ERROR_MIN = 1e-4


class Room(NamedTuple):
    """What the search for one tuple works on; each thread has its own."""

    texts: Texts
    reading: NDArray[np.int64]  #: by attribute: the value that the cell is read as
    left: NDArray[np.int32]  #: the left values of a group
    said: Records  #: by rule, and one more: SAID
    error: NDArray[
        np.float64
    ]  #: by attribute: the error rate of the observed cell; negative if not yet known
    error_from: NDArray[np.int64]  #: what it is computed from, and from (outvoted, seen)
    gain: NDArray[np.float64]  #: by attribute: of its best move
    to: NDArray[np.int64]  #: by attribute: the value of that move, NONE if there is none
    unlike: NDArray[np.float64]  #: by attribute: at most 0: what speaks against a value that is unlike
    may_move: NDArray[np.bool_]  #: by attribute: False while it loses against a key, or as a key
    is_stale: NDArray[np.bool_]  #: by attribute: whether its best move has to be found anew
    candidates: NDArray[np.int64]
    scores: NDArray[np.float64]  #: by candidate


#: what an error rate is computed from
FROM_ATTRIBUTE, FROM_REPUTATION, FROM_NEW_VALUES, FROM_SOURCE = 0, 1, 2, 3


def new_room(n_rules: int, n_attributes: int, n_places: int) -> Room:
    """Return room for a search."""
    n_candidates = (BEST + REVERSE_TOP * n_places) * n_rules + 2
    return Room(
        new_texts(),
        np.zeros(n_attributes, np.int64),
        np.zeros(n_places, np.int32),
        np.zeros(n_rules + 1, SAID),
        np.zeros(n_attributes),
        np.zeros(3, np.int64),
        np.zeros(n_attributes),
        np.zeros(n_attributes, np.int64),
        np.zeros(n_attributes),
        np.zeros(n_attributes, np.bool_),
        np.zeros(n_attributes, np.bool_),
        np.zeros(n_candidates, np.int64),
        np.zeros(n_candidates),
    )


@inline
def may_be_unknown(layout: Layout, sources: Sources, a: int, score: float) -> bool:
    """Return whether a cell may be read as unknown: a key that its rules, with this score, speak against."""
    return is_key(layout, a) and score < -TIE and sources.accuracy.size == 0


# ------------------------------------------------------------------------------------------ the reading


@apart
def begin_reading(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    component: int,
    room: Room,
) -> None:
    """Read what a component has of a tuple as it arrived, but for the cells that constants decide."""
    for k in range(layout.members_first[component], layout.members_first[component + 1]):
        a = layout.members[k]
        fixed = tuples.fixed[a, i]
        room.reading[a] = tuples.values[a, i] if fixed == NONE else fixed
        room.error[a] = -1.0
    for k in range(layout.component_first[component], layout.component_first[component + 1]):
        r = layout.component[k]
        _listen_to_rule(store, layout, parameters, sources, tuples, i, r, room, r)
        _set_lift(store, layout, sources, tuples, i, r, room)


@apart
def read_as(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    v: int,
    room: Room,
) -> None:
    """Read a cell as a value; what the rules with this attribute say follows."""
    room.reading[a] = NONE if v == UNKNOWN else v
    room.is_stale[a] = True
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        r = layout.on[k]
        if parameters.is_active[r]:
            _set_lift(store, layout, sources, tuples, i, r, room)
            for j in range(layout.n_lhs[r]):
                room.is_stale[layout.lhs[r, j]] = True
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        if parameters.is_active[r]:
            _listen_to_rule(store, layout, parameters, sources, tuples, i, r, room, r)
            _set_lift(store, layout, sources, tuples, i, r, room)
            room.is_stale[layout.rhs[r]] = True
            for j in range(layout.n_lhs[r]):
                room.is_stale[layout.lhs[r, j]] = True


@inline
def _listen_to_rule(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    r: int,
    room: Room,
    row: int,
) -> None:
    """Write what the group says that a rule puts the reading in."""
    room.said[row]["group"] = NONE
    room.said[row]["lift"] = 0.0
    if not parameters.is_active[r] or not tuples.may_apply[r, i] or tuples.fixed[layout.rhs[r], i] != NONE:
        return
    as_arrived = True
    for j in range(layout.n_lhs[r]):
        a = layout.lhs[r, j]
        room.left[j] = room.reading[a]
        if room.left[j] == NONE:
            return
        as_arrived = as_arrived and room.left[j] == tuples.values[a, i]
    own = NONE
    if as_arrived and tuples.cell[r, i] != NONE and layout.accept_after[r] == 0:
        own = i64(tuples.cell[r, i])
        g = i64(store.cells[own]["group"])
    else:
        g = group_find(store, layout, r, room.left)
        if as_arrived and tuples.cell[r, i] != NONE and g != NONE:
            own = own_cell(store, layout, tuples, i, r, g, room)
    if g == NONE or store.groups[g]["n"][store.state[SIDE]] == 0:
        return
    source = i64(tuples.source[i]) if tuples.source.size else NONE
    listen(store, layout, parameters, sources, r, g, own, source, room.said, row)


@inline
def lift_of(
    store: Store,
    layout: Layout,
    sources: Sources,
    tuples: Tuples,
    i: int,
    r: int,
    v: int,
    said: Records,
    row: int,
) -> float:
    """Return what a rule adds to the score of a reading, given the value on its right side."""
    g = i64(said[row]["group"])
    if g == NONE or v == NONE:
        return 0.0
    a = layout.rhs[r]
    p = probability(store, layout, sources, r, said, row, cell_with(store, said, row, v))
    return log(p / background(store, a, v, i64(tuples.values[a, i])) + said[row]["background"])


@inline
def cell_with(store: Store, said: Records, row: int, v: int) -> int:
    """Return the cell with a value in a group that was listened to: most often it is the tuple's own."""
    own = i64(said[row]["own"])
    if own != NONE and store.cells[own]["value"] == v:
        return own
    return cell_find(store, i64(said[row]["group"]), v)


@inline
def _set_lift(
    store: Store, layout: Layout, sources: Sources, tuples: Tuples, i: int, r: int, room: Room
) -> None:
    v = room.reading[layout.rhs[r]]
    room.said[r]["lift"] = lift_of(store, layout, sources, tuples, i, r, v, room.said, r)


@inline
def own_cell(store: Store, layout: Layout, tuples: Tuples, i: int, r: int, g: int, room: Room) -> int:
    """Return the cell that a tuple was counted in, NONE if it is gone: a change was accepted since.

    The group, if it is known, is the one of the tuple as it arrived.
    """
    x = i64(tuples.cell[r, i])
    if layout.accept_after[r] == 0:  # no change is ever accepted
        return x
    v = tuples.values[layout.rhs[r], i]
    if g == NONE:
        for j in range(layout.n_lhs[r]):
            room.left[j] = tuples.values[layout.lhs[r, j], i]
        owner = store.cells[x]["group"]
        if owner != NONE and store.cells[x]["value"] == v and store.groups[owner]["rule"] == r:
            same = True
            for j in range(layout.n_lhs[r]):
                same = same and store.left[owner, j] == room.left[j]
            if same:
                return x
        g = group_find(store, layout, r, room.left)
        return cell_find(store, g, i64(v))
    if store.cells[x]["group"] == g and store.cells[x]["value"] == v:
        return x
    return cell_find(store, g, i64(v))


# ------------------------------------------------------------------------------------------ scores


@apart
def find_error(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    room: Room,
) -> None:
    """Find the error rate of an observed cell, and what it is computed from."""
    room.error_from[1] = 0
    room.error_from[2] = 0
    if tuples.source.size and layout.is_user_rhs[a]:
        room.error[a] = 1.0 - source_accuracy(sources, i64(tuples.source[i]))
        room.error_from[0] = FROM_SOURCE
        return
    side = store.state[SIDE]
    v = i64(tuples.values[a, i])
    error = parameters.error[a]
    is_new = store.occurrences[v]["total"][side] <= 1
    w = parameters.witness[a]
    if w == NONE:
        room.error_from[0] = FROM_NEW_VALUES if is_new else FROM_ATTRIBUTE
        room.error[a] = error
        if is_new:
            n = store.sums.occurrences[side, a]
            share = min(0.99, (store.sums.once[side, a] + 0.5) / (n + 1.0))
            room.error[a] = min(_ERROR_MAX, max(_ERROR_MIN, 0.5 * error / share))
        return
    if is_new:
        out = store.running.once_out[w]
        seen = store.running.once_seen[w]
        weight = PRIOR_CELLS
        room.error_from[0] = FROM_NEW_VALUES
    else:
        times = min(31, store.state[HALVINGS] - store.occurrences[v]["halved"])
        out = i64(store.reputation[v, layout.slot[w], 0] >> times)
        seen = i64(store.reputation[v, layout.slot[w], 1] >> times)
        weight = _PRIOR_SEEN
        room.error_from[0] = FROM_REPUTATION
    if tuples.outvoted[w, i] != NOT_COMPARED:
        out -= tuples.outvoted[w, i] == OUTVOTED
        seen -= 1
    room.error_from[1] = out
    room.error_from[2] = seen
    room.error[a] = min(_ERROR_MAX, max(error, (out + weight * error) / (seen + weight)))


@inline
def recurrence_of(
    store: Store, layout: Layout, parameters: Parameters, tuples: Tuples, i: int, a: int, room: Room
) -> float:
    """Return how much more likely a wrong value is that came to its group before."""
    found = 0.0
    observed = i64(tuples.values[a, i])
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        r = layout.on[k]
        said = room.said[r]
        if not parameters.is_active[r] or said["group"] == NONE:
            continue
        if said["trust"] > 0.5 and said["n_values"] > 1:
            x = cell_with(store, room.said, r, observed)
            if x != NONE and count_without_own(store, room.said, r, x) > 0:
                found = max(found, -log((said["n_values"] - 1) * background(store, a, observed, observed)))
    return found


@inline
def left_lift(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    r: int,
    a: int,
    v: int,
    room: Room,
) -> float:
    """Return what a rule adds whose left side would have the value; the reading stays as it is."""
    if room.reading[a] == v:
        return room.said[r]["lift"]
    row = room.said.size - 1
    before = room.reading[a]
    room.reading[a] = v
    _listen_to_rule(store, layout, parameters, sources, tuples, i, r, room, row)
    room.reading[a] = before
    return lift_of(store, layout, sources, tuples, i, r, room.reading[layout.rhs[r]], room.said, row)


@apart
def left_score(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    v: int,
    room: Room,
) -> float:
    """Return what the rules with the attribute on the left add: all losses, and the largest gain."""
    losses = 0.0
    gain = 0.0
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        if parameters.is_active[r] and tuples.may_apply[r, i]:
            lift = left_lift(store, layout, parameters, sources, tuples, i, r, a, v, room)
            if lift <= 0.0:
                losses += lift
            else:
                gain = max(gain, lift)
    return losses + gain


@inline
def left_bound(
    store: Store, layout: Layout, parameters: Parameters, tuples: Tuples, i: int, a: int, room: Room
) -> float:
    """Return what the rules with the attribute on the left can add at the most."""
    rarest = 0.0
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        right = layout.rhs[r]
        v = room.reading[right]
        if parameters.is_active[r] and tuples.may_apply[r, i] and v != NONE:
            rarest = max(rarest, 1.0 / background(store, right, v, i64(tuples.values[right, i])))
    return log(rarest + 1.0) if rarest > 0.0 else 0.0


@inline
def right_score(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    v: int,
    room: Room,
) -> float:
    """Return what the rules on the attribute add for a value."""
    score = 0.0
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        r = layout.on[k]
        if parameters.is_active[r]:
            if room.reading[a] == v:
                score += room.said[r]["lift"]
            else:
                score += lift_of(store, layout, sources, tuples, i, r, v, room.said, r)
    return score


@apart
def find_candidates(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    room: Room,
) -> int:
    """Find the values that a cell may be read as, without the observed one; return how many."""
    n = i64(0)
    observed = tuples.values[a, i]
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        r = layout.on[k]
        if parameters.is_active[r] and room.said[r]["group"] != NONE:
            if sources.accuracy.size > 0 and layout.is_user[r]:
                n = _add_most_probable(store, layout, sources, r, observed, room, n)
            else:
                n = _add_most_frequent(store, r, observed, room, n)
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        right = room.reading[layout.rhs[r]]
        if not parameters.is_active[r] or not tuples.may_apply[r, i] or right == NONE:
            continue
        at = layout.left_at[k]
        is_known = True
        for j in range(layout.n_lhs[r]):
            room.left[j] = room.reading[layout.lhs[r, j]]
            is_known = is_known and (j == at or room.left[j] != NONE)
        if not is_known:
            continue
        b = reverse_find(store, layout, r, at, room.left, right)
        if b != NONE:
            base = store.state[SIDE] * REVERSE_TOP
            for place in range(REVERSE_TOP):
                x = store.reverses[b]["top"][base + place]
                if x != NONE:
                    n = _add_candidate(i64(store.left[store.cells[x]["group"], at]), observed, room, n)
    return n


@inline
def _add_candidate(v: int, observed: int, room: Room, n: int) -> int:
    if v == observed:
        return n
    for k in range(n):
        if room.candidates[k] == v:
            return n
    room.candidates[n] = v
    return n + 1


@inline
def _add_most_frequent(store: Store, r: int, observed: int, room: Room, n: int) -> int:
    """Add the best values of a rule's group, the tuple's own cell counted once less."""
    side = store.state[SIDE]
    said = room.said[r]
    own = i64(said["own"])
    own_count = i64(0)
    if own != NONE:
        own_count = i64(store.cells[own]["total"][side]) - 1
    placed = i64(0)
    top = store.groups[said["group"]]["top"]
    for k in range(TOP):
        x = i64(top[side * TOP + k])
        if x == NONE or placed == BEST:
            break
        if x == own:
            continue
        count = store.cells[x]["total"][side]
        if own_count > count or (
            own_count == count
            and own_count > 0
            and value_less(store.values, store.cells[own]["value"], store.cells[x]["value"])
        ):
            placed += 1  # the own value comes before this one
            own_count = i64(0)
            if placed == BEST:
                break
        n = _add_candidate(i64(store.cells[x]["value"]), observed, room, n)
        placed += 1
    return n


@apart
def _add_most_probable(
    store: Store, layout: Layout, sources: Sources, r: int, observed: int, room: Room, n: int
) -> int:
    """Add the best values of a rule's group by the votes of sources."""
    said = room.said[r]
    limit = 1e300
    limit_cell = NONE
    for _ in range(BEST):
        best = NONE
        most = -1.0
        x = i64(store.groups[said["group"]]["first_cell"])
        while x != NONE:
            p = probability(store, layout, sources, r, room.said, r, x)
            is_next = p < limit or (
                p == limit
                and limit_cell != NONE
                and value_less(store.values, store.cells[limit_cell]["value"], store.cells[x]["value"])
            )
            is_better = p > most or (
                p == most
                and best != NONE
                and value_less(store.values, store.cells[x]["value"], store.cells[best]["value"])
            )
            if is_next and is_better and count_without_own(store, room.said, r, x) > 0:
                best = x
                most = p
            x = i64(store.cells[x]["next_cell"])
        if best == NONE:
            break
        n = _add_candidate(i64(store.cells[best]["value"]), observed, room, n)
        limit = most
        limit_cell = best
    return n
