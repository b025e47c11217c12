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

from ..config import Options
from ..errors import ConfigError, SnapshotError
from ..rules.active import ActiveRules
from ..schema_text import schema_from_text, schema_to_text
from .placement import Placement, Share

MAGIC = b"SPRKBLCH"
FORMAT_VERSION = 4
_HEAD = struct.Struct("<8sIIQ")  # magic, format version, CRC-32 and length of the body


@dataclass(frozen=True, slots=True)
class SavedAttribute:
    """The state of an attribute."""

    name: str  #: its name
    applied: bool  #: whether its repairs are made: False for the state with its shadow rules
    arrays: list[NDArray[Any]]  #: the arrays of its state


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All state of an engine."""

    rules: ActiveRules  #: the active rules, with the stream's schema and id attribute
    options: Options  #: how the stream is cleaned
    position: int  #: where the next tuple will be
    clock: list[Any]  #: what time it is in a time window
    repairs: dict[str, int]  #: by rule: repairs so far
    attributes: list[SavedAttribute]  #: the states of the attributes with rules
    share: Share | None = None  #: the lane's part of the work; None for all of it


def to_parts(snapshot: Snapshot) -> tuple[bytes, list[NDArray[Any]]]:
    """Return a snapshot as a JSON header and the arrays of all states, not copied."""
    header = {
        "format": FORMAT_VERSION,
        "schema": schema_to_text(snapshot.rules.schema),
        "id": snapshot.rules.id,
        "rules": snapshot.rules.save(),
        "options": snapshot.options.to_dict(),
        "position": snapshot.position,
        "clock": snapshot.clock,
        "repairs": snapshot.repairs,
        "attributes": [
            {"name": saved.name, "applied": saved.applied, "arrays": len(saved.arrays)}
            for saved in snapshot.attributes
        ],
        "share": snapshot.share and [snapshot.share.lane, snapshot.share.placement.to_lists()],
    }
    return json.dumps(header).encode(), [array for saved in snapshot.attributes for array in saved.arrays]


def from_parts(header: bytes, arrays: Sequence[NDArray[Any]]) -> Snapshot:
    """Return the snapshot that a header and arrays are the parts of."""
    try:
        read = json.loads(bytes(header))
        _check_version(read["format"])
        n_arrays = _n_arrays(read)
        if n_arrays != len(arrays):
            raise SnapshotError(
                f"snapshot: its header calls for {n_arrays} arrays, there are {len(arrays)}; "
                "give all that snapshot_parts() returned, in their order"
            )
        rest = iter(arrays)
        return Snapshot(
            rules=ActiveRules.load(schema_from_text(read["schema"]), read["id"], read["rules"]),
            options=Options.from_dict(read["options"]),
            position=read["position"],
            clock=read["clock"],
            repairs=read["repairs"],
            attributes=[
                SavedAttribute(one["name"], one["applied"], list(islice(rest, one["arrays"])))
                for one in read["attributes"]
            ],
            share=_share(read.get("share")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException, ConfigError) as error:
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
    """Return the parts of the snapshot in these bytes."""
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


def _share(saved: list[Any] | None) -> Share | None:
    return Share(Placement.from_lists(saved[1]), saved[0]) if saved else None


def _n_arrays(header: dict[str, Any]) -> int:
    return sum(attribute["arrays"] for attribute in header["attributes"])


def _check_version(version: int) -> None:
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"snapshot: format version {version}, this release reads version {FORMAT_VERSION}; "
            "restore it with the release that made it"
        )
