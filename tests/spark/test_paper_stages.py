"""The stages of the paper's topology without a query, on state stores in dictionaries."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import ConfigError, Options, Rule, Window
from sparkbleach.control.outcome import Outcome
from sparkbleach.paper.stages import AGGREGATOR, INGRESS_ROUTER, Stages
from sparkbleach.paper.topology import PaperTopology
from sparkbleach.rules import condition_process
from sparkbleach.rules.condition_evaluator import ConditionLimitError
from sparkbleach.rules.condition_process import ConditionLimits
from sparkbleach.spark import replica as replica_module
from sparkbleach.spark.ingress import ArrowFunction
from sparkbleach.spark.lanes import spread_keys
from sparkbleach.spark.paper.chain import plan_stages, stateful_operator
from sparkbleach.spark.paper.router import router_function
from sparkbleach.spark.paper.rows import Row
from sparkbleach.spark.paper.sequencer import SequencerOperator
from sparkbleach.spark.rows import rows_to_batch, rows_to_frame
from tests.naive.reference import NaiveRule
from tests.support.cases import SPARK_TYPES, Case, as_live, cases
from tests.support.lane_stream import LaneStream
from tests.support.profiles import one_in
from tests.support.store import Store

pytestmark = pytest.mark.usefixtures("new_worker")


SEQUENCER = "sequencer"


class Stores:
    """The state stores of all workers, whose versions can be kept and gone back to."""

    def __init__(self) -> None:
        self.workers: dict[tuple[str, int], Store] = {}
        self.counts: tuple[str] | None = None

    def copy(self) -> Stores:
        """Return a version to go back to."""
        stores = Stores()
        stores.workers = {worker: store.copy() for worker, store in self.workers.items()}
        stores.counts = self.counts
        return stores

    def store(self, stage: str, worker: int) -> Store:
        """Return the store of a worker."""
        return self.workers.setdefault((stage, worker), Store())


class Handle:
    """What Spark gives an operator to declare its state, for one worker."""

    def __init__(self, stores: Stores, stage: str, worker: int) -> None:
        self.stores = stores
        self.worker = (stage, worker)

    def getMapState(self, *_: Any) -> Any:  # noqa: N802
        """Return the map state of the worker."""
        return self.stores.store(*self.worker).entries

    def getValueState(self, *_: Any) -> Handle:  # noqa: N802
        """Return the value state of the aggregator."""
        return self

    def get(self) -> tuple[str] | None:
        """Return the value."""
        return self.stores.counts

    def update(self, value: tuple[str]) -> None:
        """Set the value."""
        self.stores.counts = value


class PaperStream(LaneStream):
    """A stream through all stages, whose rows are shuffled in between."""

    def __init__(self, case: Case, seed: int, by_order: bool, control: bool, **spread: Any) -> None:
        rules = [as_live(*rule) for rule in case.rules]
        steps = [("add", as_live(*step[1])) if step[0] == "add" else step for step in case.steps]
        super().__init__(replace(case, rules=rules, steps=steps), seed, by_order, control, 1)
        self.steps = steps
        self.plan = replace(self.plan, paper=PaperTopology(**spread))
        self.stores = [Stores()]

    def abandon(self, rows: list[dict[str, Any]]) -> None:
        """Do nothing: an operator writes its state before it sends anything."""

    def process(
        self,
        cells: list[bytes],
        number: int,  # noqa: ARG002 -- there is one chain
    ) -> tuple[list[pa.Buffer | None], list[Outcome]]:
        """Have all stages read what was sent."""
        stages = plan_stages(self.plan)
        rows = self.sequenced(cells, stages)
        for name in stages:
            if stateful_operator(self.plan, stages, name) is None:
                rows = self.routed(rows, router_function(self.plan, stages, name))
            elif name != AGGREGATOR:
                rows = [Row(**row) for row in self.worked(rows, stages, name)]
        sent = sorted(self.worked(rows, stages, AGGREGATOR), key=lambda row: row["number"])
        messages = [row for row in sent if row["cells"] is not None]
        assert [row["cells"] for row in messages] == cells
        outcomes = [Outcome.from_json(row["control"]) for row in sent if row["control"] is not None]
        outcomes.sort(key=lambda outcome: outcome.index)
        return [row["repairs"] and pa.py_buffer(row["repairs"]) for row in messages], outcomes

    def sequenced(self, cells: list[bytes], stages: Stages) -> list[Row]:
        """Return what the sequencer sends."""
        blobs: list[dict[str, Any]] = [
            {"partition": 0, "sequence": n, "cells": one, "rest": None, "quarantined": None}
            for n, one in enumerate(cells)
        ]
        records = [{"cells": None, "number": number, "control": text} for number, text in self.records]
        came = pd.DataFrame([*blobs, *records]).astype(object)
        came = came.where(came.notna(), None)
        operator = SequencerOperator(self.plan, stages)
        return [Row(**row) for row in self.run_worker(operator, SEQUENCER, 0, 0, came)]

    def routed(self, rows: list[Row], stage: ArrowFunction) -> list[Row]:
        """Send rows through a stage without state, in two partitions."""
        parts = [[row for row in rows if row.worker % 2 == half] for half in range(2)]
        sent = [
            Row(**row)
            for part in parts
            if part
            for b in stage([rows_to_batch(part)])
            for row in b.to_pylist()
        ]
        self.random.shuffle(sent)
        return sent

    def worked(self, rows: list[Row], stages: Stages, name: str) -> list[dict[str, Any]]:
        """Send rows through the workers of a stage."""
        sent: list[dict[str, Any]] = []
        keys = spread_keys(stages[name].workers)
        for number, key in enumerate(keys):
            operator = stateful_operator(self.plan, stages, name)
            mine = [row for row in rows if row.worker % len(keys) == number]
            sent += self.run_worker(operator, name, number, key, rows_to_frame(mine))
        return sent

    def run_worker(
        self, operator: Any, stage: str, number: int, key: int, rows: pd.DataFrame
    ) -> list[dict[str, Any]]:
        """Return what a worker sends, in any order."""
        operator.init(Handle(self.stores[0], stage, number))
        sent = [
            row
            for frame in operator.handleInputRows((key,), iter([rows]), None)
            for row in frame.astype(object).to_dict("records")
        ]
        self.random.shuffle(sent)
        return sent


def spreads(choice: Callable[..., Any] = st.fixed_dictionaries) -> Any:
    """Draw how the work is spread: all that is exact."""
    workers = {"detect_workers": st.integers(1, 3), "repair_workers": st.integers(1, 3)}
    exact = choice({**workers, "coordination": st.sampled_from(["hinge", "basic", "dr"])})
    late = choice({**workers, "repair_workers": st.just(1), "coordination": st.just("ir")})
    return st.one_of(exact, late)


@one_in(3)
@given(cases(choice=SPARK_TYPES, timed=False), st.integers(0, 2**32), st.booleans(), st.booleans(), spreads())
def test_the_stages_give_what_the_engine_gives(
    case: Case, seed: int, by_order: bool, control: bool, spread: dict[str, Any]
) -> None:
    """Whatever happens to workers, rows, snapshots and rules, rows and audit are those of the engine."""
    replica_module._cached.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random rules may say the same thing
        stream = PaperStream(case, seed, by_order, control, **spread)
        for step in stream.steps:
            stream.step(step)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"options": Options(window=Window(6, 2))},
            "window: the checkpoint was made with 4 tuples sliding by 2, not with 6",
        ),
        (
            {"options": Options(window=Window(4, 2), repair="vote")},
            "repair: the checkpoint was made with 'class', not with 'vote'",
        ),
        (
            {"paper": PaperTopology(detect_workers=1)},
            "detect_workers: the checkpoint was made with 2, not with 1; go on with 2",
        ),
        (
            {"paper": PaperTopology(repair_workers=3)},
            "repair_workers: the checkpoint was made with 2, not with 3",
        ),
        (
            {"paper": PaperTopology(coordination="ir")},
            "coordination: the checkpoint was made with 'hinge', not with 'ir'",
        ),
        (
            {"paper": PaperTopology(top=3)},
            "top: the checkpoint was made with no top, not with 3; go on with no top, or begin",
        ),
    ],
)
def test_what_the_state_depends_on_cannot_change(options: dict[str, Any], error: str) -> None:
    """A restart with another window or another way to spread the work is refused; nothing is stored."""
    types = dict.fromkeys("abcde", pa.int64())
    stream = PaperStream(Case(types, [], (4, 2), "bleach", "class", []), 0, by_order=False, control=False)
    stream.tuples([dict.fromkeys("nabcde")])
    before = stream.stores[0].copy()
    stream.plan = replace(stream.plan, **options)
    with pytest.raises(ConfigError, match=error):
        stream.run([dict.fromkeys("nabcde")])
    after = stream.stores[0].store(SEQUENCER, 0)
    assert after.state.read_head() == before.store(SEQUENCER, 0).state.read_head()


#: harmless where d is 0
POISON = Rule("poison", "a", "b", when="length(repeat('x', d * 90000000)) >= 0")


def poisoned_stream(by_order: bool, control: bool) -> PaperStream:
    """Return a stream with a rule whose condition needs too much when d is not 0."""
    types = dict.fromkeys("abcde", pa.int64())
    rules = [(rule, NaiveRule(rule.id, rule.lhs, rule.rhs)) for rule in (POISON, Rule("good", "c", "b"))]
    stream = PaperStream(Case(types, rules, None, "bleach", "class", []), 0, by_order, control)
    tight = ConditionLimits(memory_bytes=64 << 20)
    stream.plan = replace(stream.plan, limits=replace(stream.plan.limits, conditions=tight))
    return stream


def poisoned_rows(*numbers: int, d: int = 9) -> list[dict[str, int]]:
    """Return tuples of which the last two have this d, others 0."""
    return [{"n": n, "a": 1, "b": n % 3, "c": n % 2, "d": d * (n in numbers[-2:]), "e": 1} for n in numbers]


@pytest.mark.parametrize("by_order", [False, True])
def test_the_stream_goes_on_without_a_rule_that_needs_too_much(by_order: bool) -> None:
    """The sequencer deletes it before the micro-batch: rows and audit are those of an engine that did so."""
    stream = poisoned_stream(by_order, control=False)
    engine = stream.new_engine()
    harmless = [{**row, "d": 0} for row in poisoned_rows(*range(6))]
    for rows in (harmless, poisoned_rows(*range(6, 12)), poisoned_rows(*range(12, 18))):
        if rows[0]["n"] == 6:
            engine.delete_rule("poison")
        clean, audit = engine.process(pa.RecordBatch.from_pylist(rows, stream.plan.schema))
        assert stream.run(rows) == (clean.to_pylist(), audit.to_pylist())


def test_a_withdrawn_rule_has_an_outcome() -> None:
    """What the sequencer withdraws is in its outcomes and in the report, once, and not in its rules."""
    stream = poisoned_stream(by_order=False, control=True)
    operator: Any = SequencerOperator(stream.plan, plan_stages(stream.plan))
    operator.init(Handle(stream.stores[0], SEQUENCER, 0))
    _, (blobs,) = stream.packed(poisoned_rows(*range(6)))
    done = operator.process([blob.cells for blob in blobs])
    (line,) = done.report["withdrawn"]
    assert line.startswith(
        "withdrawn: rule 'poison', from position 0 on; its condition needs more than 64 MB"
    )
    assert [(one.kind, one.version) for one in done.outcomes] == [("started", 1), ("withdrawn", 2)]
    assert str(done.outcomes[1]) == line
    assert [rule["id"] for rule in done.outcomes[1].rules] == ["good"]
    again = operator.process([blob.cells for blob in blobs])
    assert (again.report["withdrawn"], again.outcomes, again.report["version"]) == ([], [], 2)


def test_routers_withdraw_nothing() -> None:
    """They evaluate what the sequencer has evaluated: a condition that then needs far more is an error."""
    stream = poisoned_stream(by_order=False, control=False)
    tight = stream.plan
    stream.plan = replace(tight, limits=replace(tight.limits, conditions=ConditionLimits()))
    _, (blobs,) = stream.packed(poisoned_rows(*range(6), d=1))
    stages = plan_stages(tight)
    rows = stream.sequenced([blob.cells for blob in blobs], stages)
    few = ConditionLimits(memory_bytes=16 << 20, memory_bytes_per_byte=0)
    condition_process._end()  # the process still has the memory that it was given
    router = router_function(
        replace(tight, limits=replace(tight.limits, conditions=few)), stages, INGRESS_ROUTER
    )
    with pytest.raises(
        ConditionLimitError, match=r"rule 'poison', when: .*; it did not when these tuples came"
    ):
        stream.routed(rows, router)
