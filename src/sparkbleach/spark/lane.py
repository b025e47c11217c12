"""The lane: blobs in, blobs and repairs out; all rules and all state are here.

Between micro-batches the engine stays in the Python worker. What it is worth is told by its token: if the
store's head has the same one, the engine is what the store would rebuild; if the store has gone on from
there, it is brought up to date; else it is rebuilt.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from ..config import Window
from ..engine import Engine
from ..errors import ConfigError, RuleError
from ..rule import Rule
from ..stage.audit import RepairedColumn
from ..stage.encode import plain_columns
from ..update import difference
from .blob import binary, unpack
from .ingress import ArrowFunction
from .plan import REPORT, Plan
from .repairs import pack_repairs
from .state import ENGINE_THREADS, ChunkedSnapshot, Delta, Event, Head, LaneState, Saved
from .worker import settle

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues

LANE_SCHEMA = f"number int, cells binary, rest binary, aside binary, repairs binary, {REPORT} string"

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

logger = logging.getLogger(__name__)


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

        blobs = [blob for frame in rows for blob in frame.itertuples(index=False)]
        blobs.sort(key=lambda blob: (blob.partition, blob.sequence))
        cells = [blob.cells for blob in blobs]
        messages, report = self.process(cells)
        for number, (blob, message) in enumerate(zip(blobs, messages, strict=True)):
            yield pd.DataFrame(
                {
                    "number": [number],
                    "cells": [blob.cells],
                    "rest": [blob.rest],
                    "aside": [blob.aside],
                    "repairs": [message and message.to_pybytes()],
                    REPORT: [report],
                }
            )
        settle()

    def process(self, cells: list[bytes]) -> tuple[list[pa.Buffer | None], str]:
        """Clean the tuples of a micro-batch and store what was read; return the repairs and the report."""
        head = self.state.read_head()
        if head is None:
            head = Head(str(uuid.uuid4()), _first(self.plan), _config(self.plan))
        live = resume(self.state, head)
        # From here on the engine is neither here nor there: a failure must not leave it behind.
        _live.pop(head.stream, None)
        engine = live.engine
        happened: list[Event] = []
        coming = _begin(self.plan, head, engine, happened)
        messages = list(clean_blobs(engine, cells, self.plan.order_by, coming, happened))
        delta = Delta(str(uuid.uuid4()), list(self.plan.order_by), happened, cells)
        self.state.write_delta(head, delta)
        head.position = engine.position
        head.config = _config(self.plan)
        _write_snapshot(self.state, head, live, sum(map(len, cells)), self.plan.snapshot_bytes)
        self.state.delete_some(head)
        self.state.write_head(head)
        live.sequence, live.token = head.sequence, head.token
        _live[head.stream] = live
        while len(_live) > _LIVE_MAX:
            _live.popitem(last=False)
        return messages, report(engine)

    def close(self) -> None:
        """Do nothing: the engine stays."""


def static_lane(plan: Plan) -> ArrowFunction:
    """Return the lane of a static DataFrame: blobs come in order, and there is nothing to keep."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = _new_engine(_first(plan), _config(plan))
        coming = [update.to_dict() for update in plan.updates]
        number = 0
        for batch in batches:
            for row in batch.to_pylist():
                (message,) = clean_blobs(engine, [row["cells"]], (), coming, [])
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([number], pa.int32()),
                        *(pa.array([row[name]], pa.binary()) for name in ("cells", "rest", "aside")),
                        binary(message),
                        pa.array([report(engine)]),
                    ],
                    names=["number", "cells", "rest", "aside", "repairs", REPORT],
                )
                number += 1

    return run


def report(engine: Engine) -> str:
    """Return the engine's report as text; of two, the later one is the greater."""
    return f"{engine.position:019} {json.dumps(engine.report())}"


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
        for _ in clean_blobs(live.engine, delta.blobs, tuple(delta.order_by), delta.events, []):
            pass
        live.sequence += 1
        live.token = delta.token
    return live


def clean_blobs(
    engine: Engine,
    blobs: list[bytes],
    order_by: tuple[str, ...],
    coming: list[Event],
    happened: list[Event],
) -> Iterator[pa.Buffer | None]:
    """Clean the tuples in blobs, in order.

    Args:
        engine: The engine.
        blobs: The cells.
        order_by: The columns that say the order; none for the order in which they are.
        coming: Events by position; those before the engine's position are past.
        happened: Where events that took effect are noted.

    Yields:
        The repairs of each blob, None where there are none.
    """
    coming = [event for event in coming if event["at"] >= engine.position]
    with ThreadPoolExecutor(ENGINE_THREADS, "sparkbleach-blobs") as pool:
        batches = list(pool.map(unpack, blobs))
        if order_by:
            repaired = _clean_sorted(engine, batches, order_by, coming, happened)
        else:
            repaired = _clean(engine, batches, coming, happened)
        yield from pool.map(pack_repairs, repaired)


