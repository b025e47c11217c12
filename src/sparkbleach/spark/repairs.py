"""The repairs of a blob, as the lane sends them to the egress: one Arrow stream after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engine.audit import RepairedColumn
from .blob import QUICK

_METADATA = b"sparkbleach"


def pack_repairs(repaired: Sequence[RepairedColumn]) -> pa.Buffer | None:
    """Return repairs as bytes; None if there are none."""
    if not repaired:
        return None
    sink = pa.BufferOutputStream()
    for column in repaired:
        own = {"row": _narrow(column.rows), "new": column.new}
        metadata = {"attribute": column.attribute, "version": column.version, "applied": column.applied}
        shift = column.positions - column.rows
        if (shift == shift[0]).all():  # unless rows were sorted
            metadata["shift"] = int(shift[0])
        else:
            own["position"] = pa.array(column.positions)
        why = column.why
        batch = pa.RecordBatch.from_arrays([*own.values(), *why.columns], names=[*own, *why.schema.names])
        batch = batch.replace_schema_metadata({_METADATA: json.dumps(metadata)})
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
            metadata = json.loads(reader.schema.metadata[_METADATA])
            # To the end of this stream, where the next one begins.
            while next(reader, None) is not None:
                pass
        row = batch.column("row").to_numpy().astype(np.int64)
        shift = metadata.pop("shift", None)
        position = batch.column("position").to_numpy() if shift is None else row + shift
        why = batch.select([name for name in batch.schema.names if name not in ("row", "position", "new")])
        repaired.append(
            RepairedColumn(**metadata, rows=row, positions=position, new=batch.column("new"), why=why)
        )
    return repaired


def _narrow(rows: NDArray[np.int64]) -> pa.Array:
    return pa.array(rows.astype(np.min_scalar_type(rows.max())))
