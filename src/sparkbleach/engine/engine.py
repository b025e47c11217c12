"""The engine in one process: Arrow batches in, clean batches and their audit out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
from numpy.typing import NDArray

from ..config import DEFAULT_WINDOW, Window, check_repair, check_threads, check_windowing
from ..errors import ConfigError, RuleError, SchemaError, SnapshotError
from ..kernel.attribute import Attribute, HingedAttribute, PaneWindow, SoloAttribute
from ..kernel.graph import Mode
from ..kernel.saved import copied
from ..rules.active import check_quietly, rechecked
from ..rules.condition import Conditions
from ..rules.rule import CheckedRule, Rule, check_not_id, check_rules, columns_read
from ..rules.update import RuleUpdate
from .apply import BatchColumns, LiveRule, Mask, apply_rules
from .attribute import RuledAttribute
from .audit import RepairedColumn, audit_batch, audit_schema, replace_cells
from .encode import can_take, plain_columns
from .placement import Placement, Share
from .snapshot import SavedAttribute, Snapshot, from_parts, pack, to_parts, unpack

RuleLike = Rule | str | Mapping[str, Any]
T = TypeVar("T")
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
        share: What this engine has to clean if it is one of several lanes; all if not given. It knows all
            rules, but sees the columns of its own attributes only.

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
        share: Share | None = None,
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
        self.share = share
        self._pool: ThreadPoolExecutor | None = None
        #: where the next tuple will be in the stream
        self.position = 0
        #: of the rule set: grows by one with each update
        self.version = 1
        self.audit_schema = audit_schema(pa.int64() if id is None else schema.field(id).type)
        self._next_serial = 0
        #: by RHS attribute that has a live rule: its live rules
        self._live: dict[str, RuledAttribute] = {}
        #: by RHS attribute that has a shadow rule: its live and shadow rules
        self._shadow: dict[str, RuledAttribute] = {}
        self._repairs: dict[str, int] = {}
        for checked in check_rules([self._as_rule(rule) for rule in rules], schema):
            self._place(checked.rule)
            self._add(checked)
        self._bind_conditions()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force, earlier ones first."""
        return tuple(live.checked.rule for live in self._live_rules())

    @property
    def violations(self) -> dict[str, int]:
        """By rule in force: how many tuples have violated it."""
        found = {live.serial: n for ruled in self._ruled() for live, n in ruled.violations()}
        return {live.id: found[live.serial] for live in self._live_rules()}

    @property
    def repairs(self) -> dict[str, int]:
        """By rule in force: how many of the cells that violated it were changed, or would have been."""
        return {live.id: self._repairs[live.id] for live in self._live_rules()}

    @property
    def columns_read(self) -> list[str]:
        """The columns that the rules, their conditions and the id read, in the order of the schema."""
        return columns_read((live.checked for live in self._own_rules()), self.schema, self.id)

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        return sum(ruled.state.nbytes() for ruled in self._own())

    @property
    def super_cells(self) -> int:
        """How many super cells the state has, those that the sweep has yet to drop included."""
        return sum(ruled.state.n_super_cells() for ruled in self._own())

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
        self._place(checked.rule)
        self._add(checked)
        self._bind_conditions()
        self.version += 1

    def delete_rule(self, id: str) -> None:
        """Delete a rule: from the next tuple on its groups are gone.

        Raises:
            RuleError: If no live rule has this id; the engine is as it was.
        """
        rule = self._live_rule(id, "deleted").checked.rule
        for side in (self._live, self._shadow):
            ruled = side.get(rule.rhs)
            if ruled and any(live.id == id for live in ruled) and not ruled.delete(id):
                del side[rule.rhs]
        self._drop_idle_shadow(rule.rhs)
        del self._repairs[id]
        self._bind_conditions()
        self.version += 1

    def promote_rule(self, id: str) -> None:
        """Let a shadow rule become a live one, with all it has seen: from the next tuple on it repairs.

        Raises:
            RuleError: If no shadow rule in force has this id; the engine is as it was.
        """
        live = self._live_rule(id, "promoted")
        if not live.checked.rule.is_shadow:
            raise RuleError(f"rule {id!r}: cannot be promoted, it is live already; promote shadow rules only")
        attribute = live.checked.rule.rhs
        shadow = self._shadow[attribute]
        shadow.replace(replace(live, checked=replace(live.checked, rule=live.checked.rule.with_mode("live"))))
        others = [other.id for other in shadow if other.checked.rule.is_shadow]
        if others:
            self._live[attribute] = shadow.copy(applied=True)
            for other in others:
                self._live[attribute].delete(other)
        else:
            shadow.applied = True
            self._live[attribute] = self._shadow.pop(attribute)
        self._repairs[id] = 0  # what it would have repaired was not repaired
        self._bind_conditions()
        self.version += 1

    def apply(self, update: RuleUpdate) -> None:
        """Let a rule update take effect now, whatever its position.

        Raises:
            RuleError: If it is refused; the engine is as it was.
        """
        if update.rule is not None:
            self.add_rule(update.rule)
        elif update.delete is not None:
            self.delete_rule(update.delete)
        elif update.promote is not None:
            self.promote_rule(update.promote)

    def adopt_schema(self, schema: pa.Schema) -> None:
        """Go on with another schema: columns that no rule and not the id reads may come, go and change.

        Raises:
            SchemaError: If a column that is read is gone or of another type; the engine is as it was.
        """
        live_rules = self._live_rules()
        checked_rules = rechecked(
            [live.checked for live in live_rules], self.schema, schema, self.id, self.position
        )
        self.schema = schema
        for ruled in self._ruled():
            for live, checked in zip(live_rules, checked_rules, strict=True):
                ruled.replace(LiveRule(checked, live.serial))
        self._bind_conditions()

    def adopt_placement(self, placement: Placement) -> None:
        """Go on with another placement, as far as it is about attributes that no rule in force is about.

        Does nothing if the engine is not one of several lanes.
        """
        if self.share is not None:
            in_force = {live.checked.rule.rhs for live in self._live_rules()}
            self.share = replace(self.share, placement=self.share.placement.changed(placement, in_force))

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
        return pack(*self._parts([ruled.state.save() for ruled in self._ruled()]))

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state in parts, for `Engine.restore_parts`: the engine may go on at once.

        Returns:
            A header in JSON, and arrays of plain records (no objects) that share nothing with the engine.
        """
        return self._parts(
            self._each(lambda ruled: [copied(array) for array in ruled.state.save()], self._ruled())
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
            share=saved.share,
        )
        engine.position = saved.position
        engine.version = saved.version
        engine._next_serial = saved.next_serial
        rules = {serial: rule for ruled in saved.attributes for serial, rule in ruled.rules}
        checked_rules = check_quietly(list(rules.values()), saved.schema)
        live_rules = {
            serial: LiveRule(checked, serial) for serial, checked in zip(rules, checked_rules, strict=True)
        }
        states = engine._each(lambda ruled: engine._loaded(ruled.name, ruled.arrays), saved.attributes)
        for ruled, state in zip(saved.attributes, states, strict=True):
            columns = [live_rules[serial] for serial, _ in ruled.rules]
            engine._side(ruled.applied)[ruled.name] = RuledAttribute(
                ruled.name, saved.schema.field(ruled.name).type, state, columns, applied=ruled.applied
            )
        engine._repairs = dict(saved.repairs)
        engine._bind_conditions()
        return engine

    def close(self) -> None:
        """End the threads; an engine that is used again starts new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _decide(self, batches: Sequence[pa.RecordBatch]) -> list[list[RepairedColumn]]:
        # Those with many rules take longest: first, so that no thread waits for them at the end.
        attributes = sorted(self._own(), key=lambda ruled: -len(ruled.rules))
        holds = [self._evaluate_conditions(batch) for batch in batches]
        columns = [BatchColumns(batch) for batch in batches]
        if self.threads > 1:  # before two threads ask for the same one
            read = dict.fromkeys(
                name
                for ruled in attributes
                for live in ruled
                for name in (*live.checked.rule.lhs, ruled.name)
            )
            self._each(lambda name: [one[name] for one in columns], list(read))
        ready = self._each(
            lambda ruled: [
                apply_rules(one, ruled.name, ruled.rules, held, self.share)
                for one, held in zip(columns, holds, strict=True)
            ],
            attributes,
        )
        # Nothing that can fail on a bad batch comes after this line.
        decided = self._each(
            lambda work: work[0].clean(work[1], self.position, self.version),
            list(zip(attributes, ready, strict=True)),
        )
        repaired: list[list[RepairedColumn]] = [[] for _ in batches]
        order = {name: n for n, name in enumerate(self.schema.names)}
        results = sorted(
            zip(attributes, decided, strict=True),
            key=lambda result: (order[result[0].name], not result[0].applied),
        )
        for _, (found, by_rule) in results:
            for id, count in by_rule.items():
                self._repairs[id] += count
            for part, column in zip(repaired, found, strict=True):
                if column is not None:
                    part.append(column)
        self.position += sum(batch.num_rows for batch in batches)
        return repaired

    def _each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function for each item, in their order or in threads."""
        if self.threads == 1:
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "sparkbleach")
        calls = [self._pool.submit(function, item) for item in items]
        wait(calls)  # for all of them, even when one fails: none may go on behind the caller's back
        return [call.result() for call in calls]

    def _parts(self, states: list[list[NDArray[Any]]]) -> tuple[bytes, list[NDArray[Any]]]:
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
                repairs=self._repairs,
                attributes=[
                    SavedAttribute(
                        ruled.name,
                        ruled.applied,
                        [(live.serial, live.checked.rule) for live in ruled],
                        arrays,
                    )
                    for ruled, arrays in zip(self._ruled(), states, strict=True)
                ],
                share=self.share,
            )
        )

    def _as_rule(self, given: RuleLike) -> Rule:
        rule = as_rule(given)
        check_not_id(rule, self.id)
        return rule

    def _side(self, applied: bool) -> dict[str, RuledAttribute]:
        return self._live if applied else self._shadow

    def _ruled(self) -> list[RuledAttribute]:
        return [*self._live.values(), *self._shadow.values()]

    def _own(self) -> list[RuledAttribute]:
        """Return the attributes that are cleaned here; the states of others stay empty."""
        return [ruled for ruled in self._ruled() if self.share is None or self.share.has(ruled.name)]

    def _live_rules(self) -> list[LiveRule]:
        return _in_order(self._ruled())

    def _own_rules(self) -> list[LiveRule]:
        return _in_order(self._own())

    def _live_rule(self, id: str, what: str) -> LiveRule:
        for live in self._live_rules():
            if live.id == id:
                return live
        if not isinstance(id, str):
            raise RuleError(f"rule {id!r}: cannot be {what}; give the id of a rule, a text")
        known = ", ".join(repr(rule.id) for rule in self.rules) or "none"
        raise RuleError(f"rule {id!r}: cannot be {what}, no live rule has this id; live rules: {known}")

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

    def _place(self, rule: Rule) -> None:
        """Find the lane of a rule that comes: that of its attribute, or the least loaded one.

        Raises:
            RuleError: If its attribute is split and has a rule.
        """
        if self.share is None:
            return
        placement = self.share.placement
        n_rules = Counter(live.checked.rule.rhs for live in self._live_rules())
        if placement.is_split(rule.rhs) and n_rules[rule.rhs]:
            (other,) = (live.id for live in self._live_rules() if live.checked.rule.rhs == rule.rhs)
            raise RuleError(
                f"rule {rule.id!r}: {rule.rhs!r} is split over lanes by its rule {other!r}, and several "
                f"rules need all of its state in one lane; delete {other!r} before, or begin with "
                f"a new checkpoint and {rule.rhs!r} on one lane"
            )
        n_rules[rule.rhs] += 1
        self.share = replace(self.share, placement=placement.with_attributes(n_rules))

    def _add(self, checked: CheckedRule) -> None:
        live = LiveRule(checked, self._next_serial)
        self._next_serial += 1
        self._repairs[live.id] = 0
        attribute = checked.rule.rhs
        if checked.rule.is_shadow and attribute not in self._shadow and attribute in self._live:
            self._shadow[attribute] = self._live[attribute].copy(applied=False)
        sides = [self._shadow] if checked.rule.is_shadow else [self._live, self._shadow]
        for side in sides:
            if attribute in side:
                side[attribute].add(live)
            elif side is sides[0]:
                side[attribute] = RuledAttribute(
                    attribute,
                    self.schema.field(attribute).type,
                    self._new_state(SoloAttribute),
                    [live],
                    applied=side is self._live,
                )

    def _drop_idle_shadow(self, attribute: str) -> None:
        """Drop the shadow state of an attribute that has no shadow rule any more."""
        shadow = self._shadow.get(attribute)
        if shadow and not any(live.checked.rule.is_shadow for live in shadow):
            del self._shadow[attribute]

    def _bind_conditions(self) -> None:
        self._conditional = [live for live in self._own_rules() if live.checked.condition]
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


def as_rule(rule: RuleLike) -> Rule:
    """Return a rule from any of the ways to write one.

    Raises:
        RuleError: If it is wrong.
    """
    if isinstance(rule, str):
        return Rule.parse(rule)
    if isinstance(rule, Mapping):
        return Rule.from_dict(rule)
    if not isinstance(rule, Rule):
        raise RuleError(f"rule {rule!r}: it is a {type(rule).__name__}; give a Rule, a text or a mapping")
    return rule


def _in_order(attributes: Iterable[RuledAttribute]) -> list[LiveRule]:
    """Return the rules of attributes, earlier ones first."""
    live = {live.serial: live for ruled in attributes for live in ruled}
    return [live[serial] for serial in sorted(live)]


def _plain_fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return names and types; a dictionary is as good as its values."""
    return [
        (name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in _fields(schema)
    ]


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return list(zip(schema.names, schema.types, strict=True))


def _told(fields: Iterable[tuple[str, pa.DataType]]) -> str:
    return ", ".join(f"{name} {type}" for name, type in fields)
