"""Pattern tableaux, in which the rows that tuples match are found by hash, however many rows there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..kernel.hashing import U64, add_to_group_keys
from ..kernel.table import Records
from ..kernel.tableau import PatternRows, add_pattern_rows, find_pattern_rows, new_pattern_rows
from ..kernel.values import Column
from ..rules.active import Mask
from ..rules.check import Tableau
from .encode import encode


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The rows with constants for the same LHS attributes."""

    attributes: tuple[int, ...]  #: which of the LHS have them
    rows: PatternRows

    def find(self, lhs: Sequence[Column], among: Mask) -> NDArray[np.int32]:
        """Return the record that each tuple among some matches; NONE if there is none."""
        mask = among
        for at in self.attributes:
            mask = mask & lhs[at].valid
        found = np.empty(mask.size, np.int32)
        find_pattern_rows(self.rows, *_keys([lhs[at] for at in self.attributes], mask.size), mask, found)
        return found


class TableauIndex:
    """The rows of a tableau by pattern: by which LHS attributes they have constants for."""

    def __init__(self, tableau: Tableau) -> None:
        lhs = [encode(column) for column in tableau.lhs]
        #: the RHS constants, by row; null in a row that has the wildcard
        self.rhs = encode(tableau.rhs)
        #: of the rows with the wildcard on the right
        self._wildcards = _patterns(lhs, self.rhs, ~self.rhs.valid)
        #: of the others
        self._constants = _patterns(lhs, self.rhs, self.rhs.valid)

    def match_wildcards(self, lhs: Sequence[Column]) -> Mask:
        """Return which tuples match a row with the wildcard on the right."""
        everywhere = np.ones(lhs[0].valid.size, np.bool_)
        matches = np.zeros(everywhere.size, np.bool_)
        for pattern in self._wildcards:
            matches |= pattern.find(lhs, everywhere) >= 0
        return matches

    def match_constants(self, lhs: Sequence[Column], among: Mask) -> list[tuple[NDArray[np.intp], Records]]:
        """Return for each pattern the tuples, among some, that match rows with a constant on the right.

        With them come the rows: for each of these tuples a `kernel.tableau.PATTERN_ROW`.
        """
        matches = []
        for pattern in self._constants:
            found = pattern.find(lhs, among)
            tuples = np.flatnonzero(found >= 0)
            matches.append((tuples, pattern.rows.records[found[tuples]]))
        return matches


#: each tableau is looked through once, as long as a rule has it
_INDEXES: WeakKeyDictionary[Tableau, TableauIndex] = WeakKeyDictionary()


def index_of(tableau: Tableau) -> TableauIndex:
    """Return the index of a tableau, the same one at each call."""
    index = _INDEXES.get(tableau)
    if index is None:
        index = _INDEXES[tableau] = TableauIndex(tableau)
    return index


def _patterns(lhs: Sequence[Column], rhs: Column, among: Mask) -> list[_Pattern]:
    """Return the patterns of some rows."""
    numbers = np.flatnonzero(among).astype(np.int32)
    shapes, which = np.unique(
        np.stack([column.valid[numbers] for column in lhs], axis=1), axis=0, return_inverse=True
    )
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(shapes) + 1))
    patterns = []
    for shape, begin, end in zip(shapes, bounds[:-1], bounds[1:], strict=True):
        own = numbers[order[begin:end]]
        attributes = tuple(int(at) for at in np.flatnonzero(shape))
        columns = [lhs[at]._replace(lo=lhs[at].lo[own], hi=lhs[at].hi[own]) for at in attributes]
        rows = new_pattern_rows(own.size)
        add_pattern_rows(rows, own, *_keys(columns, own.size), rhs.lo, rhs.hi)
        patterns.append(_Pattern(attributes, rows))
    return patterns


def _keys(columns: Sequence[Column], n: int) -> tuple[U64, U64]:
    """Return the hashes of `n` rows of columns, perhaps of none."""
    lo = np.zeros(n, np.uint64)
    hi = np.zeros(n, np.uint64)
    for at, column in enumerate(columns):
        add_to_group_keys(lo, hi, column.lo, column.hi, 0, at, len(columns))
    return lo, hi
