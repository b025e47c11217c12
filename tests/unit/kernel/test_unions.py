"""Hub groups with `vote`: answers are kept, and are those of the reference."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach.kernel.attribute import HingedAttribute
from tests.support.cases import Case, Pair
from tests.support.simulation import rule_pair

KEYS = ("k0", "k1", "k2")
TYPES = {**dict.fromkeys(KEYS, pa.int64()), "v": pa.int64()}


class Hubs:
    """A stream whose few groups have many values each, through engine and reference."""

    def __init__(self, n_rules: int, windowing: str, window: tuple[int, int] | None, **options: Any) -> None:
        rules = [rule_pair(f"r{j}", (key,), "v", "fill") for j, key in enumerate(KEYS[:n_rules])]
        self.pair = Pair(Case(TYPES, rules, window, windowing, "vote", [], **options))
        self.rng = random.Random(n_rules)  # noqa: S311 - a simulation
        self.kept = 0

    def send(self, n_tuples: int, n_values: int) -> None:
        """Send tuples in small batches; count the unions that were there when a batch came."""
        for _ in range(0, n_tuples, 10):
            (cleaner,) = self.pair.engine._cleaners
            if isinstance(cleaner.state, HingedAttribute):
                self.kept = max(self.kept, int(cleaner.state.unions.state[0]))
            self.pair.step(("tuples", [self.row(n_values) for _ in range(10)]))

    def row(self, n_values: int) -> dict[str, Any]:
        """Return a tuple; one in twenty has no value."""
        keys = {key: self.rng.randrange(2) for key in KEYS}
        value = None if self.rng.random() < 0.05 else self.rng.randrange(n_values)
        return {"n": 1, **keys, "v": value}


@pytest.mark.parametrize("windowing", ["bleach", "basic"])
@pytest.mark.parametrize("n_rules", [2, 3])
@pytest.mark.parametrize("window", [None, (160, 80)])
def test_answers_are_the_references(n_rules: int, windowing: str, window: tuple[int, int] | None) -> None:
    """Answers of hub groups are kept from tuple to tuple, and stay exact while groups grow and panes pass."""
    hubs = Hubs(n_rules, windowing, window)
    hubs.send(300, n_values=50)
    assert hubs.kept > 1
    hubs.send(100, n_values=4)  # the same sets, with few values that are raised again and again


def test_answers_follow_groups_that_change() -> None:
    """An answer is not that of another group that has taken the slot of one of its groups."""
    hubs = Hubs(2, "bleach", (120, 40), accept_after=2)
    for _ in range(4):
        hubs.send(120, n_values=60)
        hubs.send(40, n_values=2)
    assert hubs.kept > 1


def test_answers_end_with_the_rules_they_are_of() -> None:
    """With a rule more or less, or restored from a snapshot, an attribute answers as the reference does."""
    hubs = Hubs(2, "bleach", None)
    hubs.send(100, n_values=40)
    hubs.pair.step(("add", rule_pair("r2", ("k2",), "v", "ignore")))
    hubs.send(150, n_values=40)
    hubs.pair.step(("restore",))
    hubs.send(50, n_values=40)
    hubs.pair.step(("delete", 0))
    hubs.send(50, n_values=40)
    assert hubs.kept > 1
