"""Room: what compiled code writes to must be there, and no more of it than the state asks for.

The properties of tests/property are too small to use up what arrays have to spare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkbleach import Engine, Window
from sparkbleach.kernel import attribute
from sparkbleach.kernel.attribute import HingedAttribute
from sparkbleach.kernel.hinged import clean_hinged
from tests.support.invariants import check_invariants

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.int64())])


def batch(*columns: Any) -> pa.RecordBatch:
    """Return a batch."""
    return pa.record_batch([pa.array(column) for column in columns], SCHEMA)


def hinged(engine: Engine) -> HingedAttribute:
    """Return the state of v."""
    state = engine._cleaners.live["v"].state
    assert isinstance(state, HingedAttribute)
    return state


def new_engine(window: Window, accept_after: int | None = None) -> Engine:
    """Return an engine with two rules on v."""
    return Engine(SCHEMA, ["a -> v", "b -> v"], window=window, repair="class", accept_after=accept_after)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list that receives, of each compiled call, where it begins and ends."""
    made: list[tuple[int, int]] = []

    def recorded(*arguments: Any) -> tuple[int, int]:
        first, n_repairs = clean_hinged(*arguments)
        made.append((arguments[11], first))
        return first, n_repairs

    monkeypatch.setattr(attribute, "clean_hinged", recorded)
    return made


def compare(whole: Engine, by_parts: Engine, stream: pa.RecordBatch, n_tuples: int) -> None:
    """Assert that a stream has the same results at once and in parts, and leaves sound states."""
    clean, audit = whole.process(stream)
    parts = [by_parts.process(stream.slice(first, n_tuples)) for first in range(0, stream.num_rows, n_tuples)]
    assert clean == pa.Table.from_batches([one for one, _ in parts]).combine_chunks().to_batches()[0]
    audits = pa.Table.from_batches([one for _, one in parts]).combine_chunks()
    assert audit.to_pylist() == audits.to_pylist()
    for engine in (whole, by_parts):
        check_invariants(hinged(engine))


def test_slides_in_one_call(calls: list[tuple[int, int]]) -> None:
    """A batch goes through all its slides in one call."""
    rng = np.random.default_rng(1)
    stream = batch(*rng.integers(0, 4, (3, 500)))
    compare(new_engine(Window.tuples(10, slide=1), 3), new_engine(Window.tuples(10, slide=1), 3), stream, 7)
    assert calls[0] == (0, 500)


def test_super_cells_that_become_equal_need_counts(calls: list[tuple[int, int]]) -> None:
    """When thousands of groups die at once, the call ends where there is no room, and goes on with more."""
    n = 3_000
    # Each pair of tuples shares its group of b; the groups of a die, and the two super cells are then equal.
    a = [*range(n), *[n] * 2 * n]
    b = [*np.arange(n) // 2, *np.arange(n) // 2, *[n] * n]
    stream = batch(a, b, np.zeros(3 * n, int))
    window = Window.tuples(2 * n, slide=n)
    compare(new_engine(window), new_engine(window), stream, 50)
    assert any(first < 3 * n for _, first in calls[:3])


def test_retired_groups_need_candidates(calls: list[tuple[int, int]]) -> None:
    """When a retired group held a large subgraph together, the same value is a candidate in each part."""
    n = 3_000
    # A group of a with n groups of b, which accepts another value before the window slides.
    a = [*[0] * n, *[0] * 4, *[1] * n]
    b = [*range(n), *[n] * 4, *[n + 1] * n]
    v = [0] * n
    v[n // 2 :: 7] = [1] * len(v[n // 2 :: 7])
    stream = batch(a, b, [*v, *[2] * 4, *[3] * n])
    window = Window.tuples(4 * (n + 4), slide=n + 4)
    compare(new_engine(window, 2), new_engine(window, 2), stream, 50)
    assert len(calls) > 1 + stream.num_rows // 50


def test_candidates_of_retired_groups_are_used_again() -> None:
    """However often a group accepts another value, the graphs take no more room than the state asks for."""
    rng = np.random.default_rng(0)
    engine = new_engine(Window.tuples(40, slide=20), 2)
    n = 2_000
    for _ in range(4):
        engine.process(batch(np.zeros(n, int), rng.integers(0, 3, n), np.arange(n) // 7 % 2))
    assert len(engine.take_accepted()) > n
    assert hinged(engine).current.candidates.size < 3 * n


@pytest.mark.parametrize("rules", [["a -> v"], ["a -> v", "b -> v"]])
@pytest.mark.parametrize("window", [None, Window.tuples(4, slide=1)])
def test_a_value_that_comes_again_takes_room_again(rules: list[str], window: Window | None) -> None:
    """A value of a dictionary may be let go of, and be new again, many times in a batch."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.string())])
    n = 4_000
    keys = pa.array(np.zeros(n, int))
    values = pa.array([("x" if i // 9 % 2 else "y") * 3_000 for i in range(n)])
    plain = Engine(schema, rules, window=window, repair="class", accept_after=2)
    coded = Engine(schema, rules, window=window, repair="class", accept_after=2)
    (column,) = plain.decide(pa.record_batch([keys, keys, values], schema))
    (same,) = coded.decide(pa.record_batch([keys, keys, values.dictionary_encode()], schema.names))
    assert same.new.to_pylist() == column.new.to_pylist()
    arena = coded._cleaners.live["v"].state.values
    assert arena.state[0] <= arena.arena.size
