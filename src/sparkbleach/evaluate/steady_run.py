"""The paper's setting on Spark: tuples arrive at a steady rate and are cleaned at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..spark.clean import clean
from .laboratory import Laboratory
from .sales import SALES_RULES, SIX_RULES
from .spark_run import Arrival, SteadyRun, run_steady
from .streams import write_steady


def clean_at_rate(
    lab: Laboratory, *, rule_updates: Iterable[Mapping[str, Any]] = (), **measured: int
) -> SteadyRun:
    """Clean the stream with r0 to r5 as it arrives at the profile's rate, after a backlog.

    The other attributes of `Arrival`, `measured`, say which micro-batches are measured.
    """
    here = lab.directory()
    write_steady(lab.spoilt(SALES_RULES).dirty, here / "stream.arrow")
    arrival = Arrival(rate=lab.profile.rate, backlog=lab.profile.backlog, **measured)
    updates = list(rule_updates)
    with lab.progress("cleaning on Spark, as tuples arrive", None) as advance:
        return run_steady(
            lab.spark(),
            here / "stream.arrow",
            arrival,
            lambda df: clean(
                df, SIX_RULES, id="id", window=lab.window, rule_updates=updates, egress_partitions=1
            ),
            here / "checkpoint",
            advance,
        )


def paper_run(lab: Laboratory) -> SteadyRun:
    """Return the run whose latency several experiments need; the first of them makes it."""
    profile = lab.profile
    return lab.once(
        "steady", lambda: clean_at_rate(lab, warm_up=profile.warm_up, n_batches=profile.micro_batches)
    )
