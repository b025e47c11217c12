"""The paper's setting on Spark: tuples arrive at a steady rate and are cleaned at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from ..spark.clean import clean
from .dirt import paper_errors
from .laboratory import SALES_RULES, SIX_RULES, Laboratory
from .spark_run import MicroBatch, Transform, latencies_ms, run_steady, steady, write_steady
from .spoil import spoil
from .watch import Usage


@dataclass(frozen=True)
class SteadyRun:
    """What a run gave.

    Attributes:
        measured: The micro-batches after the warm-up.
        latencies_ms: Of sampled tuples, by measured micro-batch.
        usage: CPU and memory, the warm-up included.
    """

    measured: list[MicroBatch]
    latencies_ms: list[NDArray[np.float64]]
    usage: list[Usage]

    @property
    def all_ms(self) -> NDArray[np.float64]:
        """The latencies of all samples."""
        return np.concatenate(self.latencies_ms)

    @property
    def mean_ms(self) -> list[float]:
        """The mean latency of each measured micro-batch."""
        return [float(ms.mean()) for ms in self.latencies_ms]


def measure_steady(
    spark: SparkSession,
    path: Path,
    transform: Transform,
    checkpoint: Path,
    *,
    rate: int,
    backlog: int,
    first: int = 0,
    n_tuples: int = 0,
    warm_up: int = 0,
    n_batches: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> SteadyRun:
    """Let tuples arrive at a steady rate, and measure micro-batches.

    Args:
        spark: The session.
        path: Where `write_steady` has written the stream.
        transform: What the query does with it.
        checkpoint: Where the query may have its checkpoint.
        rate: Tuples per second.
        backlog: How many tuples are there at the beginning.
        first: From which position on micro-batches are measured.
        n_tuples: How many tuples must have arrived, at least.
        warm_up: How many micro-batches from there are not measured.
        n_batches: How many are, at least.
        advance: Is told how many tuples were read, batch by batch.
    """
    done = run_steady(
        spark,
        path,
        transform,
        checkpoint,
        rate=rate,
        backlog=backlog,
        first=first,
        n_tuples=n_tuples,
        n_batches=warm_up + n_batches,
        advance=advance,
    )
    measured = [batch for batch in steady(done.batches) if batch.first >= first][warm_up:]
    by_batch = [latencies_ms([batch], rate, backlog) for batch in measured]
    return SteadyRun(measured, by_batch, done.usage)


def steady_run(
    lab: Laboratory,
    *,
    first: int = 0,
    n_tuples: int = 0,
    warm_up: int = 0,
    n_batches: int = 1,
    rule_updates: Iterable[Mapping[str, Any]] = (),
) -> SteadyRun:
    """Clean a stream that arrives at the profile's rate, with r0 to r5, from a backlog on.

    Args:
        lab: Where.
        first: From which position on micro-batches are measured.
        n_tuples: How many tuples must have arrived, at least.
        warm_up: How many micro-batches from there are not measured.
        n_batches: How many are, at least.
        rule_updates: Rules that come or go at positions.
    """
    profile = lab.profile
    here = lab.directory()
    path = here / "stream.arrow"
    write_steady(spoil(lab.truth, paper_errors(SALES_RULES, 0.1), lab.seed).dirty, path)
    updates = list(rule_updates)
    with lab.progress("cleaning on Spark, as tuples arrive", None) as advance:
        return measure_steady(
            lab.spark(),
            path,
            lambda df: clean(
                df, SIX_RULES, id="id", window=lab.window, rule_updates=updates, egress_partitions=1
            ),
            here / "checkpoint",
            rate=profile.rate,
            backlog=profile.backlog,
            first=first,
            n_tuples=n_tuples,
            warm_up=warm_up,
            n_batches=n_batches,
            advance=advance,
        )


def paper_run(lab: Laboratory) -> SteadyRun:
    """Return the run whose latency several experiments need; the first of them makes it."""
    profile = lab.profile
    return lab.once(
        "steady", lambda: steady_run(lab, warm_up=profile.warm_up, n_batches=profile.micro_batches)
    )
