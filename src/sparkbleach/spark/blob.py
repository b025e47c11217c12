"""Blobs: many rows as one value, because Spark moves few large values faster than many small rows.

A blob is an Arrow stream. It crosses two shuffles, the stateful operator and the state store, at some ten
nanoseconds a byte; so columns with few distinct values are dictionaries there, and it is compressed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_SMALL = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
QUICK = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
#: how many cells are looked at to see whether a column repeats itself
_SAMPLE = 5_000


def pack(batches: Sequence[pa.RecordBatch], *, small: bool) -> pa.Buffer:
    """Return batches of one schema as a blob, small or quickly made."""
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    columns = [_repeating(column) for column in batch.columns]
    batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_SMALL if small else QUICK) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def unpack(blob: bytes | pa.Buffer) -> pa.RecordBatch:
    """Return what a blob holds; some columns may have dictionaries."""
    with pa.ipc.open_stream(blob) as reader:
        (batch,) = reader
    return batch


def binary(blob: pa.Buffer | None) -> pa.Array:
    """Return a blob as an Arrow array with one cell, without a copy."""
    if blob is None:
        return pa.nulls(1, pa.binary())
    offsets = pa.py_buffer(np.array([0, blob.size], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, blob])


def _repeating(column: pa.Array) -> pa.Array:
    """Return a column as a dictionary with small indices, if it repeats itself."""
    type = column.type
    if (
        pa.types.is_nested(type)
        or pa.types.is_null(type)
        or (pa.types.is_primitive(type) and type.bit_width < 32)
    ):
        return column
    sample = column[:_SAMPLE]
    if 2 * len(sample.dictionary_encode().dictionary) > len(sample):
        return column
    encoded = column.dictionary_encode()
    n = len(encoded.dictionary)
    index = pa.uint8() if n <= 1 << 8 else pa.uint16() if n <= 1 << 16 else pa.int32()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(index), encoded.dictionary)