def _clean_sorted(
    engine: Engine,
    batches: list[pa.RecordBatch],
    order_by: tuple[str, ...],
    coming: list[Event],
    happened: list[Event],
) -> list[list[RepairedColumn]]:
    """Clean batches in the order that columns say; return the repairs of each as it is."""
    table = pa.concat_batches([plain_columns(batch) for batch in batches])
    order = _order(table, order_by)
    if table.num_rows:  # a change of the schema says which columns are there for the order only
        _let_happen(engine, coming, happened)
    cells = table.drop_columns([name for name in order_by if name not in engine.schema.names])
    if order is not None:
        cells = cells.take(pa.array(order))
    (repaired,) = _clean(engine, [cells], coming, happened)
    if order is not None:
        repaired = [replace(column, rows=order[column.rows]) for column in repaired]
    ends = np.cumsum([batch.num_rows for batch in batches])
    return [
        [own for column in repaired if (own := _between(column, end - batch.num_rows, end)).rows.size]
        for batch, end in zip(batches, ends, strict=True)
    ]


def _between(column: RepairedColumn, begin: int, end: int) -> RepairedColumn:
    """Return the repairs of some rows, which become the first ones."""
    which = np.flatnonzero((column.rows >= begin) & (column.rows < end))
    return column.select(which, column.rows[which] - begin)


def _clean(
    engine: Engine, batches: list[pa.RecordBatch], coming: list[Event], happened: list[Event]
) -> list[list[RepairedColumn]]:
    """Clean batches, cut where rules change; return the repairs of each, attributes in schema order."""
    first = engine.position
    last = first + sum(batch.num_rows for batch in batches)
    repaired: list[list[RepairedColumn]] = [[] for _ in batches]
    while engine.position < last:
        _let_happen(engine, coming, happened)
        end = min(coming[0]["at"], last) if coming else last
        parts = _between_positions(batches, engine.position - first, end - first)
        decided = engine.decide_all([part for _, _, part in parts])
        for (number, begin, _), columns in zip(parts, decided, strict=True):
            repaired[number] += [replace(column, rows=column.rows + begin) for column in columns]
    for columns in repaired:
        columns.sort(key=lambda column: engine.schema.names.index(column.attribute))
    return repaired


def _between_positions(
    batches: list[pa.RecordBatch], first: int, last: int
) -> list[tuple[int, int, pa.RecordBatch]]:
    """Return the parts of batches between two places: number of the batch, beginning in it, the part."""
    parts = []
    at = 0
    for number, batch in enumerate(batches):
        begin, end = max(first - at, 0), min(last - at, batch.num_rows)
        if begin < end:
            parts.append((number, begin, batch.slice(begin, end - begin)))
        at += batch.num_rows
    return parts


def _let_happen(engine: Engine, coming: list[Event], happened: list[Event]) -> None:
    """Let the events take effect whose position has come."""
    while coming and coming[0]["at"] <= engine.position:
        _happen(engine, coming.pop(0), happened)


def _happen(engine: Engine, event: Event, happened: list[Event]) -> None:
    """Let an event take effect; a rule update that is refused changes nothing and is logged."""
    try:
        if event["op"] == "add":
            engine.add_rule(event["rule"])
        elif event["op"] == "delete":
            engine.delete_rule(event["id"])
        else:
            engine.adopt_schema(_schema(event["schema"]))
    except RuleError as error:
        logger.warning("rule update at %d refused: %s", event["at"], error)
    else:
        happened.append({**event, "at": engine.position})


def _order(table: pa.RecordBatch, order_by: tuple[str, ...]) -> NDArray[np.int64] | None:
    """Return the order of the rows; None if they are in order."""
    if len(order_by) == 1:
        column = table.column(order_by[0])
        if column.null_count == 0 and pc.all(pc.less_equal(column[:-1], column[1:])).as_py() is not False:
            return None
    keys = [(name, "ascending") for name in order_by]
    order: NDArray[np.int64] = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return order


def _new_engine(first: dict[str, Any], config: dict[str, Any]) -> Engine:
    """Return an engine with no state."""
    return Engine(
        _schema(first["schema"]),
        first["rules"],
        window=Window(*config["window"]) if config["window"] else None,
        windowing=config["windowing"],
        repair=config["repair"],
        threads=ENGINE_THREADS,
    )


def _first(plan: Plan) -> dict[str, Any]:
    schema = base64.b64encode(plan.schema.serialize().to_pybytes()).decode()
    return {"schema": schema, "rules": [rule.to_dict() for rule in plan.rules]}


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _config(plan: Plan) -> dict[str, Any]:
    return {
        "window": plan.window and [plan.window.size, plan.window.slide],
        "windowing": plan.windowing,
        "repair": plan.repair,
        "rules": [rule.to_dict() for rule in plan.rules],
        "updates": [update.to_dict() for update in plan.updates],
    }


def _begin(plan: Plan, head: Head, engine: Engine, happened: list[Event]) -> list[Event]:
    """Bring the engine to the rules and the schema that are given now; return the events to come.

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
    changes = []
    if given["rules"] != known["rules"]:
        old = [Rule.from_dict(rule) for rule in known["rules"]]
        changes = [update.to_dict() for update in difference(old, plan.rules, engine.position)]
    if plan.schema != engine.schema:
        schema = {"at": engine.position, "op": "schema", "schema": _first(plan)["schema"]}
        n_deletions = sum(change["op"] == "delete" for change in changes)
        changes.insert(n_deletions, schema)
    for change in changes:
        _happen(engine, change, happened)
    updates: list[Event] = given["updates"]
    return updates


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
