"""Lanes without a query: ingress, lanes and egress in one process on state stores in dictionaries."""

from __future__ import annotations

import json
import warnings
import zlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import Rule, RuleUpdate, SnapshotError
from sparkbleach.control.outcome import Outcome
from sparkbleach.rules import condition_process
from sparkbleach.rules.condition_evaluator import ConditionEvaluator, ConditionLimitError, Mask
from sparkbleach.rules.condition_process import ConditionLimits
from sparkbleach.spark import replica as replica_module
from sparkbleach.spark.ingress import ingress
from sparkbleach.spark.lane import MicroBatch, _own_outcomes
from sparkbleach.spark.report import read_reports
from sparkbleach.spark.rows import IngressRow, rows_from_batch
from sparkbleach.spark.state_store import ChunkedSnapshot
from tests.naive.reference import NaiveRule
from tests.support.cases import SPARK_TYPES, Case, cases
from tests.support.lane_stream import LaneStream

pytestmark = pytest.mark.usefixtures("new_worker")


@given(
    cases(choice=SPARK_TYPES, timed=False),
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)
def test_lanes_give_what_the_engine_gives(
    case: Case, seed: int, by_order: bool, live: bool, n_lanes: int
) -> None:
    """Whatever happens to workers, blobs, snapshots and rules, rows and audit are those of the engine."""
    replica_module._cached.clear()
    if n_lanes == 0:
        case, n_lanes = replace(case, repair="bayes"), 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random rules may say the same thing
        stream = LaneStream(case, seed, by_order, live, n_lanes)
        for step in case.steps:
            stream.step(step)


@pytest.fixture
def stream() -> LaneStream:
    """Give a stream of one lane without rules."""
    types = dict.fromkeys("abcde", pa.int64())
    return LaneStream(Case(types, [], None, "bleach", "class", []), 0, by_order=False, live=False, n_lanes=1)


def test_an_abandoned_micro_batch_commits_nothing(stream: LaneStream) -> None:
    """A micro-batch that fails or is left halfway leaves the lane where it was."""
    rows = [{"n": n, **dict.fromkeys("abcde", n)} for n in range(5)]
    stream.tuples(rows)
    store = stream.stores[0]
    _, ((blob, *_), *_) = stream.packed(rows)
    before = store.state.read_head()
    with suppress(InterruptedError), MicroBatch(stream.plan, store.state, 0, [blob.cells] * 9) as batch:
        next(batch.decide())
        raise InterruptedError
    with pytest.raises(RuntimeError, match="8 of 9 blobs are not decided"):
        batch.commit()
    assert store.state.read_head() == before
    assert not replica_module._cached
    stream.tuples(rows)
    assert store.state.read_head().position == 10


def _spoil_records(header: bytes, arrays: list[np.ndarray]) -> bytes:
    groups = next(one for one in arrays if "recent_cell" in (one.dtype.names or ()))
    groups["first_cell"] = 1_000_000
    return header


def _spoil_position(header: bytes, _: list[np.ndarray]) -> bytes:
    return json.dumps(json.loads(header) | {"position": -1}).encode()


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_spoil_records, "state of attribute 'b': super cells of a group: a list does not end as it should"),
        (_spoil_position, "position: -1 is not a whole number"),
    ],
)
def test_a_damaged_snapshot_is_refused(spoil: Any, what: str) -> None:
    """A snapshot in the state store that is damaged, with checksums that are right, is a SnapshotError."""
    case = Case(
        dict.fromkeys("abcde", pa.int64()),
        [(Rule("b", "a", "b"), NaiveRule("b", ("a",), "b"))],
        None,
        "bleach",
        "class",
        [],
    )
    stream = LaneStream(case, 0, by_order=False, live=False, n_lanes=1)
    limits = replace(stream.plan.limits, snapshot_bytes=1, snapshot_batch_bytes=1 << 20)
    stream.plan = replace(stream.plan, limits=limits)
    stream.run([{"n": n, **dict.fromkeys("abcde", n)} for n in range(5)])
    state = stream.stores[0].state
    saved = state.read_head().snapshot
    header, arrays = state.read_snapshot(saved)
    damaged = ChunkedSnapshot(saved.sequence, spoil(header, arrays), arrays, limits.snapshot_chunk_bytes)
    for number, chunk in enumerate(damaged.chunks):
        state.write_chunk(saved.sequence, number, chunk)
    replica_module._cached.clear()
    with pytest.raises(SnapshotError, match=f"^checkpoint: .*{what}.*restore the checkpoint directory"):
        stream.run([dict.fromkeys("nabcde", 7)])


