"""What a stream can do to the state of `bayes` at its bounds."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import Engine, Window
from sparkbleach.kernel.bayes.state import BayesState
from sparkbleach.kernel.table import pool_used


def test_a_time_far_away() -> None:
    """One wrong time, which ends billions of windows, takes no longer than another one."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("at", pa.timestamp("us"))])
    engine = Engine(schema, ["a -> b"], window=Window.time("at", "2 seconds", "1 second"))
    years = [2026, 2026, 9999]
    rows = [{"a": "x", "b": "y", "at": dt.datetime(year, 1, 1)} for year in years]
    clean, _ = engine.process(pa.RecordBatch.from_pylist(rows, schema))
    assert clean.num_rows == 3
    assert Engine.restore(engine.snapshot()).position == 3


def test_room_for_levels() -> None:
    """A cell that makes its group one of many values finds room for the levels of all of them."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    options: dict[str, Any] = {"windowing": "basic", "accept_after": None}
    engine = Engine(schema, ["a -> b"], window=Window.tuples(200, slide=100), **options)

    def send(*values: str) -> None:
        rows = [{"a": "x", "b": value} for value in values]
        engine.process(pa.RecordBatch.from_pylist(rows, schema))

    send(*(["1"] * 10 + ["2"] * 20 + ["3"] * 30 + ["4"] * 40))
    send(*(["5"] * 50 + ["1"] * 1 + ["2"] * 2 + ["3"] * 3 + ["4"] * 4 + ["5"] * 40))
    assert engine._bayes is not None
    state: BayesState = engine._bayes.live.parts[0].state
    store = state.store
    room = pool_used(store.level_pool) + 8
    state.store = store._replace(levels=store.levels[:room].copy())
    send("6")
    assert pool_used(state.store.level_pool) <= state.store.levels.shape[0]


def test_slides_find_room_for_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that goes through slides of a group with many values does what calls of single tuples do."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    random = Random(1)  # noqa: S311 - not a secret
    rows = [{"a": "x", "b": random.choice(["right", f"{random.randrange(4000)}"])} for _ in range(4500)]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    reserved = []
    reserve = BayesState._reserve_levels

    def reserve_levels(state: BayesState) -> None:
        reserved.append(state.pane)
        reserve(state)

    monkeypatch.setattr(BayesState, "_reserve_levels", reserve_levels)

    def cleaned(*lengths: int) -> tuple[list[Any], list[Any]]:
        engine = Engine(schema, ["a -> b"], window=Window.tuples(2000, slide=100), look_ahead=1)
        values: list[Any] = []
        reasons: list[Any] = []
        first = 0
        for length in lengths:
            clean, audit = engine.process(batch.slice(first, length))
            values += clean["b"].to_pylist()
            reasons += audit.to_pylist()
            first += length
        return values, reasons

    several = cleaned(*[10] * 349, 20, 480, 510)
    assert reserved, "there was room, so that this test sees nothing"
    assert several == cleaned(*[1] * batch.num_rows)


def test_a_window_that_slides_with_each_tuple() -> None:
    """Calls of single tuples, each in a pane of its own, do what one call does."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    random = Random(2)  # noqa: S311 - not a secret
    rows = [{"a": random.choice("xyz"), "b": random.choice("uvw")} for _ in range(300)]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    for windowing in ("basic", "bleach"):
        options: dict[str, Any] = {"windowing": windowing, "look_ahead": 1}
        whole, single = (
            Engine(schema, ["a -> b"], window=Window.tuples(4, slide=1), **options) for _ in "ab"
        )
        clean, audit = whole.process(batch)
        parts = [single.process(batch.slice(row, 1)) for row in range(batch.num_rows)]
        assert clean["b"].to_pylist() == [part["b"][0].as_py() for part, _ in parts]
        assert audit.to_pylist() == [row for _, part in parts for row in part.to_pylist()]
