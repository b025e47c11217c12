"""The paper's topology does what the reference does, however many workers there are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach.distributed import DistributedEngine
from tests.property.streams import Case, Pair, cases


class DistributedPair(Pair):
    """A distributed engine and the reference."""

    def __init__(self, case: Case, **topology: Any) -> None:
        self.topology = topology
        super().__init__(case)

    def new_engine(self, **options: Any) -> DistributedEngine:
        """Return an engine that has seen nothing."""
        self.options = options
        return DistributedEngine(**options, **self.topology)

    def restore(self) -> None:
        """Replace the engine by one that is restored from its state."""
        saved = self.engine.save()
        self.engine = DistributedEngine(**self.options, **self.topology)
        self.engine.load(*saved)

    def check(self) -> None:
        """Check nothing between two steps."""


TOPOLOGIES = st.fixed_dictionaries(
    {
        "detect_workers": st.integers(1, 3),
        "repair_workers": st.sampled_from([1, 2, 3, 5]),
    }
)


@pytest.mark.parametrize("coordination", ["basic", "dr", "hinge"])
@given(cases(), TOPOLOGIES)
def test_equals_reference(coordination: str, case: Case, topology: dict[str, int]) -> None:
    """Every cell and every audit row is the reference's, after every step."""
    pair = DistributedPair(case, coordination=coordination, **topology)
    for step in case.steps:
        pair.step(step)
