"""The state of a replica in Spark's state store.

The head says where the replica is. A delta is what it read in one micro-batch: a replica is
deterministic, so a snapshot and the deltas after it rebuild it. Writing is spread: a snapshot is written in
chunks over many micro-batches, and the entries that it replaces are deleted in the same way.
"""

from __future__ import annotations

import json
import math
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engine.snapshot import UNREADABLE, check_whole
from ..errors import SnapshotError
from ..testing import reach

FORMAT_VERSION = 1
_DELTA, _SNAPSHOT = "delta", "snapshot"
_HEAD = ("head", 0, 0)


class Map(Protocol):
    """A map of the state store."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802 -- PySpark's names
        """Return the value of a key, or None."""

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        """Set the value of a key."""

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        """Remove a key."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot in the store."""

    sequence: int  #: the last delta that it includes
    chunks: int  #: how many chunks it has
    bytes: int  #: how many bytes


@dataclass(slots=True)
class Head:
    """Where a replica is."""

    stream: str  #: names the stream, for good
    initial: dict[str, Any]  #: what the replica began with: for a lane, the schema and the rules
    options: dict[str, Any]  #: the options and rules given when the replica last ran
    sequence: int = 0  #: the number of the last delta
    token: str = ""  #: names the state after it: a replica with this token has exactly this state
    position: int = 0  #: where the next tuple will be
    snapshot: Saved | None = None  #: the newest whole snapshot, if there is one
    #: the sequence number and the chunks so far of one that is being written
    begun: tuple[int, int] | None = None
    delta_bytes: int = 0  #: the bytes of the deltas after the newest snapshot, begun or whole
    first_delta: int = 1  #: the oldest delta that is still there
    first_kept: int = 1  #: the oldest delta that is still needed; those before it are being deleted
    #: snapshots that are being deleted: sequence number and chunks left
    garbage: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Delta:
    """What a replica read in one micro-batch."""

    header: dict[str, Any]  #: what the replica must know about the blobs, as JSON values
    blobs: list[bytes]  #: the data
    token: str = field(default_factory=lambda: str(uuid.uuid4()))  #: names the state after it


class ReplicaStore:
    """Reads and writes the state of a replica.

    All is in one map, because each state variable costs some ten milliseconds per micro-batch to set up. It
    goes from (kind of entry, sequence number of a delta or snapshot, part of it) to (bytes,); part 0 of each
    is a header.
    """

    def __init__(self, entries: Map) -> None:
        self._entries = entries

    def read_head(self) -> Head | None:
        """Return where the replica is; None if nothing was committed yet."""
        value = self._get(_HEAD)
        if value is None:
            return None
        data = json.loads(value)
        version = data.pop("format")
        if version != FORMAT_VERSION:
            raise SnapshotError(
                f"checkpoint: its state has format version {version}, this release reads {FORMAT_VERSION}; "
                "go on with the release that wrote it, or begin with a new checkpoint"
            )
        snapshot, begun = data.pop("snapshot"), data.pop("begun")
        return Head(**data, snapshot=snapshot and Saved(**snapshot), begun=begun and (begun[0], begun[1]))

    def write_head(self, head: Head) -> None:
        """Store where the replica is."""
        self._put(_HEAD, json.dumps({"format": FORMAT_VERSION, **asdict(head)}).encode())
        reach("state.head")

    def write_blobs(self, head: Head, blobs: list[bytes]) -> None:
        """Store the data of the next delta, ahead of the rest of it."""
        for part, blob in enumerate(blobs, 1):
            self._put((_DELTA, head.sequence + 1, part), blob)

    def write_delta(self, head: Head, delta: Delta) -> None:
        """Store the next delta, whose data is stored already."""
        head.sequence += 1
        head.token = delta.token
        parts = [len(blob) for blob in delta.blobs]
        header = {"token": delta.token, **delta.header, "parts": parts}
        self._put((_DELTA, head.sequence, 0), json.dumps(header).encode())
        head.delta_bytes += sum(parts)
        reach("state.delta")

    def token(self, sequence: int) -> str | None:
        """Return the token of a delta; None if it is not there."""
        header = self._delta_header(sequence)
        return str(header["token"]) if header else None

    def read_delta(self, sequence: int) -> Delta:
        """Return a delta."""
        header = self._delta_header(sequence)
        parts = range(1, len(header["parts"]) + 1) if header else ()
        blobs = [blob for part in parts if (blob := self._get((_DELTA, sequence, part))) is not None]
        if header is None or len(blobs) < len(parts):
            raise SnapshotError(
                f"checkpoint: delta {sequence} is missing from the state store; restore the checkpoint "
                "directory from a copy, or begin with a new one"
            )
        token = header.pop("token")
        del header["parts"]
        return Delta(header, blobs, token)

    def read_snapshot(self, saved: Saved) -> tuple[bytes, list[NDArray[Any]]]:
        """Return the parts of a snapshot."""
        header, *chunks = (self._chunk(saved.sequence, chunk) for chunk in range(saved.chunks))
        try:
            return unchunked(header, chunks)
        except UNREADABLE as error:
            raise SnapshotError(
                f"checkpoint: snapshot {saved.sequence} in the state store cannot be read ({error!r:.1000}); "
                "restore the checkpoint directory from a copy, or begin with a new one"
            ) from None

    def write_chunk(self, sequence: int, chunk: int, data: bytes) -> None:
        """Store a chunk of a snapshot."""
        self._put((_SNAPSHOT, sequence, chunk), data)
        reach("state.snapshot")

    def delete_some(self, head: Head, n_entries: int) -> None:
        """Delete some entries that are not needed any more."""
        left = n_entries
        while left > 0 and head.first_delta < head.first_kept:
            header = self._delta_header(head.first_delta)
            parts = len(header["parts"]) + 1 if header else 0
            for part in range(parts):
                self._entries.removeKey((_DELTA, head.first_delta, part))
            head.first_delta += 1
            left -= parts + 1
        while left > 0 and head.garbage:
            sequence, chunks = head.garbage.pop()
            now = min(left, chunks)
            for chunk in range(chunks - now, chunks):
                self._entries.removeKey((_SNAPSHOT, sequence, chunk))
            left -= now
            if chunks > now:
                head.garbage.append((sequence, chunks - now))
        reach("state.deletion")

    def _get(self, key: tuple[str, int, int]) -> bytes | None:
        value = self._entries.getValue(key)
        return bytes(value[0]) if value else None

    def _put(self, key: tuple[str, int, int], data: bytes) -> None:
        self._entries.updateValue(key, (data,))

    def _delta_header(self, sequence: int) -> dict[str, Any] | None:
        value = self._get((_DELTA, sequence, 0))
        return json.loads(value) if value else None

    def _chunk(self, sequence: int, chunk: int) -> bytes:
        data = self._get((_SNAPSHOT, sequence, chunk)) or b""
        if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
            raise SnapshotError(
                f"checkpoint: chunk {chunk} of snapshot {sequence} is missing or damaged in the state store; "
                "restore the checkpoint directory from a copy, or begin with a new one"
            )
        return data[4:]


