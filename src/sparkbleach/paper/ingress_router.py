"""The ingress router: tuples in, sub-tuples by rule out. It has no state but the rules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engine.apply import AppliedRules
from ..engine.encode import canonical
from .messages import KEY, SCHEMAS, SUB_TUPLES, TUPLES, Envelope, join_cells, message_schema


class IngressRouter:
    """Cut tuples into sub-tuples, and send each to the detect worker of its group."""

    def __init__(self, detect_workers: int, sends_hinges: bool) -> None:
        self.detect_workers = detect_workers
        self.sends_hinges = sends_hinges  #: whether sub-tuples carry their sibling groups' keys (RW-hinge)

    def process(self, applied: Mapping[str, AppliedRules], positions: NDArray[np.int64]) -> list[Envelope]:
        """Route the tuples of a batch, which are at these positions."""
        sent = []
        for attribute, rules in applied.items():
            sent += self._route(attribute, rules, positions)
        return sent

    def _route(self, attribute: str, rules: AppliedRules, positions: NDArray[np.int64]) -> list[Envelope]:
        cells = rules.cells
        applies = np.ascontiguousarray(cells.applies.T)
        lengths = applies.sum(axis=1, dtype=np.int64)
        which = np.flatnonzero(lengths)
        if not which.size:
            return []
        keys = np.empty(applies.shape, KEY)
        keys["serial"] = [active.serial for active in rules.rules]
        keys["hi"], keys["lo"] = cells.key_hi.T, cells.key_lo.T
        flat = keys[applies]
        lengths = lengths[which]
        groups = join_cells(flat, lengths)
        value = canonical(cells.column).take(pa.array(which))
        positions = positions[which]
        tuples = pa.RecordBatch.from_arrays(
            [pa.array(positions), groups, value], schema=message_schema(TUPLES, value.type)
        )
        sent = [Envelope(TUPLES, 0, attribute, tuples)]
        row = np.repeat(np.arange(which.size), lengths)
        place = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        worker = flat["lo"] % np.uint64(self.detect_workers)
        hashes = np.stack([cells.column.hi[which], cells.column.lo[which]], axis=1)
        valid = cells.column.valid[which]
        hinged = lengths > 1
        for number in range(self.detect_workers):
            mine = np.flatnonzero(worker == number)
            if mine.size:
                at = row[mine]
                siblings = pa.nulls(at.size, pa.large_binary())
                if self.sends_hinges:
                    siblings = groups.take(pa.array(at, mask=~hinged[at]))
                batch = pa.RecordBatch.from_arrays(
                    [
                        pa.array(positions[at]),
                        pa.array(place[mine], pa.uint16()),
                        _fixed(flat[mine], None),
                        pa.array(hinged[at]),
                        _fixed(hashes[at], valid[at]),
                        siblings,
                    ],
                    schema=SCHEMAS[SUB_TUPLES],
                )
                sent.append(Envelope(SUB_TUPLES, number, attribute, batch))
        return sent


def _fixed(cells: NDArray[np.void] | NDArray[np.uint64], valid: NDArray[np.bool_] | None) -> pa.Array:
    """Return rows of bytes as an Arrow column, null where not valid."""
    width = cells[:1].nbytes
    mask = None
    if valid is not None and not valid.all():
        mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [mask, pa.py_buffer(np.ascontiguousarray(cells))]
    return pa.Array.from_buffers(pa.binary(width), len(cells), buffers)
