"""Pattern tableaux with many rows."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import Engine, Rule
from sparkbleach.engine.tableau import index_of
from sparkbleach.rules.check import check_rules
from tests.naive.reference import NaiveRule
from tests.support.cases import Case, Pair

TYPES = {"a": pa.string(), "b": pa.float64(), "c": pa.int64(), "d": pa.string_view()}
CELLS: dict[str, list[Any]] = {
    "a": [f"a{i}" for i in range(12)],
    "b": [-0.0, 0.0, 1.5, math.inf, math.nan, -2.0],
    "c": list(range(8)),
    "d": [f"a right side of some length, {i}" for i in range(4)],
}
CONSTANTS = {**CELLS, "b": [0.0, 1.5, math.inf, -2.0]}


@pytest.mark.parametrize("repair", ["class", "vote"])
@pytest.mark.parametrize("seed", range(4))
def test_a_tuple_matches_the_rows_that_the_reference_finds(seed: int, repair: str) -> None:
    """Of hundreds of rows with wildcards anywhere, those that match decide as in the reference."""
    random = Random(seed)  # noqa: S311 - not a secret

    def draw(domain: dict[str, list[Any]], name: str, share_of_none: float) -> Any:
        return None if random.random() < share_of_none else random.choice(domain[name])

    rules = []
    for number, lhs in enumerate([("a", "b", "c"), ("c", "a"), ("b",), ("a", "b", "c")]):
        wildcards = random.choice([0.05, 0.3, 0.7])
        row_of = (*lhs, "d")
        tableau = [
            tuple(draw(CONSTANTS, name, wildcards) for name in row_of) for _ in range(random.choice([1, 300]))
        ]
        written = tuple(tuple("_" if c is None else c for c in row) for row in tableau)
        nulls = random.choice(["ignore", "fill"])
        id = f"r{number}"
        rules.append(
            (
                Rule(id, lhs, "d", nulls=nulls, tableau=written),
                NaiveRule(id, lhs, "d", fill=nulls == "fill", tableau=tuple(tableau)),
            )
        )
    batch = [{"n": 1, **{name: draw(CELLS, name, 0.1) for name in TYPES}} for _ in range(150)]
    pair = Pair(Case(TYPES, rules, None, "bleach", repair, []))
    for step in (("tuples", batch[:70]), ("delete", 1), ("restore",), ("tuples", batch[70:])):
        pair.step(step)


def test_each_set_of_constants_on_the_left_is_there_once() -> None:
    """However many rows have the same left side, one is looked at; the first of them decides."""
    rows = [["x", str(number)] for number in range(1000)]
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    [checked] = check_rules([Rule("r", "a", "b", tableau=rows)], schema)
    assert checked.tableau is not None
    [pattern] = index_of(checked.tableau)._constants
    assert int(pattern.rows.table.state[2]) == 1
    _, audit = Engine(schema, [Rule("r", "a", "b", tableau=rows)], repair="class").process(
        pa.RecordBatch.from_pylist([{"a": "x", "b": "7"}], schema)
    )
    [repair] = audit.to_pylist()
    assert (repair["new_value"], repair["rules"], repair["overruled"]) == ("0", ["r"], ["r"])


def test_a_tableau_is_looked_through_once() -> None:
    """All batches use one index, which goes with the tableau."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    [checked] = check_rules([Rule("r", "a", "b", tableau=[["x", "y"]])], schema)
    assert checked.tableau is not None
    assert index_of(checked.tableau) is index_of(checked.tableau)
