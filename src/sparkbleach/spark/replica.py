"""Deterministic machines whose state is in Spark's state store: the lane's engine, the paper's workers.

Between micro-batches a machine stays in the Python worker. What it is worth is told by its token: if the
store's head has the same one, the machine is what the store would rebuild; if the store has gone on from
there, it is brought up to date; else it is rebuilt.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from .state_store import ChunkedSnapshot, Delta, Head, MachineState, Saved

#: not as text, which Spark would parse in each micro-batch
_KEY = (
    StructType()
    .add("kind", StringType(), nullable=False)
    .add("sequence", LongType(), nullable=False)
    .add("part", IntegerType(), nullable=False)
)
_DATA = StructType().add("data", BinaryType(), nullable=False)

#: of how many queries a worker keeps all machines
_LIVE_MAX = 8
#: a micro-batch writes this much of a snapshot, or this multiple of its own delta: enough to end in time
_SNAPSHOT_BYTES_PER_BATCH = 1 << 19
_SNAPSHOT_BYTES_PER_DELTA_BYTE = 4


class Machine(Protocol):
    """What can be kept: the same deltas always lead it to the same state."""

    def take_in(self, delta: Delta) -> None:
        """Go through what was read in a micro-batch once more."""

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state: a header in UTF-8, and arrays that share nothing with the machine."""


M = TypeVar("M", bound=Machine)


@dataclass(frozen=True, slots=True)
class Kind(Generic[M]):
    """How machines of a kind are made.

    Attributes:
        new: Returns one with no state, as the head says it began.
        restore: Returns one from the parts of its snapshot.
    """

    new: Callable[[Head], M]
    restore: Callable[[bytes, list[NDArray[Any]]], M]


@dataclass(slots=True)
class Live(Generic[M]):
    """A machine that is alive in this worker.

    Attributes:
        machine: It.
        sequence: The last delta that it has taken in.
        token: Names its state.
        snapshot: A snapshot that is being written.
    """

    machine: M
    sequence: int
    token: str
    snapshot: ChunkedSnapshot | None = None


#: by stream: the machines in this worker, the last used one last
_live: OrderedDict[str, Live[Any]] = OrderedDict()


def stored(handle: StatefulProcessorHandle, name: str) -> MachineState:
    """Declare the state of a machine to Spark."""
    return MachineState(handle.getMapState(name, _KEY, _DATA))


def take(state: MachineState, head: Head, kind: Kind[M]) -> Live[M]:
    """Return the machine as the head says it is: the one in this worker, or one rebuilt from the store.

    It is neither here nor there until `keep` is called: a failure does not leave it behind.
    """
    live: Live[M] | None = _live.pop(head.stream, None)
    if live and live.sequence <= head.sequence:
        token = head.token if live.sequence == head.sequence else state.token(live.sequence)
        if token != live.token:
            live = None
    else:
        live = None
    if live is None:
        if head.snapshot:
            live = Live(kind.restore(*state.read_snapshot(head.snapshot)), head.snapshot.sequence, "")
        else:
            live = Live(kind.new(head), 0, "")
    while live.sequence < head.sequence:
        delta = state.read_delta(live.sequence + 1)
        live.machine.take_in(delta)
        live.sequence += 1
        live.token = delta.token
    return live


def keep(
    state: MachineState,
    head: Head,
    live: Live[M],
    delta: Delta,
    snapshot_bytes: int,
    machines: int = 1,
) -> None:
    """Store what a machine has read in a micro-batch, and keep the machine in this worker.

    Args:
        state: The store.
        head: Where the machine was.
        live: The machine; it has taken the delta in.
        delta: What it has read; its blobs are in the store by now.
        snapshot_bytes: How many bytes of deltas make a snapshot worth its while, at least.
        machines: How many machines the query has.
    """
    state.write_delta(head, delta)
    _write_snapshot(state, head, live, sum(map(len, delta.blobs)), snapshot_bytes)
    state.delete_some(head)
    state.write_head(head)
    live.sequence, live.token = head.sequence, head.token
    _live[head.stream] = live
    while len(_live) > _LIVE_MAX * machines:
        _live.popitem(last=False)


def _write_snapshot(
    state: MachineState, head: Head, live: Live[Any], delta_bytes: int, least_bytes: int
) -> None:
    """Begin a snapshot when the deltas have grown long, and write some of one that was begun."""
    budget = max(_SNAPSHOT_BYTES_PER_BATCH, _SNAPSHOT_BYTES_PER_DELTA_BYTE * delta_bytes)
    due = head.delta_bytes >= max(least_bytes, head.snapshot.bytes if head.snapshot else 0)
    if head.begun and not (live.snapshot and live.snapshot.begun == head.begun):
        # Another worker has begun it. Begin anew, and write all of it: this worker may not be asked again.
        head.garbage.append(head.begun)
        head.begun = None
        due, budget = True, sys.maxsize
    if head.begun is None:
        live.snapshot = None
        if not due:
            return
        head.begun = (head.sequence, 0)
        head.delta_bytes = 0
        live.snapshot = ChunkedSnapshot(head.sequence, *live.machine.snapshot_parts())
    snapshot = live.snapshot
    assert snapshot is not None  # noqa: S101 -- what the lines above are for
    for chunk in snapshot.chunks:
        state.write_chunk(*snapshot.begun, chunk)
        snapshot.begun = head.begun = (head.begun[0], head.begun[1] + 1)
        snapshot.n_bytes += len(chunk)
        budget -= len(chunk)
        if budget <= 0 and head.begun[1] < snapshot.n_chunks:
            return
    if head.snapshot:
        head.garbage.append((head.snapshot.sequence, head.snapshot.chunks))
    head.snapshot = Saved(head.begun[0], snapshot.n_chunks, snapshot.n_bytes)
    head.first_kept = head.begun[0] + 1
    head.begun = live.snapshot = None
