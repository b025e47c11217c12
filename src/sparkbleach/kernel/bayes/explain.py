"""Why a cell is read differently: the best candidates when it was moved, and the terms of their scores."""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import apart, i64, inline
from ..table import NONE
from .count import Tuples
from .evidence import Parameters, background, count_without_own
from .layout import Layout
from .likeness import likeness
from .scores import (
    TIE,
    UNKNOWN,
    Room,
    cell_with,
    find_candidates,
    find_error,
    left_bound,
    left_lift,
    left_score,
    lift_of,
    may_be_unknown,
    recurrence_of,
    right_score,
)
from .store import Store
from .votes import Sources

CANDIDATES = 3  #: that are explained; the observed value is one of them


class Reasons(NamedTuple):
    """By move: the candidates, best first, and the terms of their scores."""

    value: NDArray[np.int32]  #: by candidate; NONE beyond the last
    support: NDArray[np.int64]  #: by candidate: in the groups of the rules on the attribute
    score: NDArray[np.float64]
    error: NDArray[np.float64]  #: by candidate: the term of the error rate
    alike: NDArray[np.float64]  #: the term of likeness or recurrence
    alike_class: NDArray[np.int32]  #: the class of likeness, NONE for a recurrence
    common: NDArray[np.float64]  #: the term of the background
    rule: NDArray[np.int32]  #: by candidate and place: a rule with a term; NONE beyond the last
    lift: NDArray[np.float64]  #: and the term
    group: NDArray[np.int32]  #: and its group
    in_group: NDArray[np.int64]  #: how often the group has the value on the right side
    of_group: NDArray[np.int64]  #: of how many cells
    trust: NDArray[np.float64]  #: and how far the rule is trusted there
    error_rate: NDArray[np.float64]  #: by move; negative if the observed cell is null
    error_from: NDArray[np.int64]  #: by move: what it is computed from, outvoted, seen
    rules: NDArray[np.bool_]  #: by move and rule: whether the rule had a say


def new_reasons(n: int, n_rules: int, n_terms: int) -> Reasons:
    """Return room for the reasons of `n` moves, with at most `n_terms` rules for a candidate."""
    by_candidate, by_term = (n, CANDIDATES), (n, CANDIDATES, n_terms)
    return Reasons(
        np.empty(by_candidate, np.int32),
        np.empty(by_candidate, np.int64),
        np.empty(by_candidate),
        np.empty(by_candidate),
        np.empty(by_candidate),
        np.empty(by_candidate, np.int32),
        np.empty(by_candidate),
        np.empty(by_term, np.int32),
        np.empty(by_term),
        np.empty(by_term, np.int32),
        np.empty(by_term, np.int64),
        np.empty(by_term, np.int64),
        np.empty(by_term),
        np.empty(n),
        np.empty((n, 3), np.int64),
        np.empty((n, n_rules), np.bool_),
    )


@apart
def explain(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    room: Room,
    reasons: Reasons,
    row: int,
) -> None:
    """Write the reasons for a move of the attribute `a` into a row, before it is made."""
    observed = i64(tuples.values[a, i])
    recurrence = 0.0
    reasons.error_rate[row] = -1.0
    if observed != NONE:
        find_error(store, layout, parameters, sources, tuples, i, a, room)
        reasons.error_rate[row] = room.error[a]
        for k in range(3):
            reasons.error_from[row, k] = room.error_from[k]
        recurrence = recurrence_of(store, layout, parameters, tuples, i, a, room)
    _note_rules(layout, parameters, tuples, i, a, room, reasons, row)
    for place in range(CANDIDATES):
        reasons.value[row, place] = NONE
    n = find_candidates(store, layout, parameters, sources, tuples, i, a, room)
    n_places = i64(CANDIDATES - 1) if observed != NONE else i64(CANDIDATES)
    bound = left_bound(store, layout, parameters, tuples, i, a, room)
    left = 0.0
    if observed != NONE:
        left = left_score(store, layout, parameters, sources, tuples, i, a, observed, room)
    if room.reading[a] == observed and may_be_unknown(layout, sources, a, left):
        room.candidates[n] = UNKNOWN
        n += 1
    for k in range(n):
        v = room.candidates[k]
        error, alike, like, common = _prior_terms(store, parameters, tuples, i, a, v, recurrence, room)
        score = error + alike + common
        score += right_score(store, layout, parameters, sources, tuples, i, a, v, room)
        is_full = reasons.value[row, n_places - 1] != NONE
        if is_full and score + bound < reasons.score[row, n_places - 1]:
            continue
        if v != UNKNOWN:
            score += left_score(store, layout, parameters, sources, tuples, i, a, v, room)
        place = _place_of(reasons, row, score, n_places)
        if place < n_places:
            reasons.value[row, place] = v
            reasons.error[row, place] = error
            reasons.alike[row, place] = alike
            reasons.alike_class[row, place] = like
            reasons.common[row, place] = common
            reasons.score[row, place] = score
    if observed != NONE:
        error, _, _, _ = _prior_terms(store, parameters, tuples, i, a, observed, recurrence, room)
        score = error + right_score(store, layout, parameters, sources, tuples, i, a, observed, room) + left
        place = _place_of(reasons, row, score, i64(CANDIDATES))
        reasons.value[row, place] = observed
        reasons.error[row, place] = error
        reasons.alike[row, place] = 0.0
        reasons.alike_class[row, place] = 0
        reasons.common[row, place] = 0.0
        reasons.score[row, place] = score
    for place in range(CANDIDATES):
        for t in range(reasons.rule.shape[2]):
            reasons.rule[row, place, t] = NONE
            reasons.group[row, place, t] = 0
        if reasons.value[row, place] == UNKNOWN:
            reasons.support[row, place] = 0
        elif reasons.value[row, place] != NONE:
            _write_rule_terms(store, layout, parameters, sources, tuples, i, a, room, reasons, row, place)


