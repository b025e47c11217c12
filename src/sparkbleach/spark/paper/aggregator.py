"""The aggregator as a stateful operator: blobs, claims and proposals in, blobs and repairs out.

What it sends is what a lane sends, so that the egress is the same. Its state is the counts in the report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ...paper.messages import CLAIMS, PROPOSALS
from ...paper.stages import AGGREGATOR, Stages, paused_garbage_collector
from ...paper.tally import Tally
from ..blob import unpack
from ..garbage import collect_garbage
from ..plan import Plan
from ..repairs import pack_repairs
from ..rows import LaneRow, rows_to_frame
from .parts import cut_blob, rules_from_json
from .rows import BLOB, COUNTS, OUTCOME, REPORT, Row, read_envelopes

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues


class AggregatorOperator(StatefulProcessor):
    """Decides on violating cells, and sends blobs on with their repairs."""

    def __init__(self, plan: Plan, stages: Stages) -> None:
        self.plan = plan
        self.stages = stages

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.counts: Any = handle.getValueState("counts", "text string")

    def handleInputRows(  # noqa: N802 -- PySpark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Decide on the cells of a micro-batch."""
        received: dict[str, list[Any]] = {}
        for frame in rows:
            for row in frame.itertuples(index=False):
                received.setdefault(row.kind, []).append(row)
        blobs = sorted(received.get(BLOB, ()), key=lambda blob: blob.number)
        messages, report = self.process(received, blobs)
        for blob, message in zip(blobs, messages, strict=True):
            yield rows_to_frame([LaneRow(0, blob.number, blob.data, blob.rest, blob.quarantined, message)])
        outcomes = [LaneRow(0, control=row.note) for row in received.get(OUTCOME, ())]
        yield rows_to_frame([*outcomes, LaneRow(0, report=report)])
        collect_garbage(self.plan.limits)

    def process(self, received: dict[str, list[Any]], blobs: list[Row]) -> tuple[list[pa.Buffer | None], str]:
        """Decide on the cells of a micro-batch; return the repairs of each blob, and the report."""
        stored = self.counts.get()
        state: dict[str, Any] = json.loads(stored[0]) if stored else {"tally": [], "messages": 0}
        tally = Tally.load(state["tally"])
        with paused_garbage_collector():
            envelopes = read_envelopes([*received.get(CLAIMS, ()), *received.get(PROPOSALS, ())])
            decided = self.stages[AGGREGATOR].make().process(envelopes)
        decisions = {envelope.attribute: envelope.batch for envelope in decided}
        messages = [self._repair(blob, decisions, tally) for blob in blobs]
        counts = Counter(coordination_messages=state["messages"])
        for row in received.get(COUNTS, ()):
            counts.update(json.loads(row.note))
        (known,) = (json.loads(row.note) for row in received[REPORT])
        active_rules = rules_from_json(self.plan.schema, known.pop("rules"))
        state = {"tally": tally.save(active_rules), "messages": counts["coordination_messages"]}
        self.counts.update((json.dumps(state),))
        report = {
            **known,
            "rules": [active.id for active in active_rules],
            "violations": tally.violations(active_rules),
            "repairs": tally.repairs(active_rules),
            "super_cells": counts["super_cells"],
            "coordination_messages": counts["coordination_messages"],
        }
        return messages, json.dumps(report)

    def close(self) -> None:
        """Do nothing."""

    def _repair(self, blob: Row, decisions: dict[str, pa.RecordBatch], tally: Tally) -> pa.Buffer | None:
        """Return the repairs of a blob."""
        repaired = []
        for part in cut_blob(self.plan, blob, unpack(blob.data or b"")):
            with_constants = part.rules.attributes_with_constants
            applied = part.apply_rules(self.plan.limits, with_constants)
            columns = tally.repair(part.rules, applied, decisions, part.positions)
            repaired += [replace(column, rows=part.rows[column.rows]) for column in columns]
        names = self.plan.schema.names
        return pack_repairs(sorted(repaired, key=lambda column: names.index(column.attribute)))
