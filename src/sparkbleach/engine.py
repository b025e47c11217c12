"""The engine in one process: Arrow batches in, clean batches and their audit out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from .condition import Conditions
from .config import DEFAULT_WINDOW, Window, check_repair, check_windowing
from .errors import ConfigError, RuleError, RuleWarning, SchemaError
from .kernel.attribute import Attribute, HingedAttribute, PaneWindow, SoloAttribute
from .kernel.graph import Mode
from .rule import CheckedRule, Rule, check_rules
from .stage.apply import BatchColumns, LiveRule, Mask, apply_rules
from .stage.audit import RepairedColumn, audit_batch, audit_schema, repaired_column
from .stage.encode import can_take, take
from .stage.snapshot import Snapshot, pack, unpack

RuleLike = Rule | str | Mapping[str, Any]


class Engine:
    """Clean a stream by rules, tuple by tuple, from what was seen earlier.

    Args:
        schema: The schema of the stream.
        rules: The rules in force from the first tuple on: objects, texts, or mappings as in a file of rules.
        id: The attribute with each tuple's unique id, for the audit; without it the position is the id.
        window: The window that bounds the state; None keeps everything.
        windowing: `bleach` (counts are cumulative while a group has violations) or `basic`.
        repair: `class` (over the whole subgraph) or `vote` (over the tuple's own groups).

    Raises:
        RuleError: If a rule is wrong or does not fit the schema.
        ConfigError: If another option is wrong.
    """

    def __init__(
        self,
        schema: pa.Schema,
        rules: Iterable[RuleLike] = (),
        *,
        id: str | None = None,
        window: Window | None = DEFAULT_WINDOW,
        windowing: str = "bleach",
        repair: str = "class",
    ) -> None:
        if not isinstance(schema, pa.Schema):
            raise ConfigError(f"schema: {type(schema).__name__} is not a schema; give a pyarrow.Schema")
        if window is not None and not isinstance(window, Window):
            raise ConfigError(
                f"window: {window!r} is not a window; write Window.tuples(1000, slide=500) or None"
            )
        if isinstance(rules, str | Rule | Mapping) or not isinstance(rules, Iterable):
            raise ConfigError(f"rules: {rules!r} is not a list of rules; put it in brackets")
        if id is not None and schema.names.count(id) != 1:
            raise ConfigError(
                f"id: the schema has no single attribute {id!r}; choose one of {', '.join(schema.names)}"
            )
        if id is not None and not can_take(schema.field(id).type):
            raise ConfigError(
                f"id: {id!r} is of type {schema.field(id).type}; cast it to a plain type before"
            )
        self.schema = schema
        self.id = id
        self.window = window
        self.windowing = check_windowing(windowing)
        self.repair = check_repair(repair)
        #: where the next tuple will be in the stream
        self.position = 0
        #: of the rule set: grows by one with each update
        self.version = 1
        self.audit_schema = audit_schema(pa.int64() if id is None else schema.field(id).type)
        self._next_serial = 0
        #: by RHS attribute: its rules by kernel column, None where a column waits for a rule
        self._rules: dict[str, list[LiveRule | None]] = {}
        #: by RHS attribute that has a rule: its state
        self._states: dict[str, Attribute] = {}
        self._repairs: dict[str, int] = {}
        for checked in check_rules([self._as_rule(rule) for rule in rules], schema):
            self._add(checked)
        self._bind_conditions()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The live rules, earlier ones first."""
        return tuple(live.checked.rule for live in self._live_rules())

    @property
    def violations(self) -> dict[str, int]:
        """By live rule: how many tuples have violated it."""
        return {
            live.id: int(self._states[attribute].violations[j])
            for attribute, columns in self._rules.items()
            for j, live in enumerate(columns)
            if live
        }

    @property
    def repairs(self) -> dict[str, int]:
        """By live rule: how many of the cells that violated it were changed."""
        return {live.id: self._repairs[live.id] for live in self._live_rules()}

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        return sum(state.nbytes() for state in self._states.values())

    @property
    def super_cells(self) -> int:
        """How many super cells the state has, those that the sweep has yet to drop included."""
        return sum(state.n_super_cells() for state in self._states.values())

    def process(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Clean the next tuples of the stream.

        Returns:
            The same tuples, cleaned, and one audit row for each changed cell.

        Raises:
            SchemaError: If the batch has another schema; the engine is as it was.
        """
        self._check_schema(batch)
        columns = BatchColumns(batch)
        holds = self._evaluate_conditions(batch)
        ready = [
            (attribute, apply_rules(columns, attribute, self._rules[attribute], holds))
            for attribute in self.schema.names
            if attribute in self._states
        ]
        # Nothing that can fail on a bad batch comes after this line.
        repaired: list[RepairedColumn] = []
        for attribute, (cells, constants) in ready:
            state = self._states[attribute]
            repairs, n_repairs = state.process(cells, self.position)
            if n_repairs:
                rules = self._rules[attribute]
                for j, live in enumerate(rules):
                    if live:
                        self._repairs[live.id] += int(repairs.violated[:n_repairs, j].sum())
                repaired.append(
                    repaired_column(
                        batch.column(attribute),
                        attribute,
                        rules,
                        state.values,
                        repairs,
                        n_repairs,
                        constants,
                    )
                )
        clean = _replace(batch, repaired)
        ids = None if self.id is None else batch.column(self.id)
        audit = audit_batch(repaired, ids, self.position, self.version, self.audit_schema)
        self.position += batch.num_rows
        return clean, audit

    def add_rule(self, rule: RuleLike) -> None:
        """Add a rule: it is in force from the next tuple on, and begins with no groups.

        Raises:
            RuleError: If it is wrong, or its id is that of a live rule; the engine is as it was.
        """
        (checked,) = check_rules([self._as_rule(rule)], self.schema, live=self.rules)
        self._add(checked)
        self._bind_conditions()
        self.version += 1

    def delete_rule(self, id: str) -> None:
        """Delete a rule: from the next tuple on its groups are gone.

        Raises:
            RuleError: If no live rule has this id; the engine is as it was.
        """
        for attribute, columns in self._rules.items():
            for j, live in enumerate(columns):
                if live and live.id == id:
                    columns[j] = None
                    if any(columns):
                        self._states[attribute].delete_column(j)
                    else:
                        del self._rules[attribute], self._states[attribute]
                    del self._repairs[id]
                    self._bind_conditions()
                    self.version += 1
                    return
        if not isinstance(id, str):
            raise RuleError(f"rule {id!r}: cannot be deleted; give the id of a rule, a text")
        known = ", ".join(repr(rule.id) for rule in self.rules) or "none"
        raise RuleError(f"rule {id!r}: cannot be deleted, no live rule has this id; live rules: {known}")

    def snapshot(self) -> bytes:
        """Return all state as bytes, for `Engine.restore`."""
        return pack(
            Snapshot(
                schema=self.schema,
                id=self.id,
                window=self.window,
                windowing=self.windowing,
                repair=self.repair,
                position=self.position,
                version=self.version,
                next_serial=self._next_serial,
                rules=[
                    (attribute, j, live.serial, self._repairs[live.id], live.checked.rule)
                    for attribute, columns in self._rules.items()
                    for j, live in enumerate(columns)
                    if live
                ],
                states={name: state.save() for name, state in self._states.items()},
            )
        )

    @classmethod
    def restore(cls, data: bytes) -> Engine:
        """Return an engine that goes on exactly where the one that made the snapshot was.

        Raises:
            SnapshotError: If the bytes are damaged, not a snapshot, or of another format version.
        """
        saved = unpack(data)
        engine = cls(
            saved.schema, id=saved.id, window=saved.window, windowing=saved.windowing, repair=saved.repair
        )
        engine.position = saved.position
        engine.version = saved.version
        engine._next_serial = saved.next_serial
        for name, arrays in saved.states.items():
            n_columns = arrays[0].size
            state = engine._new_state(SoloAttribute if n_columns == 1 else HingedAttribute)
            state.load(arrays)
            engine._states[name] = state
            engine._rules[name] = [None] * n_columns
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuleWarning)  # it was given when the rules came
            checked_rules = check_rules([rule for *_, rule in saved.rules], saved.schema)
        for (attribute, j, serial, repairs, _), checked in zip(saved.rules, checked_rules, strict=True):
            engine._rules[attribute][j] = LiveRule(checked, serial)
            engine._repairs[checked.rule.id] = repairs
        engine._bind_conditions()
        return engine

    def _as_rule(self, rule: RuleLike) -> Rule:
        if isinstance(rule, str):
            rule = Rule.parse(rule)
        elif isinstance(rule, Mapping):
            rule = Rule.from_dict(rule)
        elif not isinstance(rule, Rule):
            raise RuleError(f"rule {rule!r}: it is a {type(rule).__name__}; give a Rule, a text or a mapping")
        if rule.rhs == self.id:
            raise RuleError(
                f"rule {rule.id!r}, rhs: {rule.rhs!r} is the id of the tuples, which no rule may change; "
                "choose another RHS, or another id"
            )
        return rule

    def _live_rules(self) -> list[LiveRule]:
        live = [live for columns in self._rules.values() for live in columns if live]
        return sorted(live, key=lambda rule: rule.serial)

    def _new_state(self, kind: type[Attribute]) -> Attribute:
        mode = Mode(basic=self.windowing == "basic", vote=self.repair == "vote")
        window = PaneWindow(0, 1)
        if self.window:
            window = PaneWindow(self.window.slide, self.window.size // self.window.slide)
        return kind(mode, window, self.position)

    def _add(self, checked: CheckedRule) -> None:
        live = LiveRule(checked, self._next_serial)
        self._next_serial += 1
        self._repairs[live.id] = 0
        attribute = checked.rule.rhs
        if attribute not in self._rules:
            self._rules[attribute] = [live]
            self._states[attribute] = self._new_state(SoloAttribute)
            return
        columns = self._rules[attribute]
        if None in columns:
            columns[columns.index(None)] = live
        else:
            columns.append(live)
            self._states[attribute] = self._states[attribute].with_column()

    def _bind_conditions(self) -> None:
        self._conditional = [live for live in self._live_rules() if live.checked.condition]
        self._conditions = Conditions(
            self.schema, [live.checked.condition for live in self._conditional if live.checked.condition]
        )

    def _evaluate_conditions(self, batch: pa.RecordBatch) -> dict[str, Mask]:
        if not self._conditional:
            return {}
        masks = self._conditions.evaluate(batch)
        return {live.id: mask for live, mask in zip(self._conditional, masks, strict=True)}

    def _check_schema(self, batch: pa.RecordBatch) -> None:
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(
                f"batch at position {self.position}: it is a {type(batch).__name__}; "
                "give a pyarrow.RecordBatch (of a table: each of table.to_batches())"
            )
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise SchemaError(
                f"batch at position {self.position}: its schema is ({_told(batch.schema)}), "
                f"the engine's is ({_told(self.schema)}); select and cast the columns before"
            )


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _replace(batch: pa.RecordBatch, repaired: list[RepairedColumn]) -> pa.RecordBatch:
    """Return the batch with the repaired cells in place of the old ones."""
    columns = batch.columns
    for column in repaired:
        at = batch.schema.get_field_index(column.attribute)
        which = np.arange(batch.num_rows)
        which[column.rows] = batch.num_rows + np.arange(column.rows.size)
        columns[at] = take(pa.concat_arrays([columns[at], column.new]), which)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