@pytest.mark.parametrize("change", [{"chunk_bytes": 0}, {"chunk_bytes": -1}, {"arrays": [["<i8", [10**15]]]}])
def test_a_damaged_header_is_refused(stream: LaneStream, change: dict[str, Any]) -> None:
    """So is one that says that arrays are larger than they are, or are in chunks of no size."""
    stream.plan = replace(stream.plan, limits=replace(stream.plan.limits, snapshot_bytes=1))
    for _ in range(9):
        stream.run([dict.fromkeys("nabcde", 7)])
    state = stream.stores[0].state
    saved = state.read_head().snapshot
    read = json.loads(state._chunk(saved.sequence, 0)) | change
    data = json.dumps(read).encode()
    state.write_chunk(saved.sequence, 0, zlib.crc32(data).to_bytes(4, "little") + data)
    replica_module._cached.clear()
    with pytest.raises(SnapshotError, match=r"^checkpoint: snapshot .* cannot be read"):
        stream.run([dict.fromkeys("nabcde", 7)])


def test_commit_cannot_be_forgotten(stream: LaneStream) -> None:
    """A micro-batch that ends without a commit is an error, with or without blobs."""
    _, ((blob, *_), *_) = stream.packed([dict.fromkeys("nabcde", 1)])
    for n in (0, 1):
        cells = [blob.cells] * n
        with (
            pytest.raises(RuntimeError, match="the micro-batch is not committed"),
            MicroBatch(stream.plan, stream.stores[0].state, 0, cells) as batch,
        ):
            assert list(batch.decide()) == [None] * n
        assert stream.stores[0].state.read_head() is None


