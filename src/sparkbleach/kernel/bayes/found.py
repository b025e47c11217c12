"""What was found in a batch: the cells that change or are flagged, and the terms behind each.

Rows lie one after the other, each with as many candidates as it has, each of these with as many terms as it
has: so they become Arrow columns without a detour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import i64, inline
from ..table import NONE, grow
from .explain import CANDIDATES, Reasons
from .store import Store

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

#: places in `Found.n`
N_CELLS, N_CANDIDATES, N_TERMS = 0, 1, 2


class Cells(NamedTuple):
    """Cells that change or are flagged, those of a tuple in the order of their last moves."""

    tuple: I32
    attribute: I32
    value: I32
    gain: F64  #: of its last move
    step: I32  #: the order of the last moves of the tuple's reported cells, from 1
    verdict: NDArray[np.uint8]
    error_rate: F64  #: negative if the observed cell is null
    error_from: I64  #: what it is computed from, outvoted, seen
    rules: NDArray[np.bool_]  #: by rule: whether it had a say
    first: I64  #: its first candidate
    n: I64  #: how many it has


class Candidates(NamedTuple):
    """The candidates of these cells, the best of each first."""

    value: I32
    support: I64
    error: F64
    alike: F64
    alike_class: I32
    common: F64
    first: I64  #: its first term
    n: I64  #: how many it has


class Terms(NamedTuple):
    """What rules add to the scores of these candidates."""

    rule: I32
    lift: F64
    in_group: I64
    of_group: I64
    trust: F64
    key: I32  #: by place: the left values of the group


class Found(NamedTuple):
    """All of it; each array has room for more."""

    n: I64  #: how many cells, candidates and terms there are
    cells: Cells
    candidates: Candidates
    terms: Terms


def new_found(n_rules: int, n_places: int) -> Found:
    """Return an empty one, for rules with at most `n_places` attributes on the left."""

    def i32() -> I32:
        return np.zeros(0, np.int32)

    def i64s() -> I64:
        return np.zeros(0, np.int64)

    return Found(
        np.zeros(3, np.int64),
        Cells(
            tuple=i32(),
            attribute=i32(),
            value=i32(),
            gain=np.zeros(0),
            step=i32(),
            verdict=np.zeros(0, np.uint8),
            error_rate=np.zeros(0),
            error_from=np.zeros((0, 3), np.int64),
            rules=np.zeros((0, n_rules), np.bool_),
            first=i64s(),
            n=i64s(),
        ),
        Candidates(
            value=i32(),
            support=i64s(),
            error=np.zeros(0),
            alike=np.zeros(0),
            alike_class=i32(),
            common=np.zeros(0),
            first=i64s(),
            n=i64s(),
        ),
        Terms(
            rule=i32(),
            lift=np.zeros(0),
            in_group=i64s(),
            of_group=i64s(),
            trust=np.zeros(0),
            key=np.zeros((0, n_places), np.int32),
        ),
    )


def reserve_found(found: Found, n_cells: int, n_terms: int) -> None:
    """Make room for more cells, whose candidates have at most `n_terms` terms each."""
    n_candidates = n_cells * CANDIDATES
    more = (n_cells, n_candidates, n_candidates * n_terms)
    for arrays, used, rows in zip(found[1:], found.n, more, strict=True):
        for array in arrays:
            grow(array, int(used) + rows)


def joined_found(found: Sequence[Found]) -> Found:
    """Return what several searches have found together, without the room for more."""
    n_cells, n_candidates, n_terms = np.array([one.n for one in found]).T
    cells = Cells._make(_joined([one.cells for one in found], n_cells))
    candidates = Candidates._make(_joined([one.candidates for one in found], n_candidates))
    terms = Terms._make(_joined([one.terms for one in found], n_terms))
    cells.first[:] = np.cumsum(cells.n) - cells.n
    candidates.first[:] = np.cumsum(candidates.n) - candidates.n
    return Found(np.array([n_cells.sum(), n_candidates.sum(), n_terms.sum()]), cells, candidates, terms)


def _joined(parts: Sequence[Sequence[NDArray[np.generic]]], lengths: I64) -> list[NDArray[np.generic]]:
    return [
        np.concatenate([array[:n] for array, n in zip(arrays, lengths, strict=True)])
        for arrays in zip(*parts, strict=True)
    ]


@inline
def has_room(found: Found, n_cells: int, n_terms: int) -> bool:
    """Return whether there is room for more cells."""
    n_candidates = n_cells * CANDIDATES
    return (
        found.n[N_CELLS] + n_cells <= found.cells.tuple.size
        and found.n[N_CANDIDATES] + n_candidates <= found.candidates.value.size
        and found.n[N_TERMS] + n_candidates * n_terms <= found.terms.rule.size
    )


@inline
def add_reasons(store: Store, found: Found, reasons: Reasons, row: int) -> None:
    """Add the reasons in a row to those of the cell that comes next."""
    cell = found.n[N_CELLS]
    cells, candidates, terms = found.cells, found.candidates, found.terms
    cells.error_rate[cell] = reasons.error_rate[row]
    for k in range(3):
        cells.error_from[cell, k] = reasons.error_from[row, k]
    for r in range(reasons.rules.shape[1]):
        cells.rules[cell, r] = reasons.rules[row, r]
    at = found.n[N_CANDIDATES]
    term = found.n[N_TERMS]
    cells.first[cell] = at
    for place in range(CANDIDATES):
        if reasons.value[row, place] == NONE:
            break
        candidates.value[at] = reasons.value[row, place]
        candidates.support[at] = reasons.support[row, place]
        candidates.error[at] = reasons.error[row, place]
        candidates.alike[at] = reasons.alike[row, place]
        candidates.alike_class[at] = reasons.alike_class[row, place]
        candidates.common[at] = reasons.common[row, place]
        candidates.first[at] = term
        for t in range(reasons.rule.shape[2]):
            if reasons.rule[row, place, t] == NONE:
                break
            terms.rule[term] = reasons.rule[row, place, t]
            terms.lift[term] = reasons.lift[row, place, t]
            terms.in_group[term] = reasons.in_group[row, place, t]
            terms.of_group[term] = reasons.of_group[row, place, t]
            terms.trust[term] = reasons.trust[row, place, t]
            g = i64(reasons.group[row, place, t])
            for j in range(store.left.shape[1]):
                terms.key[term, j] = store.left[g, j]
            term += 1
        candidates.n[at] = term - candidates.first[at]
        at += 1
    cells.n[cell] = at - cells.first[cell]
    found.n[N_CANDIDATES] = at
    found.n[N_TERMS] = term
