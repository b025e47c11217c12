"""Blobs: many rows as one value, because Spark moves few large values faster than many small rows.

A blob is an Arrow stream, compressed with LZ4: it crosses two shuffles and the state store.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

IPC_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def pack(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """Return batches of one schema as a blob."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=IPC_OPTIONS) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def unpack(blob: bytes | pa.Buffer) -> pa.RecordBatch:
    """Return what a blob holds, as one batch."""
    with pa.ipc.open_stream(blob) as reader:
        batches = list(reader)
        if len(batches) == 1:
            return batches[0]
        return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], reader.schema)


def binary(blob: pa.Buffer | None) -> pa.Array:
    """Return a blob as an Arrow array with one cell, without a copy."""
    if blob is None:
        return pa.nulls(1, pa.binary())
    offsets = pa.py_buffer(np.array([0, blob.size], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, blob])