@inline
def _note_rules(
    layout: Layout,
    parameters: Parameters,
    tuples: Tuples,
    i: int,
    a: int,
    room: Room,
    reasons: Reasons,
    row: int,
) -> None:
    """Note the rules that had a say: those on the attribute, or else those with it on the left."""
    for r in range(reasons.rules.shape[1]):
        reasons.rules[row, r] = False
    is_right = False
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        r = layout.on[k]
        if parameters.is_active[r]:
            is_right = True
            reasons.rules[row, r] = room.said[r]["group"] != NONE
    if is_right:
        return
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        if parameters.is_active[r] and tuples.may_apply[r, i]:
            reasons.rules[row, r] = room.said[r]["group"] != NONE


@apart
def _place_of(reasons: Reasons, row: int, score: float, n_places: int) -> int:
    """Make a place among the best candidates for one with a score; return which, or `n_places` for none."""
    at = n_places
    while at > 0 and (reasons.value[row, at - 1] == NONE or reasons.score[row, at - 1] < score - TIE):
        at -= 1
    if at == n_places:
        return at
    for k in range(n_places - 1, at, -1):
        reasons.value[row, k] = reasons.value[row, k - 1]
        reasons.score[row, k] = reasons.score[row, k - 1]
        reasons.error[row, k] = reasons.error[row, k - 1]
        reasons.alike[row, k] = reasons.alike[row, k - 1]
        reasons.alike_class[row, k] = reasons.alike_class[row, k - 1]
        reasons.common[row, k] = reasons.common[row, k - 1]
    return at


@inline
def _prior_terms(
    store: Store,
    parameters: Parameters,
    tuples: Tuples,
    i: int,
    a: int,
    v: int,
    recurrence: float,
    room: Room,
) -> tuple[float, float, int, float]:
    """Return the terms of the error rate, of likeness with its class, and of the background."""
    observed = i64(tuples.values[a, i])
    if observed == NONE:
        return 0.0, 0.0, i64(0), log(background(store, a, v, NONE))
    if v == observed:
        return log(1.0 - room.error[a]), 0.0, i64(0), 0.0
    if v == UNKNOWN:
        return log(room.error[a]), 0.0, i64(0), 0.0
    like = likeness(store, room.texts, observed, v)
    alike = parameters.bonus[a, like]
    if recurrence > alike + TIE:
        alike = recurrence
        like = NONE
    return log(room.error[a]), alike, like, log(background(store, a, v, observed))


@apart
def _write_rule_terms(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    i: int,
    a: int,
    room: Room,
    reasons: Reasons,
    row: int,
    place: int,
) -> None:
    """Write what each rule adds to the score of a candidate."""
    v = i64(reasons.value[row, place])
    count = i64(0)
    t = i64(0)
    for k in range(layout.on_first[a], layout.on_first[a + 1]):
        r = layout.on[k]
        if parameters.is_active[r] and room.said[r]["group"] != NONE:
            lift = lift_of(store, layout, sources, tuples, i, r, v, room.said, r)
            count += _write_term(store, reasons, row, place, t, r, lift, v, room, r)
            t += 1
    gain = 0.0
    best = NONE  # the place of the largest gain, which is the only one that counts
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        if parameters.is_active[r] and tuples.may_apply[r, i]:
            lift = left_lift(store, layout, parameters, sources, tuples, i, r, a, v, room)
            if lift == 0.0 or 0.0 < lift <= gain + TIE:
                continue
            said = i64(r) if room.reading[a] == v else i64(room.said.size - 1)
            right = room.reading[layout.rhs[r]]
            at = t
            if lift > 0.0:
                gain = lift
                if best != NONE:
                    at = best
                best = at
            _write_term(store, reasons, row, place, at, r, lift, right, room, said)
            if at == t:
                t += 1
    reasons.support[row, place] = count


@inline
def _write_term(
    store: Store,
    reasons: Reasons,
    row: int,
    place: int,
    t: int,
    r: int,
    lift: float,
    v: int,
    room: Room,
    said: int,
) -> int:
    """Write the term of a rule; return how often its group has the value."""
    g = i64(room.said[said]["group"])
    x = cell_with(store, room.said, said, v)
    count = i64(0)
    if x != NONE:
        count = count_without_own(store, room.said, said, x)
    reasons.rule[row, place, t] = r
    reasons.lift[row, place, t] = lift
    reasons.group[row, place, t] = g
    reasons.in_group[row, place, t] = count
    reasons.of_group[row, place, t] = room.said[said]["n"]
    reasons.trust[row, place, t] = room.said[said]["trust"]
    return count
