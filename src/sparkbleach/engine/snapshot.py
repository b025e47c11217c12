"""Snapshots: all state of an engine as a header and arrays, or as bytes, and back.

`SPRKBLCH`, the format version, the CRC-32 of the rest; then a JSON header and the arrays, each in NumPy's
`.npy` format without pickle. Violation graphs are not written: they follow from the super cells.
"""

from __future__ import annotations

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
from ..rules.rule import Rule
from ..schema_text import schema_from_text, schema_to_text
from .placement import Placement, Share

MAGIC = b"SPRKBLCH"
FORMAT_VERSION = 2
_HEAD = struct.Struct("<8sIIQ")  # magic, format version, CRC-32 and length of the body


@dataclass(frozen=True, slots=True)
class SavedAttribute:
    """An attribute with its rules.

    Attributes:
        name: Its name.
        applied: Whether its repairs are made: False for the state of its shadow rules.
        rules: Serial number and rule, by kernel column.
        arrays: The arrays of its state.
    """

    name: str
    applied: bool
    rules: list[tuple[int, Rule]]
    arrays: list[NDArray[Any]]


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
        repairs: By rule: repairs so far.
        attributes: The attributes with rules.
        share: The lane's part of the work; None for all of it.
    """

    schema: pa.Schema
    id: str | None
    window: Window | None
    windowing: str
    repair: str
    position: int
    version: int
    next_serial: int
    repairs: dict[str, int]
    attributes: list[SavedAttribute]
    share: Share | None = None


def to_parts(snapshot: Snapshot) -> tuple[bytes, list[NDArray[Any]]]:
    """Return a snapshot as a JSON header and the arrays of all states, not copied."""
    header = {
        "format": FORMAT_VERSION,
        "schema": schema_to_text(snapshot.schema),
        "id": snapshot.id,
        "window": snapshot.window and [snapshot.window.size, snapshot.window.slide],
        "windowing": snapshot.windowing,
        "repair": snapshot.repair,
        "position": snapshot.position,
        "version": snapshot.version,
        "next_serial": snapshot.next_serial,
        "repairs": snapshot.repairs,
        "attributes": [
            {
                "name": ruled.name,
                "applied": ruled.applied,
                "rules": [[serial, rule.to_dict()] for serial, rule in ruled.rules],
                "arrays": len(ruled.arrays),
            }
            for ruled in snapshot.attributes
        ],
        "share": snapshot.share and [snapshot.share.lane, snapshot.share.placement.to_lists()],
    }
    return json.dumps(header).encode(), [array for ruled in snapshot.attributes for array in ruled.arrays]


def from_parts(header: bytes, arrays: Sequence[NDArray[Any]]) -> Snapshot:
    """Return the snapshot that a header and arrays are the parts of.

    Raises:
        SnapshotError: If they are not such parts, or of another format version.
    """
    try:
        told = json.loads(bytes(header))
        _check_version(told["format"])
        n_arrays = _n_arrays(told)
        if n_arrays != len(arrays):
            raise SnapshotError(
                f"snapshot: its header calls for {n_arrays} arrays, there are {len(arrays)}; "
                "give all that snapshot_parts() returned, in their order"
            )
        rest = iter(arrays)
        return Snapshot(
            schema=schema_from_text(told["schema"]),
            id=told["id"],
            window=Window(*told["window"]) if told["window"] else None,
            windowing=told["windowing"],
            repair=told["repair"],
            position=told["position"],
            version=told["version"],
            next_serial=told["next_serial"],
            repairs=told["repairs"],
            attributes=[
                SavedAttribute(
                    one["name"],
                    one["applied"],
                    [(serial, Rule.from_dict(rule)) for serial, rule in one["rules"]],
                    list(islice(rest, one["arrays"])),
                )
                for one in told["attributes"]
            ],
            share=_share(told.get("share")),
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
    n_arrays = _n_arrays(json.loads(header))
    return header, [np.lib.format.read_array(stream, allow_pickle=False) for _ in range(n_arrays)]


def _share(told: list[Any] | None) -> Share | None:
    return Share(Placement.from_lists(told[1]), told[0]) if told else None


def _n_arrays(header: dict[str, Any]) -> int:
    return sum(attribute["arrays"] for attribute in header["attributes"])


def _check_version(version: int) -> None:
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"snapshot: format version {version}, this release reads version {FORMAT_VERSION}; "
            "restore it with the release that made it"
        )
