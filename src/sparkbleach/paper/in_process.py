"""The paper's topology in one process: the same workers and messages as on a cluster, stage after stage."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import OptionValues
from ..engine.apply import AppliedRules, apply_active_rules
from ..engine.audit import audit_batch, audit_schema, replace_cells
from ..engine.check import check_same_schema
from ..errors import RuleError, RuleWarning, SparkbleachError
from ..rules.active import ActiveRules
from ..rules.rule import Rule
from ..rules.update import RuleUpdate
from .messages import Clock, Envelope, batch_from_bytes, batch_to_bytes
from .sequencer import Sequencer
from .stages import COORDINATOR, END, Stage, clock_ticks, declare_stages, paused_garbage_collector
from .tally import Tally
from .topology import PaperTopology, paper_options
from .worker import Saved, StatefulWorker


@dataclass(frozen=True, slots=True)
class Part:
    """Tuples of a micro-batch that are read by the same rules."""

    batch: pa.RecordBatch  #: the tuples
    positions: NDArray[np.int64]  #: their positions in the stream
    rules: ActiveRules  #: the rules
    applied: dict[str, AppliedRules]  #: what the rules say of them, by attribute


class DistributedEngine:
    """Clean a stream with detect workers and repair workers that share nothing but messages.

    Options and errors are those of `Engine`, as far as the topology, which says how the work is spread, takes
    them.
    """

    def __init__(
        self,
        schema: pa.Schema,
        rules: Iterable[Rule] = (),
        *,
        id: str | None = None,
        topology: PaperTopology = PaperTopology(),  # noqa: B008 -- it is frozen
        **options: Unpack[OptionValues],
    ) -> None:
        self.options = paper_options(options)
        self.schema = schema
        self.id = id
        self.sequencer = Sequencer(ActiveRules(schema, rules, id))
        self.stages = declare_stages(topology, self.options)
        #: by stage: its routers or workers
        self.workers: dict[str, list[Any]] = {
            name: [stage.make() for _ in range(stage.workers)] for name, stage in self.stages.items()
        }
        self._tally = Tally()
        self._audit_schema = audit_schema(
            pa.int64() if id is None else schema.field(id).type, self.options.repair
        )

    @property
    def position(self) -> int:
        """Where the next tuple will be in the stream."""
        return self.sequencer.position

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The active rules, earlier ones first."""
        return self.sequencer.rules

    @property
    def version(self) -> int:
        """The version of the rule set: grows by one with each update."""
        return self.sequencer.version

    @property
    def violations(self) -> dict[str, int]:
        """By active rule: how many tuples have violated it."""
        return self._tally.violations(self.sequencer.active_rules)

    @property
    def repairs(self) -> dict[str, int]:
        """By active rule: how many of the cells that violated it were changed."""
        return self._tally.repairs(self.sequencer.active_rules)

    @property
    def coordination_messages(self) -> int:
        """The proposals of link workers and the decisions of the coordinator, for one cell each."""
        return sum(coordinator.messages for coordinator in self.workers.get(COORDINATOR, ()))

    def add_rule(self, rule: Rule) -> None:
        """Add a rule: it is in force from the next tuple on, and begins with no groups.

        Raises:
            RuleError: If it is wrong, or its id is that of an active rule; the engine is as it was.
        """
        self.sequencer.change_rules(RuleUpdate(rule=rule))

    def delete_rule(self, id: str) -> None:
        """Delete a rule: from the next tuple on its groups are gone.

        Raises:
            RuleError: If no active rule has this id; the engine is as it was.
        """
        self.sequencer.change_rules(RuleUpdate(delete=id))

    def process(
        self, batch: pa.RecordBatch, updates: Sequence[RuleUpdate] = ()
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Clean the next tuples of the stream, as one micro-batch; return them and their audit.

        Rule updates come by position, within the micro-batch or right before or after it. If one is refused
        (RuleError), or the batch has another schema (SchemaError), the engine is as it was.
        """
        before = self.sequencer.copy()
        try:
            parts = self._read_all(batch, updates)
        except SparkbleachError:
            self.sequencer = before
            raise
        # Nothing that can fail on a bad batch or update comes after this line.
        with paused_garbage_collector():
            decisions = self._run(parts, self.sequencer.tick())
        clean, audit = zip(*(self._finish(part, decisions) for part in parts), strict=True)
        return pa.concat_batches(clean), pa.concat_batches(audit)

    def _read_all(self, batch: pa.RecordBatch, updates: Sequence[RuleUpdate]) -> list[Part]:
        """Take all tuples of a batch, and the updates between them."""
        check_same_schema(batch, self.schema, self.position)
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
            self.sequencer.change_rules(update)
        return [*parts, self._read(batch, first, end)]

    def _read(self, batch: pa.RecordBatch, first: int, end: int) -> Part:
        """Take the tuples up to `end`, and see what the rules say of them."""
        positions = np.arange(self.position, end)
        part = batch.slice(self.position - first, end - self.position)
        for withdrawal in self.sequencer.withdraw_rules([part]):
            warnings.warn(str(withdrawal), RuleWarning, stacklevel=4)
        rules = self.sequencer.active_rules.copy()
        self.sequencer.position = end
        return Part(part, positions, rules, apply_active_rules(rules, part))

    def _run(self, parts: Sequence[Part], clock: Clock) -> dict[str, pa.RecordBatch]:
        """Send a micro-batch through all stages; return the decisions by attribute."""
        inboxes: defaultdict[tuple[str, int], list[Envelope]] = defaultdict(list)
        for name, tick in clock_ticks(self.stages, clock):
            inboxes[name, tick.to].append(tick)

        def post(stage: Stage, envelopes: Iterable[Envelope]) -> None:
            for envelope in through_bytes(envelopes):
                inboxes[stage.sends[envelope.kind], envelope.to].append(envelope)

        ingress, *others = self.stages.values()
        for part in parts:
            for router in self.workers[ingress.name]:
                post(ingress, router.process(part.applied, part.positions))
        for stage in others:
            for number, worker in enumerate(self.workers[stage.name]):
                received = inboxes.pop((stage.name, number), [])
                for envelope in received:
                    if envelope.kind in stage.forwards:
                        inboxes[stage.forwards[envelope.kind], number].append(envelope)
                post(stage, worker.process(received))
        return {envelope.attribute: envelope.batch for envelope in inboxes[END, 0]}

    def _finish(
        self, part: Part, decisions: dict[str, pa.RecordBatch]
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Put new cells in place."""
        repaired = self._tally.repair(part.rules, part.applied, decisions, part.positions)
        ids = None if self.id is None else part.batch.column(self.id)
        _, audit = audit_batch(repaired, part.batch, ids, self._audit_schema)
        return replace_cells(part.batch, repaired), audit

    def save(self) -> tuple[str, dict[str, Saved]]:
        """Return all state: a header in JSON, and record batches by worker and name."""
        header = {"sequencer": self.sequencer.save(), "tally": self._tally.save(self.sequencer.active_rules)}
        return json.dumps(header), {name: worker.save() for name, worker in self._stateful().items()}

    def load(self, header: str, saved: dict[str, Saved]) -> None:
        """Put saved state in place of this one; the options must be those of the engine that saved it."""
        state = json.loads(header)
        self.sequencer = Sequencer.load(self.schema, self.id, state["sequencer"])
        self._tally = Tally.load(state["tally"])
        for name, worker in self._stateful().items():
            worker.load(saved[name])

    def _stateful(self) -> dict[str, StatefulWorker[Any]]:
        return {
            f"{stage.name} {number}": worker
            for stage in self.stages.values()
            if stage.has_state
            for number, worker in enumerate(self.workers[stage.name])
        }


def through_bytes(envelopes: Iterable[Envelope]) -> list[Envelope]:
    """Return envelopes as they come out of a shuffle: bytes in between, nothing is shared."""
    return [
        envelope._replace(batch=batch_from_bytes(batch_to_bytes(envelope.batch))) for envelope in envelopes
    ]