@pytest.mark.parametrize("live", [False, True])
def test_accepted_changes_are_reported(live: bool) -> None:
    """Each lane reports the changes that it has accepted, as rows only with control; a rebuilt one does not.

    Of many changes the report names a hundred, and counts the others.
    """
    types = dict.fromkeys("abcde", pa.int64())
    rules = [(Rule(rhs, "a", rhs), NaiveRule(rhs, ("a",), rhs)) for rhs in "bc"]
    stream = LaneStream(Case(types, rules, None, "bleach", "class", []), 0, False, live, n_lanes=2)

    def send(values: list[int], keys: int) -> tuple[list[Outcome], dict[str, Any]]:
        rows = [
            {"n": n, **dict.fromkeys("bcde", value), "a": key}
            for n, value in enumerate(values)
            for key in range(keys)
        ]
        _, cells = stream.packed(rows)
        outcomes, reports = [], {}
        for lane, blobs in enumerate(cells):
            own = [blob.cells for blob in blobs]
            with MicroBatch(stream.plan, stream.stores[lane].state, lane, own) as batch:
                list(batch.decide())
                committed = batch.commit()
            outcomes += _own_outcomes(committed.outcomes, lane, 2)
            reports[f"report_{lane}"] = committed.report
        return outcomes, read_reports(reports) or {}

    outcomes, report = send([1] * 10, 60)
    assert {one.kind for one in outcomes} <= {"started"}
    assert report["n_accepted"] == 0
    replica_module._cached.clear()
    outcomes, report = send([2] * 10, 60)
    assert report["n_accepted"] == 120
    assert report["updates"][0] == "accepted: a=0, b 1 → 2 after 10 confirmations"
    assert report["updates"][100:] == ["accepted: 20 more changes"]
    assert len(outcomes) == len({one.index for one in outcomes}) == (120 if live else 0)
    in_order = sorted(outcomes, key=lambda one: one.order)
    assert [one.position for one in in_order] == [600 + 540 + n // 2 for n in range(120 if live else 0)]
    replica_module._cached.clear()
    outcomes, report = send([2] * 10, 60)
    assert (outcomes, report["n_accepted"], report["updates"]) == ([], 0, [])


#: harmless where d is 0
POISON = Rule("poison", "a", "b", when="length(repeat('x', d * 90000000)) >= 0")
TIGHT = ConditionLimits(memory_bytes=64 << 20)


def poisoned_stream(live: bool, n_lanes: int = 1, repair: str = "bayes") -> LaneStream:
    """Return a stream with a rule whose condition needs too much when d is not 0."""
    types = dict.fromkeys("abcde", pa.int64())
    rules = [(rule, NaiveRule(rule.id, rule.lhs, rule.rhs)) for rule in (POISON, Rule("c", "a", "c"))]
    stream = LaneStream(Case(types, rules, None, "bleach", repair, []), 0, False, live, n_lanes)
    stream.plan = replace(stream.plan, limits=replace(stream.plan.limits, conditions=TIGHT))
    return stream


def send_poisoned(stream: LaneStream, d: int, lane: int = 0) -> tuple[list[Outcome], dict[str, Any]]:
    """Send a lane eight tuples, in order, of which the last four have this d."""
    rows = [{"n": n, "a": 1, "b": n % 3, "c": n % 3, "d": d if n > 3 else 0, "e": 1} for n in range(8)]
    batch = pa.RecordBatch.from_pylist(rows, stream.plan.schema)
    cells = [
        row.cells.to_pybytes()
        for n in range(8)
        for blob in ingress(stream.plan, batch.schema.names)([batch.slice(n, 1)])
        for row in rows_from_batch(IngressRow, blob)
        if row.lane == stream.plan.keys[lane]
    ]
    with MicroBatch(stream.plan, stream.stores[lane].state, lane, cells) as micro_batch:
        list(micro_batch.decide())
        committed = micro_batch.commit()
    outcomes = _own_outcomes(committed.outcomes, lane, stream.plan.n_lanes)
    return outcomes, read_reports({"report": committed.report}) or {}


@pytest.mark.parametrize("live", [False, True])
def test_a_rule_is_withdrawn_once(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule whose condition needs too much is withdrawn, with an outcome and a line in the report.

    A lane that is rebuilt deletes it at the same position, and does not evaluate the tuples again that it
    was withdrawn for. A restart with the same rules leaves it out; the rule comes back by an update.
    """
    stream = poisoned_stream(live)
    stream.plan = replace(stream.plan, limits=replace(stream.plan.limits, snapshot_bytes=1 << 40))
    send_poisoned(stream, 0)
    outcomes, report = send_poisoned(stream, 9)
    line = (
        "withdrawn: rule 'poison', from position 12 on; its condition needs more than 64 MB of memory on 1 "
        "tuple; add it again when it needs less"
    )
    assert report["updates"] == [line]
    assert report["rules"] == ["c"]
    found = [(one.kind, one.position, one.version, str(one)) for one in outcomes]
    assert found == ([("withdrawn", 12, 2, line)] if live else [])
    assert all([rule["id"] for rule in one.rules] == ["c"] for one in outcomes)

    send_poisoned(stream, 9)
    engine = next(iter(replica_module._cached.values())).replica.engine
    replica_module._cached.clear()
    seen: list[int] = []
    evaluate = ConditionEvaluator.evaluate

    def watch(self: ConditionEvaluator, batch: pa.RecordBatch, limits: ConditionLimits) -> list[Mask]:
        seen.extend(batch.column("d").to_pylist() if "d" in batch.schema.names else [])
        return evaluate(self, batch, limits)

    monkeypatch.setattr(ConditionEvaluator, "evaluate", watch)
    outcomes, report = send_poisoned(stream, 9)
    assert seen == [0] * 12
    assert (outcomes, report["updates"], report["rules"], report["version"]) == ([], [], ["c"], 2)
    stream.plan = replace(stream.plan, updates=(RuleUpdate(32, rule=POISON),))
    assert send_poisoned(stream, 0)[1]["rules"] == ["c", "poison"]
    assert engine.rules == stream.plan.rules[1:]


def test_a_replay_that_differs_is_an_error() -> None:
    """A condition that breaks even wider limits in a replay is an error: nothing is decided anew."""
    stream = poisoned_stream(live=False)
    wide = replace(stream.plan.limits, conditions=ConditionLimits(), snapshot_bytes=1 << 40)
    stream.plan, tight = replace(stream.plan, limits=wide), stream.plan
    send_poisoned(stream, 1)
    replica_module._cached.clear()
    condition_process._end()  # the process still has the memory that it was given
    few = ConditionLimits(memory_bytes=16 << 20, memory_bytes_per_byte=0)
    stream.plan = replace(tight, limits=replace(wide, conditions=few))
    with pytest.raises(ConditionLimitError, match=r"rule 'poison', when: .*; it did not when these"):
        send_poisoned(stream, 0)


def test_one_of_several_lanes_withdraws_a_rule() -> None:
    """It applies the rule to no tuple from there on, and says so; all lanes still have the same rule set.

    A lane that is rebuilt does the same. The rule comes back when it is deleted and added again.
    """
    stream = poisoned_stream(live=True, n_lanes=2, repair="class")
    stream.plan = replace(stream.plan, limits=replace(stream.plan.limits, snapshot_bytes=1 << 40))
    (lane,) = stream.plan.placement.lanes_of("b")
    send_poisoned(stream, 0, lane)
    send_poisoned(stream, 0, 1 - lane)
    found, report = send_poisoned(stream, 9, lane)
    unaware, other_report = send_poisoned(stream, 9, 1 - lane)
    (line,) = report["updates"]
    assert line.startswith(
        f"withdrawn: rule 'poison' in lane {lane}, from position 12 on; its condition needs"
    )
    outcomes = [*found, *unaware]
    assert [(one.kind, one.position, one.version, str(one)) for one in outcomes] == [
        ("withdrawn", 12, 1, line)
    ]
    reports = [json.dumps(other_report), json.dumps({**report, "updates": [], "withdrawn": [line]})]
    both = read_reports(dict(zip("01", reports, strict=True)))
    assert both is not None
    assert both["updates"] == [line]
    assert report["rules"] == other_report["rules"] == ["poison", "c"]

    replica_module._cached.clear()
    assert send_poisoned(stream, 9, lane)[1]["updates"] == []
    harmless = replace(POISON, when="d = 9")
    updates = (RuleUpdate(24, delete="poison"), RuleUpdate(24, rule=harmless))
    stream.plan = replace(stream.plan, updates=updates)
    again = send_poisoned(stream, 9, lane)[1]
    assert (again["rules"], again["version"], again["violations"]["poison"] > 0) == (["c", "poison"], 3, True)
