"""Which rules apply to which tuples, in which groups, and what pattern tableaux say of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernel.clean import CONSTANT_BROKEN, CONSTANT_HOLDS, NO_CONSTANT, Cells
from ..kernel.hashing import add_to_group_keys
from ..kernel.table import Records
from ..kernel.values import Column
from ..rules.active import ActiveRule, ActiveRules, Mask
from ..rules.check import Tableau
from ..rules.condition_process import DEFAULT_CONDITION_LIMITS, ConditionLimits
from .encode import encode, plain_columns, take
from .placement import Share
from .tableau import index_of


@dataclass(frozen=True, slots=True)
class Constants:
    """What the constants in pattern tableaux say of the cells of an attribute in a batch."""

    rule: NDArray[
        np.intp
    ]  #: by tuple: the rule, by kernel column, whose constant the cell must have; -1: none
    row: NDArray[np.int32]  #: by tuple: the row of its tableau that has the constant
    overruled: Mask  #: by rule and tuple: whether a constant of the rule lost against a different one
    by_rule: dict[int, pa.Array]  #: by kernel column of the rules with constants: the RHS of their tableaux

    def values(self, tuples: NDArray[np.intp]) -> pa.Array:
        """Return the constants that the cells of some tuples must have; null where there is none."""
        rule, row = self.rule[tuples], self.row[tuples]
        places = [np.flatnonzero(rule == j) for j in self.by_rule]
        found = [take(rhs, row[at]) for rhs, at in zip(self.by_rule.values(), places, strict=True)]
        order = np.full(tuples.size, -1)
        order[np.concatenate(places)] = np.arange(sum(map(len, found)))
        return take(pa.concat_arrays(found), pa.array(order, mask=order < 0))


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
    rules: ActiveRules,
    batch: pa.RecordBatch,
    attributes: Collection[str] | None = None,
    limits: ConditionLimits = DEFAULT_CONDITION_LIMITS,
) -> dict[str, Mask]:
    """Return by rule id where its condition holds, for the rules on attributes (None: all) that have one.

    The columns of the batch may have dictionaries. ConditionLimitError if some need more than the limits.
    """
    conditions = rules.conditions(attributes)
    return conditions.evaluate(plain_columns(batch.select(conditions.columns)), limits)


def apply_active_rules(
    rules: ActiveRules,
    batch: pa.RecordBatch,
    attributes: Collection[str] | None = None,
    limits: ConditionLimits = DEFAULT_CONDITION_LIMITS,
) -> dict[str, AppliedRules]:
    """Find the groups of all cells of a batch by RHS attribute, of those given or all, in schema order."""
    holds = evaluate_conditions(rules, batch, attributes, limits)
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
        if active.checked.has_constants:
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
    tableau = active.checked.tableau
    if tableau is None:
        return None
    return index_of(tableau).match_wildcards([columns[name] for name in active.rule.lhs])


class ConstantFinder:
    """Collects the constants of the rules of an attribute, earlier rules first, and finds which wins."""

    def __init__(self, columns: BatchColumns, attribute: str, n_rules: int) -> None:
        self._columns = columns
        self._column = columns[attribute]
        self._n_rules = n_rules
        #: by kernel column, earlier rules first: the tableau, the RHS, and by pattern which tuples match rows
        self._matching: dict[int, tuple[Tableau, Column, list[tuple[NDArray[np.intp], Records]]]] = {}

    def add(self, active: ActiveRule, j: int, can_apply: Mask) -> None:
        """Add the constants of the rule in a kernel column, for the tuples that it can apply to."""
        tableau = active.checked.tableau
        if tableau is not None and active.checked.has_constants:
            index = index_of(tableau)
            lhs = [self._columns[name] for name in active.rule.lhs]
            self._matching[j] = tableau, index.rhs, index.match_constants(lhs, can_apply)

    def find(self) -> tuple[NDArray[np.uint8], Mask, Constants | None]:
        """Return what `find_constants` returns."""
        n = self._column.valid.size
        state = np.full(n, NO_CONSTANT, np.uint8)
        if not self._matching:
            return state, np.zeros((self._n_rules, 0), np.bool_), None
        rule = np.full(n, -1, np.intp)
        row = np.full(n, -1, np.int32)
        lo, hi = np.zeros((2, n), np.uint64)  # of the constants that win
        for j, (_, rhs, matches) in self._matching.items():
            is_open = rule < 0
            for tuples, rows in matches:
                first = is_open[tuples] & ((rule[tuples] < 0) | (rows["number"] < row[tuples]))
                rule[tuples[first]] = j
                row[tuples[first]] = rows["number"][first]
            own = rule == j
            lo[own], hi[own] = rhs.lo[row[own]], rhs.hi[row[own]]
        broken = np.zeros((self._n_rules, n), np.bool_)
        overruled = np.zeros((self._n_rules, n), np.bool_)
        for j, (_, rhs, matches) in self._matching.items():
            for tuples, rows in matches:
                number, contradicted = rows["number"], rows["contradicted"]
                right = rhs.lo[number], rhs.hi[number]
                broken[j, tuples] |= contradicted | ~_have(self._column, tuples, *right)
                overruled[j, tuples] |= contradicted | (right[0] != lo[tuples]) | (right[1] != hi[tuples])
        decided = np.flatnonzero(rule >= 0)
        holds = _have(self._column, decided, lo[decided], hi[decided])
        state[decided] = np.where(holds, CONSTANT_HOLDS, CONSTANT_BROKEN)
        by_rule = {j: tableau.rhs for j, (tableau, _, _) in self._matching.items()}
        return state, broken, Constants(rule, row, overruled, by_rule)


def _have(column: Column, tuples: NDArray[np.intp], lo: NDArray[np.uint64], hi: NDArray[np.uint64]) -> Mask:
    """Return whether the cells of some tuples are those with these hashes: equality is the kernel's."""
    equal: Mask = (column.lo[tuples] == lo) & (column.hi[tuples] == hi) & column.valid[tuples]
    return equal
