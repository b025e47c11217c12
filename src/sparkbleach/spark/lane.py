"""The lane: blobs in, blobs and repairs out; all rules and all state are here.

Between micro-batches the engine stays in the Python worker. What it is worth is told by its token: if the
store's head has the same one, the engine is what the store would rebuild; if the store has gone on from
there, it is brought up to date; else it is rebuilt.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from ..config import Window
from ..engine import Engine
from ..errors import ConfigError
from ..rulelog import ControlRecord, Outcome
from ..update import difference
from .blob import binary
from .clean_blobs import clean_blobs
from .events import Event, Events, schema_of, text_of
from .ingress import ArrowFunction
from .plan import REPORT, Plan
from .state import ENGINE_THREADS, ChunkedSnapshot, Delta, Head, LaneState, Saved
from .worker import settle

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues

LANE_SCHEMA = (
    f"number int, cells binary, rest binary, aside binary, repairs binary, control string, {REPORT} string"
)

#: not as text, which Spark would parse in each micro-batch
_KEY = (
    StructType()
    .add("kind", StringType(), nullable=False)
    .add("sequence", LongType(), nullable=False)
    .add("part", IntegerType(), nullable=False)
)
_DATA = StructType().add("data", BinaryType(), nullable=False)

_LIVE_MAX = 8
#: a micro-batch writes this much of a snapshot, or this multiple of its own delta: enough to end in time
_SNAPSHOT_BYTES_PER_BATCH = 1 << 19
_SNAPSHOT_BYTES_PER_DELTA_BYTE = 4


@dataclass(slots=True)
class Live:
    """An engine that is alive in this worker.

    Attributes:
        engine: It.
        sequence: The last delta that it has taken in.
        token: Names its state.
        snapshot: A snapshot that is being written.
    """

    engine: Engine
    sequence: int
    token: str
    snapshot: ChunkedSnapshot | None = None


#: by stream: the engines in this worker, the last used one last
_live: OrderedDict[str, Live] = OrderedDict()


class Lane(StatefulProcessor):
    """The lane as a stateful operator of a streaming query."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.state = LaneState(handle.getMapState("lane", _KEY, _DATA))

    def handleInputRows(  # noqa: N802 -- PySpark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Clean the tuples of a micro-batch."""
        import pandas as pd

        came = [row for frame in rows for row in frame.itertuples(index=False)]
        blobs = [row for row in came if row.cells is not None]
        blobs.sort(key=lambda blob: (blob.partition, blob.sequence))
        records = [ControlRecord.read(row.number or "", row.control) for row in came if row.cells is None]
        records.sort(key=lambda record: record.number)
        messages, outcomes, report = self.process([blob.cells for blob in blobs], records)

        def frame(number: int, **columns: Any) -> pd.DataFrame:
            return pd.DataFrame({"number": [number], **columns, REPORT: [report]})

        for number, (blob, message) in enumerate(zip(blobs, messages, strict=True)):
            yield frame(
                number,
                cells=[blob.cells],
                rest=[blob.rest],
                aside=[blob.aside],
                repairs=[message and message.to_pybytes()],
                control=[None],
            )
        for number, outcome in enumerate(outcomes, len(blobs)):
            nothing = {name: [None] for name in ("cells", "rest", "aside", "repairs")}
            yield frame(number, **nothing, control=[outcome.to_json()])
        settle()

    def process(
        self, cells: list[bytes], records: Sequence[ControlRecord] = ()
    ) -> tuple[list[pa.Buffer | None], list[Outcome], str]:
        """Let control records take effect, clean the tuples of a micro-batch, and store what was read.

        Returns:
            The repairs of each blob, the outcomes, and the report.
        """
        head = self.state.read_head()
        begins = head is None
        if head is None:
            head = Head(str(uuid.uuid4()), _first(self.plan), _config(self.plan))
        live = resume(self.state, head)
        # From here on the engine is neither here nor there: a failure must not leave it behind.
        _live.pop(head.stream, None)
        engine = live.engine
        if self.plan.control:
            _prepare_for_updates()
        events = Events(engine, _config(self.plan)["updates"], self.plan)
        changed = _begin(self.plan, head, engine, events)
        if begins or changed or not head.config.get("control"):
            events.start()
        events.obey(records)
        messages = list(clean_blobs(engine, cells, self.plan.order_by, events))
        delta = Delta(str(uuid.uuid4()), list(self.plan.order_by), events.happened, cells)
        self.state.write_delta(head, delta)
        position, head.position = head.position, engine.position
        head.config = _config(self.plan)
        _write_snapshot(self.state, head, live, sum(map(len, cells)), self.plan.snapshot_bytes)
        self.state.delete_some(head)
        self.state.write_head(head)
        live.sequence, live.token = head.sequence, head.token
        _live[head.stream] = live
        while len(_live) > _LIVE_MAX:
            _live.popitem(last=False)
        return messages, events.outcomes, report(engine, engine.position - position, events.outcomes)

    def close(self) -> None:
        """Do nothing: the engine stays."""


@cache
def _prepare_for_updates() -> None:
    """Have all that rule updates need compiled or loaded, so that the first one is no pause."""
    engine = Engine(pa.schema([(name, pa.int64()) for name in ("a", "b", "c")]), ["ac: a -> c"])
    some = pa.RecordBatch.from_pydict({name: [1, 1] for name in ("a", "b", "c")}, engine.schema)
    engine.process(some)
    engine.add_rule("bc: b -> c")
    engine.process(some)
    engine.delete_rule("ac")
    engine.process(some)


def static_lane(plan: Plan) -> ArrowFunction:
    """Return the lane of a static DataFrame: blobs come in order, and there is nothing to keep."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = _new_engine(_first(plan), _config(plan))
        events = Events(engine, _config(plan)["updates"])
        number = 0
        for batch in batches:
            for row in batch.to_pylist():
                (message,) = clean_blobs(engine, [row["cells"]], (), events)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([number], pa.int32()),
                        *(pa.array([row[name]], pa.binary()) for name in ("cells", "rest", "aside")),
                        binary(message),
                        pa.nulls(1, pa.string()),
                        pa.array([report(engine, engine.position)]),
                    ],
                    names=["number", "cells", "rest", "aside", "repairs", "control", REPORT],
                )
                number += 1

    return run


def report(engine: Engine, n_tuples: int, outcomes: Sequence[Outcome] = ()) -> str:
    """Return the report of a micro-batch as text; of two, the later one is the greater."""
    updates = [str(outcome) for outcome in outcomes]
    told = {**engine.report(), "tuples": n_tuples, "updates": updates}
    return f"{engine.position:019} {json.dumps(told)}"


def resume(state: LaneState, head: Head) -> Live:
    """Return the engine as the head says it is: the one in this worker, or one rebuilt from the store."""
    live = _live.get(head.stream)
    if live and live.sequence <= head.sequence:
        token = head.token if live.sequence == head.sequence else state.token(live.sequence)
        if token != live.token:
            live = None
    else:
        live = None
    if live is None:
        _live.pop(head.stream, None)
        if head.snapshot:
            live = Live(state.read_snapshot(head.snapshot), head.snapshot.sequence, "")
        else:
            live = Live(_new_engine(head.first, head.config), 0, "")
    while live.sequence < head.sequence:
        delta = state.read_delta(live.sequence + 1)
        events = Events(live.engine, delta.events)
        events.let_happen()  # also those of a micro-batch without tuples
        for _ in clean_blobs(live.engine, delta.blobs, tuple(delta.order_by), events):
            pass
        live.sequence += 1
        live.token = delta.token
    return live


def _new_engine(first: dict[str, Any], config: dict[str, Any]) -> Engine:
    """Return an engine with no state."""
    return Engine(
        schema_of(first["schema"]),
        first["rules"],
        window=Window(*config["window"]) if config["window"] else None,
        windowing=config["windowing"],
        repair=config["repair"],
        threads=ENGINE_THREADS,
    )


def _first(plan: Plan) -> dict[str, Any]:
    return {"schema": text_of(plan.schema), "rules": [rule.to_dict() for rule in plan.rules]}


def _config(plan: Plan) -> dict[str, Any]:
    return {
        "window": plan.window and [plan.window.size, plan.window.slide],
        "windowing": plan.windowing,
        "repair": plan.repair,
        "rules": [rule.to_dict() for rule in plan.rules],
        "updates": [update.to_dict() for update in plan.updates],
        "control": plan.control,
    }


def _begin(plan: Plan, head: Head, engine: Engine, events: Events) -> bool:
    """Bring the engine to the rules and the schema that are given now; return whether that changed it.

    Raises:
        ConfigError: If an option differs that cannot change.
    """
    given, known = _config(plan), head.config
    for option in ("window", "windowing", "repair"):
        if given[option] != known[option]:
            raise ConfigError(
                f"{option}: the checkpoint was made with {_told(known[option])}, "
                f"not with {_told(given[option])}; "
                f"go on with {_told(known[option])}, or begin with a new checkpoint"
            )
    past = [update for update in given["updates"] if update["at"] < head.position]
    if past != [update for update in known["updates"] if update["at"] < head.position]:
        raise ConfigError(
            f"rule updates: those before position {head.position}, where the stream is, differ from those "
            "that took effect; leave them as they were, and give new ones later positions"
        )
    changes: list[Event] = []
    if given["rules"] != known["rules"]:
        # The engine's rules may be others by now: what is not given differently stays as it is.
        was, now = ({rule["id"]: rule for rule in config["rules"]} for config in (known, given))
        differ = {id for id in was | now if was.get(id) != now.get(id)}
        old, new = ([rule for rule in rules if rule.id in differ] for rules in (engine.rules, plan.rules))
        changes = [update.to_dict() for update in difference(old, new, engine.position)]
    if plan.schema != engine.schema:
        schema = {"at": engine.position, "op": "schema", "schema": text_of(plan.schema)}
        n_before = sum(change["op"] != "add" for change in changes)
        changes.insert(n_before, schema)
    for change in changes:
        events.happen(change)
    return bool(changes)


def _told(option: Any) -> str:
    if option is None:
        return "no window"
    return f"{option[0]} tuples sliding by {option[1]}" if isinstance(option, list) else repr(option)


def _write_snapshot(state: LaneState, head: Head, live: Live, delta_bytes: int, least_bytes: int) -> None:
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
        live.snapshot = ChunkedSnapshot(live.engine, head.sequence)
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
