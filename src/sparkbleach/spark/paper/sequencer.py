"""The sequencer as a stateful operator: blobs in; blobs with positions and rules, and clocks, out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ...control.outcome import Outcome
from ...control.record import ControlRecord
from ...engine.encode import plain_columns
from ...paper.messages import Clock
from ...paper.sequencer import Sequencer
from ...paper.stages import AGGREGATOR, INGRESS_ROUTER, Stages, clock_ticks
from ...rules.active import ActiveRules
from ...schema_text import schema_from_text, schema_to_text
from ..blob import unpack
from ..clean_blobs import sort_order
from ..garbage import collect_garbage
from ..plan import Plan
from ..replica import open_store
from ..resume import remembered_options, resume
from ..rows import read_ingress, rows_to_frame
from ..state_store import Head
from .parts import blob_note, rules_from_json
from .rows import BLOB, OUTCOME, REPORT, Row, message_row

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues


@dataclass(frozen=True, slots=True)
class Sequenced:
    """A micro-batch whose tuples have positions."""

    positions: list[NDArray[np.int64]]  #: those of each blob
    segments: list[tuple[int, int, str]]  #: first position, end, and rules: where rules are the same
    clock: Clock  #: what every worker must know
    outcomes: list[Outcome]  #: what became of rule updates
    report: dict[str, Any]  #: what is known of the micro-batch before it is cleaned


class SequencerOperator(StatefulProcessor):
    """Gives tuples their positions, and lets rules change between them."""

    def __init__(self, plan: Plan, stages: Stages) -> None:
        self.plan = plan
        self.stages = stages

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.state = open_store(handle, "sequencer")

    def handleInputRows(  # noqa: N802 -- PySpark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Put the tuples of a micro-batch in order."""
        blobs, records = read_ingress(rows)
        done = self.process([blob.cells for blob in blobs], records)
        for number, (blob, positions) in enumerate(zip(blobs, done.positions, strict=True)):
            first, last = int(positions.min()), int(positions.max())
            note = blob_note(first, [one for one in done.segments if one[0] <= last and one[1] > first])
            given = positions.tobytes() if self.plan.order_by else None
            row = Row(
                INGRESS_ROUTER, number, BLOB, "", blob.cells, number, blob.rest, blob.quarantined, given, note
            )
            yield rows_to_frame([row])
        ticks = [message_row(stage, tick) for stage, tick in clock_ticks(self.stages, done.clock)]
        yield rows_to_frame([*ticks, *_aggregator_rows(done, len(blobs))])
        collect_garbage(self.plan.limits)

    def process(self, cells: Sequence[bytes], records: Sequence[ControlRecord] = ()) -> Sequenced:
        """Let control records take effect, count the tuples of a micro-batch, and store how far it is."""
        plan = self.plan
        head = self.state.read_head()
        if head is None:
            rules = ActiveRules(plan.schema, plan.rules)
            head = Head(str(uuid.uuid4()), _saved(rules), remembered_options(plan))
        known = rules_from_json(schema_from_text(head.initial["schema"]), head.initial["rules"])
        sequencer = Sequencer(known.copy(), head.position)
        events = resume(plan, head, sequencer, records)
        batches = [unpack(blob) for blob in cells]
        positions = _positions(batches, plan.order_by, sequencer.position)
        last = sequencer.position + sum(part.size for part in positions)
        segments = []
        for end in events.cuts(last):
            parts = _between(batches, positions, sequencer.position, end)
            events.note_withdrawn(sequencer.withdraw_rules(parts, plan.limits.conditions))
            segments.append((sequencer.position, end, _saved(sequencer.active_rules)["rules"]))
            sequencer.position = end
        report = {
            "position": sequencer.position,
            "version": sequencer.version,
            "rules": _saved(sequencer.active_rules)["rules"],
            "tuples": sequencer.position - head.position,
            "updates": events.update_lines(),
            "withdrawn": events.withdrawn,
        }
        head.initial, head.options = _saved(sequencer.active_rules), remembered_options(plan)
        head.position = sequencer.position
        head.sequence += 1
        self.state.write_head(head)
        return Sequenced(positions, segments, sequencer.tick(), events.outcomes, report)

    def close(self) -> None:
        """Do nothing."""


def _aggregator_rows(done: Sequenced, number: int) -> list[Row]:
    """Return what the aggregator reports and sends on, rule updates numbered from `number` on."""
    report = Row(AGGREGATOR, 0, REPORT, note=json.dumps(done.report))
    outcomes = [
        Row(AGGREGATOR, 0, OUTCOME, number=n, note=outcome.to_json())
        for n, outcome in enumerate(done.outcomes, number)
    ]
    return [report, *outcomes]


def _saved(rules: ActiveRules) -> dict[str, Any]:
    return {"schema": schema_to_text(rules.schema), "rules": json.dumps(rules.save())}


def _between(
    batches: Sequence[pa.RecordBatch], positions: Sequence[NDArray[np.int64]], first: int, end: int
) -> list[pa.RecordBatch]:
    """Return the tuples of blobs whose positions are from the first one to before the end."""
    inside = [(first <= own) & (own < end) for own in positions]
    return [
        batch if own.all() else batch.filter(pa.array(own))
        for batch, own in zip(batches, inside, strict=True)
        if own.any()
    ]


def _positions(
    batches: Sequence[pa.RecordBatch], order_by: tuple[str, ...], first: int
) -> list[NDArray[np.int64]]:
    """Return the positions of the tuples in blobs: in their order, or in that of columns."""
    ends = np.cumsum([batch.num_rows for batch in batches], dtype=np.int64)
    if not batches:
        return []
    place = np.arange(first, first + ends[-1])
    if order_by:
        order = sort_order(
            pa.concat_batches([plain_columns(batch.select(order_by)) for batch in batches]), order_by
        )
        if order is not None:
            place[order] = place.copy()
    return np.split(place, ends[:-1])
