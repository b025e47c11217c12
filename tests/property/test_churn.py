"""Rules that come and go all the time: results stay exact, and memory comes back."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import Engine, Window
from tests.support.cases import Case, Pair
from tests.support.profiles import NIGHTLY
from tests.support.simulation import KEYS, TYPES, rule_pair

N_TUPLES, N_UPDATES = (200_000, 200) if NIGHTLY else (3_000, 40)
BATCH = 25
LHS = [("k0",), ("k1",), ("k2",), ("k0", "k1"), ("k1", "k2")]
RULES_MAX = 5


def row(rng: random.Random) -> dict[str, Any]:
    """Return a tuple with few hot keys, so that the reference has few super cells to look at."""
    keys = {key: None if rng.random() < 0.05 else rng.randrange(3) for key in KEYS}
    true = (keys["k0"] or 0) % 3
    value = rng.randrange(3) if rng.random() < 0.2 else true
    return {"n": 1, **keys, "v": f"v{value}", "w": None}


@pytest.mark.parametrize(("windowing", "repair"), [("bleach", "class"), ("basic", "vote")])
def test_churn_equals_reference(windowing: str, repair: str) -> None:
    """However often rules are added, deleted and promoted, all is as the reference has it."""
    rng = random.Random(5)  # noqa: S311 - a simulation
    rules = [rule_pair(f"r{i}", lhs, "v", "ignore") for i, lhs in enumerate(LHS[:2])]
    pair = Pair(Case(TYPES, rules, (60, 20), windowing, repair, []))
    n_batches = N_TUPLES // BATCH
    updates = set(rng.sample(range(1, n_batches), N_UPDATES))
    for number in range(n_batches):
        if number in updates:
            n_rules = len(pair.reference.rules)
            if n_rules == 0 or (n_rules < RULES_MAX and rng.random() < 0.5):
                mode = rng.choice(["live", "live", "shadow"])
                nulls = rng.choice(["ignore", "fill"])
                pair.step(("add", rule_pair(f"s{number}", rng.choice(LHS), "v", nulls, mode)))
            else:
                if rng.random() < 0.3:
                    pair.step(("promote", rng.randrange(9)))
                pair.step(("delete", rng.randrange(9)))
        pair.tuples([row(rng) for _ in range(BATCH)])


@pytest.mark.filterwarnings("ignore:rules .* say the same thing")
def test_memory_comes_back() -> None:
    """After rules have come and gone, super cells are those of an engine that never had them.

    A second time takes no more memory than the first.
    """
    schema = pa.schema([("n", pa.int32()), *TYPES.items()])
    window = Window.tuples(2_000, slide=1_000)
    engine = Engine(schema, ["base: k0 -> v"], window=window, windowing="basic", repair="class")
    twin = Engine(schema, ["base: k0 -> v"], window=window, windowing="basic", repair="class")
    rng = random.Random(6)  # noqa: S311 - a simulation

    def some(n: int) -> pa.RecordBatch:
        rows = [{**row(rng), "k1": rng.randrange(1_000), "k2": rng.randrange(1_000)} for _ in range(n)]
        return pa.RecordBatch.from_pylist(rows, schema)

    def process(n: int) -> None:
        batch = some(n)
        assert engine.process(batch)[0].num_rows == twin.process(batch)[0].num_rows

    def churn() -> int:
        for number in range(30):
            ids = [rule.id for rule in engine.rules if rule.id != "base"]
            if len(ids) < 3:
                lhs = LHS[number % len(LHS)]
                engine.add_rule({"id": f"x{number}", "lhs": list(lhs), "rhs": "v"})
            else:
                engine.delete_rule(ids[number % len(ids)])
            process(300)
        most = engine.nbytes
        for rule in engine.rules:
            if rule.id != "base":
                engine.delete_rule(rule.id)
        process(4_000)
        assert engine.super_cells == twin.super_cells
        return most

    process(4_000)
    first = churn()
    after_first = engine.nbytes
    second = churn()
    assert second <= 1.1 * first
    assert engine.nbytes <= 1.1 * after_first
    assert engine.nbytes <= 2 * twin.nbytes
