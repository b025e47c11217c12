"""The lane: blobs in, blobs and repairs out. It has all rules and all state, or its share of the state."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ..config import Options
from ..control.outcome import Outcome
from ..control.record import ControlRecord
from ..engine.engine import Engine
from ..engine.placement import Placement, Share
from ..rules.active import ActiveRules
from ..rules.rule import Rule
from ..schema_text import schema_from_text, schema_to_text
from .clean_blobs import ENGINE_THREADS, clean_blobs, replay_blobs
from .garbage import collect_garbage
from .ingress import ArrowFunction
from .limits import Limits
from .plan import Plan
from .replica import ReplicaFactory, commit, load_replica, open_store
from .report import write_report
from .resume import remembered_options, resume
from .rows import IngressRow, LaneRow, read_ingress, rows_from_batch, rows_to_batch, rows_to_frame
from .rule_updates import Events, event_from_dict, event_to_dict
from .state_store import Delta, Head, ReplicaStore

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues


class EngineReplica:
    """The engine of a lane as a replica: its state is in the state store."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.engine = engine
        self.limits = limits
        engine.condition_limits = limits.conditions

    def replay(self, delta: Delta) -> None:
        """Process the delta of an earlier micro-batch again."""
        scheduled = map(event_from_dict, delta.header["events"])
        events = Events(self.engine, scheduled, refused_at=delta.header["refused_at"])
        with self.engine.replaying():
            events.apply_due()  # also those of a micro-batch without tuples
            replay_blobs(self.engine, delta.blobs, tuple(delta.header["order_by"]), events, self.limits)

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state."""
        return self.engine.snapshot_parts()


def engine_factory(limits: Limits) -> ReplicaFactory[EngineReplica]:
    """Return what makes the engine of a lane."""
    return ReplicaFactory(
        lambda head: EngineReplica(_new_engine(head.initial, head.options), limits),
        lambda header, arrays: EngineReplica(
            Engine.restore_parts(header, arrays, threads=ENGINE_THREADS), limits
        ),
    )


@dataclass(frozen=True, slots=True)
class Committed:
    """What is known of a micro-batch when it is committed."""

    outcomes: list[Outcome]  #: what became of its control records, and accepted changes
    report: str  #: its report


class MicroBatch:
    """A micro-batch in a lane: begun here, then decided, then committed.

    The state in the store changes in `commit` only. If an error leaves the `with` block, or nobody asks for
    more repairs, nothing is committed. If the block ends without `commit`, that is an error.

    Args:
        plan: The options of the cleaning.
        store: The state of the lane.
        lane: The number of the lane.
        cells: The cells of each blob.
        records: Control records; they take effect before the first tuple.
    """

    def __init__(
        self,
        plan: Plan,
        store: ReplicaStore,
        lane: int,
        cells: list[bytes],
        records: Sequence[ControlRecord] = (),
    ) -> None:
        self._plan = plan
        self._store = store
        self._cells = cells
        self._n_undecided = len(cells)
        self._committed = False
        self._head = store.read_head() or Head(
            str(uuid.uuid4()), _initial(plan, lane), remembered_options(plan)
        )
        self._cached = load_replica(store, self._head, engine_factory(plan.limits))
        self._engine = self._cached.replica.engine
        if plan.control:
            _prepare_for_updates(plan.options.repair)
        self._events = resume(plan, self._head, self._engine, records)

    def decide(self) -> Generator[pa.Buffer | None]:
        """Clean the tuples, and yield the repairs of each blob.

        Meanwhile the blobs are stored: they are large, and no part of the state until `commit`.
        """
        write_blobs = partial(self._store.write_blobs, self._head, self._cells)
        plan = self._plan
        for repairs in clean_blobs(
            self._engine, self._cells, plan.order_by, self._events, plan.limits, meanwhile=write_blobs
        ):
            self._n_undecided -= 1
            yield repairs

    def commit(self) -> Committed:
        """Write the state after the micro-batch."""
        if self._n_undecided:
            raise RuntimeError(
                f"lane: {self._n_undecided} of {len(self._cells)} blobs are not decided; "
                "take all repairs from decide() before commit()"
            )
        plan, head, engine = self._plan, self._head, self._engine
        n_tuples = engine.position - head.position
        head.position = engine.position
        head.options = remembered_options(plan)
        events = [event_to_dict(event) for event in self._events.applied]
        header = {"order_by": list(plan.order_by), "events": events, "refused_at": self._events.refused_at}
        delta = Delta(header, self._cells)
        commit(self._store, head, self._cached, delta, plan.limits)
        self._committed = True
        outcomes = self._events.outcomes
        return Committed(outcomes, write_report(engine, n_tuples, self._events))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error_type is None and not self._committed:
            raise RuntimeError("lane: the micro-batch is not committed; call commit() after decide()")


class Lane(StatefulProcessor):
    """The lane as a stateful operator of a streaming query."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.store = open_store(handle, "lane")

    def handleInputRows(  # noqa: N802 -- PySpark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Clean the tuples of a micro-batch."""
        lane = self.plan.keys.index(key[0])
        blobs, records = read_ingress(rows)
        with MicroBatch(self.plan, self.store, lane, [blob.cells for blob in blobs], records) as batch:
            for number, (blob, repairs) in enumerate(zip(blobs, batch.decide(), strict=True)):
                yield rows_to_frame([_lane_row(self.plan, lane, number, blob, repairs)])
            committed = batch.commit()
        outcomes = _own_outcomes(committed.outcomes, lane, self.plan.n_lanes)
        controls = [LaneRow(lane, control=one.to_json()) for one in outcomes]
        yield rows_to_frame([*controls, LaneRow(lane, report=committed.report)])
        collect_garbage(self.plan.limits)

    def close(self) -> None:
        """Do nothing: the engine stays in the cache."""


def static_lane(plan: Plan) -> ArrowFunction:
    """Return the lane of a static DataFrame: blobs come in order, and no state is kept."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine: Engine | None = None
        blobs = (row for batch in batches for row in rows_from_batch(IngressRow, batch))
        for number, blob in enumerate(blobs):
            if engine is None:  # a partition has the rows of one lane
                lane = plan.keys.index(blob.lane)
                engine = _new_engine(_initial(plan, lane), remembered_options(plan))
                engine.condition_limits = plan.limits.conditions
                events = Events(engine, plan.updates)
            (repairs,) = clean_blobs(engine, [blob.cells], (), events, plan.limits)
            yield rows_to_batch([_lane_row(plan, lane, number, blob, repairs)])
        if engine is not None:
            yield rows_to_batch([LaneRow(lane, report=write_report(engine, engine.position, events))])

    return run


def _own_outcomes(outcomes: list[Outcome], lane: int, n_lanes: int) -> list[Outcome]:
    """Return the outcomes that a lane sends, with numbers that no other lane gives.

    All lanes apply the same rule updates, so the first one sends those. Each sends the rules that it has
    withdrawn and the changes that it has accepted.
    """
    return [
        replace(one, index=one.index * n_lanes + lane)
        for one in outcomes
        if lane == 0 or one.kind in ("accepted", "withdrawn")
    ]


def _lane_row(plan: Plan, lane: int, number: int, blob: IngressRow, repairs: pa.Buffer | None) -> LaneRow:
    cells = blob.cells if plan.carries(lane) else None
    return LaneRow(lane, number, cells, blob.rest, blob.quarantined, repairs)


@cache
def _prepare_for_updates(repair: str) -> None:
    """Compile or load all that rule updates need, so that the first one does not interrupt the stream."""
    schema = pa.schema([(name, pa.int64()) for name in ("a", "b", "c")])
    engine = Engine(schema, ["ac: a -> c"], repair=repair)
    some = pa.RecordBatch.from_pydict({name: [1, 1] for name in ("a", "b", "c")}, engine.schema)
    engine.process(some)
    engine.add_rule("bc: b -> c")
    engine.process(some)
    engine.delete_rule("ac")
    engine.process(some)


def _initial(plan: Plan, lane: int) -> dict[str, Any]:
    """Return what the engine of a lane begins with, as JSON values."""
    share = {"lane": lane, "lanes": plan.placement.to_lists()} if plan.n_lanes > 1 else {}
    return {
        "schema": schema_to_text(plan.schema),
        "rules": [rule.to_dict() for rule in plan.rules],
        "id": plan.id if plan.options.implied else None,  # for which nothing is implied
        **share,
    }


def _new_engine(initial: dict[str, Any], options: dict[str, Any]) -> Engine:
    """Return an engine without state."""
    rules = [Rule.from_dict(rule) for rule in initial["rules"]]
    return Engine.of(
        ActiveRules(schema_from_text(initial["schema"]), rules, initial["id"]),
        Options.from_dict(options),
        threads=ENGINE_THREADS,
        share=Share(Placement.from_lists(initial["lanes"]), initial["lane"]) if "lanes" in initial else None,
    )
