"""Snapshots: all state of an engine as a header and arrays, or as bytes, and back.

`SPRKBLCH`, the format version, the CRC-32 of the rest; then a JSON header and the arrays, each in NumPy's
`.npy` format without pickle. Violation graphs are not written: they follow from the super cells.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from tokenize import TokenError
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import COUNTING_REPAIRS, Options
from ..errors import SnapshotError, SparkbleachError
from ..rules.active import ActiveRules
from ..schema_text import schema_from_text, schema_to_text
from .placement import Placement, Share

MAGIC = b"SPRKBLCH"
FORMAT_VERSION = 4
_HEAD = struct.Struct("<8sIIQ")  # magic, format version, CRC-32 and length of the body
#: what is raised where something is read that nobody has written
UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    TokenError,
    ArithmeticError,
    RecursionError,
    OSError,
    struct.error,
    pa.ArrowException,
    SparkbleachError,
)
_ARRAYS_MAX = 1 << 20
_POSITION_MAX = 1 << 60
_PANE_MAX = 1 << 62


def check_whole(what: str, number: Any, below: int = _POSITION_MAX, least: int = 0) -> int:
    """Return a whole number within bounds; ValueError if it is none."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < below:
        raise ValueError(f"{what}: {number!r:.100} is not a whole number from {least} to {below - 1}")
    return number


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
        _check_number(n_arrays, len(arrays))
        rest = iter(arrays)
        rules = ActiveRules.load(schema_from_text(read["schema"]), read["id"], read["rules"])
        options = Options.from_dict(read["options"])
        return Snapshot(
            rules=rules,
            options=options,
            position=check_whole("position", read["position"]),
            clock=_clock(read["clock"], options),
            repairs=_repairs(read["repairs"], rules),
            attributes=[_attribute(one, rest) for one in read["attributes"]],
            share=_share(read["share"], options, rules),
        )
    except SnapshotError:
        raise
    except UNREADABLE as error:
        raise SnapshotError(
            f"snapshot: the header cannot be read ({error!r:.1000}); use an earlier one, "
            "or give what snapshot_parts() returned"
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
    try:
        (n,) = struct.unpack("<Q", stream.read(8))
        header = stream.read(min(n, length))
        n_arrays = _n_arrays(json.loads(header))
        arrays = [_read_array(stream, body) for _ in range(n_arrays)]
        if stream.tell() != length:
            raise ValueError("there are more bytes after the last array")
    except UNREADABLE as error:
        raise SnapshotError(f"snapshot: damaged ({error!r:.1000}); use an earlier one") from None
    return header, arrays


def _read_array(stream: io.BytesIO, body: memoryview) -> NDArray[Any]:
    """Return the next array; its bytes stay where they are. What it says of its size is not trusted."""
    np.lib.format.read_magic(stream)
    try:
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except MemoryError:  # of Python's parser, whose stack is small
        raise ValueError("the header of an array is nested too deeply") from None
    at = stream.tell()
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or is_fortran or any(n < 0 for n in shape) or not 0 <= n_bytes <= len(body) - at:
        raise ValueError(f"an array of the shape {shape} and the type {dtype}")
    stream.seek(at + n_bytes)
    array: NDArray[Any] = np.ndarray(shape, dtype, body[at : at + n_bytes])
    return array


def _attribute(saved: dict[str, Any], rest: Iterator[NDArray[Any]]) -> SavedAttribute:
    name, applied = saved["name"], saved["applied"]
    if not isinstance(name, str) or not isinstance(applied, bool):
        raise TypeError(f"attributes: {name!r:.100}, {applied!r:.100} are not a name and a truth value")
    return SavedAttribute(name, applied, list(islice(rest, saved["arrays"])))


def _clock(saved: list[Any], options: Options) -> list[Any]:
    if options.window is None or options.window.column is None:
        if saved:
            raise ValueError("clock: there is no time window")
        return []
    first, pane = saved
    if first is not None:
        check_whole("clock", first, _PANE_MAX, -_PANE_MAX)
    return [first, check_whole("clock", pane, _PANE_MAX + 1)]


def _repairs(saved: dict[str, Any], rules: ActiveRules) -> dict[str, int]:
    if saved.keys() != {active.id for active in rules}:
        raise ValueError("repairs: they are not those of the rules")
    return {id: check_whole("repairs", n) for id, n in saved.items()}


def _share(saved: list[Any] | None, options: Options, rules: ActiveRules) -> Share | None:
    if saved is None:
        return None
    lane, lists = saved
    placement = Placement.from_lists(lists)
    check_whole("share", lane, len(placement.lanes))
    if options.repair not in COUNTING_REPAIRS and len(placement.lanes) > 1:
        raise ValueError(f"share: there are no lanes for {options.repair!r}")
    for name, on in rules.by_attribute.items():
        n_lanes = len(placement.lanes_of(name))
        if n_lanes == 0 or (n_lanes > 1 and len(on) > 1):
            raise ValueError(f"share: {name!r} is in {n_lanes} lanes")
    return Share(placement, lane)


def _n_arrays(header: dict[str, Any]) -> int:
    return sum(check_whole("arrays", one["arrays"], _ARRAYS_MAX) for one in header["attributes"])


def _check_number(n_wanted: int, n_given: int) -> None:
    if n_wanted != n_given:
        raise SnapshotError(
            f"snapshot: its header calls for {n_wanted} arrays, there are {n_given}; "
            "give all that snapshot_parts() returned, in their order"
        )


def _check_version(version: int) -> None:
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"snapshot: format version {version}, this release reads version {FORMAT_VERSION}; "
            "restore it with the release that made it"
        )
