"""With `repair: bayes`, the engine does what the reference does, whatever the stream."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from sparkbleach import Engine
from tests.naive.bayes import BayesReference, TooClose
from tests.naive.reference import NaiveRule
from tests.support.bayes_cases import BayesCase, BayesPair, bayes_cases, canonical_rows, numbered, update
from tests.support.profiles import one_in

pytestmark = pytest.mark.filterwarnings("ignore::sparkbleach.errors.RuleWarning")  # rules drawn twice


@given(bayes_cases())
def test_engine_equals_reference(case: BayesCase) -> None:
    """Every cell, audit row, acceptance and counter is the reference's, after every step."""
    pair = BayesPair(case)
    try:
        for step in case.steps:
            pair.step(step)
    except TooClose:
        pass  # from here on, rounding may decide


@pytest.mark.parametrize("seed", range(6))
def test_values_that_leave_and_come_back(seed: int) -> None:
    """A value that has left the window is a new one when it comes again, even if no sweep has seen it go."""
    random = Random(seed)  # noqa: S311 - not a secret
    options: dict[str, Any] = {
        "windowing": "basic",
        "remember": None,
        "accept_after": None,
        "look_ahead": 5,
        "confidence": 0.6,
        "trust": None,
        "implied": False,
        "left": "flag",
        "id": None,
    }
    types = {"a": pa.string(), "b": pa.string()}
    pair = BayesPair(BayesCase(types, [NaiveRule("r", ("a",), "b")], (40, 20), options, []))
    try:
        for _ in range(80):
            keys = [random.randrange(4) for _ in range(7)]
            rare = [random.choice(["rare", "abcx", "odd", "bcda"]) for _ in keys]
            is_rare = [random.random() < 0.2 for _ in keys]
            rows = [
                {"n": 1, "source": None, "a": str(key), "b": other if wrong else "abcd"[key] * 4}
                for key, other, wrong in zip(keys, rare, is_rare, strict=True)
            ]
            pair.step(("tuples", rows))
    except TooClose:
        pass


def test_a_group_with_many_values() -> None:
    """A group may have more values than it keeps at hand."""
    schema = pa.schema([("zip", pa.string()), ("city", pa.string())])
    cities = ["Paris", "Rome"] * 30 + ["Parys", "Pares", "Pariz", "Paros", "Aris", "Pariss", "Paris"]
    zips = ["75001", "00184"] * 30 + ["75001"] * 7
    batch = pa.RecordBatch.from_pydict({"zip": zips, "city": cities}, schema)
    whole, single = (Engine(schema, ["zip -> city"], look_ahead=1) for _ in range(2))
    clean, _ = whole.process(batch)
    assert clean["city"].to_pylist()[-2:] == ["Paris", "Paris"]
    parts = [single.process(batch.slice(row, 1))[0]["city"][0] for row in range(batch.num_rows)]
    assert parts == list(clean["city"])


@one_in(2)
@given(bayes_cases(is_divided=True))
def test_components_are_divided_and_joined(case: BayesCase) -> None:
    """So it is where components are cleaned apart, and where a new rule joins them."""
    pair = BayesPair(case, threads=2)
    engine = pair.engine
    try:
        for step in case.steps:
            pair.step(step)
    except TooClose:
        pass
    finally:
        engine.close()


@one_in(3)
@given(bayes_cases(look_ahead=1))
def test_engine_does_not_depend_on_batches(case: BayesCase) -> None:
    """Without look-ahead, it makes no difference how the stream is cut into batches."""
    whole, single = BayesPair(case), BayesPair(case)
    for step in case.steps:
        if step[0] != "tuples":
            if step[0] != "restore":
                whole.update(step)
                single.update(step)
            continue
        position = whole.engine.position
        batch = pa.RecordBatch.from_pylist(numbered(step[1], position), case.schema)
        clean, audit = whole.engine.process(batch)
        parts = [single.engine.process(batch.slice(i, 1)) for i in range(batch.num_rows)]
        assert canonical_rows(clean.to_pylist()) == canonical_rows(
            [row for part, _ in parts for row in part.to_pylist()]
        )
        assert audit.to_pylist() == [row for _, part in parts for row in part.to_pylist()]


@one_in(3)
@given(bayes_cases())
def test_reference_explains_itself(case: BayesCase) -> None:
    """Cells differ from what arrived where an applied audit row says so, and scores are the sum of terms."""
    reference = case.reference
    try:
        for step in case.steps:
            _check_step(reference, step)
    except TooClose:
        pass


def _check_step(reference: BayesReference, step: Any) -> None:
    if step[0] != "tuples":
        update(reference, step)
        return
    first = reference.position
    batch = numbered(step[1], first)
    before = copy.deepcopy(batch)
    clean, repairs, _ = reference.process_batch(batch)
    assert canonical_rows(batch) == canonical_rows(before)
    for repair in repairs:
        if repair.applied:
            before[repair.position - first][repair.attribute] = repair.new
        if repair.decided_by == "probability":
            assert repair.confidence >= 0.5
            assert repair.new in [candidate.value for candidate in repair.candidates]
            assert len(repair.rules) == repair.groups
        for candidate in repair.candidates:
            assert candidate.score == pytest.approx(sum(term.amount for term in candidate.terms))
    assert canonical_rows(clean) == canonical_rows(before)
    cells = [(repair.position, repair.attribute) for repair in repairs if repair.applied]
    assert len(cells) == len(set(cells))


@one_in(3)
@given(bayes_cases(look_ahead=1))
def test_reference_does_not_depend_on_batches(case: BayesCase) -> None:
    """Without look-ahead, it makes no difference how the stream is cut into batches, nor does a copy."""
    whole, single = case.reference, case.reference
    try:
        for step in case.steps:
            if step[0] == "restore":
                single = copy.deepcopy(single)
                continue
            if step[0] != "tuples":
                update(whole, step)
                update(single, step)
                continue
            batch = numbered(step[1], whole.position)
            parts = [single.process_batch([t]) for t in batch]
            expected = tuple([row for part in parts for row in part[i]] for i in range(3))
            assert whole.process_batch(batch) == expected
            assert whole.violations == single.violations
    except TooClose:
        pass
