"""The rules that a stream is cleaned by right now, and how they change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import RuleError, SchemaError
from .check import CheckedRule, check_not_id, check_rules, columns_read
from .condition_evaluator import ConditionEvaluator
from .condition_process import DEFAULT_CONDITION_LIMITS, ConditionLimits
from .rule import Rule
from .update import RuleUpdate

Mask = NDArray[np.bool_]

_NUMBER_MAX = 1 << 31


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A rule in a rule set."""

    checked: CheckedRule  #: the rule, checked against the schema of the stream
    serial: int  #: its number among all rules ever added: the seed of its group keys

    @property
    def rule(self) -> Rule:
        """The rule as it was given."""
        return self.checked.rule

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.checked.rule.id


class ActiveRules:
    """The active rules of a stream, live and shadow ones, earlier ones first.

    No rule may change the attribute `id`; one that is wrong or does not fit the schema raises a RuleError. An
    update is applied as a whole or refused; a refused one changes nothing. No method gives a warning.
    """

    def __init__(self, schema: pa.Schema, rules: Iterable[Rule] = (), id: str | None = None) -> None:
        self.schema = schema
        self.id = id
        self.version = 1  #: grows by one with each update
        self._next_serial = 0
        #: by id, in the order of the serial numbers; never changed, only replaced
        self._active: dict[str, ActiveRule] = {}
        #: serial numbers of rules that apply to no tuple any more; never changed, only replaced
        self._out_of_force: frozenset[int] = frozenset()
        self._bound: dict[frozenset[str] | None, RuleConditions] = {}
        self._add(list(rules))

    def __iter__(self) -> Iterator[ActiveRule]:
        return iter(self._active.values())

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules as they were given."""
        return tuple(active.rule for active in self)

    @property
    def by_attribute(self) -> dict[str, list[ActiveRule]]:
        """The rules by RHS attribute, in the order of the schema."""
        found: dict[str, list[ActiveRule]] = {}
        for active in self:
            found.setdefault(active.rule.rhs, []).append(active)
        return {name: found[name] for name in self.schema.names if name in found}

    @property
    def attributes_with_constants(self) -> list[str]:
        """The RHS attributes for which a pattern tableau has a constant."""
        return [
            name
            for name, rules in self.by_attribute.items()
            if any(active.checked.has_constants for active in rules)
        ]

    def columns_read(self, attributes: Collection[str] | None = None) -> list[str]:
        """Return, in schema order, the columns that the id and the rules on attributes (None: all) read."""
        return columns_read((active.checked for active in self._on(attributes)), self.schema, self.id)

    def conditions(self, attributes: Collection[str] | None = None) -> RuleConditions:
        """Return what evaluates the conditions of the rules on RHS attributes; None for all of them.

        It is the same object until the rules change.
        """
        key = None if attributes is None else frozenset(attributes)
        if key not in self._bound:
            self._bound[key] = RuleConditions(self.schema, self._on(key), self._out_of_force)
        return self._bound[key]

    def copy(self) -> ActiveRules:
        """Return a rule set that changes by itself."""
        return copy(self)

    def add(self, rule: Rule) -> ActiveRule:
        """Add a rule and return it; RuleError if it is wrong, or its id is that of an active rule."""
        self._add([rule])
        self.version += 1
        return self._active[rule.id]

    def delete(self, id: str) -> ActiveRule:
        """Delete a rule and return it; RuleError if no active rule has this id."""
        deleted = self._find(id, "deleted")
        self._replace(active for active in self if active is not deleted)
        self.version += 1
        return deleted

    def promote(self, id: str) -> ActiveRule:
        """Turn a shadow rule into a live one, which keeps its serial number, and return it.

        RuleError if no active rule has this id, or it is live already.
        """
        shadow = self._find(id, "promoted")
        if not shadow.rule.is_shadow:
            raise RuleError(f"rule {id!r}: cannot be promoted, it is live already; promote shadow rules only")
        live = replace(shadow, checked=replace(shadow.checked, rule=shadow.rule.with_mode("live")))
        self._replace(live if active is shadow else active for active in self)
        self.version += 1
        return live

    def put_out_of_force(self, id: str) -> None:
        """Let a rule apply to no tuple from now on; its id and the version stay, until it is deleted."""
        self._out_of_force |= {self._find(id, "put out of force").serial}
        self._bound = {}

    def apply(self, update: RuleUpdate) -> ActiveRule:
        """Apply a rule update, whatever its position; return its rule; RuleError if it is refused."""
        if update.rule is not None:
            return self.add(update.rule)
        if update.delete is not None:
            return self.delete(update.delete)
        assert update.promote is not None  # noqa: S101 -- an update is one of the three
        return self.promote(update.promote)

    def adopt_schema(self, schema: pa.Schema, position: int, trust: str | None = None) -> None:
        """Go on with another schema from a position on; the column `trust`, if given, is read, too.

        SchemaError if a column that is read is gone or of another type; nothing is changed.
        """
        if not isinstance(schema, pa.Schema):
            raise SchemaError(f"schema: {type(schema).__name__} is not a schema; give a pyarrow.Schema")
        place = f"schema from position {position} on"
        for name in [*self.columns_read(), *([trust] if trust else [])]:
            kind = self.schema.field(name).type
            found = [schema.field(at).type for at in schema.get_all_field_indices(name)]
            if found != [kind]:
                now = " and ".join(map(str, found)) or "gone"
                reader = "trust" if name == trust else "a rule or the id"
                raise SchemaError(
                    f"{place}: column {name!r}, which {reader} reads, was {kind} and is {now}; "
                    "keep it as it was, or delete the rules that read it before"
                )
        try:
            checked = check_rules(self.rules, schema)
        except RuleError as error:
            raise SchemaError(f"{place}: {error}") from error
        self.schema = schema
        self._replace(ActiveRule(rule, active.serial) for rule, active in zip(checked, self, strict=True))

    def save(self) -> dict[str, Any]:
        """Return all state but the schema and the id, fit for JSON."""
        return {
            "version": self.version,
            "next_serial": self._next_serial,
            "rules": [[active.serial, active.rule.to_dict()] for active in self],
            "out_of_force": sorted(self._out_of_force),
        }

    @classmethod
    def load(cls, schema: pa.Schema, id: str | None, saved: dict[str, Any]) -> ActiveRules:
        """Return a rule set as it was saved; ValueError if its numbers cannot be."""
        serials = [serial for serial, _ in saved["rules"]]
        numbers = [-1, *serials, saved["next_serial"]]
        is_sound = all(type(number) is int for number in (*numbers, saved["version"]))
        if not is_sound or numbers != sorted(set(numbers)) or not 1 <= saved["version"] < _NUMBER_MAX:
            raise ValueError("the numbers of rules are out of order")
        if numbers[-1] > _NUMBER_MAX:
            raise ValueError("the numbers of rules are too large")
        loaded = cls(schema, [Rule.from_dict(rule) for _, rule in saved["rules"]], id)
        loaded._replace(
            ActiveRule(active.checked, serial)
            for active, (serial, _) in zip(loaded, saved["rules"], strict=True)
        )
        loaded.version, loaded._next_serial = saved["version"], saved["next_serial"]
        loaded._out_of_force = frozenset(saved.get("out_of_force", ()))
        if not loaded._out_of_force <= {*serials}:
            raise ValueError("rules that are not there are out of force")
        return loaded

    def _on(self, attributes: Collection[str] | None) -> list[ActiveRule]:
        return [active for active in self if attributes is None or active.rule.rhs in attributes]

    def _find(self, id: str, what: str) -> ActiveRule:
        if not isinstance(id, str):
            raise RuleError(f"rule {id!r}: cannot be {what}; give the id of a rule, a text")
        if id not in self._active:
            known = ", ".join(map(repr, self._active)) or "none"
            raise RuleError(
                f"rule {id!r}: cannot be {what}, no active rule has this id; active rules: {known}"
            )
        return self._active[id]

    def _add(self, rules: list[Rule]) -> None:
        for rule in rules:
            check_not_id(rule, self.id)
        checked = check_rules(rules, self.schema, active=self._active)
        new = [ActiveRule(rule, serial) for serial, rule in enumerate(checked, self._next_serial)]
        self._next_serial += len(new)
        self._replace([*self, *new])

    def _replace(self, rules: Iterable[ActiveRule]) -> None:
        self._active = {active.id: active for active in rules}
        self._out_of_force &= {active.serial for active in self}
        self._bound = {}  # copies of this rule set keep theirs


class RuleConditions:
    """The conditions of some rules, all evaluated by one query. Not for use by two threads at a time.

    Those of rules that are out of force, by serial number, hold for no tuple.
    """

    def __init__(
        self, schema: pa.Schema, rules: Iterable[ActiveRule], out_of_force: Collection[int] = ()
    ) -> None:
        rules = list(rules)
        self._never = [active.id for active in rules if active.serial in out_of_force]
        found = {
            active.id: active.checked.condition
            for active in rules
            if active.checked.condition and active.id not in self._never
        }
        self._ids = list(found)
        read = {name for condition in found.values() for name in condition.columns}
        #: the columns that they read, in the order of the schema
        self.columns = [name for name in schema.names if name in read]
        fields = pa.schema([schema.field(name) for name in self.columns])
        self._conditions = ConditionEvaluator(fields, list(found.values()), self._ids)

    def evaluate(
        self, batch: pa.RecordBatch, limits: ConditionLimits = DEFAULT_CONDITION_LIMITS
    ) -> dict[str, Mask]:
        """Return where conditions hold, by id of the rules that have one or are out of force.

        The batch has exactly `columns`, without dictionaries. ConditionLimitError if some need more than the
        limits.
        """
        never = np.zeros(batch.num_rows, np.bool_)
        holds = dict(zip(self._ids, self._conditions.evaluate(batch, limits), strict=True))
        return holds | dict.fromkeys(self._never, never)
