"""The engine in one process: Arrow batches in, clean batches and their audit out."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .condition import Conditions
from .config import DEFAULT_WINDOW, Window, check_repair, check_threads, check_windowing
from .errors import ConfigError, RuleError, RuleWarning, SchemaError, SnapshotError
from .kernel.attribute import Attribute, HingedAttribute, PaneWindow, SoloAttribute
from .kernel.clean import Cells
from .kernel.graph import Mode
from .kernel.saved import copied
from .rule import CheckedRule, Rule, check_rules, columns_read
from .stage.apply import BatchColumns, Constants, LiveRule, Mask, apply_rules
from .stage.audit import RepairedColumn, audit_batch, audit_schema, repaired_column, replace_cells
from .stage.encode import can_take, plain_columns
from .stage.snapshot import Snapshot, from_parts, pack, to_parts, unpack

RuleLike = Rule | str | Mapping[str, Any]
R = TypeVar("R")


class Engine:
    """Clean a stream by rules, tuple by tuple, from what was seen earlier.

    Args:
        schema: The schema of the stream.
        rules: The rules in force from the first tuple on: objects, texts, or mappings as in a file of rules.
        id: The attribute with each tuple's unique id, for the audit; without it the position is the id.
        window: The window that bounds the state; None keeps everything.
        windowing: `bleach` (counts are cumulative while a group has violations) or `basic`.
        repair: `class` (over the whole subgraph) or `vote` (over the tuple's own groups).
        threads: How many attributes are cleaned at the same time; the results do not depend on it.

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
        threads: int = 1,
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
        self.threads = check_threads(threads)
        self._pool: ThreadPoolExecutor | None = None
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
    def columns_read(self) -> list[str]:
        """The columns that the live rules, their conditions and the id read, in the order of the schema."""
        return columns_read((live.checked for live in self._live_rules()), self.schema, self.id)

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
        (repaired,) = self._decide([batch])
        ids = None if self.id is None else batch.column(self.id)
        _, audit = audit_batch(repaired, batch, ids, self.audit_schema)
        return replace_cells(batch, repaired), audit

    def decide(self, batch: pa.RecordBatch) -> list[RepairedColumn]:
        """Clean the next tuples of the stream, but leave it to the caller to put the new cells in place.

        Args:
            batch: The tuples. Columns that are not in `columns_read` may be missing, and the order of
                columns does not matter.

        Returns:
            The new cells and the reasons by attribute, for `replace_cells` and `audit_batch`.

        Raises:
            SchemaError: If a column is missing, unknown or of another type; the engine is as it was.
        """
        return self.decide_all([batch])[0]

    def decide_all(self, batches: Sequence[pa.RecordBatch]) -> list[list[RepairedColumn]]:
        """Do with several batches what `decide` does with one; return the repairs of each.

        It is faster than one call for each, because the state of an attribute stays in the processor's cache
        while all batches are cleaned. Columns may have dictionaries.

        Raises:
            SchemaError: If a column is missing, unknown or of another type; the engine is as it was.
        """
        for batch in batches:
            self._check_columns(batch)
        return self._decide(batches)

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

    def adopt_schema(self, schema: pa.Schema) -> None:
        """Go on with another schema: columns that no rule and not the id reads may come, go and change.

        Raises:
            SchemaError: If a column that is read is gone or of another type; the engine is as it was.
        """
        if not isinstance(schema, pa.Schema):
            raise SchemaError(f"schema: {type(schema).__name__} is not a schema; give a pyarrow.Schema")
        place = f"schema from position {self.position} on"
        for name in self.columns_read:
            kind = self.schema.field(name).type
            found = [other for column, other in _fields(schema) if column == name]
            if found != [kind]:
                now = " and ".join(map(str, found)) or "gone"
                raise SchemaError(
                    f"{place}: column {name!r}, which a rule or the id reads, was {kind} and is {now}; "
                    "keep it as it was, or delete the rules that read it before"
                )
        live_rules = self._live_rules()
        try:
            checked_rules = _check_quietly([live.checked.rule for live in live_rules], schema)
        except RuleError as error:
            raise SchemaError(f"{place}: {error}") from error
        self.schema = schema
        again = {
            live.serial: LiveRule(checked, live.serial)
            for live, checked in zip(live_rules, checked_rules, strict=True)
        }
        for columns in self._rules.values():
            columns[:] = [live and again[live.serial] for live in columns]
        self._bind_conditions()

    def report(self) -> dict[str, Any]:
        """Return the position, the version, the counters and the size of the state, all fit for JSON."""
        return {
            "position": self.position,
            "version": self.version,
            "rules": [rule.id for rule in self.rules],
            "violations": self.violations,
            "repairs": self.repairs,
            "super_cells": self.super_cells,
            "nbytes": self.nbytes,
        }

    def snapshot(self) -> bytes:
        """Return all state as bytes, for `Engine.restore`."""
        return pack(*self._parts({name: state.save() for name, state in self._states.items()}))

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state in parts, for `Engine.restore_parts`: the engine may go on at once.

        Returns:
            A header in JSON, and arrays of plain records (no objects) that share nothing with the engine.
        """
        return self._parts(
            self._each(lambda name: [copied(array) for array in self._states[name].save()], self._states)
        )

    @classmethod
    def restore(cls, data: bytes, *, threads: int = 1) -> Engine:
        """Return an engine that goes on exactly where the one that made the snapshot was.

        Args:
            data: What `snapshot` returned.
            threads: As for a new engine.

        Raises:
            SnapshotError: If the bytes are damaged, not a snapshot, or of another format version.
        """
        return cls.restore_parts(*unpack(data), threads=threads)

    @classmethod
    def restore_parts(cls, header: bytes, arrays: Sequence[NDArray[Any]], *, threads: int = 1) -> Engine:
        """Return an engine that goes on exactly where the one that made the snapshot was.

        Args:
            header: The header that `snapshot_parts` returned.
            arrays: The arrays that it returned, in their order; they are copied.
            threads: As for a new engine.

        Raises:
            SnapshotError: If these are not all parts of one snapshot, or of another format version.
        """
        saved = from_parts(header, arrays)
        engine = cls(
            saved.schema,
            id=saved.id,
            window=saved.window,
            windowing=saved.windowing,
            repair=saved.repair,
            threads=threads,
        )
        engine.position = saved.position
        engine.version = saved.version
        engine._next_serial = saved.next_serial
        engine._states = engine._each(lambda name: engine._loaded(name, saved.states[name]), saved.states)
        engine._rules = {name: [None] * state.n_columns for name, state in engine._states.items()}
        checked_rules = _check_quietly([rule for *_, rule in saved.rules], saved.schema)
        for (attribute, j, serial, repairs, _), checked in zip(saved.rules, checked_rules, strict=True):
            engine._rules[attribute][j] = LiveRule(checked, serial)
            engine._repairs[checked.rule.id] = repairs
        engine._bind_conditions()
        return engine

    def close(self) -> None:
        """End the threads; an engine that is used again starts new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _decide(self, batches: Sequence[pa.RecordBatch]) -> list[list[RepairedColumn]]:
        # Those with many rules take longest: first, so that no thread waits for them at the end.
        attributes = sorted(self._states, key=lambda attribute: -len(self._rules[attribute]))
        holds = [self._evaluate_conditions(batch) for batch in batches]
        columns = [BatchColumns(batch) for batch in batches]
        if self.threads > 1:  # before two threads ask for the same one
            read = dict.fromkeys(
                name
                for attribute in attributes
                for live in self._rules[attribute]
                if live
                for name in (*live.checked.rule.lhs, attribute)
            )
            self._each(lambda name: [one[name] for one in columns], read)
        ready = self._each(
            lambda attribute: [
                apply_rules(one, attribute, self._rules[attribute], held)
                for one, held in zip(columns, holds, strict=True)
            ],
            attributes,
        )
        # Nothing that can fail on a bad batch comes after this line.
        decided = self._each(lambda attribute: self._clean(attribute, ready[attribute]), attributes)
        repaired: list[list[RepairedColumn]] = [[] for _ in batches]
        for attribute in self.schema.names:
            if attribute in decided:
                found, by_rule = decided[attribute]
                for id, count in by_rule.items():
                    self._repairs[id] += count
                for part, column in zip(repaired, found, strict=True):
                    if column is not None:
                        part.append(column)
        self.position += sum(batch.num_rows for batch in batches)
        return repaired

    def _clean(
        self, attribute: str, batches: list[tuple[Cells, Constants | None]]
    ) -> tuple[list[RepairedColumn | None], dict[str, int]]:
        """Clean one attribute; return its repairs in each batch, and their number by rule.

        It runs for several attributes at a time, and writes to the state of its own only.
        """
        state, rules = self._states[attribute], self._rules[attribute]
        type = self.schema.field(attribute).type
        by_rule = {live.id: 0 for live in rules if live}
        position = self.position
        found: list[RepairedColumn | None] = []
        for cells, constants in batches:
            repairs, n_repairs = state.process(cells, position)
            column = None
            if n_repairs:
                column = repaired_column(
                    type,
                    attribute,
                    rules,
                    state.values,
                    repairs,
                    n_repairs,
                    constants,
                    position,
                    self.version,
                )
                for j, live in enumerate(rules):
                    if live:
                        by_rule[live.id] += int(np.count_nonzero(repairs.violated[:n_repairs, j]))
            found.append(column)
            position += cells.constant.size
        return found, by_rule

    def _each(self, function: Callable[[str], R], names: Iterable[str]) -> dict[str, R]:
        """Call a function for each name, in their order or in threads."""
        if self.threads == 1:
            return {name: function(name) for name in names}
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "sparkbleach")
        calls = {name: self._pool.submit(function, name) for name in names}
        wait(calls.values())  # for all of them, even when one fails: none may go on behind the caller's back
        return {name: call.result() for name, call in calls.items()}

    def _parts(self, states: dict[str, list[NDArray[Any]]]) -> tuple[bytes, list[NDArray[Any]]]:
        return to_parts(
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
                states=states,
            )
        )

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

    def _loaded(self, name: str, arrays: list[NDArray[Any]]) -> Attribute:
        state = self._new_state(SoloAttribute if arrays[0].size == 1 else HingedAttribute)
        try:
            state.load(arrays)
        except ValueError as error:
            raise SnapshotError(
                f"snapshot: attribute {name!r}: {error}; give all that snapshot_parts() returned"
            ) from None
        return state

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
        conditions = [live.checked.condition for live in self._conditional if live.checked.condition]
        #: in the order of the schema; batches for the conditions have these columns only
        self._condition_columns = [
            name for name in self.schema.names if any(name in condition.columns for condition in conditions)
        ]
        schema = pa.schema([self.schema.field(name) for name in self._condition_columns])
        self._conditions = Conditions(schema, conditions)

    def _evaluate_conditions(self, batch: pa.RecordBatch) -> dict[str, Mask]:
        if not self._conditional:
            return {}
        masks = self._conditions.evaluate(plain_columns(batch.select(self._condition_columns)))
        return {live.id: mask for live, mask in zip(self._conditional, masks, strict=True)}

    def _check_columns(self, batch: pa.RecordBatch) -> None:
        """Refuse a batch that lacks a column that is read, or has one that the schema does not have."""
        self._check_batch(batch)
        wrong = Counter(_plain_fields(batch.schema)) - Counter(_plain_fields(self.schema))
        if wrong:
            raise SchemaError(
                f"batch at position {self.position}: its columns ({_told(wrong)}) are not those of the "
                f"engine's schema ({_told(_fields(self.schema))}); drop or cast them before"
            )
        missing = [name for name in self.columns_read if name not in batch.schema.names]
        if missing:
            raise SchemaError(
                f"batch at position {self.position}: it lacks {', '.join(map(repr, missing))}, which the "
                f"rules or the id read; select at least {', '.join(map(repr, self.columns_read))}"
            )

    def _check_batch(self, batch: pa.RecordBatch) -> None:
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(
                f"batch at position {self.position}: it is a {type(batch).__name__}; "
                "give a pyarrow.RecordBatch (of a table: each of table.to_batches())"
            )

    def _check_schema(self, batch: pa.RecordBatch) -> None:
        self._check_batch(batch)
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise SchemaError(
                f"batch at position {self.position}: its schema is ({_told(_fields(batch.schema))}), "
                f"the engine's is ({_told(_fields(self.schema))}); select and cast the columns before"
            )


def _check_quietly(rules: Sequence[Rule], schema: pa.Schema) -> tuple[CheckedRule, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)  # it was given when the rules came
        return check_rules(rules, schema)


def _plain_fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return names and types; a dictionary is as good as its values."""
    return [
        (name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in _fields(schema)
    ]


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return list(zip(schema.names, schema.types, strict=True))


def _told(fields: Iterable[tuple[str, pa.DataType]]) -> str:
    return ", ".join(f"{name} {type}" for name, type in fields)
