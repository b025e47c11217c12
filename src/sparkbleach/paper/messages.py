"""The messages between the stages of the paper's topology.

A message is a row; the rows that one stage sends to one worker about one attribute are a record batch in
an envelope. Nothing else passes between stages, so an envelope is what a shuffle carries. A group is named by
its key: the serial number of its rule and the 128-bit hash of its LHS. A set of groups is the bytes of its
keys, in order. Values are canonical: 64-bit codes or bytes, which compare as the values do (encode.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import Window

#: of a group's key: the rule's serial number, most significant byte first, then the hash
KEY = np.dtype([("serial", ">u4"), ("hi", "<u8"), ("lo", "<u8")])
KEY_BYTES = KEY.itemsize
SERIAL_BYTES = 4

# The flags of a verdict on a sub-tuple. The paper's three messages: no violation (no VIOLATED),
# append-only (VIOLATED), complete (VIOLATED and ENTERS).
IN_GRAPH = 1  #: the group is in the graph, now that the tuple has been looked at
VIOLATED = 2  #: the tuple violates the rule
ENTERS = 4  #: with this tuple the group enters the graph
NEWS = 8  #: RW-hinge: repair workers do not know yet that a cell of this pane lies in these groups

#: to every worker with state: the bounds of the micro-batch and the rules deleted in it
CLOCK = "clock"
#: ingress router to detect worker: what a rule sees of a tuple
SUB_TUPLES = "sub-tuples"
#: ingress router to egress router: all groups of a tuple, and its RHS cell
TUPLES = "tuples"
#: detect worker to egress router: one for each sub-tuple
VERDICTS = "verdicts"
#: detect worker to all repair workers (the egress router copies it): groups without a cell after a slide
REMOVED = "removed"
#: egress router to repair workers: a tuple for the worker that holds its cell, violations and links for all
CELLS = "cells"
#: egress router to aggregator: a cell that waits for its repair
CLAIMS = "claims"
#: link worker to coordinator: groups that belong to one subgraph, as the worker's own cells show
MERGES = "merges"
#: coordinator, or with RW-hinge detect worker, to all repair workers: groups that belong to one subgraph
LINKS = "links"
#: repair worker to aggregator: candidates for a cell with their counts among the worker's cells
PROPOSALS = "proposals"
#: aggregator: what becomes of a cell
DECISIONS = "decisions"

_INT = pa.int64()
_INTS = pa.list_(_INT)
_GROUP = pa.binary(KEY_BYTES)
_GROUPS = pa.large_binary()
#: stands for the type of an attribute's values
_VALUE = pa.null()
_VALUES = pa.list_(_VALUE)


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


SCHEMAS = {
    CLOCK: _schema(first=_INT, end=_INT, deleted_at=_INTS, deleted=_INTS),
    SUB_TUPLES: _schema(
        position=_INT, place=pa.uint16(), group=_GROUP, hinged=pa.bool_(), value=pa.binary(16), groups=_GROUPS
    ),
    TUPLES: _schema(position=_INT, groups=_GROUPS, value=_VALUE),
    VERDICTS: _schema(position=_INT, place=pa.uint16(), verdict=pa.uint8()),
    REMOVED: _schema(position=_INT, group=_GROUP),
    # The value is null for all but the worker that holds the cell.
    CELLS: _schema(
        position=_INT, groups=_GROUPS, verdicts=pa.large_binary(), stored=pa.bool_(), value=_VALUE
    ),
    # The cell as it came, and the serial numbers of the rules that it violates.
    CLAIMS: _schema(position=_INT, value=_VALUE, violated=_INTS),
    MERGES: _schema(position=_INT, groups=_GROUPS, pane=_INT),
    LINKS: _schema(position=_INT, groups=_GROUPS, pane=_INT),
    # `groups` is the size of the subgraph.
    PROPOSALS: _schema(position=_INT, groups=_INT, total=_INT, values=_VALUES, counts=_INTS),
    # The first candidate is the new cell if `changed`.
    DECISIONS: _schema(
        position=_INT,
        changed=pa.bool_(),
        violated=_INTS,
        groups=_INT,
        total=_INT,
        values=_VALUES,
        counts=_INTS,
    ),
}


@cache
def message_schema(kind: str, value: pa.DataType) -> pa.Schema:
    """Return the schema of messages about an attribute whose values are of a type."""
    types = {_VALUE: value, _VALUES: pa.list_(value)}
    return pa.schema([(field.name, types.get(field.type, field.type)) for field in SCHEMAS[kind]])


class Envelope(NamedTuple):
    """Messages of one kind to one worker about one attribute."""

    kind: str
    to: int  #: the number of the worker
    attribute: str  #: empty for the clock
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Segment:
    """Tuples of a micro-batch between which no window slides and no rule goes."""

    first: int  #: the position of its first tuple
    end: int  #: the position after its last
    deleted: tuple[int, ...]  #: serial numbers of the rules that are deleted before its first tuple
    slides: bool  #: whether the window slides before its first tuple, after these deletions
    pane: int  #: the pane of its tuples
    start: int  #: the first pane of the window


@dataclass(frozen=True, slots=True)
class Clock:
    """The bounds of a micro-batch and the rules deleted in it: what every stage must know of it."""

    first: int  #: the position of its first tuple
    end: int  #: the position after its last
    #: position and serial number of the rules that are deleted, in their order
    deletions: tuple[tuple[int, int], ...] = ()

    def to_batch(self) -> pa.RecordBatch:
        """Return the clock as a message."""
        row = {
            "first": self.first,
            "end": self.end,
            "deleted_at": [at for at, _ in self.deletions],
            "deleted": [serial for _, serial in self.deletions],
        }
        return pa.RecordBatch.from_pylist([row], SCHEMAS[CLOCK])

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Clock:
        """Return the clock in a message."""
        (row,) = batch.to_pylist()
        return cls(row["first"], row["end"], tuple(zip(row["deleted_at"], row["deleted"], strict=True)))

    def segments(self, window: Window | None) -> Iterator[Segment]:
        """Yield the segments of the micro-batch, one at least."""
        slides = set()
        if window is not None:
            slides = set(range(-(-self.first // window.slide) * window.slide, self.end, window.slide))
        cuts = sorted({self.first, *slides, *(at for at, _ in self.deletions)})
        for first, end in pairwise([*cuts, self.end]):
            deleted = tuple(serial for at, serial in self.deletions if at == first)
            pane = first // window.slide if window else 0
            start = max(0, pane - window.size // window.slide + 1) if window else 0
            yield Segment(first, end, deleted, first in slides, pane, start)


class Inbox:
    """The envelopes of one worker in one micro-batch, by kind and attribute."""

    def __init__(self, envelopes: Iterable[Envelope]) -> None:
        self._batches: dict[tuple[str, str], list[pa.RecordBatch]] = {}
        for envelope in envelopes:
            self._batches.setdefault((envelope.kind, envelope.attribute), []).append(envelope.batch)

    @property
    def clock(self) -> Clock:
        """The clock of the micro-batch, of which every worker gets a copy."""
        return Clock.from_batch(self._batches[CLOCK, ""][0])

    @property
    def attributes(self) -> list[str]:
        """The attributes that there are messages about."""
        return sorted({attribute for _, attribute in self._batches if attribute})

    def get(self, kind: str, attribute: str, in_order: bool = True) -> pa.RecordBatch | None:
        """Return all messages of a kind about an attribute, by position if asked; None if there are none."""
        batches = self._batches.get((kind, attribute))
        if batches is None:
            return None
        batch = batches[0]
        if len(batches) > 1:
            batch = pa.concat_batches(batches)
        positions = batch.column("position").to_numpy()
        if not in_order or np.all(positions[:-1] <= positions[1:]):
            return batch
        return batch.take(pa.array(np.argsort(positions, kind="stable")))


class Cursor:
    """The rows of messages in the order of their positions, taken segment by segment."""

    def __init__(self, batch: pa.RecordBatch | None, *names: str) -> None:
        self._positions = np.zeros(0, np.int64) if batch is None else batch.column("position").to_numpy()
        self._columns = [[] if batch is None else to_list(batch.column(name)) for name in names]
        self._at = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self._columns, strict=True)

    def until(self, end: int) -> Iterator[tuple[Any, ...]]:
        """Take the rows with positions below `end`."""
        first = self._at
        self._at = int(np.searchsorted(self._positions, end))
        return zip(*(column[first : self._at] for column in self._columns), strict=True)


def to_list(array: pa.Array) -> list[Any]:
    """Return the cells of a column as Python objects, faster than `to_pylist`."""
    kind = array.type
    if pa.types.is_list(kind):
        items = to_list(array.values)
        return [items[i:j] for i, j in pairwise(array.offsets.to_pylist())]
    if array.null_count == len(array):
        return [None] * len(array)
    if array.null_count:
        distinct = array.dictionary_encode()
        values = [*to_list(distinct.dictionary), None]
        return [values[i] for i in distinct.indices.fill_null(len(values) - 1).to_numpy().tolist()]
    if pa.types.is_large_binary(kind):
        data = array.buffers()[2]
        text = b"" if data is None else data.to_pybytes()
        offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8).tolist()
        return [text[i:j] for i, j in pairwise(offsets)]
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        fixed = np.frombuffer(
            array.buffers()[1], np.dtype((np.void, width)), len(array), array.offset * width
        )
        return list(fixed.tolist())
    return list(array.to_numpy(zero_copy_only=False).tolist())


class Verdict(NamedTuple):
    """All verdicts on a tuple: by flag, where the keys of the groups with it lie in the tuple's set."""

    in_graph: tuple[slice, ...]
    violated: tuple[slice, ...]
    entering: tuple[slice, ...]


