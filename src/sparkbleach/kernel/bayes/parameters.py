"""The parameters: what the counts say of attributes and rules as a whole."""

from __future__ import annotations

from math import log

import numpy as np

from ..jit import apart, entry, i64
from ..refs import ref
from ..table import NONE
from .evidence import GAMMA_TABLE, PRIOR_CELLS, PRIOR_ERROR, Parameters, live_key_error, rule_trust
from .gamma import log_gamma
from .layout import Layout, is_key
from .likeness import N_CLASSES
from .store import SIDE, Store

_WITNESS_MIN = 30
_ERROR_MAX = 0.5


def new_parameters(n_rules: int, n_attributes: int) -> Parameters:
    """Return room for parameters."""
    return Parameters(
        np.full(n_attributes, PRIOR_ERROR),
        np.full(n_attributes, NONE, np.int64),
        np.zeros(n_rules, np.bool_),
        np.zeros(n_rules),
        np.zeros((n_attributes, N_CLASSES)),
        np.zeros(n_attributes),
        np.zeros((n_attributes, N_CLASSES)),
        np.zeros((n_attributes, GAMMA_TABLE)),
    )


@entry
def refresh(store: Store, layout: Layout, parameters: Parameters, with_sources: bool) -> None:
    """Compute error rates, witnesses, and which rules are active."""
    refresh_parameters(ref(store), ref(layout), ref(parameters), with_sources)


@apart
def refresh_parameters(store: Store, layout: Layout, parameters: Parameters, with_sources: bool) -> None:
    """Do what `refresh` does, for compiled callers."""
    side = store.state[SIDE]
    sums = store.sums
    for r in range(layout.rhs.size):
        parameters.is_active[r] = layout.is_user[r]
    for a in range(layout.is_movable.size):
        parameters.witness[a] = NONE
        if is_key(layout, a):
            continue
        error = 2.0
        witness = NONE
        witness_share = 2.0
        implied = NONE
        implied_share = 2.0
        for k in range(layout.on_first[a], layout.on_first[a + 1]):
            r = layout.on[k]
            cells = sums.cells[side, r]
            majority = sums.majority[side, r]
            if layout.is_user[r]:
                error = min(error, (cells - majority + PRIOR_ERROR * PRIOR_CELLS) / (cells + PRIOR_CELLS))
            if cells < _WITNESS_MIN:
                continue
            share = 1.0 - majority / cells
            if not layout.is_user[r]:
                if majority < 0.9 * cells and rule_trust(store, layout, r, with_sources) < 0.8:
                    continue
                if share < implied_share:
                    implied = i64(r)
                    implied_share = share
            if share < witness_share:
                witness = i64(r)
                witness_share = share
        error = min(_ERROR_MAX, error) if error < 2.0 else PRIOR_ERROR
        if error != parameters.error[a] or parameters.gamma[a, 1] == 0.0:
            parameters.error[a] = error
            for k in range(GAMMA_TABLE):
                parameters.gamma[a, k] = log_gamma(k + 1.0 / error - 1.0)
        parameters.witness[a] = witness
        if implied != NONE and not layout.is_user_rhs[a]:
            parameters.is_active[implied] = True
    for a in range(layout.is_movable.size):
        if is_key(layout, a):
            settled = store.running.settled_error[a]
            parameters.error[a] = settled if settled >= 0.0 else live_key_error(store, layout, a)


@entry
def prepare(store: Store, layout: Layout, parameters: Parameters, with_sources: bool) -> None:
    """Compute what is taken from the counts as they are when a block is decided."""
    prepare_parameters(ref(store), ref(layout), ref(parameters), with_sources)


@apart
def prepare_parameters(store: Store, layout: Layout, parameters: Parameters, with_sources: bool) -> None:
    """Do what `prepare` does, for compiled callers."""
    for r in range(layout.rhs.size):
        parameters.trust[r] = rule_trust(store, layout, r, with_sources)
    for component in range(layout.members_first.size - 1):
        _prepare_likeness(store, layout, parameters, component)


@apart
def _prepare_likeness(store: Store, layout: Layout, parameters: Parameters, component: int) -> None:
    """Compute what it says of the values of a component how alike they are."""
    running = store.running
    first = layout.members_first[component]
    last = layout.members_first[component + 1]
    # Each class begins with 1, so that nothing is impossible.
    n_wrong = 5.0
    n_expected = 5.0
    for m in range(first, last):
        for k in range(N_CLASSES - 1):
            n_wrong += running.wrong_like[layout.members[m], k]
            n_expected += running.expected_like[layout.members[m], k]
    for k in range(N_CLASSES - 1):
        wrong = 1.0
        expected = 1.0
        for m in range(first, last):
            wrong += running.wrong_like[layout.members[m], k]
            expected += running.expected_like[layout.members[m], k]
        wrong /= n_wrong
        expected /= n_expected
        for m in range(first, last):
            a = layout.members[m]
            # Of an attribute on left sides only no wrong values are known: right sides stand for it.
            share = expected
            if not is_key(layout, a):
                n = 0.0
                for like in range(N_CLASSES):
                    n += running.any_like[a, like]
                share = running.any_like[a, k] / n
            bonus = log(wrong) - log(share)
            parameters.bonus[a, k] = max(0.0, bonus)
            parameters.bonus_max[a] = max(parameters.bonus_max[a] if k > 0 else 0.0, bonus)
            parameters.unlike[a, k] = min(0.0, log(wrong / expected))
