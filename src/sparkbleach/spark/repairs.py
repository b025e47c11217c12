"""The repairs of a blob, as the lane sends them to the egress: one Arrow stream after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from ..stage.audit import RepairedColumn
from .blob import QUICK

_OWN = ("row", "position", "new")
_METADATA = b"sparkbleach"


def pack_repairs(repaired: Sequence[RepairedColumn]) -> pa.Buffer | None:
    """Return repairs as bytes; None if there are none."""
    if not repaired:
        return None
    sink = pa.BufferOutputStream()
    for column in repaired:
        why = column.why
        batch = pa.RecordBatch.from_arrays(
            [pa.array(column.rows), pa.array(column.positions), column.new, *why.columns],
            names=[*_OWN, *why.schema.names],
        )
        told = json.dumps(
            {"attribute": column.attribute, "version": column.version, "applied": column.applied}
        )
        batch = batch.replace_schema_metadata({_METADATA: told})
        with pa.ipc.new_stream(sink, batch.schema, options=QUICK) as writer:
            writer.write_batch(batch)
    return sink.getvalue()


def unpack_repairs(data: pa.Buffer) -> list[RepairedColumn]:
    """Return the repairs in these bytes."""
    repaired = []
    source = pa.BufferReader(data)
    while source.tell() < data.size:
        with pa.ipc.open_stream(source) as reader:
            (batch,) = reader
            told = json.loads(reader.schema.metadata[_METADATA])
            # To the end of this stream, where the next one begins.
            while next(reader, None) is not None:
                pass
        row, position, new = (batch.column(name) for name in _OWN)
        why = batch.select([name for name in batch.schema.names if name not in _OWN])
        repaired.append(
            RepairedColumn(
                told["attribute"],
                told["version"],
                told["applied"],
                row.to_numpy(),
                position.to_numpy(),
                new,
                why,
            )
        )
    return repaired
