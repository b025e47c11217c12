"""The lane without a query: ingress, lane and egress in one process on a state store in a dictionary."""

from __future__ import annotations

import random
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import Engine, RuleUpdate, Window
from sparkbleach.rulelog import ControlRecord, Outcome, record_text
from sparkbleach.spark import machine as machine_module
from sparkbleach.spark import state as state_module
from sparkbleach.spark.egress import egress
from sparkbleach.spark.ingress import ingress
from sparkbleach.spark.lane import Lane
from sparkbleach.spark.plan import REPORT, Plan
from tests.naive.reference import canonical
from tests.property.streams import DOMAINS, Case, cases
from tests.spark.store import Store


@pytest.fixture(autouse=True)
def no_live_machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin each test as a new worker does, with chunks so small that there are many."""
    monkeypatch.setattr(state_module, "_CHUNK_BYTES", 256)
    monkeypatch.setattr(machine_module, "_SNAPSHOT_BYTES_PER_BATCH", 600)
    monkeypatch.setattr(machine_module, "_SNAPSHOT_BYTES_PER_DELTA_BYTE", 0)
    machine_module._live.clear()
    yield
    machine_module._live.clear()


class Stream:
    """A stream through ingress, lane and egress, beside an engine that sees the same tuples."""

    def __init__(self, case: Case, seed: int, by_order: bool, live: bool) -> None:
        self.random = random.Random(seed)  # noqa: S311 -- not for secrets
        self.by_order = by_order
        #: whether rules change by control records, or by restarts
        self.live = live
        #: number and text of those that come with the next micro-batch
        self.records: list[tuple[str, str]] = []
        self.n_records = 0
        self.rules = [rule for rule, _ in case.rules]
        schema = case.schema
        window = Window(*case.window) if case.window else None
        self.plan = Plan(
            schema=schema,
            id="n",
            rules=tuple(self.rules),
            updates=(),
            order_by=("_order_0",) if by_order else (),
            cells=(*case.types, "n", "_order_0") if by_order else (*case.types, "n"),
            window=window,
            windowing=case.windowing,
            repair=case.repair,
            audit=True,
            quarantine=False,
            control=live,
            corrupt=None,
            snapshot_bytes=self.random.choice([1, 1_000, 1 << 40]),
        )
        self.begun = False
        self.engine = self.new_engine()
        self.store: Any = Store()
        self.other_worker: OrderedDict[str, Any] = OrderedDict()

    def new_engine(self) -> Engine:
        """Return an engine that has seen nothing."""
        plan = self.plan
        return Engine(
            plan.schema,
            self.rules,
            id="n",
            window=plan.window,
            windowing=plan.windowing,
            repair=plan.repair,
        )

    def tuples(self, rows: list[dict[str, Any]]) -> None:
        """Send a micro-batch, disturbed at random, and compare with the engine."""
        if not rows:
            return
        self.update_engine()
        disturbance = self.random.choice(["none", "none", "lost", "retry", "other", "twice"])
        if disturbance == "lost":
            machine_module._live.clear()
        if disturbance in ("retry", "twice"):
            before = self.store.copy()
            for _ in range(1 if disturbance == "retry" else 2):
                self.run(rows)
                self.store = before.copy()
        if disturbance == "other":
            here = OrderedDict(machine_module._live)
            machine_module._live.clear()
            machine_module._live.update(self.other_worker)
            self.other_worker = here
        got, audit = self.run(rows)
        clean, expected_audit = self.engine.process(pa.RecordBatch.from_pylist(rows, self.plan.schema))
        assert got == [canonical_row(row) for row in clean.to_pylist()]
        assert audit == expected_audit.to_pylist()
        self.records.clear()

    def run(self, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Send a micro-batch; return clean rows and audit in the order of the stream."""
        plan = self.plan
        order = list(range(len(rows)))
        schema = plan.schema
        if self.by_order:
            self.random.shuffle(order)
            schema = schema.append(pa.field("_order_0", pa.int64()))
        batch = pa.RecordBatch.from_pylist([{**rows[i], "_order_0": i} for i in order], schema)
        blobs = []
        cuts = sorted(self.random.choices(range(len(rows) + 1), k=self.random.randrange(4)))
        for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            blobs += list(ingress(plan)([batch.slice(begin, end - begin)]))
        messages, _, report = self.send([blob.column("cells")[0].as_py() for blob in blobs])
        out = [
            pa.RecordBatch.from_arrays(
                [
                    blob.column("cells"),
                    blob.column("rest"),
                    blob.column("aside"),
                    pa.array([message and message.to_pybytes()], pa.binary()),
                    pa.nulls(1, pa.string()),
                    pa.array([report]),
                ],
                names=["cells", "rest", "aside", "repairs", "control", REPORT],
            )
            for blob, message in zip(blobs, messages, strict=True)
        ]
        result = [row for part in egress(plan)(out) for row in part.to_pylist()]
        assert len(result) == len(rows)
        in_order: list[dict[str, Any]] = [{}] * len(rows)
        for place, row in zip(order, result, strict=True):
            in_order[place] = row
        clean = [{name: row[name] for name in plan.schema.names} for row in in_order]
        return [canonical_row(row) for row in clean], [
            repair for row in in_order for repair in row["_repairs"]
        ]

    def control(self, update: RuleUpdate) -> None:
        """Have an update come with the next micro-batch, or with one of its own."""
        self.engine.apply(update)
        self.n_records += 1
        self.records.append((f"{self.n_records:05}", record_text(update, "somebody")))
        if self.random.random() < 0.3:
            self.send([])
            self.records.clear()

    def send(self, cells: list[bytes]) -> tuple[list[pa.Buffer | None], list[Outcome], str]:
        """Send blobs with all control records that have come."""
        position = self.engine.position
        messages, outcomes, report = self.process(cells)
        told = [(one.number, one.kind, one.position) for one in outcomes if one.kind != "started"]
        assert told == [(number, "applied", position) for number, _ in self.records]
        if told:
            assert outcomes[-1].version == self.engine.version
            assert outcomes[-1].rules == [rule.to_dict() for rule in self.engine.rules]
        return messages, outcomes, report

    def process(self, cells: list[bytes]) -> tuple[list[pa.Buffer | None], list[Outcome], str]:
        """Have the lane read what was sent."""
        lane = Lane(self.plan)
        lane.state = self.store.state
        return lane.process(cells, [ControlRecord.read(*record) for record in self.records])

    def update_engine(self) -> None:
        """Let the rules that differ come and go: a lane learns of it with the micro-batch."""
        if self.live:
            return
        if not self.begun:
            self.engine = self.new_engine()
            self.begun = True
        for rule in self.engine.rules:
            if rule not in self.rules:
                if rule.with_mode("live") in self.rules:
                    self.engine.promote_rule(rule.id)
                else:
                    self.engine.delete_rule(rule.id)
        for rule in self.rules:
            if rule not in self.engine.rules:
                self.engine.add_rule(rule)

    def step(self, step: Any) -> None:
        """Do one step of a case; rules change by a control record, or by a restart with other rules."""
        rules = list(self.engine.rules) if self.live else self.rules
        shadow = [rule for rule in rules if rule.is_shadow]
        match step:
            case ("tuples", rows):
                self.tuples(rows)
            case ("restore",):
                machine_module._live.clear()
            case ("add", (rule, _)):
                if self.live:
                    self.control(RuleUpdate(rule=rule))
                else:
                    self.rules.append(rule)
            case ("delete", which) if rules:
                if self.live:
                    self.control(RuleUpdate(delete=rules[which % len(rules)].id))
                else:
                    del self.rules[which % len(rules)]
            case ("promote", which) if shadow:
                rule = shadow[which % len(shadow)]
                if self.live:
                    self.control(RuleUpdate(promote=rule.id))
                else:
                    self.rules[self.rules.index(rule)] = rule.with_mode("live")
        self.plan = replace(self.plan, rules=tuple(self.rules))


def canonical_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose cells compare as the semantics say."""
    return {name: canonical(value) for name, value in row.items()}


#: those that a DataFrame can have
SPARK_TYPES = [
    type
    for type in DOMAINS
    if not (
        pa.types.is_unsigned_integer(type)
        or type
        in (pa.string_view(), pa.large_string(), pa.large_binary(), pa.binary(3), pa.decimal256(50, 1))
    )
]


@given(cases(choice=SPARK_TYPES), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_a_lane_gives_what_the_engine_gives(case: Case, seed: int, by_order: bool, live: bool) -> None:
    """Whatever happens to workers, blobs, snapshots and rules, rows and audit are those of the engine."""
    machine_module._live.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random rules may say the same thing
        stream = Stream(case, seed, by_order, live)
        for step in case.steps:
            stream.step(step)
