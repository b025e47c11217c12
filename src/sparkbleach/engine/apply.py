"""Which rules apply to which tuples, in which groups, and what pattern tableaux say of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernel.clean import CONSTANT_BROKEN, CONSTANT_HOLDS, NO_CONSTANT, Cells
from ..kernel.hashing import add_to_group_keys
from ..kernel.values import Column
from ..rules.active import ActiveRule, ActiveRules, Mask
from .encode import encode, plain_columns
from .placement import Share


@dataclass(frozen=True, slots=True)
class Constants:
    """What the constants in pattern tableaux say of the cells of an attribute in a batch."""

    winner: NDArray[np.intp]  #: by tuple: which of `scalars` the cell must have, -1 for none
    scalars: list[pa.Scalar]  #: all constants, those of earlier rules and rows first
    rules: list[str]  #: the id of the rule of each of them
    matches: Mask  #: by constant and tuple: whether the row matches

    def overruled(self, row: int) -> list[str]:
        """Return the rules whose constants for this tuple lost against a different one."""
        winner = self.scalars[self.winner[row]]
        losers = [
            rule
            for rule, scalar, match in zip(self.rules, self.scalars, self.matches[:, row], strict=True)
            if match and _hash_of(scalar) != _hash_of(winner)
        ]
        return list(dict.fromkeys(losers))


@dataclass(frozen=True, slots=True)
class AppliedRules:
    """What the rules of one attribute say of a batch."""

    rules: list[ActiveRule]  #: the rules, earlier ones first
    cells: Cells  #: which of them apply to which cells, and the keys of the groups
    constants: Constants | None  #: what pattern tableaux say


class BatchColumns:
    """The columns of a batch, each encoded when it is first asked for."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._encoded: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._encoded:
            self._encoded[name] = encode(self.batch.column(name))
        return self._encoded[name]


def evaluate_conditions(
    rules: ActiveRules, batch: pa.RecordBatch, attributes: Collection[str] | None = None
) -> dict[str, Mask]:
    """Return by rule id where its condition holds, for the rules on attributes (None: all) that have one.

    The columns of the batch may have dictionaries.
    """
    conditions = rules.conditions(attributes)
    return conditions.evaluate(plain_columns(batch.select(conditions.columns)))


def apply_active_rules(
    rules: ActiveRules, batch: pa.RecordBatch, attributes: Collection[str] | None = None
) -> dict[str, AppliedRules]:
    """Find the groups of all cells of a batch by RHS attribute, of those given or all, in schema order."""
    holds = evaluate_conditions(rules, batch, attributes)
    columns = BatchColumns(batch)
    return {
        name: AppliedRules(active, *apply_rules(columns, name, active, holds))
        for name, active in rules.by_attribute.items()
        if attributes is None or name in attributes
    }


def apply_rules(
    columns: BatchColumns,
    attribute: str,
    rules: Sequence[ActiveRule],
    holds: dict[str, Mask],
    share: Share | None = None,
) -> tuple[Cells, Constants | None]:
    """Find the groups that the rules of an attribute, by kernel column, put the tuples of a batch in.

    `holds` has by rule id where its condition holds, if it has one. If a share is given, groups that are
    another lane's are left out.
    """
    n = columns.batch.num_rows
    column = columns[attribute]
    applies = np.zeros((len(rules), n), np.bool_)
    key_lo = np.empty((len(rules), n), np.uint64)
    key_hi = np.empty((len(rules), n), np.uint64)
    constants = ConstantFinder(columns, attribute, len(rules))
    for j, active in enumerate(rules):
        cells = [columns[name] for name in active.rule.lhs]
        applies[j] = _can_apply(columns, active, holds)
        for at, cell in enumerate(cells):
            add_to_group_keys(key_lo[j], key_hi[j], cell.lo, cell.hi, active.serial, at, len(cells))
        own = share and share.own(attribute, key_hi[j])
        if own is not None:
            applies[j] &= own
        constants.add(active, j, applies[j])
        matches = _wildcard_matches(columns, active)
        if matches is not None:
            applies[j] &= matches
    state, broken, found = constants.find()
    return Cells(column, applies, key_lo, key_hi, state, broken), found


def may_apply(columns: BatchColumns, active: ActiveRule, holds: dict[str, Mask]) -> Mask:
    """Return which tuples the condition and the wildcard rows of a rule let it apply to, nulls or not."""
    mask = np.ones(columns.batch.num_rows, np.bool_)
    if active.id in holds:
        mask &= holds[active.id]
    matches = _wildcard_matches(columns, active)
    if matches is not None:
        mask &= matches
    return mask


