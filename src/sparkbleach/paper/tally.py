"""From decisions to repairs: new cells, the reasons for them, and how often each rule was violated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engine.apply import AppliedRules
from ..engine.audit import RepairedColumn, decided_column, take_rows
from ..engine.encode import canonical_type
from ..rules.active import ActiveRule, ActiveRules
from .messages import DECISIONS, message_schema


class Tally:
    """Counts violations and repairs by rule, while it turns decisions into repairs."""

    def __init__(self) -> None:
        self._violations: Counter[int] = Counter()  #: by serial number of a rule: tuples that violated it
        self._repairs: Counter[int] = Counter()  #: likewise: how many of these had their cell changed

    def repair(
        self,
        rules: ActiveRules,
        applied: Mapping[str, AppliedRules],
        decisions: Mapping[str, pa.RecordBatch],
        positions: NDArray[np.int64],
    ) -> list[RepairedColumn]:
        """Return the repairs of tuples, at ascending positions, that the same rules read; in schema order.

        `applied` has attributes with constants at least; decisions may be about other tuples, too.
        """
        repaired = []
        for attribute, active_rules in rules.by_attribute.items():
            type = rules.schema.field(attribute).type
            decided = decisions.get(attribute)
            if decided is None:
                decided = pa.RecordBatch.from_pylist([], message_schema(DECISIONS, canonical_type(type)))
            found = applied.get(attribute)
            column, violated = decided_column(
                type,
                attribute,
                active_rules,
                found.cells if found else None,
                found.constants if found else None,
                _decisions_at(decided, positions),
                positions,
                rules.version,
            )
            changed = violated[column.rows] if column else violated[:0]
            for j, active in enumerate(active_rules):
                self._violations[active.serial] += int(violated[:, j].sum())
                self._repairs[active.serial] += int(changed[:, j].sum())
            if column is not None:
                repaired.append(column)
        return repaired

    def violations(self, active_rules: Iterable[ActiveRule]) -> dict[str, int]:
        """Return by rule how many tuples have violated it."""
        return {active.id: self._violations[active.serial] for active in active_rules}

    def repairs(self, active_rules: Iterable[ActiveRule]) -> dict[str, int]:
        """Return by rule how many of the cells that violated it were changed."""
        return {active.id: self._repairs[active.serial] for active in active_rules}

    def save(self, active_rules: Iterable[ActiveRule]) -> list[list[int]]:
        """Return the counts of active rules, fit for JSON; those of others are not needed again."""
        return [
            [active.serial, self._violations[active.serial], self._repairs[active.serial]]
            for active in active_rules
        ]

    @classmethod
    def load(cls, saved: list[list[int]]) -> Tally:
        """Return a tally as it was saved."""
        tally = cls()
        tally._violations = Counter({serial: count for serial, count, _ in saved})
        tally._repairs = Counter({serial: count for serial, _, count in saved})
        return tally


def _decisions_at(decisions: pa.RecordBatch, positions: NDArray[np.int64]) -> pa.RecordBatch:
    """Return the decisions on tuples at these positions."""
    if not positions.size:
        return decisions.slice(0, 0)
    decided = decisions.column("position").to_numpy()
    begin, end = np.searchsorted(decided, [positions[0], positions[-1] + 1])
    part = decisions.slice(begin, end - begin)
    if positions[-1] - positions[0] + 1 == positions.size:
        return part
    return take_rows(part, np.flatnonzero(np.isin(decided[begin:end], positions)))
