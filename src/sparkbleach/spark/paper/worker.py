"""Workers with state as stateful operators, keyed by their number."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ...paper.messages import Envelope, batch_from_bytes, batch_to_bytes
from ...paper.stages import Stages, paused_garbage_collector
from ...paper.worker import StatefulWorker
from ...testing import reach
from ..garbage import collect_garbage
from ..lanes import spread_keys
from ..limits import Limits
from ..replica import ReplicaFactory, commit, load_replica, open_store
from ..rows import rows_to_frame
from ..state_store import Delta, Head
from .rows import Row, count_rows, message_rows, sort_rows

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues


class WorkerReplica:
    """A worker as a replica: its state is in the state store."""

    def __init__(self, worker: StatefulWorker[Any]) -> None:
        self.worker = worker

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Take in the messages of a micro-batch."""
        with paused_garbage_collector():
            return self.worker.process(envelopes)

    def replay(self, delta: Delta) -> None:
        """Take in the messages of a micro-batch once more."""
        kinds = delta.header["envelopes"]
        self.process(
            Envelope(kind, 0, attribute, batch_from_bytes(data))
            for (kind, attribute), data in zip(kinds, delta.blobs, strict=True)
        )

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state: the names of record batches, and their bytes."""
        saved = self.worker.save()
        return json.dumps(list(saved)).encode(), [
            np.frombuffer(batch_to_bytes(batch), np.uint8) for batch in saved.values()
        ]

    def restore(self, header: bytes, arrays: list[NDArray[Any]]) -> WorkerReplica:
        """Go on from the parts of a snapshot."""
        batches = [batch_from_bytes(pa.py_buffer(array)) for array in arrays]
        for batch in batches:
            batch.validate(full=True)
        self.worker.load(dict(zip(json.loads(header), batches, strict=True)))
        return self


class WorkerOperator(StatefulProcessor):
    """The workers of a stage; each of them is a key.

    Args:
        stages: All stages.
        name: The name of this one.
        limits: How much is done at once.
    """

    def __init__(self, stages: Stages, name: str, limits: Limits) -> None:
        self.stages = stages
        self.stage = stages[name]
        self.limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.state = open_store(handle, "worker")

    def handleInputRows(  # noqa: N802 -- PySpark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Take the messages of a micro-batch to a worker, and let other rows pass."""
        mine: list[Any] = []
        for frame in rows:
            own = frame["stage"] == self.stage.name
            if not own.all():
                yield frame.loc[~own, list(Row._fields)]
            mine += frame[own].itertuples(index=False)
        if mine:
            sent = self.process(spread_keys(self.stage.workers).index(key[0]), mine)
            if sent:
                yield rows_to_frame(sent)
        collect_garbage(self.limits)

    def process(self, number: int, rows: Sequence[Any]) -> list[Row]:
        """Have a worker take in its messages, and store them; return what it sends."""
        rows = sort_rows(rows)
        head = self.state.read_head() or Head(str(uuid.uuid4()), {}, {})
        factory = ReplicaFactory(
            lambda _: self._new_worker(), lambda header, arrays: self._new_worker().restore(header, arrays)
        )
        cached = load_replica(self.state, head, factory)
        reach(f"paper.{self.stage.name}")
        sent = cached.replica.process(
            [Envelope(row.kind, number, row.attribute, batch_from_bytes(row.data)) for row in rows]
        )
        header = {"envelopes": [[row.kind, row.attribute] for row in rows]}
        delta = Delta(header, [row.data for row in rows])
        self.state.write_blobs(head, delta.blobs)
        commit(self.state, head, cached, delta, self.limits, self._n_replicas())
        forwarded = [
            Row(self.stage.forwards[row.kind], number, row.kind, row.attribute, row.data)
            for row in rows
            if row.kind in self.stage.forwards
        ]
        counts = count_rows(self.stage, cached.replica.worker)
        return [*counts, *forwarded, *message_rows(self.stages, self.stage.name, sent)]

    def close(self) -> None:
        """Do nothing: the worker stays."""

    def _n_replicas(self) -> int:
        return sum(stage.workers for stage in self.stages.values() if stage.has_state)

    def _new_worker(self) -> WorkerReplica:
        return WorkerReplica(self.stage.make())
