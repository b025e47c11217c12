"""Bleach windowing forgets counts that are old enough, and so its state stays bounded."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import ConfigError, Engine, Window

SCHEMA = pa.schema([("a", pa.int64()), ("z", pa.int64()), ("b", pa.string())])


def candidates(values: str, rules: list[str], **options: Any) -> list[tuple[str, int]]:
    """Clean cells of one group; return the candidates of the last repair."""
    engine = Engine(SCHEMA, rules, window=Window.tuples(4, slide=2), **options)
    rows = [{"a": 1, "z": 1, "b": value} for value in values]
    _, audit = engine.process(pa.RecordBatch.from_pylist(rows, SCHEMA))
    return [(one["value"], one["count"]) for one in audit.to_pylist()[-1]["candidates"]]


@pytest.mark.parametrize("rules", [["a -> b"], ["a -> b", "z -> b"]])
@pytest.mark.parametrize("repair", ["class", "vote"])
class TestCounts:
    """With W = 4 and S = 2, the panes of bc cc d. are 0, 1 and 2, and the last two are in the window."""

    def test_a_count_is_kept_for_ever(self, rules: list[str], repair: str) -> None:
        """Without a bound b counts when its pane has long left the window."""
        found = candidates("bcccd", rules, repair=repair, remember=None)
        assert found == [("c", 3), ("b", 1), ("d", 1)]

    def test_a_count_is_forgotten(self, rules: list[str], repair: str) -> None:
        """With R = 4 panes 1 and 2 are remembered: b is forgotten, and c counts in full."""
        assert candidates("bcccd", rules, repair=repair, remember=4) == [("c", 3), ("d", 1)]

    def test_a_forgotten_value_begins_anew(self, rules: list[str], repair: str) -> None:
        """A b in pane 2 counts itself only."""
        assert candidates("bcccbd", rules, repair=repair, remember=4) == [("c", 3), ("b", 1), ("d", 1)]

    def test_four_windows_are_the_default(self, rules: list[str], repair: str) -> None:
        """These are eight panes: b, which is in pane 0, is forgotten with the first tuple of pane 8."""
        assert candidates("b" + 13 * "c" + "d", rules, repair=repair) == [("c", 13), ("b", 1), ("d", 1)]
        assert candidates("b" + 15 * "c" + "d", rules, repair=repair) == [("c", 15), ("d", 1)]


@pytest.mark.parametrize("rules", [["a -> b"], ["a -> b", "z -> b"]])
def test_state_is_flat(rules: list[str]) -> None:
    """Hot keys that meet a new typo now and then need no more memory once R tuples have gone by."""
    rng = random.Random(3)  # noqa: S311 - a simulation
    window = Window.tuples(1_000, slide=500)
    engine = Engine(SCHEMA, rules, window=window, remember=2_000)

    def run(n_tuples: int) -> tuple[int, int]:
        for _ in range(n_tuples // 100):
            rows = [
                {"a": rng.randrange(5), "z": rng.randrange(5), "b": rng.choice(["b", "b", f"{rng.random()}"])}
                for _ in range(100)
            ]
            engine.process(pa.RecordBatch.from_pylist(rows, SCHEMA))
        return engine.nbytes, engine.super_cells

    nbytes, super_cells = run(6_000)
    later = [run(1_000) for _ in range(10)]
    assert max(size for size, _ in later) <= 1.05 * nbytes
    assert max(n for _, n in later) <= 1.05 * super_cells


@pytest.mark.parametrize("remember", [3, 2, 0, True, "long"])
def test_remember_is_checked(remember: Any) -> None:
    """It is a multiple of the slide, and no less than the window."""
    with pytest.raises(ConfigError, match="remember: "):
        Engine(SCHEMA, ["a -> b"], window=Window.tuples(4, slide=2), remember=remember)
