"""What a group says: how probable each of its values is, and how far it can be trusted.

All of it leaves the tuple's own cell out, if it is in the group.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import apart, i64, inline
from ..table import NONE, Records
from ..values import value_less
from .gamma import as_term, in_nats, log_factorial, log_gamma
from .groups import level_find
from .layout import Layout
from .store import SIDE, TOP, Store
from .votes import Sources, has_vote, vote_score

PRIOR_ERROR = 0.05  #: the error rate before anything is seen …
PRIOR_CELLS = 20.0  #: … as if from this many cells
GAMMA_TABLE = 256  #: how many numbers `Parameters.gamma` has
SURPRISE_MAX = 0.01  #: of what a group says, the share that may be anything else; less in large groups

_ALL_COUNTED = 50.0  # e to the minus this is nothing, beside 1, even a million times
_NO_POWER = -746.0  # from here on exp is 0
_RHO_MIN = 1e-6
_KEY_ERROR_MIN = 0.001


class Parameters(NamedTuple):
    """What is computed from the counts now and then."""

    error: NDArray[np.float64]  #: by attribute: the error rate
    witness: NDArray[np.int64]  #: by attribute: the rule whose reputations count, NONE if there is none
    is_active: NDArray[np.bool_]  #: by rule: whether it takes part in decisions
    trust: NDArray[np.float64]  #: by rule: as it is when a block is decided
    bonus: NDArray[np.float64]  #: by attribute and class of likeness, likewise
    bonus_max: NDArray[np.float64]  #: by attribute
    unlike: NDArray[np.float64]  #: by attribute and class, likewise: what speaks against it; at most 0
    gamma: NDArray[np.float64]  #: by attribute and number k: log gamma of k + 1/error - 1


#: what a group says, for a reading of a tuple
SAID = np.dtype(
    [
        ("group", np.int64),  # NONE if it says nothing
        ("own", np.int64),  # the tuple's own cell, which is left out; NONE if it is in no or another group
        ("source", np.int64),  # of the tuple
        ("n", np.int64),
        ("n_values", np.int64),
        ("weight", np.float64),  # of a cell, in the exponent; nothing with sources
        ("top", np.float64),  # the largest exponent
        ("total", np.float64),  # the sum of all powers
        ("trust", np.float64),
        ("background", np.float64),  # the weight of a value that the group does not have
        ("surprise", np.float64),  # the share that may be anything else
        ("lift", np.float64),  # what the rule adds to the score of the reading
    ],
    align=True,
)


@inline
def power(x: float) -> float:
    """Return exp(x) for x <= 0; where that is 0, without the long way that the library takes there."""
    return exp(x) if x > _NO_POWER else 0.0


@inline
def sigmoid(x: float) -> float:
    """Return the probability whose log odds are x."""
    return 1.0 / (1.0 + exp(-x)) if x > -700.0 else 0.0


@inline
def log_odds(p: float) -> float:
    """Return the log odds of a probability."""
    p = min(max(p, _RHO_MIN), 1.0 - _RHO_MIN)
    return log(p / (1.0 - p))


@inline
def background(store: Store, a: int, v: int, own: int) -> float:
    """Return how common a value of an attribute is, the tuple's own cell left out."""
    side = store.state[SIDE]
    count = store.occurrences[v]["total"][side] - (v == own)
    return (count + 0.5) / (store.sums.occurrences[side, a] + 1.0)


@apart
def live_key_error(store: Store, layout: Layout, a: int) -> float:
    """Return the error rate of a key: how often another key explains what its rules have against it.

    That is at most so often as it explains all of them, beyond what chance does. Where a wrong key
    and a wrong right side look alike, it is what is assumed from the start.
    """
    running = store.running
    chance = 1.0
    least = 1.0
    n = i64(0)
    for k in range(layout.left_first[a], layout.left_first[a + 1]):
        r = layout.left[k]
        if layout.is_user[r]:
            n += 1
            compared = running.compared[r]
            chance *= running.explained[r, layout.left_at[k]] / max(1, compared)
            least = min(least, _share(running.foreign[r], compared))
    found = _share(running.key_explains[a], running.key_compared[a])
    if n > 1:
        found = max(0.0, found - chance)
    error = PRIOR_ERROR * (found / least) ** 2
    if n > 1:
        # A flag too many does less harm than right cells that are overwritten.
        error = max(error, 2.0 * found)
    return min(PRIOR_ERROR, max(_KEY_ERROR_MIN, error))


@inline
def _share(part: int, all: int) -> float:
    return (part + PRIOR_ERROR * PRIOR_CELLS) / (all + PRIOR_CELLS)


