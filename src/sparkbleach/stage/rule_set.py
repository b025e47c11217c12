"""The rules in force, and what they say of a batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

import pyarrow as pa

from ..condition import Conditions
from ..errors import RuleError, RuleWarning
from ..kernel.clean import Cells
from ..rule import Rule, check_not_id, check_rules
from .apply import BatchColumns, Constants, LiveRule, apply_rules
from .encode import plain_columns


@dataclass(frozen=True, slots=True)
class AppliedRules:
    """What the rules of one attribute say of a batch.

    Attributes:
        rules: The rules, earlier ones first.
        cells: Which of them apply to which cells, and the keys of the groups.
        constants: What pattern tableaux say.
    """

    rules: list[LiveRule]
    cells: Cells
    constants: Constants | None


class RuleSet:
    """The live rules of a stream.

    Args:
        schema: The schema of the stream.
        rules: The rules in force from the first tuple on.
        id: The attribute with each tuple's unique id, which no rule may change.

    Raises:
        RuleError: If a rule is wrong or does not fit the schema.
    """

    def __init__(self, schema: pa.Schema, rules: Iterable[Rule], id: str | None = None) -> None:
        self.schema = schema
        self.id = id
        #: grows by one with each update
        self.version = 1
        self._next_serial = 0
        self._live: dict[str, LiveRule] = {}
        self._add(list(rules))

    @property
    def live(self) -> list[LiveRule]:
        """The live rules, earlier ones first."""
        return list(self._live.values())

    def copy(self) -> RuleSet:
        """Return a rule set that changes by itself."""
        other = copy(self)
        other._live = dict(self._live)
        return other

    def add(self, rule: Rule) -> None:
        """Add a rule.

        Raises:
            RuleError: If it is wrong, or its id is that of a live rule; nothing is changed.
        """
        self._add([rule])
        self.version += 1

    def delete(self, id: str) -> int:
        """Delete a rule; return its serial number.

        Raises:
            RuleError: If no live rule has this id; nothing is changed.
        """
        if id not in self._live:
            known = ", ".join(map(repr, self._live)) or "none"
            raise RuleError(f"rule {id!r}: cannot be deleted, no live rule has this id; live rules: {known}")
        serial = self._live.pop(id).serial
        self._bind_conditions()
        self.version += 1
        return serial

    def apply(self, batch: pa.RecordBatch) -> dict[str, AppliedRules]:
        """Find the groups of all cells of a batch, by RHS attribute in the order of the schema."""
        holds = {}
        if self._conditional:
            masks = self._conditions.evaluate(plain_columns(batch.select(self._condition_columns)))
            holds = {live.id: mask for live, mask in zip(self._conditional, masks, strict=True)}
        columns = BatchColumns(batch)
        by_attribute: dict[str, list[LiveRule]] = {}
        for live in self._live.values():
            by_attribute.setdefault(live.checked.rule.rhs, []).append(live)
        return {
            name: AppliedRules(by_attribute[name], *apply_rules(columns, name, by_attribute[name], holds))
            for name in self.schema.names
            if name in by_attribute
        }

    def _add(self, rules: Sequence[Rule]) -> None:
        for rule in rules:
            check_not_id(rule, self.id)
            if rule.is_shadow:
                raise RuleError(
                    f"rule {rule.id!r}, mode: shadow rules are not supported here; add it as a live rule, "
                    "or clean with one lane"
                )
        for checked in check_rules(rules, self.schema, live=[live.checked.rule for live in self.live]):
            self._live[checked.rule.id] = LiveRule(checked, self._next_serial)
            self._next_serial += 1
        self._bind_conditions()

    def _bind_conditions(self) -> None:
        self._conditional = [live for live in self._live.values() if live.checked.condition]
        conditions = [live.checked.condition for live in self._conditional if live.checked.condition]
        self._condition_columns = [
            name for name in self.schema.names if any(name in condition.columns for condition in conditions)
        ]
        schema = pa.schema([self.schema.field(name) for name in self._condition_columns])
        self._conditions = Conditions(schema, conditions)

    def save(self) -> dict[str, object]:
        """Return all state, fit for JSON."""
        return {
            "version": self.version,
            "next_serial": self._next_serial,
            "rules": [[live.serial, live.checked.rule.to_dict()] for live in self.live],
        }

    @classmethod
    def load(
        cls, schema: pa.Schema, id: str | None, version: int, next_serial: int, rules: list[list[object]]
    ) -> RuleSet:
        """Return a rule set as it was saved."""
        read = [Rule.from_dict(rule) for _, rule in rules]  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuleWarning)  # it was given when the rules came
            loaded = cls(schema, read, id)
        loaded._live = {
            live.id: LiveRule(live.checked, int(serial))  # type: ignore[call-overload]
            for live, (serial, _) in zip(loaded.live, rules, strict=True)
        }
        loaded.version, loaded._next_serial = version, next_serial
        loaded._bind_conditions()
        return loaded
