"""A part of what `repair: bayes` cleans: components of rules that share nothing with those of other parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernel.bayes.judge import CHANGED
from ..kernel.bayes.state import BayesState, Decided, Input, Map, Texts
from ..kernel.clean import CONSTANT_BROKEN
from ..kernel.table import NONE
from ..kernel.truth import Acceptances
from ..kernel.values import Column
from ..rules.active import ActiveRule, Mask
from .acceptance import AcceptedColumn, accepted_column
from .apply import BatchColumns, Constants, may_apply
from .audit import RepairedColumn, constant_column, joined_columns
from .encode import check_values, encode, from_codes, is_text, render
from .model import Model
from .reading import read_column

#: by attribute: what constants say of the cells of a batch
FoundConstants = dict[str, tuple[NDArray[np.uint8], Mask, Constants]]


@dataclass(frozen=True, slots=True)
class GivenBatch:
    """A batch, and what is found out about it before it is counted."""

    columns: BatchColumns
    holds: dict[str, Mask]  #: by condition: where it is TRUE
    panes: NDArray[np.int64]  #: by tuple
    constants: FoundConstants  #: what constants say of its cells
    source: NDArray[np.int32]  #: by tuple: the number of its source; empty if there are none


@dataclass(slots=True)
class Part:
    """Some components of rules, and what was counted for them."""

    model: Model  #: their attributes and rules
    state: BayesState

    def violations(self) -> Iterator[tuple[ActiveRule, int]]:
        """Yield each user's rule and how many tuples have violated it."""
        for one, n in zip(self.model.rules, self.state.violations, strict=True):
            if one.active is not None:
                yield one.active, int(n)

    def check_values(self, schema: pa.Schema) -> None:
        """Check that values can be read as values of their attributes; ValueError if not."""
        store = self.state.store
        attribute, rule = (
            np.ascontiguousarray(of) for of in (store.occurrences["attribute"], store.groups["rule"])
        )
        rhs = np.append(self.state.layout.rhs, NONE)[rule]  # none of a free group
        truths = [(rhs[has], named[has]) for named in self._truths() if (has := named != NONE).any()]
        for a, name in enumerate(self.model.attributes):
            is_named = attribute == a
            for of, named in truths:
                is_named[named[of == a]] = True
            check_values(self.state.values, np.flatnonzero(is_named), schema.field(name).type)

    def _truths(self) -> list[NDArray[np.int32]]:
        """Return by group the value that it holds to be true, and its challenger."""
        groups = self.state.store.groups
        return [np.ascontiguousarray(groups[name]) for name in ("held", "challenger")]

    def input_of(self, schema: pa.Schema, given: GivenBatch) -> Input:
        """Return a batch as the state reads it."""
        columns = given.columns
        n = columns.batch.num_rows
        everywhere = np.ones(n, np.bool_)
        types = [schema.field(name).type for name in self.model.attributes]
        return Input(
            [_seeded(columns[name], name) for name in self.model.attributes],
            [is_text(type) for type in types],
            [_texts_of(type) for type in types],
            np.array(
                [
                    everywhere if one.active is None else may_apply(columns, one.active, given.holds)
                    for one in self.model.rules
                ],
                np.bool_,
            ).reshape(len(self.model.rules), n),
            [_fixed(name, given.constants) for name in self.model.attributes],
            given.source,
            given.panes,
        )

    def decide(
        self, batches: Sequence[GivenBatch], inputs: Sequence[Input], position: int, map: Map | None
    ) -> list[Decided]:
        """Decide batches; what violates a constant is counted as a violation."""
        decided = self.state.process(inputs, position, map)
        for given, one in zip(batches, decided, strict=True):
            for name in set(self.model.attributes) & given.constants.keys():
                _, broken, _ = given.constants[name]
                for r, mask in zip(self._on(name), broken, strict=True):
                    violated = one.violated[r]
                    self.state.violations[r] += int(np.count_nonzero(mask & ~violated))
                    violated |= mask
        return decided

    def _on(self, attribute: str) -> list[int]:
        """Return the user's rules on an attribute."""
        return [
            r for r, one in enumerate(self.model.rules) if one.rhs == attribute and one.active is not None
        ]

    def repaired_column(
        self,
        schema: pa.Schema,
        name: str,
        verdict: int,
        decided: Decided,
        constants: FoundConstants,
        position: int,
        version: int,
        *,
        applied: bool,
    ) -> RepairedColumn | None:
        """Return the cells of an attribute that were changed, or flagged; None if there are none.

        Of what shadow rules would repair, only the cells that violate one of them.
        """
        violated = decided.violated
        cells = decided.found.cells
        is_reported: Mask = np.ones(violated.shape[1], np.bool_)
        if not applied:
            shadow = [r for r in self._on(name) if self._is_shadow(r)]
            is_reported = np.logical_or.reduce(violated[shadow], axis=0)
        a = self.model.number_of(name)
        which = np.flatnonzero((cells.attribute == a) & (cells.verdict == verdict))
        which = which[is_reported[cells.tuple[which]]]
        found = []
        if which.size:
            found.append(
                read_column(
                    self.model,
                    schema,
                    self.state.values,
                    name,
                    decided.found,
                    which,
                    position,
                    version,
                    applied=applied and verdict == CHANGED,
                )
            )
        if verdict == CHANGED and name in constants:
            state, _, given = constants[name]
            rows = np.flatnonzero((state == CONSTANT_BROKEN) & is_reported)
            if rows.size:
                on = self._on(name)
                rules = [active for r in on if (active := self.model.rules[r].active)]
                found.append(
                    constant_column(
                        name, rules, given, rows, violated[on][:, rows].T, position, version, applied=applied
                    )
                )
        return joined_columns(found) if found else None

    def _is_shadow(self, r: int) -> bool:
        active = self.model.rules[r].active
        return active is not None and active.rule.is_shadow

    def accepted(self, schema: pa.Schema, decided: Decided) -> list[AcceptedColumn]:
        """Return the changes that were accepted as a new truth, by rule."""
        accepted = decided.accepted
        found = []
        for r in np.unique(accepted.column):
            active = self.model.rules[r].active
            which = accepted.column == r
            if active is None:
                continue
            n = np.array([np.count_nonzero(which)], np.int64)
            of_rule = Acceptances(n, *(array[which] for array in accepted[1:]))
            type = schema.field(active.rule.rhs).type
            rules = [active] * (int(r) + 1)
            thresholds = [self.state.rules[r].accept_after] * (int(r) + 1)
            column = accepted_column(type, rules, self.state.values, of_rule, thresholds)
            if column is not None:
                found.append(column)
        return found


def _fixed(name: str, constants: FoundConstants) -> Column | None:
    """Return the constants that decide the cells of an attribute, null where none does."""
    if name not in constants:
        return None
    found = constants[name][2]
    return _seeded(encode(found.values(np.arange(found.rule.size))), name)


def _seeded(column: Column, name: str) -> Column:
    """Return a column whose hashes no other attribute's values have."""
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    lo, hi = (np.uint64(int.from_bytes(part, "little")) for part in (digest[:8], digest[8:]))
    return column._replace(lo=column.lo ^ lo, hi=column.hi ^ hi)


def _texts_of(type: pa.DataType) -> Texts:
    """Return what turns the codes of values into their texts."""

    def texts(codes: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        rendered = encode(render(from_codes(np.ascontiguousarray(codes), type)).cast(pa.large_string()))
        return rendered.data, rendered.offsets

    return texts
