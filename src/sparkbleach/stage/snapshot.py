"""Snapshots: all state of an engine as bytes, and back.

`SPRKBLCH`, the format version, the CRC-32 of the rest; then a JSON header and the arrays, each in NumPy's
`.npy` format without pickle. Violation graphs are not written: they follow from the super cells.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from dataclasses import dataclass
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


def pack(snapshot: Snapshot) -> bytes:
    """Return a snapshot as bytes."""
    header = {
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
    body = io.BytesIO()
    text = json.dumps(header).encode()
    body.write(struct.pack("<Q", len(text)) + text)
    for arrays in snapshot.states.values():
        for array in arrays:
            np.lib.format.write_array(body, array, allow_pickle=False)
    data = body.getbuffer()
    return _HEAD.pack(MAGIC, FORMAT_VERSION, zlib.crc32(data), len(data)) + data


def unpack(data: bytes) -> Snapshot:
    """Return the snapshot in these bytes.

    Raises:
        SnapshotError: If they are damaged, not a snapshot, or of another format version.
    """
    if len(data) < _HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise SnapshotError(
            "snapshot: these bytes are not a sparkbleach snapshot; give what snapshot() returned"
        )
    _, version, checksum, length = _HEAD.unpack_from(data)
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"snapshot: format version {version}, this release reads version {FORMAT_VERSION}; "
            "restore it with the release that made it"
        )
    body = memoryview(data)[_HEAD.size :]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise SnapshotError(
            f"snapshot: damaged ({len(body)} of {length} bytes, or a wrong checksum); use an earlier one"
        )
    stream = io.BytesIO(body)
    (n,) = struct.unpack("<Q", stream.read(8))
    header = json.loads(stream.read(n))
    states = {
        name: [np.lib.format.read_array(stream, allow_pickle=False) for _ in range(n_arrays)]
        for name, n_arrays in header["states"].items()
    }
    return Snapshot(
        schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(header["schema"]))),
        id=header["id"],
        window=Window(*header["window"]) if header["window"] else None,
        windowing=header["windowing"],
        repair=header["repair"],
        position=header["position"],
        version=header["version"],
        next_serial=header["next_serial"],
        rules=[(a, j, s, r, Rule.from_dict(rule)) for a, j, s, r, rule in header["rules"]],
        states=states,
    )
