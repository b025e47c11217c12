"""The paper's topology in one process: the same workers and messages as on a cluster, stage after stage."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .config import DEFAULT_WINDOW, Window, check_choice, check_count, check_repair, check_windowing
from .errors import RuleError, SchemaError, SparkbleachError
from .rule import Rule
from .stage.aggregator import Aggregator
from .stage.audit import RepairedColumn, audit_batch, audit_schema, decided_column, replace_cells
from .stage.coordinator import Coordinator
from .stage.detect_worker import DetectWorker
from .stage.egress_router import EgressRouter
from .stage.encode import canonical_type
from .stage.ingress_router import IngressRouter
from .stage.link_worker import LinkWorker
from .stage.messages import (
    CELLS,
    CLAIMS,
    CLOCK,
    LINKS,
    REMOVED,
    SUB_TUPLES,
    TUPLES,
    Clock,
    Envelope,
    decisions_schema,
)
from .stage.repair_worker import RepairWorker
from .stage.rule_set import AppliedRules, RuleSet
from .update import RuleUpdate

COORDINATIONS = ("hinge", "basic", "dr", "ir")

Saved = dict[str, pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Part:
    """Tuples of a micro-batch that are read by the same rules.

    Attributes:
        batch: The tuples.
        position: The position of the first.
        version: The version of the rule set.
        applied: What the rules say of them, by attribute.
    """

    batch: pa.RecordBatch
    position: int
    version: int
    applied: dict[str, AppliedRules]


class DistributedEngine:
    """Clean a stream with detect workers and repair workers that share nothing but messages.

    Args:
        schema: The schema of the stream.
        rules: The rules in force from the first tuple on.
        id: The attribute with each tuple's unique id, for the audit; without it the position is the id.
        window: The window that bounds the state; None keeps everything.
        windowing: `bleach` or `basic`.
        repair: `class` or `vote`.
        detect_workers: Over how many the groups are spread.
        repair_workers: Over how many the cells are spread.
        coordination: How repair workers learn of each other's links: `hinge` (with the violations), `basic`,
            `dr` (from a coordinator), or `ir` (likewise, but a micro-batch late).
        top: How many candidates a repair worker proposes; None for all, which is exact.

    Raises:
        RuleError: If a rule is wrong or does not fit the schema.
        ConfigError: If another option is wrong.
    """

    def __init__(
        self,
        schema: pa.Schema,
        rules: Iterable[Rule] = (),
        *,
        id: str | None = None,
        window: Window | None = DEFAULT_WINDOW,
        windowing: str = "bleach",
        repair: str = "class",
        detect_workers: int = 1,
        repair_workers: int = 1,
        coordination: str = "hinge",
        top: int | None = None,
    ) -> None:
        self.schema = schema
        self.id = id
        self.window = window
        self.windowing = check_windowing(windowing)
        self.repair = check_repair(repair)
        self.coordination = check_choice("coordination", coordination, COORDINATIONS)
        n_detect = check_count("detect_workers", detect_workers)
        n_repair = check_count("repair_workers", repair_workers)
        self.top = None if top is None else check_count("top", top)
        self.position = 0
        #: by serial number of a live rule: how many tuples have violated it
        self._violations: Counter[int] = Counter()
        #: likewise: how many of these had their cell changed
        self._repairs: Counter[int] = Counter()
        self._deletions: list[tuple[int, int]] = []
        self._audit_schema = audit_schema(pa.int64() if id is None else schema.field(id).type)
        self._rules = RuleSet(schema, rules, id)

        # `vote` counts over a tuple's own groups, so that no link matters.
        linked = self.repair != "vote"
        tell_hinges = linked and coordination == "hinge"
        self.ingress_router = IngressRouter(n_detect, tell_hinges)
        self.detect_workers = [DetectWorker(window, windowing, tell_hinges) for _ in range(n_detect)]
        self.egress_router = EgressRouter(n_repair, tell_hinges)
        self.link_workers = [
            LinkWorker(window, windowing, coordination == "basic")
            for _ in range(n_repair if linked and coordination != "hinge" else 0)
        ]
        self.coordinator = Coordinator(n_repair)
        self.repair_workers = [
            RepairWorker(window, windowing, repair, coordination == "ir", top) for _ in range(n_repair)
        ]
        self.aggregator = Aggregator()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The live rules, earlier ones first."""
        return tuple(live.checked.rule for live in self._rules.live)

    @property
    def version(self) -> int:
        """The version of the rule set: grows by one with each update."""
        return self._rules.version

    @property
    def violations(self) -> dict[str, int]:
        """By live rule: how many tuples have violated it."""
        return {live.id: self._violations[live.serial] for live in self._rules.live}

    @property
    def repairs(self) -> dict[str, int]:
        """By live rule: how many of the cells that violated it were changed."""
        return {live.id: self._repairs[live.serial] for live in self._rules.live}

    def add_rule(self, rule: Rule) -> None:
        """Add a rule: it is in force from the next tuple on, and begins with no groups.

        Raises:
            RuleError: If it is wrong, or its id is that of a live rule; the engine is as it was.
        """
        self._rules.add(rule)

    def delete_rule(self, id: str) -> None:
        """Delete a rule: from the next tuple on its groups are gone.

        Raises:
            RuleError: If no live rule has this id; the engine is as it was.
        """
        self._deletions = [*self._deletions, (self.position, self._rules.delete(id))]

    def process(
        self, batch: pa.RecordBatch, updates: Sequence[RuleUpdate] = ()
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Clean the next tuples of the stream, as one micro-batch.

        Args:
            batch: The tuples.
            updates: Rule updates by position; those within the micro-batch, or right before or after it.

        Returns:
            The same tuples, cleaned, and one audit row for each changed cell.

        Raises:
            SchemaError: If the batch has another schema; the engine is as it was.
            RuleError: If an update is refused; the engine is as it was.
        """
        first = self.position
        before = self._deletions, self._rules.copy()
        try:
            parts = self._read_all(batch, updates)
        except SparkbleachError:
            self.position, (self._deletions, self._rules) = first, before
            raise
        # Nothing that can fail on a bad batch or update comes after this line.
        clock = Clock(first, self.position, tuple(self._deletions))
        self._deletions = []
        with _uncollected():
            decisions = self._run(parts, clock)
        clean, audit = zip(*(self._finish(part, decisions) for part in parts), strict=True)
        return pa.concat_batches(clean), pa.concat_batches(audit)

    def _read_all(self, batch: pa.RecordBatch, updates: Sequence[RuleUpdate]) -> list[Part]:
        """Take all tuples of a batch, and the updates between them."""
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise SchemaError(
                f"batch at position {self.position}: its schema is not the engine's; "
                f"give the columns {', '.join(self.schema.names)} in their types"
            )
        first = self.position
        end = first + batch.num_rows
        parts = []
        for update in updates:
            at = self.position if update.at is None else update.at
            if not self.position <= at <= end:
                raise RuleError(
                    f"{update.place}: the tuples from {self.position} to {end} are being read; "
                    "give updates by position, with the tuples that they come between"
                )
            parts.append(self._read(batch, first, at))
            if update.rule is not None:
                self.add_rule(update.rule)
            elif update.delete is not None:
                self.delete_rule(update.delete)
            else:
                raise RuleError(f"{update.place}: there are no shadow rules here; delete and add the rule")
        return [*parts, self._read(batch, first, end)]

    def _read(self, batch: pa.RecordBatch, first: int, end: int) -> Part:
        """Take the tuples up to `end`, and see what the rules say of them."""
        position = self.position
        part = batch.slice(position - first, end - position)
        self.position = end
        return Part(part, position, self.version, self._rules.apply(part))

    def _run(self, parts: Sequence[Part], clock: Clock) -> dict[str, pa.RecordBatch]:
        """Send a micro-batch through all stages; return the decisions by attribute."""

        def ticks(n: int) -> list[Envelope]:
            return [Envelope(CLOCK, worker, "", clock.batch()) for worker in range(n)]

        routed = ticks(len(self.detect_workers))
        for part in parts:
            routed += self.ingress_router.process(part.applied, part.position)
        routed = carried(routed)
        told = [
            message
            for number, worker in enumerate(self.detect_workers)
            for message in worker.process(to(number, routed, CLOCK, SUB_TUPLES))
        ]
        broadcast = carried(
            self.egress_router.process([*to(0, routed, TUPLES), *carried(told)])
            + ticks(len(self.repair_workers))
        )
        if self.link_workers:
            merges = [
                message
                for number, worker in enumerate(self.link_workers)
                for message in worker.process(to(number, broadcast, CLOCK, CELLS, REMOVED))
            ]
            broadcast += carried(self.coordinator.process(carried(merges)))
        proposals = [
            message
            for number, worker in enumerate(self.repair_workers)
            for message in worker.process(to(number, broadcast, CLOCK, CELLS, REMOVED, LINKS))
        ]
        decided = self.aggregator.process([*to(0, broadcast, CLAIMS), *carried(proposals)])
        return {message.attribute: message.batch for message in carried(decided)}

    def _finish(
        self, part: Part, decisions: dict[str, pa.RecordBatch]
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Put new cells in place."""
        repaired: list[RepairedColumn] = []
        for attribute, rules in part.applied.items():
            type = self.schema.field(attribute).type
            decided = decisions.get(attribute)
            if decided is None:
                decided = pa.RecordBatch.from_pylist([], decisions_schema(canonical_type(type)))
            bounds = np.searchsorted(
                decided.column("position").to_numpy(), [part.position, part.position + part.batch.num_rows]
            )
            column, violated = decided_column(
                type,
                attribute,
                rules.rules,
                rules.cells,
                rules.constants,
                decided.slice(bounds[0], bounds[1] - bounds[0]),
                part.position,
                part.version,
            )
            changed = violated[column.rows] if column else violated[:0]
            for j, live in enumerate(rules.rules):
                self._violations[live.serial] += int(violated[:, j].sum())
                self._repairs[live.serial] += int(changed[:, j].sum())
            if column is not None:
                repaired.append(column)
        ids = None if self.id is None else part.batch.column(self.id)
        _, audit = audit_batch(repaired, part.batch, ids, self._audit_schema)
        return replace_cells(part.batch, repaired), audit

    def save(self) -> tuple[str, dict[str, Saved]]:
        """Return all state: a header in JSON, and record batches by worker and name."""
        header = {
            "position": self.position,
            "deletions": self._deletions,
            "counts": [
                [live.serial, self._violations[live.serial], self._repairs[live.serial]]
                for live in self._rules.live
            ],
            "rule_set": self._rules.save(),
        }
        return json.dumps(header), {name: worker.save() for name, worker in self._stateful().items()}

    def load(self, header: str, saved: dict[str, Saved]) -> None:
        """Put saved state in place of this one; the options must be those of the engine that saved it."""
        told = json.loads(header)
        self.position = told["position"]
        self._deletions = [(at, serial) for at, serial in told["deletions"]]
        self._violations = Counter({serial: count for serial, count, _ in told["counts"]})
        self._repairs = Counter({serial: count for serial, _, count in told["counts"]})
        self._rules = RuleSet.load(self.schema, self.id, **told["rule_set"])
        for name, worker in self._stateful().items():
            worker.load(saved[name])

    def _stateful(self) -> dict[str, DetectWorker | LinkWorker | RepairWorker]:
        stages: dict[str, Sequence[DetectWorker | LinkWorker | RepairWorker]] = {
            "detect": self.detect_workers,
            "link": self.link_workers,
            "repair": self.repair_workers,
        }
        return {f"{name} {i}": worker for name, stage in stages.items() for i, worker in enumerate(stage)}


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector away: workers make no cycles, and it would look at all their objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def to(worker: int, envelopes: Iterable[Envelope], *kinds: str) -> list[Envelope]:
    """Return the envelopes of some kinds that are for a worker."""
    return [envelope for envelope in envelopes if envelope.to == worker and envelope.kind in kinds]


def carried(envelopes: Iterable[Envelope]) -> list[Envelope]:
    """Return envelopes as they come out of a shuffle: bytes in between, nothing is shared."""
    return [envelope._replace(batch=_read(_written(envelope.batch))) for envelope in envelopes]


def _written(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read(data: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
