"""The rules in force, and what they say of a batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

import pyarrow as pa

from ..engine.apply import BatchColumns, Constants, LiveRule, apply_rules
from ..engine.encode import plain_columns
from ..errors import RuleError, RuleWarning, SchemaError
from ..kernel.clean import Cells
from .condition import Conditions
from .rule import CheckedRule, Rule, check_not_id, check_rules, columns_read
from .update import RuleUpdate


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

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The live rules, as they were given."""
        return tuple(live.checked.rule for live in self._live.values())

    @property
    def by_attribute(self) -> dict[str, list[LiveRule]]:
        """The live rules by RHS attribute, in the order of the schema."""
        found: dict[str, list[LiveRule]] = {}
        for live in self._live.values():
            found.setdefault(live.checked.rule.rhs, []).append(live)
        return {name: found[name] for name in self.schema.names if name in found}

    @property
    def with_constants(self) -> list[str]:
        """The RHS attributes for which a pattern tableau has a constant."""
        return [
            name
            for name, rules in self.by_attribute.items()
            if any(live.checked.constant_rows for live in rules)
        ]

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

    def change(self, update: RuleUpdate) -> int | None:
        """Let a rule update take effect; return the serial number of the rule if it deletes one.

        Raises:
            RuleError: If it is refused; nothing is changed.
        """
        if update.delete is not None:
            return self.delete(update.delete)
        if update.rule is None:
            raise RuleError(f"{update.place}: there are no shadow rules here; delete and add the rule")
        self.add(update.rule)
        return None

    def adopt_schema(self, schema: pa.Schema, position: int) -> None:
        """Go on with another schema from a position on.

        Raises:
            SchemaError: If a column that is read is gone or of another type; nothing is changed.
        """
        checked = rechecked([live.checked for live in self.live], self.schema, schema, self.id, position)
        self.schema = schema
        self._live = {
            live.id: LiveRule(rule, live.serial) for live, rule in zip(self.live, checked, strict=True)
        }
        self._bind_conditions()

    def apply(
        self, batch: pa.RecordBatch, attributes: Sequence[str] | None = None
    ) -> dict[str, AppliedRules]:
        """Find the groups of all cells of a batch, by RHS attribute in the order of the schema.

        Args:
            batch: The tuples.
            attributes: Which RHS attributes to look at; None for all.
        """
        holds = {}
        if self._conditional:
            masks = self._conditions.evaluate(plain_columns(batch.select(self._condition_columns)))
            holds = {live.id: mask for live, mask in zip(self._conditional, masks, strict=True)}
        columns = BatchColumns(batch)
        return {
            name: AppliedRules(rules, *apply_rules(columns, name, rules, holds))
            for name, rules in self.by_attribute.items()
            if attributes is None or name in attributes
        }

    def _add(self, rules: Sequence[Rule]) -> None:
        for rule in rules:
            check_not_id(rule, self.id)
            if rule.is_shadow:
                raise RuleError(
                    f"rule {rule.id!r}, mode: shadow rules are not supported here; add it as a live rule, "
                    "or clean with the fused topology"
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


def rechecked(
    rules: Sequence[CheckedRule], old: pa.Schema, new: pa.Schema, id: str | None, position: int
) -> tuple[CheckedRule, ...]:
    """Return rules as they are under another schema, which must have all that they and the id read.

    Raises:
        SchemaError: If a column that is read is gone or of another type.
    """
    if not isinstance(new, pa.Schema):
        raise SchemaError(f"schema: {type(new).__name__} is not a schema; give a pyarrow.Schema")
    place = f"schema from position {position} on"
    for name in columns_read(rules, old, id):
        kind = old.field(name).type
        found = [new.field(at).type for at in new.get_all_field_indices(name)]
        if found != [kind]:
            now = " and ".join(map(str, found)) or "gone"
            raise SchemaError(
                f"{place}: column {name!r}, which a rule or the id reads, was {kind} and is {now}; "
                "keep it as it was, or delete the rules that read it before"
            )
    try:
        return check_quietly([checked.rule for checked in rules], new)
    except RuleError as error:
        raise SchemaError(f"{place}: {error}") from error


def check_quietly(rules: Sequence[Rule], schema: pa.Schema) -> tuple[CheckedRule, ...]:
    """Check rules without a warning: it was given when they came."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)
        return check_rules(rules, schema)
