"""The lane: blobs in, blobs and repairs out. It has all rules and all state, or its share of the state."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ..config import Window
from ..control.outcome import Outcome
from ..control.record import ControlRecord
from ..engine.engine import Engine
from ..engine.placement import Placement, Share
from ..errors import ConfigError
from ..rules.active import ActiveRules
from ..rules.rule import Rule
from ..rules.update import difference
from ..schema_text import schema_from_text, schema_to_text
from .blob import binary
from .clean_blobs import ENGINE_THREADS, clean_blobs, repeat_blobs
from .events import AcceptsRules, Event, Events
from .garbage import collect_garbage
from .ingress import ArrowFunction
from .plan import REPORT, Plan
from .replica import ReplicaFactory, commit, load_replica, open_store
from .state_store import Delta, Head

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues

LANE_SCHEMA = (
    "lane int, number int, cells binary, rest binary, quarantined binary, repairs binary, control string, "
    f"{REPORT} string"
)

#: what may be given differently at a restart
_CHANGEABLE = ("rules", "updates", "control")


class LaneEngine:
    """The engine of a lane as a replica: its state is in the state store."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def replay(self, delta: Delta) -> None:
        """Process the delta of an earlier micro-batch again."""
        events = Events(self.engine, delta.header["events"])
        events.apply_due()  # also those of a micro-batch without tuples
        repeat_blobs(self.engine, delta.blobs, tuple(delta.header["order_by"]), events)

    def snapshot_parts(self) -> tuple[bytes, list[NDArray[Any]]]:
        """Return all state."""
        return self.engine.snapshot_parts()


_ENGINES = ReplicaFactory(
    lambda head: LaneEngine(_new_engine(head.first, head.config)),
    lambda header, arrays: LaneEngine(Engine.restore_parts(header, arrays, threads=ENGINE_THREADS)),
)


class Lane(StatefulProcessor):
    """The lane as a stateful operator of a streaming query.

    Attributes:
        outcomes: What became of the control records of the micro-batch that was processed.
        report: The report of that micro-batch.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.outcomes: list[Outcome] = []
        self.report = ""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.state = open_store(handle, "lane")

    def handleInputRows(  # noqa: N802 -- PySpark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Clean the tuples of a micro-batch."""
        import pandas as pd

        lane = self.plan.keys.index(key[0])
        sent: dict[str, Any] | None = None
        for row in self._rows(*arrived(rows), lane):
            if sent is not None:
                yield pd.DataFrame([sent | {REPORT: None}])
            sent = row
        if sent is not None:  # there is a report when all is done
            yield pd.DataFrame([sent | {REPORT: self.report}])
        collect_garbage()

    def _rows(self, blobs: list[Any], records: list[ControlRecord], lane: int) -> Iterator[dict[str, Any]]:
        """Clean the tuples of a micro-batch, and yield what is sent on."""
        carries = self.plan.carries(lane)
        messages = self.process([blob.cells for blob in blobs], records, lane)
        # Strict: all messages are asked for, so that `process` comes to its end, also without blobs.
        for number, (blob, message) in enumerate(zip(blobs, messages, strict=True)):
            yield {
                "lane": lane,
                "number": number,
                "cells": blob.cells if carries else None,
                "rest": blob.rest,
                "quarantined": blob.quarantined,
                "repairs": message and message.to_pybytes(),
                "control": None,
            }
        if lane == 0:  # the others would tell the same
            nothing = dict.fromkeys(("cells", "rest", "quarantined", "repairs"))
            for number, outcome in enumerate(self.outcomes, len(blobs)):
                yield {"lane": lane, "number": number, **nothing, "control": outcome.to_json()}

    def process(
        self, cells: list[bytes], records: Sequence[ControlRecord] = (), lane: int = 0
    ) -> Iterator[pa.Buffer | None]:
        """Let control records take effect, clean the tuples of a micro-batch, and store what was read.

        Yields:
            The repairs of each blob. After the last one there are outcomes and a report.
        """
        head = self.state.read_head()
        begins = head is None
        if head is None:
            head = Head(str(uuid.uuid4()), _first(self.plan, lane), config_of(self.plan))
        cached = load_replica(self.state, head, _ENGINES)
        engine = cached.replica.engine
        if self.plan.control:
            _prepare_for_updates()
        events = begin(self.plan, head, engine, records, begins=begins)
        write_blobs = partial(self.state.write_blobs, head, cells)
        yield from clean_blobs(engine, cells, self.plan.order_by, events, meanwhile=write_blobs)
        position, head.position = head.position, engine.position
        head.config = config_of(self.plan)
        told = {"order_by": list(self.plan.order_by), "events": events.applied}
        commit(self.state, head, cached, Delta(told, cells), self.plan.snapshot_bytes)
        self.outcomes = events.outcomes
        self.report = report(engine, engine.position - position, events.outcomes)

    def close(self) -> None:
        """Do nothing: the engine stays."""