@apart
def live_trust(store: Store, r: int) -> float:
    """Return how far the cells of the horizon bear a user's rule out."""
    side = store.state[SIDE]
    sums = store.sums
    groups = sums.groups[side, r]
    agreeing = (sums.majority[side, r] - groups + 8.0) / (sums.cells[side, r] - groups + 10.0)
    contradicting = (sums.contradicting[side, r] + 0.2) / (sums.large[side, r] + 10.0)
    return min(0.99, max(0.01, min((agreeing - 0.3) / 0.4, 1.0 - 1.5 * contradicting)))


@apart
def rule_trust(store: Store, layout: Layout, r: int, with_sources: bool) -> float:
    """Return how far a rule is trusted."""
    if layout.is_user[r] and not with_sources:
        settled = store.running.settled_trust[r]
        return settled if settled >= 0.0 else live_trust(store, r)
    a, b = (9.0, 1.0) if layout.is_user[r] else (1.0, 9.0)
    return (a + store.running.trust_sum[r]) / (a + b + store.running.trust_n[r])


@inline
def _log_gamma_beta(parameters: Parameters, a: int, k: int) -> float:
    """Return log gamma of k + 1/error - 1."""
    if k < GAMMA_TABLE:
        return parameters.gamma[a, k]
    return log_gamma(k + 1.0 / parameters.error[a] - 1.0)


@inline
def _of_one_value(parameters: Parameters, a: int, n: int, most: int) -> float:
    """Return the log probability of a group's cells if one value is the true one, any other wrong."""
    return (
        in_nats(log_factorial(n - most))
        + _log_gamma_beta(parameters, a, most)
        - _log_gamma_beta(parameters, a, n + 1)
        + log(1.0 / parameters.error[a] - 1.0)
    )


@inline
def _of_any(n: int, most: int, n_values: int, log_factorials: int) -> float:
    """Return the log probability of the cells under "any distribution", which wrong values share alike."""
    return (
        (n - most) * log(n_values)
        + log(n_values + 1.0)
        + in_nats(log_factorial(n_values) - log_factorial(n_values + n) + log_factorials)
    )


@inline
def _evidence(
    store: Store,
    layout: Layout,
    r: int,
    n: int,
    most: int,
    n_values: int,
    log_factorials: int,
    mode: int,
    parameters: Parameters,
) -> float:
    """Return the evidence that a group of two or more has one true value.

    Against "the left side says nothing", and against "any distribution": the smaller one.
    """
    a = layout.rhs[r]
    one = _of_one_value(parameters, a, n, most)
    back = one - (most - 1) * log(background(store, a, mode, NONE))
    if layout.is_user[r]:
        if back <= 0.0:
            return back
        return max(0.0, min(back, one - _of_any(n, most, n_values, log_factorials)))
    return min(back, one - _of_any(n, most, n_values, log_factorials))


@apart
def group_trust(store: Store, layout: Layout, parameters: Parameters, r: int, g: int) -> float:
    """Return how far an implied rule is trusted in one of its groups, with all its cells."""
    side = store.state[SIDE]
    group = store.groups[g]
    best = store.cells[group["top"][side * TOP]]
    evidence = _evidence(
        store,
        layout,
        r,
        i64(group["n"][side]),
        i64(best["total"][side]),
        i64(group["n_values"][side]),
        i64(group["log_factorials"][side]),
        i64(best["value"]),
        parameters,
    )
    return sigmoid(log_odds(rule_trust(store, layout, r, False)) + evidence)


@inline
def count_without_own(store: Store, said: Records, row: int, x: int) -> int:
    """Return the count of a cell, less one if it is the tuple's own."""
    return i64(store.cells[x]["total"][store.state[SIDE]]) - (x == said[row]["own"])


