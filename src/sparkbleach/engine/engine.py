"""The engine in one process: Arrow batches in, clean batches and their audit out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from ..config import (
    DEFAULT_REMEMBER,
    DEFAULT_WINDOW,
    Remember,
    Window,
    check_accept_after,
    check_count,
    check_repair,
    check_window,
    check_windowing,
    remember_panes,
)
from ..errors import SchemaError
from ..kernel.saved import copied
from ..rules.active import ActiveRules
from ..rules.check import warn_of_twins
from ..rules.rule import Rule, RuleLike, as_rule
from ..rules.update import RuleUpdate
from .acceptance import KEPT_MAX, Acceptance, AcceptedColumn
from .apply import BatchColumns, apply_rules, evaluate_conditions
from .attribute import AttributeCleaner, AttributeCleaners
from .audit import RepairedColumn, audit_batch, audit_schema, in_schema_order, replace_cells
from .check import check_columns, check_same_schema, check_stream
from .panes import PaneClock, check_time_column
from .placement import Placement, Share
from .snapshot import Snapshot, from_parts, pack, to_parts, unpack
from .threads import Threads


class Engine:
    """Clean a stream by rules, tuple by tuple, from what was seen earlier.

    Two rules that say the same thing under different ids give a RuleWarning.

    Args:
        schema: The schema of the stream.
        rules: The rules that are active from the first tuple on: objects, texts, or mappings as in a file of
            rules.
        id: The attribute with each tuple's unique id, for the audit; without it the position is the id.
        window: The window that bounds the state; None keeps everything.
        windowing: `bleach` (counts are cumulative while a group has violations) or `basic`.
        repair: `class` (over the whole subgraph) or `vote` (over the tuple's own groups).
        accept_after: A value that a group meets this often, and the true one hardly any more, is accepted as
            its new truth; None: never.
        remember: For how many tuples Bleach windowing keeps a count: a multiple of the window's slide, and at
            least its size; a duration if the window is one in time; None: for ever.
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
        accept_after: int | None = 10,
        remember: Remember = DEFAULT_REMEMBER,
        threads: int = 1,
        share: Share | None = None,
    ) -> None:
        active = check_stream(schema, rules, id)
        self._set_options(active, window, windowing, repair, accept_after, remember, threads, share)
        self._begin()
        warn_of_twins(one.checked for one in active)

    @classmethod
    def of(
        cls,
        rules: ActiveRules,
        *,
        window: Window | None = DEFAULT_WINDOW,
        windowing: str = "bleach",
        repair: str = "class",
        accept_after: int | None = 10,
        remember: Remember = DEFAULT_REMEMBER,
        threads: int = 1,
        share: Share | None = None,
    ) -> Engine:
        """Return a new engine that owns active rules, of which it does not warn."""
        engine = cls.__new__(cls)
        engine._set_options(rules, window, windowing, repair, accept_after, remember, threads, share)
        engine._begin()
        return engine

    def _set_options(
        self,
        rules: ActiveRules,
        window: Window | None,
        windowing: str,
        repair: str,
        accept_after: int | None,
        remember: Remember,
        threads: int,
        share: Share | None,
    ) -> None:
        self._rules = rules
        self.window = check_window(window)
        check_time_column(window, rules.schema)
        #: what time it is in a time window; None if there is none
        self._clock = PaneClock(window.column, window.slide) if window and window.column else None
        self.windowing = check_windowing(windowing)
        self.repair = check_repair(repair)
        self.accept_after = check_accept_after(accept_after)
        self.remember = remember
        self.share = share
        self._threads = Threads(check_count("threads", threads))
        #: where the next tuple will be in the stream
        self.position = 0
        id_type = pa.int64() if self.id is None else self.schema.field(self.id).type
        self.audit_schema = audit_schema(id_type)
        panes = remember_panes(remember, window)
        self._cleaners = AttributeCleaners(window, windowing, repair, panes, accept_after)
        self._accepted: deque[Acceptance] = deque(maxlen=KEPT_MAX)
        #: by id of an active rule: how many repairs it is answerable for
        self._repairs: dict[str, int] = {}

    def _begin(self) -> None:
        """Let all rules begin, with no groups."""
        for n, active in enumerate(self._rules):
            if self.share is not None:
                self.share = self.share.with_rule(active.rule, self.rules[:n])
            self._repairs[active.id] = 0
            self._cleaners.add(active, self.schema.field(active.rule.rhs).type, self._pane())

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stream."""
        return self._rules.schema

    @property
    def id(self) -> str | None:
        """The attribute with each tuple's unique id."""
        return self._rules.id

    @property
    def threads(self) -> int:
        """How many attributes are cleaned at the same time."""
        return self._threads.n

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The active rules, earlier ones first."""
        return self._rules.rules

    @property
    def version(self) -> int:
        """The version of the rule set: grows by one with each update."""
        return self._rules.version

    @property
    def violations(self) -> dict[str, int]:
        """By active rule: how many tuples have violated it."""
        found = {active.serial: n for cleaner in self._cleaners for active, n in cleaner.violations()}
        return {active.id: found[active.serial] for active in self._rules}

    @property
    def repairs(self) -> dict[str, int]:
        """By active rule: how many of the cells that violated it were changed, or would have been."""
        return {active.id: self._repairs[active.id] for active in self._rules}

    @property
    def columns_read(self) -> list[str]:
        """The columns that the rules, their conditions, the id and the window read, in schema order."""
        read = self._rules.columns_read(self._own_attributes())
        if self._clock is None or self._clock.column in read:
            return read
        return [name for name in self.schema.names if name in read or name == self._clock.column]

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        return sum(cleaner.state.nbytes() for cleaner in self._own_cleaners())

    @property
    def super_cells(self) -> int:
        """How many super cells the state has, those that the sweep has yet to drop included."""
        return sum(cleaner.state.n_super_cells() for cleaner in self._own_cleaners())

    def process(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Clean the next tuples of the stream.

        Returns:
            The same tuples, cleaned, and one audit row for each changed cell.

        Raises:
            SchemaError: If the batch has another schema; the engine is as it was.
        """
        check_same_schema(batch, self.schema, self.position)
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
        read = self.columns_read
        for batch in batches:
            check_columns(batch, self.schema, read, self.position)
        return self._decide(batches)

    def take_accepted(self) -> list[Acceptance]:
        """Return the changes that were accepted since the last call, in stream order; at most 100,000."""
        accepted = list(self._accepted)
        self._accepted.clear()
        return accepted

    def add_rule(self, rule: RuleLike) -> None:
        """Add a rule: it is active from the next tuple on, and begins with no groups.

        Raises:
            RuleError: If it is wrong, or its id is that of an active rule; the engine is as it was.
        """
        self._apply_and_warn(RuleUpdate(rule=as_rule(rule)))

    def delete_rule(self, id: str) -> None:
        """Delete a rule: from the next tuple on its groups are gone.

        Raises:
            RuleError: If no active rule has this id; the engine is as it was.
        """
        self.change_rules(RuleUpdate(delete=id))

    def promote_rule(self, id: str) -> None:
        """Turn a shadow rule into a live one, with all it has seen: from the next tuple on it repairs.

        Raises:
            RuleError: If no active shadow rule has this id; the engine is as it was.
        """
        self.change_rules(RuleUpdate(promote=id))

    def apply(self, update: RuleUpdate) -> None:
        """Apply a rule update now, whatever its position.

        Raises:
            RuleError: If it is refused; the engine is as it was.
        """
        self._apply_and_warn(update)

    def _apply_and_warn(self, update: RuleUpdate) -> None:
        self.change_rules(update)
        if update.rule is not None:
            warn_of_twins((active.checked for active in self._rules), {update.id}, stacklevel=4)

    def change_rules(self, update: RuleUpdate) -> None:
        """Do what `apply` does with an update of which its author was warned already.

        Raises:
            RuleError: If it is refused; the engine is as it was.
        """
        share = self.share
        if share is not None and update.rule is not None:
            share = share.with_rule(update.rule, self.rules)
        active = self._rules.apply(update)
        self.share = share
        if update.rule is not None:
            self._cleaners.add(active, self.schema.field(active.rule.rhs).type, self._pane())
            self._repairs[active.id] = 0
        elif update.delete is not None:
            self._cleaners.delete(active)
            del self._repairs[active.id]
        else:
            self._cleaners.promote(active)
            self._repairs[active.id] = 0  # what it would have repaired was not repaired

    def adopt_schema(self, schema: pa.Schema) -> None:
        """Go on with another schema: columns that no rule and not the id reads may come, go and change.

        Raises:
            SchemaError: If a column that is read is gone or of another type; the engine is as it was.
        """
        if self._clock is not None and isinstance(schema, pa.Schema):
            kind = self.schema.field(self._clock.column).type
            if [one.type for one in schema if one.name == self._clock.column] != [kind]:
                raise SchemaError(
                    f"schema from position {self.position} on: column {self._clock.column!r}, which the "
                    f"window reads, was {kind}; keep it as it was"
                )
        self._rules.adopt_schema(schema, self.position)
        self._cleaners.replace_rules(self._rules)

    def adopt_placement(self, placement: Placement) -> None:
        """Go on with another placement of the attributes that no active rule is about.

        Does nothing if the engine is not one of several lanes.
        """
        if self.share is not None:
            kept = {rule.rhs for rule in self.rules}
            self.share = replace(self.share, placement=self.share.placement.changed(placement, kept))

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
        return pack(*self._parts([cleaner.state.save() for cleaner in self._cleaners]))

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state in parts, for `Engine.restore_parts`: the engine may go on at once.

        Returns:
            A header in JSON, and arrays of plain records (no objects) that share nothing with the engine.
        """
        cleaners = list(self._cleaners)
        return self._parts(
            self._threads.map(lambda one: [copied(array) for array in one.state.save()], cleaners)
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
        engine = cls.__new__(cls)
        engine._set_options(
            saved.rules,
            saved.window,
            saved.windowing,
            saved.repair,
            saved.accept_after,
            saved.remember,
            threads,
            saved.share,
        )
        engine.position = saved.position
        if engine._clock is not None:
            engine._clock = replace(engine._clock, first=saved.clock[0], pane=saved.clock[1])
        engine._repairs = dict(saved.repairs)
        cleaners = engine._cleaners
        states = engine._threads.map(lambda one: cleaners.load_state(one, engine._pane()), saved.attributes)
        for one, state in zip(saved.attributes, states, strict=True):
            cleaners.put(one, state, saved.rules)
        return engine

    def close(self) -> None:
        """End the threads; an engine that is used again starts new ones."""
        self._threads.close()

    def _decide(self, batches: Sequence[pa.RecordBatch]) -> list[list[RepairedColumn]]:
        # Those with many rules take longest: first, so that no thread waits for them at the end.
        cleaners = sorted(self._own_cleaners(), key=lambda cleaner: -len(cleaner.rules))
        own = self._own_attributes()
        holds = [evaluate_conditions(self._rules, batch, own) for batch in batches]
        columns = [BatchColumns(batch) for batch in batches]
        if self._threads.n > 1:  # before two threads ask for the same one
            read = dict.fromkeys(
                name
                for cleaner in cleaners
                for active in cleaner
                for name in (*active.rule.lhs, cleaner.name)
            )
            self._threads.map(lambda name: [one[name] for one in columns], list(read))
        panes: list[NDArray[Any] | None] = [None] * len(batches)
        clock = self._clock
        if clock is not None:
            panes[:], clock = clock.read(batches)
        ready = self._threads.map(
            lambda cleaner: [
                apply_rules(one, cleaner.name, cleaner.rules, held, self.share)
                for one, held in zip(columns, holds, strict=True)
            ],
            cleaners,
        )
        # Nothing that can fail on a bad batch comes after this line.
        decided = self._threads.map(
            lambda work: work[0].clean(work[1], panes, self.position, self.version),
            list(zip(cleaners, ready, strict=True)),
        )
        self._clock = clock
        for one in decided:
            for id, count in one.by_rule.items():
                self._repairs[id] += count
        for n, batch in enumerate(batches):
            self._accepted += self._acceptances(batch, [one.accepted[n] for one in decided if one.accepted])
            self.position += batch.num_rows
        return [
            in_schema_order(filter(None, (one.repaired[n] for one in decided)), self.schema.names)
            for n in range(len(batches))
        ]

    def _acceptances(
        self, batch: pa.RecordBatch, accepted: Iterable[AcceptedColumn | None]
    ) -> list[Acceptance]:
        """Return the accepted changes in a batch, whose first tuple is the next one, in stream order."""
        found = [one for column in accepted if column for one in column.acceptances(batch, self.position)]
        if not found:
            return found
        attributes = {name: n for n, name in enumerate(self.schema.names)}
        rules = {rule.id: n for n, rule in enumerate(self.rules)}
        return sorted(found, key=lambda one: (one.position, attributes[one.attribute], rules[one.rule]))

    def _parts(self, states: list[list[NDArray[Any]]]) -> tuple[bytes, list[NDArray[Any]]]:
        return to_parts(
            Snapshot(
                rules=self._rules,
                window=self.window,
                windowing=self.windowing,
                repair=self.repair,
                accept_after=self.accept_after,
                remember=self.remember,
                position=self.position,
                clock=self._clock.to_list() if self._clock else [],
                repairs=self._repairs,
                attributes=self._cleaners.save(states),
                share=self.share,
            )
        )

    def _pane(self) -> int:
        """Return the pane of the newest tuple; the window has not reached the next one yet."""
        if self._clock is not None:
            return self._clock.pane
        return max(0, self.position - 1) // self.window.slide if self.window else 0

    def _own_attributes(self) -> tuple[str, ...] | None:
        """Return the attributes that are cleaned here; None for all."""
        return None if self.share is None else self.share.attributes

    def _own_cleaners(self) -> list[AttributeCleaner]:
        """Return the cleaners that work here; the states of others stay empty."""
        own = self._own_attributes()
        return [cleaner for cleaner in self._cleaners if own is None or cleaner.name in own]