def arrived(rows: Iterable[pd.DataFrame]) -> tuple[list[Any], list[ControlRecord]]:
    """Return what came from the ingress: blobs in the order of the source, control records by number."""
    came = [row for frame in rows for row in frame.itertuples(index=False)]
    blobs = [row for row in came if row.cells is not None]
    blobs.sort(key=lambda blob: (blob.partition, blob.sequence))
    records = [ControlRecord.read(row.number or "", row.control) for row in came if row.cells is None]
    records.sort(key=lambda record: record.number)
    return blobs, records


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
    """Return the lane of a static DataFrame: blobs come in order, and it keeps no state."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine: Engine | None = None
        number = 0
        for batch in batches:
            for row in batch.to_pylist():
                if engine is None:  # a partition has the rows of one lane
                    lane = plan.keys.index(row["lane"])
                    engine = _new_engine(_first(plan, lane), config_of(plan))
                    events = Events(engine, config_of(plan)["updates"])
                (message,) = clean_blobs(engine, [row["cells"]], (), events)
                if not plan.carries(lane):
                    row["cells"] = None
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([lane], pa.int32()),
                        pa.array([number], pa.int32()),
                        *(pa.array([row[name]], pa.binary()) for name in ("cells", "rest", "quarantined")),
                        binary(message),
                        pa.nulls(1, pa.string()),
                        pa.array([report(engine, engine.position)]),
                    ],
                    names=["lane", "number", "cells", "rest", "quarantined", "repairs", "control", REPORT],
                )
                number += 1

    return run


def report(engine: Engine, n_tuples: int, outcomes: Sequence[Outcome] = ()) -> str:
    """Return the report of a micro-batch as text; of two, the later one is the greater."""
    updates = [str(outcome) for outcome in outcomes]
    told = {**engine.report(), "tuples": n_tuples, "updates": updates}
    if engine.share is not None:
        told["lanes"] = engine.share.placement.to_lists()
    return report_text(told)


def report_text(told: dict[str, Any]) -> str:
    """Return a report as text that begins with the position."""
    return f"{told['position']:019} {json.dumps(told)}"


def _new_engine(first: dict[str, Any], config: dict[str, Any]) -> Engine:
    """Return an engine with no state."""
    return Engine.of(
        ActiveRules(schema_from_text(first["schema"]), [Rule.from_dict(rule) for rule in first["rules"]]),
        window=Window(*config["window"]) if config["window"] else None,
        windowing=config["windowing"],
        repair=config["repair"],
        threads=ENGINE_THREADS,
        share=Share(Placement.from_lists(first["lanes"]), first["lane"]) if "lanes" in first else None,
    )


def _first(plan: Plan, lane: int) -> dict[str, Any]:
    share = {"lane": lane, "lanes": plan.placement.to_lists()} if plan.n_lanes > 1 else {}
    return {"schema": schema_to_text(plan.schema), "rules": [rule.to_dict() for rule in plan.rules], **share}


def config_of(plan: Plan) -> dict[str, Any]:
    """Return the options and rules that a checkpoint remembers."""
    return {
        "window": plan.window and [plan.window.size, plan.window.slide],
        "windowing": plan.windowing,
        "repair": plan.repair,
        "rules": [rule.to_dict() for rule in plan.rules],
        "updates": [update.to_dict() for update in plan.updates],
        "control": plan.control,
        "lanes": plan.n_lanes,
        **({"topology": "paper", **asdict(plan.paper)} if plan.paper else {}),
    }


def begin(
    plan: Plan, head: Head, engine: AcceptsRules, records: Iterable[ControlRecord], *, begins: bool
) -> Events:
    """Let all take effect that comes before the first tuple of a micro-batch; return the events.

    Args:
        plan: The options that are given now.
        head: Where the stream is.
        engine: What the events happen to.
        records: Control records.
        begins: Whether this is the first micro-batch of the stream.

    Raises:
        ConfigError: If an option differs that cannot change.
    """
    events = Events(engine, config_of(plan)["updates"], plan)
    changed = _go_on(plan, head, engine, events)
    if begins or changed or not head.config.get("control"):
        events.note_start()
    events.apply_records(records)
    return events


def _go_on(plan: Plan, head: Head, engine: AcceptsRules, events: Events) -> bool:
    """Bring the engine to the rules and the schema that are given now; return whether that changed it.

    Raises:
        ConfigError: If an option differs that cannot change.
    """
    given, known = config_of(plan), {"lanes": 1, **head.config}
    for option in dict.fromkeys([*known, *given]):
        if option not in _CHANGEABLE and given.get(option) != known.get(option):
            made, asked = (_told(option, config.get(option)) for config in (known, given))
            raise ConfigError(
                f"{option}: the checkpoint was made with {made}, not with {asked}; "
                f"go on with {made}, or begin with a new checkpoint"
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
    n_before = sum(change["op"] != "add" for change in changes)
    between: list[Event] = []
    if plan.schema != engine.schema:
        between.append({"at": engine.position, "op": "schema", "schema": schema_to_text(plan.schema)})
    for change in [*changes[:n_before], *between]:
        events.apply(change)
    if isinstance(engine, Engine):
        _adopt_placement(plan, engine, events)
    for change in changes[n_before:]:
        events.apply(change)
    return bool(changes or between)


def _adopt_placement(plan: Plan, engine: Engine, events: Events) -> None:
    """Let attributes without a rule have the place that is given now.

    Raises:
        ConfigError: If those with a rule would have to move.
    """
    if engine.share is None:
        return
    before = engine.share.placement
    in_force = {rule.rhs for rule in engine.rules}
    after = before.changed(plan.placement, in_force)
    for name in sorted(in_force & plan.placement.attributes):
        together = before.is_split(name) and not plan.placement.is_split(name)
        # With control each lane gets all columns, wherever an attribute is.
        if before.lanes_of(name) != plan.placement.lanes_of(name) and (together or not plan.control):
            raise ConfigError(
                f"lanes: the checkpoint has {name!r} on {_lanes_told(before, name)}, and the rules given now "
                f"would have it on {_lanes_told(plan.placement, name)}; go on with lanes={after.to_lists()}, "
                "or begin with a new checkpoint"
            )
    if after != before:
        events.apply({"at": engine.position, "op": "lanes", "lanes": after.to_lists()})


def _lanes_told(placement: Placement, attribute: str) -> str:
    return "lane " + " and ".join(map(str, placement.lanes_of(attribute)))


def _told(option: str, value: Any) -> str:
    if value is None:
        return f"no {option}"
    return f"{value[0]} tuples sliding by {value[1]}" if isinstance(value, list) else repr(value)
