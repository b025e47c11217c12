"""The engine in one process: Arrow batches in, clean batches and their audit out."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import Options, OptionValues, check_count, lane_options
from ..errors import RuleWarning, SchemaError, SnapshotError, SparkbleachError
from ..kernel.attribute import Attribute
from ..kernel.bayes.state import BayesState
from ..kernel.saved import copied
from ..rules.active import ActiveRules, Mask
from ..rules.check import warn_of_twins
from ..rules.condition_evaluator import ConditionLimitError
from ..rules.condition_process import DEFAULT_CONDITION_LIMITS, ConditionLimits
from ..rules.rule import Rule, RuleLike, as_rule
from ..rules.update import RuleUpdate
from .acceptance import KEPT_MAX, Acceptance, AcceptedColumn
from .apply import BatchColumns, apply_rules, evaluate_conditions
from .attribute import AttributeCleaner, AttributeCleaners
from .audit import RepairedColumn, audit_batch, audit_schema, in_schema_order, replace_cells
from .bayes import BayesCleaner, BayesCleaners
from .check import check_columns, check_id, check_same_schema, check_stream, check_trust
from .panes import PaneClock, check_time_column
from .placement import Placement, Share
from .snapshot import Snapshot, from_parts, pack, to_parts, unpack
from .threads import Threads
from .withdrawal import Withdrawal


class Engine:
    """Clean a stream by rules, tuple by tuple, from what was seen earlier.

    Two rules that say the same thing under different ids give a RuleWarning. So does a rule that `process`
    withdraws: from the tuples on for which its condition needs more than `condition_limits`, it is deleted.

    Args:
        schema: The schema of the stream.
        rules: The rules that are active from the first tuple on: objects, texts, or mappings as in a file of
            rules.
        id: The attribute with each tuple's unique id, for the audit; without it the position is the id.
        threads: How many attributes, or with `bayes` parts of a block, are cleaned at the same time; the
            results do not depend on it.
        share: What this engine has to clean if it is one of several lanes; all if not given. It knows all
            rules, but sees the columns of its own attributes only.
        condition_limits: How much time and memory conditions may use.

    Keyword Args:
        window: The window that bounds the state; None keeps everything.
        windowing: `basic` (only what is in the window counts) or `bleach` (older counts do, too: with `bayes`
            all that are remembered, else those of groups that had violations).
        repair: `bayes` (the most probable reading of the tuple), `class` (the most frequent value of the
            whole subgraph), or `vote` (of the tuple's own groups).
        accept_after: A value that leads over the one that its group holds by this many is accepted as the new
            truth; None: never.
        remember: For how many tuples Bleach windowing keeps a count: a multiple of the window's slide, and at
            least its size; 4 windows if not given; None: for ever.
        look_ahead: With `bayes`: how many tuples are counted before the first of them is decided; fewer at
            the end of a batch, so that no row waits for a later one.
        confidence: With `bayes`: the probability from which a cell is changed, from 0.5 to below 1.
        trust: With `bayes`: the attribute that names each tuple's source; how often each is right, and who
            copies whom, is estimated.
        implied: With `bayes`: whether to use rules `X -> A` for attributes A that no rule mentions, where the
            data bear them out.
        left: With `bayes`: what to do with a cell that stands on left-hand sides only and seems wrong: `flag`
            it in the audit, or `repair` it.

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
        threads: int = 1,
        share: Share | None = None,
        condition_limits: ConditionLimits = DEFAULT_CONDITION_LIMITS,
        **options: Unpack[OptionValues],
    ) -> None:
        active = check_stream(schema, rules, id)
        chosen = lane_options(options, 1 if share is None else len(share.placement.lanes))
        self._set_options(active, chosen, threads, share)
        self.condition_limits = condition_limits
        self._begin()
        warn_of_twins(one.checked for one in active)

    @classmethod
    def of(
        cls, rules: ActiveRules, options: Options, *, threads: int = 1, share: Share | None = None
    ) -> Engine:
        """Return a new engine that owns active rules, of which it does not warn."""
        engine = cls.__new__(cls)
        engine._set_options(rules, options, threads, share)
        engine._begin()
        return engine

    def _set_options(self, rules: ActiveRules, options: Options, threads: int, share: Share | None) -> None:
        check_trust(options, rules.schema, rules.rules)
        check_time_column(options.window, rules.schema)
        self._rules = rules
        self.options = options  #: how the stream is cleaned
        window = options.window
        #: what time it is in a time window; None if there is none
        self._clock = PaneClock(window.column, window.slide) if window and window.column else None
        self.share = share
        self._threads = Threads(check_count("threads", threads))
        #: where the next tuple will be in the stream
        self.position = 0
        id_type = pa.int64() if self.id is None else self.schema.field(self.id).type
        self.audit_schema = audit_schema(id_type, options.repair)
        #: what cleans attribute by attribute; nothing with `bayes`, which cleans all of them together
        self._cleaners = AttributeCleaners(options)
        self._bayes: BayesCleaners | None = None
        self._accepted: deque[Acceptance] = deque(maxlen=KEPT_MAX)
        #: how much time and memory conditions may use
        self.condition_limits = DEFAULT_CONDITION_LIMITS
        self._withdrawn: list[Withdrawal] = []
        self._replays = False
        #: by id of an active rule: how many repairs it is answerable for
        self._repairs: dict[str, int] = {}

    def _begin(self) -> None:
        """Let all rules begin, with no groups."""
        if self.options.repair == "bayes":
            self._repairs = dict.fromkeys((active.id for active in self._rules), 0)
            self._bayes = BayesCleaners(self._rules, self.options)
            return
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
        if self._bayes is not None:
            found = self._bayes.violations()
        else:
            found = {active.serial: n for cleaner in self._cleaners for active, n in cleaner.violations()}
        return {active.id: found[active.serial] for active in self._rules}

    @property
    def repairs(self) -> dict[str, int]:
        """By active rule: how many of the cells that violated it were changed, or would have been."""
        return {active.id: self._repairs[active.id] for active in self._rules}

    @property
    def columns_read(self) -> list[str]:
        """The columns that rules, their conditions, the id, the window and `trust` read, in schema order."""
        clock = self._clock.column if self._clock else None
        read = {*self._rules.columns_read(self._own_attributes()), self.options.trust, clock}
        if self._bayes is not None:
            read |= {*self._bayes.live.model.attributes}  # implied rules read more
        return [name for name in self.schema.names if name in read]

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        return sum(state.nbytes() for state in self._states())

    @property
    def super_cells(self) -> int:
        """How many super cells the state has, those that the sweep has yet to drop included.

        With `bayes`: pairs of a group and one of its values.
        """
        return sum(state.n_super_cells() for state in self._states())

    def process(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Clean the next tuples of the stream.

        Returns:
            The same tuples, cleaned, and one audit row for each changed cell.

        Raises:
            SchemaError: If the batch has another schema; the engine is as it was.
        """
        check_same_schema(batch, self.schema, self.position)
        n_withdrawn = len(self._withdrawn)
        (repaired,) = self._decide([batch])
        for one in self._withdrawn[n_withdrawn:]:
            warnings.warn(str(one), RuleWarning, stacklevel=2)
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

    def take_withdrawn(self) -> list[Withdrawal]:
        """Return the rules that were withdrawn since the last call, in stream order."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Process tuples again that this or another engine has processed: no rule is withdrawn.

        Whoever replays puts rules out of force where they were withdrawn. A condition that needs far more
        than it did is an error.
        """
        limits = self.condition_limits
        self.condition_limits = limits.for_replay()
        self._replays = True
        try:
            yield
        finally:
            self.condition_limits = limits
            self._replays = False

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
        if update.rule is not None:
            check_trust(self.options, self.schema, [update.rule])
        if share is not None and update.rule is not None:
            share = share.with_rule(update.rule, self.rules)
        active = self._rules.apply(update)
        self.share = share
        if self._bayes is not None:
            self._bayes.change_rules(self._rules, update.promote)
            self._repairs[active.id] = 0  # what a shadow rule would have repaired was not repaired
            self._repairs = {one.id: self._repairs[one.id] for one in self._rules}
        elif update.rule is not None:
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
        self._rules.adopt_schema(schema, self.position, self.options.trust)
        if self._bayes is not None:
            self._bayes.change_rules(self._rules)
        else:
            self._cleaners.replace_rules(self._rules)

    def put_out_of_force(self, id: str) -> None:
        """Let a rule apply to no tuple from the next one on; it stays an active rule, with its groups.

        Of several lanes, one can do so without the others: ids, serial numbers and versions stay the same.

        Raises:
            RuleError: If no active rule has this id; the engine is as it was.
        """
        self._rules.put_out_of_force(id)

    def adopt_placement(self, placement: Placement) -> None:
        """Go on with another placement of the attributes that no active rule is about.

        Does nothing if the engine is not one of several lanes.
        """
        if self.share is not None:
            kept = {rule.rhs for rule in self.rules}
            self.share = replace(self.share, placement=self.share.placement.changed(placement, kept))

    def report(self) -> dict[str, Any]:
        """Return the position, the version, the counters and the size of the state, all fit for JSON.

        With `bayes` also `rule_quality`. By active rule: `trust`, how far it is trusted; `error_rate`, how
        many cells on its right side are wrong; `repairs` and `flags`, how many cells it had a say in that
        were changed or flagged; `confidence`, the mean of its repairs, and `doubtful`, the share of those
        below 0.8; both None without repairs. With the option `trust` also `sources`: the `accuracy` of the
        20 with most votes, and `copies`, pairs of sources that nearly always say the same.
        """
        return {
            "position": self.position,
            "version": self.version,
            "rules": [rule.id for rule in self.rules],
            "violations": self.violations,
            "repairs": self.repairs,
            "super_cells": self.super_cells,
            "nbytes": self.nbytes,
            **(self._bayes.report() if self._bayes is not None else {}),
        }

    def snapshot(self) -> bytes:
        """Return all state as bytes, for `Engine.restore`."""
        return pack(*self._parts([state.save() for state in self._saved_states()]))

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state in parts, for `Engine.restore_parts`: the engine may go on at once.

        Returns:
            A header in JSON, and arrays of plain records (no objects) that share nothing with the engine.
        """
        return self._parts(
            self._threads.map(lambda one: [copied(array) for array in one.save()], self._saved_states())
        )

    def _saved_states(self) -> list[Attribute | BayesCleaner]:
        """Return what a snapshot is made of."""
        if self._bayes is not None:
            return list(self._bayes)
        return [cleaner.state for cleaner in self._cleaners]

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
            SnapshotError: If these are not all parts of one snapshot, damaged, or of another format version.
        """
        check_count("threads", threads)
        saved = from_parts(header, arrays)
        engine = cls.__new__(cls)
        try:
            check_id(saved.rules.schema, saved.rules.id)
            engine._set_options(saved.rules, saved.options, threads, saved.share)
        except SparkbleachError as error:
            raise SnapshotError(f"snapshot: its options do not fit ({error}); use an earlier one") from None
        engine.position = saved.position
        if engine._clock is not None:
            engine._clock = replace(engine._clock, first=saved.clock[0], pane=saved.clock[1])
        engine._repairs = dict(saved.repairs)
        if saved.options.repair == "bayes":
            engine._bayes = BayesCleaners(saved.rules, saved.options)
            engine._bayes.load(saved.attributes, engine._pane())
            return engine
        cleaners, rules, pane = engine._cleaners, saved.rules, engine._pane()
        cleaners.check_saved(saved.attributes, rules)
        for cleaner in engine._threads.map(lambda one: cleaners.load(one, rules, pane), saved.attributes):
            cleaners.put(cleaner)
        return engine

    def close(self) -> None:
        """End the threads; an engine that is used again starts new ones."""
        self._threads.close()

    def _decide(self, batches: Sequence[pa.RecordBatch]) -> list[list[RepairedColumn]]:
        if self._bayes is not None:
            return self._read(self._bayes, batches)
        holds = self._evaluate(batches, self._own_attributes())
        # Those with many rules take longest: first, so that no thread waits for them at the end.
        cleaners = sorted(self._own_cleaners(), key=lambda cleaner: -len(cleaner.rules))
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

    def _read(self, cleaners: BayesCleaners, batches: Sequence[pa.RecordBatch]) -> list[list[RepairedColumn]]:
        """Decide on batches by the most probable reading of each tuple."""
        holds = self._evaluate(batches)
        columns = [BatchColumns(batch) for batch in batches]
        panes, clock = self._panes(batches)
        # Nothing that can fail on a bad batch comes after this line.
        self._clock = clock
        repaired = []
        given = list(zip(columns, holds, panes, strict=True))
        all = cleaners.decide(given, self.position, self.version, self._threads)
        for batch, decided in zip(batches, all, strict=True):
            for id, count in decided.by_rule.items():
                if id in self._repairs:  # implied rules are not
                    self._repairs[id] += count
            self._accepted.extend(self._acceptances(batch, decided.accepted))
            self.position += batch.num_rows
            repaired.append(in_schema_order(decided.repaired, self.schema.names))
        return repaired

    def _evaluate(
        self, batches: Sequence[pa.RecordBatch], attributes: Collection[str] | None = None
    ) -> list[dict[str, Mask]]:
        """Return where conditions hold in each batch; rules whose condition needs too much are withdrawn.

        That is before the first of the tuples, so that an event can take its place in a replay.
        """
        while True:
            try:
                return [
                    evaluate_conditions(self._rules, batch, attributes, self.condition_limits)
                    for batch in batches
                ]
            except ConditionLimitError as error:
                if self._replays:
                    raise error.in_replay() from None
                self._withdraw(error.broken)

    def _withdraw(self, broken: dict[str, str]) -> None:
        lane = None if self.share is None else self.share.lane
        for id, reason in broken.items():
            withdrawal = Withdrawal(id, self.position, reason, lane)
            if lane is None:
                self.change_rules(withdrawal.update)
            else:
                self.put_out_of_force(id)
            self._withdrawn.append(withdrawal)

    def _panes(self, batches: Sequence[pa.RecordBatch]) -> tuple[list[NDArray[np.int64]], PaneClock | None]:
        """Return the pane of each tuple, and what time it is after them."""
        if self._clock is not None:
            return self._clock.read(batches)
        slide = self.options.window.slide if self.options.window else 0
        panes = []
        first = self.position
        for batch in batches:
            n = batch.num_rows
            panes.append((first + np.arange(n)) // slide if slide else np.zeros(n, np.int64))
            first += n
        return panes, None

    def _states(self) -> list[Attribute | BayesState]:
        """Return the states that are in use here."""
        if self._bayes is not None:
            return [part.state for cleaner in self._bayes for part in cleaner.parts]
        return [cleaner.state for cleaner in self._own_cleaners()]

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
                options=self.options,
                position=self.position,
                clock=self._clock.to_list() if self._clock else [],
                repairs=self._repairs,
                attributes=(self._bayes or self._cleaners).save(states),
                share=self.share,
            )
        )

    def _pane(self) -> int:
        """Return the pane of the newest tuple; the window has not reached the next one yet."""
        if self._clock is not None:
            return self._clock.pane
        window = self.options.window
        return max(0, self.position - 1) // window.slide if window else 0

    def _own_attributes(self) -> tuple[str, ...] | None:
        """Return the attributes that are cleaned here; None for all."""
        return None if self.share is None else self.share.attributes

    def _own_cleaners(self) -> list[AttributeCleaner]:
        """Return the cleaners that work here; the states of others stay empty."""
        own = self._own_attributes()
        return [cleaner for cleaner in self._cleaners if own is None or cleaner.name in own]
