"""Deterministic objects whose state is in Spark's state store: the lane's engine, the paper's workers.

Between micro-batches a replica stays cached in the Python worker, with the token of its state. If the head of
the store has the same token, the replica is current. If an earlier delta has it, the later deltas are
replayed. Otherwise the replica is rebuilt from the store.
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

from ..engine.snapshot import UNREADABLE
from ..errors import SnapshotError
from .limits import Limits
from .state_store import ChunkedSnapshot, Delta, Head, ReplicaStore, Saved

#: not as text, which Spark would parse in each micro-batch
_KEY = (
    StructType()
    .add("kind", StringType(), nullable=False)
    .add("sequence", LongType(), nullable=False)
    .add("part", IntegerType(), nullable=False)
)
_DATA = StructType().add("data", BinaryType(), nullable=False)


class Replica(Protocol):
    """A deterministic object: the same deltas always lead to the same state."""

    def replay(self, delta: Delta) -> None:
        """Process the delta of an earlier micro-batch again."""

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state: a header in UTF-8, and arrays that share nothing with the replica."""


R = TypeVar("R", bound=Replica)


@dataclass(frozen=True, slots=True)
class ReplicaFactory(Generic[R]):
    """Makes replicas."""

    new: Callable[[Head], R]  #: returns a replica without state, from what the head says of the beginning
    restore: Callable[[bytes, list[NDArray[Any]]], R]  #: returns a replica from the parts of its snapshot


@dataclass(slots=True)
class CachedReplica(Generic[R]):
    """A replica in the memory of this Python worker."""

    replica: R  #: the replica
    sequence: int  #: the last delta that it has processed
    token: str  #: names its state
    snapshot: ChunkedSnapshot | None = None  #: a snapshot of it that is being written


#: by stream, the most recently used last
_cached: OrderedDict[str, CachedReplica[Any]] = OrderedDict()


def open_store(handle: StatefulProcessorHandle, name: str) -> ReplicaStore:
    """Declare the state of a replica to Spark."""
    return ReplicaStore(handle.getMapState(name, _KEY, _DATA))


def load_replica(state: ReplicaStore, head: Head, factory: ReplicaFactory[R]) -> CachedReplica[R]:
    """Return the replica in the state that the head names: the cached one, or one rebuilt from the store.

    It leaves the cache until `commit` puts it back, so that a failure does not leave a changed replica there.
    """
    cached: CachedReplica[R] | None = _cached.pop(head.stream, None)
    if cached and cached.sequence <= head.sequence:
        token = head.token if cached.sequence == head.sequence else state.token(cached.sequence)
        if token != cached.token:
            cached = None
    else:
        cached = None
    if cached is None:
        if head.snapshot:
            cached = CachedReplica(_restored(state, head.snapshot, factory), head.snapshot.sequence, "")
        else:
            cached = CachedReplica(factory.new(head), 0, "")
    while cached.sequence < head.sequence:
        delta = state.read_delta(cached.sequence + 1)
        cached.replica.replay(delta)
        cached.sequence += 1
        cached.token = delta.token
    return cached


def _restored(state: ReplicaStore, snapshot: Saved, factory: ReplicaFactory[R]) -> R:
    parts = state.read_snapshot(snapshot)
    try:
        return factory.restore(*parts)
    except UNREADABLE as error:
        raise SnapshotError(
            f"checkpoint: snapshot {snapshot.sequence} in the state store is none ({error}); "
            "restore the checkpoint directory from a copy, or begin with a new one"
        ) from None


def commit(
    state: ReplicaStore,
    head: Head,
    cached: CachedReplica[R],
    delta: Delta,
    limits: Limits,
    n_replicas: int = 1,
) -> None:
    """Store the delta that a replica has processed, and cache the replica, one of `n_replicas` of its query.

    The head is that before the micro-batch, and is moved on; the blobs of the delta are already in the store.
    """
    state.write_delta(head, delta)
    _write_snapshot(state, head, cached, sum(map(len, delta.blobs)), limits)
    state.delete_some(head, limits.deletions_per_batch)
    state.write_head(head)
    cached.sequence, cached.token = head.sequence, head.token
    _cached[head.stream] = cached
    while len(_cached) > limits.cached_queries_max * n_replicas:
        _cached.popitem(last=False)


def _write_snapshot(
    state: ReplicaStore, head: Head, cached: CachedReplica[Any], delta_bytes: int, limits: Limits
) -> None:
    """Begin a snapshot when there are many bytes of deltas, and write some chunks of the current one."""
    budget = max(limits.snapshot_batch_bytes, limits.snapshot_bytes_per_delta_byte * delta_bytes)
    due = head.delta_bytes >= max(limits.snapshot_bytes, head.snapshot.bytes if head.snapshot else 0)
    if head.begun and not (cached.snapshot and cached.snapshot.begun == head.begun):
        # Another worker has begun it. Begin again, and write all of it: this worker may get no next task.
        head.garbage.append(head.begun)
        head.begun = None
        due, budget = True, sys.maxsize
    if head.begun is None:
        cached.snapshot = None
        if not due:
            return
        head.begun = (head.sequence, 0)
        head.delta_bytes = 0
        header, arrays = cached.replica.snapshot_parts()
        cached.snapshot = ChunkedSnapshot(head.sequence, header, arrays, limits.snapshot_chunk_bytes)
    snapshot = cached.snapshot
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
    head.begun = cached.snapshot = None
