"""What travels between stages: rows, each addressed to a stage and a worker of it.

The query is one chain of stages. A stage processes its own rows and passes all others on.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...paper.messages import Envelope, batch_from_bytes, batch_to_bytes
from ...paper.stages import AGGREGATOR, Stage, Stages
from ..rows import Blob, Text

# Kinds of rows beside those of messages.
BLOB = "blob"  #: tuples, and in `note` which rules read them
OUTCOME = "outcome"  #: to the aggregator: what became of a rule update
REPORT = "report"  #: to the aggregator: what is known of the micro-batch before it is cleaned
COUNTS = "counts"  #: to the aggregator: numbers to add up for the report

#: the column that says through which worker of a stage a row goes, be it for this stage or not
KEY = "key"


class Row(NamedTuple):
    """A row of the DataFrame between two stages."""

    stage: str  #: which stage it is for
    worker: int  #: which worker of the stage
    kind: str  #: what it is
    attribute: str = ""  #: what a message is about
    data: Blob = None  #: messages, or the cells of a blob, as an Arrow stream
    number: int = 0  #: of a blob or an outcome: its place in the micro-batch
    rest: Blob = None  #: of a blob: the columns that no rule reads
    quarantined: Blob = None  #: of a blob: the quarantined rows
    positions: Blob = None  #: of a blob: where its tuples are in the stream; null if one after the other
    note: Text = None  #: anything else, as JSON


def message_rows(stages: Stages, sender: str, envelopes: Iterable[Envelope]) -> list[Row]:
    """Return what a stage sends as rows for the stages that get it; those without state share attributes."""
    rows = []
    for envelope in envelopes:
        receiver = stages[stages[sender].sends[envelope.kind]]
        worker = envelope.to if receiver.has_state else zlib.crc32(envelope.attribute.encode()) >> 1
        rows.append(message_row(receiver.name, envelope._replace(to=worker)))
    return rows


def message_row(stage: str, envelope: Envelope) -> Row:
    """Return an envelope as a row for a stage."""
    return Row(
        stage, envelope.to, envelope.kind, envelope.attribute, batch_to_bytes(envelope.batch).to_pybytes()
    )


def count_rows(stage: Stage, worker: Any) -> list[Row]:
    """Return what a worker counts for the report, if anything."""
    counts = stage.counts(worker)
    return [Row(AGGREGATOR, 0, COUNTS, note=json.dumps(counts))] if counts else []


def read_envelopes(rows: Iterable[Any]) -> list[Envelope]:
    """Return the envelopes in rows."""
    return [Envelope(row.kind, row.worker, row.attribute, batch_from_bytes(row.data)) for row in rows]


def sort_rows(rows: Iterable[Any]) -> list[Any]:
    """Return messages in an order that does not depend on how they came."""
    return sorted(rows, key=lambda row: (row.kind, row.attribute, row.data))
