"""The engine does what the reference does, whatever the stream."""

from __future__ import annotations

from hypothesis import given

from tests.support.cases import Case, Pair, cases


@given(cases())
def test_engine_equals_reference(case: Case) -> None:
    """Every cell and every audit row is the reference's, after every step, with all invariants."""
    pair = Pair(case)
    for step in case.steps:
        pair.step(step)
