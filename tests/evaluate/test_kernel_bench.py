"""The streams of the kernel's benchmark."""

from __future__ import annotations

import pytest

from sparkbleach.evaluate.bench.kernel import Case, decide_call
from sparkbleach.evaluate.tables import real_table


@pytest.mark.parametrize("hospital", [False, True])
def test_a_case_has_its_stream_and_engine(hospital: bool) -> None:
    """A case yields as many tuples as it says, and its engine takes them."""
    case = Case("one", decide_call, 6, 50_300, 1_000, "bayes", hospital=hospital)
    first, second = case.blocks()
    assert (first.num_rows, second.num_rows) == (50_000, 300)
    engine = case.engine()
    case.call(engine, second)
    assert (engine.position, engine.options.repair) == (300, "bayes")


def test_hospital_comes_again_and_again() -> None:
    """After the last tuple of the table comes the first."""
    (block,) = Case("one", decide_call, 0, 2_500, 1_000, "bayes", hospital=True).blocks()
    table = real_table("hospital").dirty["index"].to_pylist()
    assert block["index"].to_pylist() == table + table + table[:500]