def find_constants(
    columns: BatchColumns, attribute: str, rules: Sequence[ActiveRule], holds: dict[str, Mask]
) -> tuple[NDArray[np.uint8], Mask, Constants | None]:
    """Find what the constants of some rules say of the cells of an attribute.

    Returns:
        By tuple, NO_CONSTANT, CONSTANT_HOLDS or CONSTANT_BROKEN; by rule and tuple, whether one is broken
        (without columns if there are none); and the constants.
    """
    finder = ConstantFinder(columns, attribute, len(rules))
    for j, active in enumerate(rules):
        if active.checked.constant_rows:
            finder.add(active, j, _can_apply(columns, active, holds))
    return finder.find()


def _can_apply(columns: BatchColumns, active: ActiveRule, holds: dict[str, Mask]) -> Mask:
    """Return where a rule without patterns would apply."""
    mask = np.ones(columns.batch.num_rows, np.bool_)
    for name in active.rule.lhs:
        mask &= columns[name].valid
    if active.id in holds:
        mask &= holds[active.id]
    if active.rule.nulls != "fill":
        mask &= columns[active.rule.rhs].valid
    return mask


def _wildcard_matches(columns: BatchColumns, active: ActiveRule) -> Mask | None:
    """Return which tuples match a wildcard row of a rule; None if it has no tableau."""
    if active.checked.wildcard_rows is None:
        return None
    cells = [columns[name] for name in active.rule.lhs]
    matches = np.zeros(columns.batch.num_rows, np.bool_)
    for pattern in active.checked.wildcard_rows:
        matches |= _matches(cells, pattern)
    return matches


class ConstantFinder:
    """Collects the constants of the rules of an attribute, earlier rules first, and finds which wins."""

    def __init__(self, columns: BatchColumns, attribute: str, n_rules: int) -> None:
        self._columns = columns
        self._column = columns[attribute]
        self._n_rules = n_rules
        #: rule, kernel column, constant, where its row matches; earlier rules first, rows in their order
        self._matching: list[tuple[ActiveRule, int, pa.Scalar, Mask]] = []

    def add(self, active: ActiveRule, j: int, can_apply: Mask) -> None:
        """Add the constants of the rule in a kernel column, for the tuples that it can apply to."""
        cells = [self._columns[name] for name in active.rule.lhs]
        for pattern, constant in active.checked.constant_rows:
            self._matching.append((active, j, constant, can_apply & _matches(cells, pattern)))

    def find(self) -> tuple[NDArray[np.uint8], Mask, Constants | None]:
        """Return what `find_constants` returns."""
        n = self._column.valid.size
        state = np.full(n, NO_CONSTANT, np.uint8)
        if not self._matching:
            return state, np.zeros((self._n_rules, 0), np.bool_), None
        matches = np.stack([match for _, _, _, match in self._matching])
        equal = np.stack([_equals(self._column, constant) for _, _, constant, _ in self._matching])
        winner = np.where(matches.any(axis=0), matches.argmax(axis=0), -1)
        holds_winner = np.take_along_axis(equal, np.maximum(winner, 0)[None, :], axis=0)[0]
        state[winner >= 0] = CONSTANT_BROKEN
        state[(winner >= 0) & holds_winner] = CONSTANT_HOLDS
        broken = np.zeros((self._n_rules, n), np.bool_)
        for (_, j, _, match), same in zip(self._matching, equal, strict=True):
            broken[j] |= match & ~same
        scalars = [scalar for _, _, scalar, _ in self._matching]
        ids = [active.id for active, _, _, _ in self._matching]
        return state, broken, Constants(winner, scalars, ids, matches)


def _hash_of(scalar: pa.Scalar) -> tuple[int, int]:
    column = encode(pa.repeat(scalar, 1))
    return int(column.lo[0]), int(column.hi[0])


def _equals(column: Column, constant: pa.Scalar) -> Mask:
    """Return where the column has the constant, by hash, so that equality is the kernel's."""
    lo, hi = _hash_of(constant)
    equal: Mask = (column.lo == np.uint64(lo)) & (column.hi == np.uint64(hi)) & column.valid
    return equal


def _matches(cells: Sequence[Column], pattern: Sequence[pa.Scalar | None]) -> Mask:
    mask = np.ones(cells[0].valid.size, np.bool_)
    for cell, constant in zip(cells, pattern, strict=True):
        if constant is not None:
            mask &= _equals(cell, constant)
    return mask
