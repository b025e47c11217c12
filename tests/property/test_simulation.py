"""Long streams with intersecting rules, from a seed: keys come, go and come back while the window slides.

Hypothesis draws short streams well; subgraphs that merge, split and are rescued in mid-sweep need longer
ones, in which keys drift. Everything follows from the seed that a failure prints.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.profiles import one_in
from tests.support.simulation import simulate


@pytest.mark.parametrize("repair", ["class", "vote"])
@pytest.mark.parametrize("windowing", ["bleach", "basic"])
@one_in(3)
@given(seed=st.integers(0, 2**32))
def test_long_streams_equal_reference(windowing: str, repair: str, seed: int) -> None:
    """Every cell and every audit row of a long stream is the reference's, with all invariants."""
    simulate(seed, windowing, repair, n_tuples=200)
