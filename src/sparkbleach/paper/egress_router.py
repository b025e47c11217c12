"""The egress router: joins the verdicts on a tuple, and sends it to those who need it. It has no state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .messages import (
    CELLS,
    CLAIMS,
    IN_GRAPH,
    KEY,
    KEY_BYTES,
    LINKS,
    NEWS,
    REMOVED,
    TUPLES,
    VERDICTS,
    VIOLATED,
    Envelope,
    Inbox,
    join_cells,
    list_column,
    message_schema,
)

Mask = NDArray[np.bool_]


class EgressRouter:
    """Send cells to the repair workers that hold them; violations and links to all."""

    def __init__(self, repair_workers: int, sends_hinges: bool) -> None:
        self.repair_workers = repair_workers  #: worker n modulo this number holds the tuple at position n
        #: whether detect workers say which links are news (RW-hinge); if not, all workers get all links
        self.sends_hinges = sends_hinges
        #: cells so far, and how often they were sent to a repair worker
        self.received = 0
        self.sent = 0

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Join the verdicts of a micro-batch."""
        inbox = Inbox(envelopes)
        workers = range(self.repair_workers)
        sent = []
        for attribute in inbox.attributes:
            for kind in (REMOVED, LINKS):
                batch = inbox.get(kind, attribute)
                if batch is not None:
                    sent += [Envelope(kind, worker, attribute, batch) for worker in workers]
            tuples = inbox.get(TUPLES, attribute)
            if tuples is not None:
                sent += self._route(attribute, tuples, inbox.get(VERDICTS, attribute))
        return sent

    def _route(
        self, attribute: str, tuples: pa.RecordBatch, verdicts: pa.RecordBatch | None
    ) -> list[Envelope]:
        positions = tuples.column("position").to_numpy()
        groups, value = tuples.column("groups"), tuples.column("value")
        starts = np.frombuffer(groups.buffers()[1], np.int64, len(groups) + 1, groups.offset * 8) // KEY_BYTES
        lengths = np.diff(starts)
        starts = starts - starts[0]
        flags = np.zeros(int(starts[-1]), np.uint8)
        if verdicts is not None:
            row = np.searchsorted(positions, verdicts.column("position").to_numpy())
            flags[starts[row] + verdicts.column("place").to_numpy()] = verdicts.column("verdict").to_numpy()
        stored = value.is_valid().to_numpy(zero_copy_only=False)
        violated = _any(flags & VIOLATED, starts)
        if self.sends_hinges:
            everywhere = violated | _any(flags & NEWS, starts)
        else:
            linked = np.add.reduceat(flags & IN_GRAPH, starts[:-1], dtype=np.int64) > 1
            everywhere = violated | (stored & linked)
        cells = pa.RecordBatch.from_arrays(
            [tuples.column("position"), groups, join_cells(flags, lengths), pa.array(stored), value],
            schema=message_schema(CELLS, value.type),
        )
        sent = []
        self.received += len(positions)
        owner = positions % self.repair_workers
        for worker in range(self.repair_workers):
            mine = stored & (owner == worker)
            rows = np.flatnonzero(mine | everywhere)
            self.sent += rows.size
            if rows.size:
                batch = _masked(cells.take(pa.array(rows)), mine[rows])
                sent.append(Envelope(CELLS, worker, attribute, batch))
        if violated.any():
            sent.append(Envelope(CLAIMS, 0, attribute, _claims(cells, flags, starts, violated)))
        return sent


def _any(flags: NDArray[Any], starts: NDArray[np.int64]) -> Mask:
    """Return for each tuple whether one of its groups has a flag; each tuple has a group at least."""
    found: Mask = np.logical_or.reduceat(flags, starts[:-1])
    return found


def _masked(cells: pa.RecordBatch, mine: Mask) -> pa.RecordBatch:
    """Take out the values of cells that another worker holds."""
    if mine.all():
        return cells
    at = cells.schema.get_field_index("value")
    value = cells.column(at)
    columns = cells.columns
    columns[at] = value.take(pa.array(np.arange(len(value)), mask=~mine))
    return pa.RecordBatch.from_arrays(columns, schema=cells.schema)


def _claims(
    cells: pa.RecordBatch, flags: NDArray[np.uint8], starts: NDArray[np.int64], violated: Mask
) -> pa.RecordBatch:
    groups, value = cells.column("groups"), cells.column("value")
    first = int(np.frombuffer(groups.buffers()[1], np.int64, 1, groups.offset * 8)[0])
    keys = np.frombuffer(groups.buffers()[2], KEY, flags.size, first)
    which = (flags & VIOLATED).astype(np.bool_)
    counts = np.add.reduceat(which, starts[:-1], dtype=np.int64)[violated]
    serials = list_column(counts, pa.array(keys["serial"][which].astype(np.int64)))
    rows = pa.array(np.flatnonzero(violated))
    return pa.RecordBatch.from_arrays(
        [cells.column("position").take(rows), value.take(rows), serials],
        schema=message_schema(CLAIMS, value.type),
    )
