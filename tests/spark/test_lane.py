"""Lanes without a query: ingress, lanes and egress in one process on state stores in dictionaries."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach.spark import replica as replica_module
from tests.support.cases import SPARK_TYPES, Case, cases
from tests.support.lane_stream import LaneStream

pytestmark = pytest.mark.usefixtures("new_worker")


@given(cases(choice=SPARK_TYPES), st.integers(0, 2**32), st.booleans(), st.booleans(), st.integers(1, 3))
def test_lanes_give_what_the_engine_gives(
    case: Case, seed: int, by_order: bool, live: bool, n_lanes: int
) -> None:
    """Whatever happens to workers, blobs, snapshots and rules, rows and audit are those of the engine."""
    replica_module._cached.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random rules may say the same thing
        stream = LaneStream(case, seed, by_order, live, n_lanes)
        for step in case.steps:
            stream.step(step)