@apart
def listen(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    r: int,
    g: int,
    own: int,
    source: int,
    said: Records,
    row: int,
) -> None:
    """Write what a group says.

    Args:
        store: The counts.
        layout: The rules.
        parameters: The parameters.
        sources: The sources, if there are any.
        r: The rule.
        g: The group.
        own: The tuple's own cell in it, NONE if it has none.
        source: The source of the tuple, NONE if there are none.
        said: SAID.
        row: Where to write.
    """
    said[row]["group"] = NONE
    side = store.state[SIDE]
    group = store.groups[g]
    with_votes = sources.accuracy.size > 0 and layout.is_user[r]
    own_count = i64(0)
    if own != NONE:
        own_count = i64(store.cells[own]["total"][side])
        # It is gone if a change was accepted since.
        if own_count == 0 or (with_votes and not has_vote(store, own, source)):
            own = NONE
            own_count = i64(0)
    n = i64(group["n"][side]) - (own != NONE)
    if n == 0:
        return
    n_values = i64(group["n_values"][side]) - (own_count == 1)
    log_factorials = i64(group["log_factorials"][side])
    if own_count > 1:
        log_factorials -= log_factorial(own_count) - log_factorial(own_count - 1)
    # The most frequent one: the best of the others, or the own one, less one.
    best = i64(group["top"][side * TOP])
    if best == own:
        other = i64(group["top"][side * TOP + 1])
        if other != NONE:
            count = store.cells[other]["total"][side]
            if count >= own_count or (
                count == own_count - 1
                and value_less(store.values, store.cells[other]["value"], store.cells[own]["value"])
            ):
                best = other
    most = i64(store.cells[best]["total"][side]) - (best == own)
    error = parameters.error[layout.rhs[r]]

    weight = 0.0
    if with_votes:
        top, total = _sum_of_votes(store, sources, g, own, source, n_values)
    else:
        weight = log((1.0 - error) * n_values / error)
        top = weight * most
        total = _sum_of_powers(store, g, own, own_count, n_values, weight, most) + power(-top)
    if layout.is_certain[r]:
        trust = 1.0
    elif with_votes:
        trust = parameters.trust[r]
    else:
        evidence = 0.0
        if n >= 2:
            mode = i64(store.cells[best]["value"])
            evidence = _evidence(store, layout, r, n, most, n_values, log_factorials, mode, parameters)
        trust = sigmoid(log_odds(parameters.trust[r]) + evidence)
    surprise = min(SURPRISE_MAX, 1.0 / n)
    rest = trust * ((1.0 - surprise) * power(-top) / total + surprise) + (1.0 - trust)
    what = said[row]
    what["group"] = g
    what["own"] = own
    what["source"] = source
    what["n"] = n
    what["n_values"] = n_values
    what["weight"] = weight
    what["top"] = top
    what["total"] = total
    what["trust"] = trust
    what["background"] = rest
    what["surprise"] = surprise


@inline
def _sum_of_powers(
    store: Store, g: int, own: int, own_count: int, n_values: int, weight: float, most: int
) -> float:
    """Return the sum of exp(weight * (count - most)) over all values, the own cell left out."""
    side = store.state[SIDE]
    group = store.groups[g]
    sum = 0.0
    if group["n_values"][side] <= TOP:
        for k in range(TOP):
            x = group["top"][side * TOP + k]
            if x == NONE:
                break
            count = store.cells[x]["total"][side] - (x == own)
            if count > 0:
                sum += power(weight * (count - most))
        return sum
    left = n_values
    count = most
    while left > 0 and count > 0 and weight * (most - count) < _ALL_COUNTED:
        level = level_find(store, g, count)
        values = i64(0)
        if level != NONE:
            values = i64(store.levels[level]["n_values"][side])
        if own != NONE:
            values += i64(count == own_count - 1) - i64(count == own_count)
        if values > 0:
            sum += values * power(weight * (count - most))
            left -= values
        count -= 1
    return sum


@apart
def _sum_of_votes(
    store: Store, sources: Sources, g: int, own: int, source: int, n_values: int
) -> tuple[float, float]:
    """Return the largest score of a value by its votes, at least 0, and the sum of all powers."""
    top = 0.0
    k = max(2, n_values)
    x = i64(store.groups[g]["first_cell"])
    while x != NONE:
        score, any_vote = vote_score(store, sources, x, k, source if x == own else NONE)
        if any_vote and score > top:
            top = score
        x = i64(store.cells[x]["next_cell"])
    total = exp(-top)
    x = i64(store.groups[g]["first_cell"])
    while x != NONE:
        score, any_vote = vote_score(store, sources, x, k, source if x == own else NONE)
        if any_vote:
            total += as_term(exp(score - top))
        x = i64(store.cells[x]["next_cell"])
    return top, total


@inline
def probability(
    store: Store, layout: Layout, sources: Sources, r: int, said: Records, row: int, x: int
) -> float:
    """Return the probability of the value of a cell, as its group says it."""
    if x == NONE:
        return 0.0
    count = count_without_own(store, said, row, x)
    if count <= 0:
        return 0.0
    what = said[row]
    if sources.accuracy.size > 0 and layout.is_user[r]:
        own_source = i64(what["source"]) if x == what["own"] else NONE
        exponent, _ = vote_score(store, sources, x, max(2, what["n_values"]), own_source)
    else:
        exponent = what["weight"] * count
    return what["trust"] * (1.0 - what["surprise"]) * power(exponent - what["top"]) / what["total"]
