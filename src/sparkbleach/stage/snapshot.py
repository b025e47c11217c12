"""Snapshots: all state of an engine as a header and arrays, or as bytes, and back.

`SPRKBLCH`, the format version, the CRC-32 of the rest; then a JSON header and the arrays, each in NumPy's
`.npy` format without pickle. Violation graphs are not written: they follow from the super cells.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import Window
from ..errors import SnapshotError
from ..rule import Rule

MAGIC = b"SPRKBLCH"
FORMAT_VERSION = 1
_HEAD = struct.Struct("<8sIIQ")  # magic, format version, CRC-32 and length of the body


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot says.

    Attributes:
        schema: The stream's schema.
        id: The id attribute.
        window: The window.
        windowing: The windowing strategy.
        repair: The repair algorithm.
        position: Where the next tuple will be.
        version: The version of the rule set.
        next_serial: The serial number of the next rule.
        rules: The live rules: attribute, kernel column, serial number, repairs so far, rule.
        states: By attribute: the arrays of its state.
    """

    schema: pa.Schema
    id: str | None
    window: Window | None
    windowing: str
    repair: str
    position: int
    version: int
    next_serial: int
    rules: list[tuple[str, int, int, int, Rule]]
    states: dict[str, list[NDArray[Any]]]


def to_parts(snapshot: Snapshot) -> tuple[bytes, list[NDArray[Any]]]:
    """Return a snapshot as a JSON header and the arrays of all states, not copied."""
    header = {
        "format": FORMAT_VERSION,
        "schema": base64.b64encode(snapshot.schema.serialize().to_pybytes()).decode(),
        "id": snapshot.id,
        "window": snapshot.window and [snapshot.window.size, snapshot.window.slide],
        "windowing": snapshot.windowing,
        "repair": snapshot.repair,
        "position": snapshot.position,
        "version": snapshot.version,
        "next_serial": snapshot.next_serial,
        "rules": [[*place, rule.to_dict()] for *place, rule in snapshot.rules],
        "states": {name: len(arrays) for name, arrays in snapshot.states.items()},
    }
    return json.dumps(header).encode(), [array for arrays in snapshot.states.values() for array in arrays]


def from_parts(header: bytes, arrays: Sequence[NDArray[Any]]) -> Snapshot:
    """Return the snapshot that a header and arrays are the parts of.

    Raises:
        SnapshotError: If they are not such parts, or of another format version.
    """
    try:
        told = json.loads(bytes(header))
        version = told.get("format", FORMAT_VERSION)  # first releases wrote it before the body only
        _check_version(version)
        counts: dict[str, int] = told["states"]
        if sum(counts.values()) != len(arrays):
            raise SnapshotError(
                f"snapshot: its header calls for {sum(counts.values())} arrays, there are {len(arrays)}; "
                "give all that snapshot_parts() returned, in their order"
            )
        rest = iter(arrays)
        return Snapshot(
            schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told["schema"]))),
            id=told["id"],
            window=Window(*told["window"]) if told["window"] else None,
            windowing=told["windowing"],
            repair=told["repair"],
            position=told["position"],
            version=told["version"],
            next_serial=told["next_serial"],
            rules=[(a, j, s, r, Rule.from_dict(rule)) for a, j, s, r, rule in told["rules"]],
            states={name: list(islice(rest, n_arrays)) for name, n_arrays in counts.items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise SnapshotError(
            f"snapshot: the header cannot be read ({error!r}); give what snapshot_parts() returned"
        ) from None


def pack(header: bytes, arrays: Iterable[NDArray[Any]]) -> bytes:
    """Return the parts of a snapshot as bytes."""
    body = io.BytesIO()
    body.write(struct.pack("<Q", len(header)) + header)
    for array in arrays:
        np.lib.format.write_array(body, array, allow_pickle=False)
    data = body.getbuffer()
    return _HEAD.pack(MAGIC, FORMAT_VERSION, zlib.crc32(data), len(data)) + data


def unpack(data: bytes) -> tuple[bytes, list[NDArray[Any]]]:
    """Return the parts of the snapshot in these bytes.

    Raises:
        SnapshotError: If they are damaged, not a snapshot, or of another format version.
    """
    if len(data) < _HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise SnapshotError(
            "snapshot: these bytes are not a sparkbleach snapshot; give what snapshot() returned"
        )
    _, version, checksum, length = _HEAD.unpack_from(data)
    _check_version(version)
    body = memoryview(data)[_HEAD.size :]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise SnapshotError(
            f"snapshot: damaged ({len(body)} of {length} bytes, or a wrong checksum); use an earlier one"
        )
    stream = io.BytesIO(body)
    (n,) = struct.unpack("<Q", stream.read(8))
    header = stream.read(n)
    n_arrays = sum(json.loads(header)["states"].values())
    return header, [np.lib.format.read_array(stream, allow_pickle=False) for _ in range(n_arrays)]


def _check_version(version: int) -> None:
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"snapshot: format version {version}, this release reads version {FORMAT_VERSION}; "
            "restore it with the release that made it"
        )