@lru_cache(maxsize=1 << 16)
def read_verdicts(verdicts: bytes) -> Verdict | None:
    """Return the places of groups with each flag; None if no group is in the graph."""
    if not any(verdicts):
        return None
    places = [slice(i * KEY_BYTES, (i + 1) * KEY_BYTES) for i in range(len(verdicts))]
    return Verdict(
        *(
            tuple(place for place, verdict in zip(places, verdicts, strict=True) if verdict & flag)
            for flag in (IN_GRAPH, VIOLATED, ENTERS)
        )
    )


def split_keys(groups: bytes) -> list[bytes]:
    """Return the keys in a set of groups."""
    return [groups[i : i + KEY_BYTES] for i in range(0, len(groups), KEY_BYTES)]


def key_prefix(serial: int) -> bytes:
    """Return what the keys of a rule's groups begin with."""
    return serial.to_bytes(SERIAL_BYTES, "big")


def join_cells(cells: NDArray[Any], lengths: NDArray[np.int64]) -> pa.Array:
    """Return fixed-width cells, given row after row with the rows' lengths, as a byte string for each row."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths * cells.dtype.itemsize, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.large_binary(),
        lengths.size,
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells))],
    )


def list_column(lengths: Sequence[int] | NDArray[np.int64], items: pa.Array) -> pa.Array:
    """Return a column of lists from their lengths and all their items."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def make_batch(found: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of Python objects as a record batch."""
    columns = zip(*found, strict=True) if found else [()] * len(schema)
    arrays = [pa.array(column, type) for column, type in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def batch_to_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a record batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def batch_from_bytes(data: pa.Buffer | bytes) -> pa.RecordBatch:
    """Return the record batch in these bytes."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