class ChunkedSnapshot:
    """A snapshot of a replica after a delta, to be written chunk by chunk while the replica changes.

    A chunk has `chunk_bytes` bytes before compression.
    """

    def __init__(self, sequence: int, header: bytes, arrays: list[NDArray[Any]], chunk_bytes: int) -> None:
        shapes = [[np.lib.format.dtype_to_descr(array.dtype), list(array.shape)] for array in arrays]
        flat = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
        self.n_chunks = 1 + sum(-(-data.size // chunk_bytes) for data in flat)
        self.n_bytes = 0  #: how many have been written
        self.begun = (sequence, 0)  #: the sequence number, and how many chunks have been written
        described = {"arrays": shapes, "chunk_bytes": chunk_bytes, "engine": header.decode()}
        #: those still to be written
        self.chunks = self._chunks(json.dumps(described).encode(), flat, chunk_bytes)

    def _chunks(self, header: bytes, flat: list[NDArray[np.uint8]], chunk_bytes: int) -> Iterator[bytes]:
        yield _checked(header)
        while flat:
            data = flat.pop(0)  # so that memory is freed as it is written
            for first in range(0, data.size, chunk_bytes):
                yield _checked(pa.compress(data[first : first + chunk_bytes], "lz4", asbytes=True))


def unchunked(header: bytes, chunks: list[bytes]) -> tuple[bytes, list[NDArray[Any]]]:
    """Return the parts that the chunks of a snapshot hold; one of UNREADABLE if they hold none."""
    data = json.loads(header)
    chunk_bytes = check_whole("chunk_bytes", data["chunk_bytes"], 1 << 31, least=1)
    arrays: list[NDArray[Any]] = []
    at = 0
    for descr, shape in data["arrays"]:
        dtype = np.lib.format.descr_to_dtype(_tuples(descr))
        n_chunks = -(-math.prod(check_whole("shape", n) for n in shape) * dtype.itemsize // chunk_bytes)
        if dtype.hasobject or n_chunks > len(chunks) - at:
            raise ValueError(f"an array of the shape {shape} and the type {dtype}")
        array = np.empty(shape, dtype)
        flat = array.reshape(-1).view(np.uint8)
        for first in range(0, flat.size, chunk_bytes):
            part = flat[first : first + chunk_bytes]
            part[:] = np.frombuffer(pa.decompress(chunks[at], part.size, "lz4"), np.uint8)
            at += 1
        arrays.append(array)
    return data["engine"].encode(), arrays


def _checked(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little") + data


def _tuples(descr: Any) -> Any:
    """Return a dtype's description as NumPy wants it after it went through JSON: with tuples in lists."""
    if isinstance(descr, list):
        return [(name, _tuples(kind), *(tuple(shape) for shape in rest)) for name, kind, *rest in descr]
    return descr
