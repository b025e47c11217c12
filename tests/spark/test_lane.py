"""Lanes without a query: ingress, lanes and egress in one process on state stores in dictionaries."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import Rule
from sparkbleach.control.outcome import Outcome
from sparkbleach.spark import replica as replica_module
from sparkbleach.spark.lane import MicroBatch, _own_outcomes
from sparkbleach.spark.report import read_reports
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
