"""Run a query on Spark and measure it: throughput over files, latency at a steady rate."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from ..errors import SparkbleachError
from ..spark.report import new_progress, report
from .streams import read_steady
from .watch import Usage, Watch

#: one tuple of this number is a sample of the latency
SAMPLE_EVERY = 100
_STALL_S = 300.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch that has ended."""

    started: float  #: when the micro-batch started, in seconds since the epoch
    seconds: float  #: how long it took
    first: int  #: the position of the first tuple
    end: int  #: the position after the last tuple
    report: dict[str, Any] | None  #: what the lane reports; None if there is no lane
    clock: float = 0.0  #: when tuples began to arrive at a steady rate; 0 if they did not

    @property
    def tuples(self) -> int:
        """The number of tuples."""
        return self.end - self.first

    @property
    def ended(self) -> float:
        """When the micro-batch ended, in seconds since the epoch."""
        return self.started + self.seconds

    @classmethod
    def from_progress(cls, progress: Any, first: int) -> MicroBatch:
        """Return the micro-batch of a progress; `first` is its position if its offsets have none."""
        started = dt.datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
        seconds = progress["durationMs"]["triggerExecution"] / 1000
        for source in progress["sources"]:
            begin, end = (_offset(source[name]) for name in ("startOffset", "endOffset"))
            if "begin" in end:
                return cls(
                    started, seconds, int(begin.get("n", 0)), int(end["n"]), report(progress), end["begin"]
                )
        return cls(started, seconds, first, first + progress["numInputRows"], report(progress))


@dataclass(frozen=True)
class SparkRun:
    """The micro-batches of a run that had tuples, and CPU and memory while they ran."""

    batches: list[MicroBatch]
    usage: list[Usage]

    @property
    def warm(self) -> list[MicroBatch]:
        """The micro-batches without the first third, in which the JVM compiles."""
        return self.batches[len(self.batches) // 3 :]


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """How tuples arrive at a steady rate, and which micro-batches are measured."""

    rate: int  #: tuples per second
    backlog: int  #: how many tuples are there at the beginning
    first: int = 0  #: the position from which on micro-batches count
    warm_up: int = 0  #: how many of these are not measured
    n_batches: int = 1  #: how many are measured, at least
    n_tuples: int = 0  #: how many tuples arrive, at least, the backlog included
    trigger_s: float = 0.0  #: how often a micro-batch begins; as often as possible if 0

    def measured(self, batches: Sequence[MicroBatch]) -> list[MicroBatch]:
        """Return the micro-batches that are measured: after the backlog and the warm-up."""
        return [batch for batch in batches if batch.clock and batch.first >= self.first][self.warm_up :]

    def latencies_ms(self, batch: MicroBatch, every: int = SAMPLE_EVERY) -> NDArray[np.float64]:
        """Return the latency of sampled tuples, from their arrival to the end of their micro-batch."""
        sampled = np.arange(-(-batch.first // every) * every, batch.end, every)
        if not sampled.size:
            sampled = np.array([batch.end - 1])
        latencies: NDArray[np.float64] = (
            batch.ended - batch.clock - (sampled - self.backlog) / self.rate
        ) * 1000
        return latencies


@dataclass(frozen=True)
class SteadyRun:
    """The measured micro-batches of a run at a steady rate, and CPU and memory, the warm-up included."""

    arrival: Arrival
    measured: list[MicroBatch]
    usage: list[Usage]

    @cached_property
    def latencies_ms(self) -> list[NDArray[np.float64]]:
        """The latencies of sampled tuples, by measured micro-batch."""
        return [self.arrival.latencies_ms(batch) for batch in self.measured]

    @property
    def all_ms(self) -> NDArray[np.float64]:
        """The latencies of all samples."""
        return np.concatenate(self.latencies_ms)

    @property
    def mean_ms(self) -> list[float]:
        """The mean latency of each measured micro-batch."""
        return [float(ms.mean()) for ms in self.latencies_ms]

    @property
    def mean_batch_ms(self) -> float:
        """How long a measured micro-batch takes on average."""
        return float(np.mean([1000 * batch.seconds for batch in self.measured]))


def tuples_per_s(batches: Sequence[MicroBatch]) -> float:
    """Return the throughput while micro-batches run."""
    return sum(batch.tuples for batch in batches) / sum(batch.seconds for batch in batches)


def run_files(df: DataFrame, checkpoint: Path, advance: Callable[[int], object] = lambda _: None) -> SparkRun:
    """Run a query over all files that its source has; `advance` gets the number of tuples of each batch."""
    return _run(df, checkpoint, {"availableNow": True}, advance, lambda _: False)


def run_steady(
    spark: SparkSession,
    path: Path,
    arrival: Arrival,
    transform: Callable[[DataFrame], DataFrame],
    checkpoint: Path,
    advance: Callable[[int], object] = lambda _: None,
) -> SteadyRun:
    """Run a query on tuples of a file of `write_steady` that arrive at a rate, until enough is measured.

    `transform` makes the query from the stream; `advance` gets the number of tuples of each micro-batch.
    """
    source = read_steady(spark, path, rate=arrival.rate, backlog=arrival.backlog)
    trigger = {"processingTime": f"{int(arrival.trigger_s * 1000)} milliseconds"} if arrival.trigger_s else {}

    def enough(batches: list[MicroBatch]) -> bool:
        return len(arrival.measured(batches)) >= arrival.n_batches and batches[-1].end >= arrival.n_tuples

    done = _run(transform(source), checkpoint, trigger, advance, enough)
    return SteadyRun(arrival, arrival.measured(done.batches), done.usage)


def _run(
    df: DataFrame,
    checkpoint: Path,
    trigger: dict[str, Any],
    advance: Callable[[int], object],
    enough: Callable[[list[MicroBatch]], bool],
) -> SparkRun:
    writer = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    if trigger:
        writer = writer.trigger(**trigger)
    batches: list[MicroBatch] = []
    known = -1
    with Watch() as watch:
        query = writer.start()
        try:
            last_news = time.monotonic()
            ended = False
            while not ended and not (batches and enough(batches)):
                ended = bool(query.awaitTermination(_POLL_S))  # type: ignore[arg-type]
                # Not all of `recentProgress` each time: reading it would keep half a core busy.
                for progress in new_progress(query, known):
                    if progress.numInputRows:
                        known = progress.batchId
                        batches.append(MicroBatch.from_progress(progress, batches[-1].end if batches else 0))
                        advance(batches[-1].tuples)
                        last_news = time.monotonic()
                if time.monotonic() - last_news > _STALL_S:
                    raise SparkbleachError(
                        f"evaluation: no micro-batch has ended for {_STALL_S:.0f} s; "
                        "give the machine more memory or less to do, and run it again"
                    )
        finally:
            query.stop()
    return SparkRun(batches, watch.samples)


def _offset(text: Any) -> dict[str, Any]:
    """Return an offset of `SteadySource`; an empty dictionary for that of another source."""
    try:
        offset = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return offset if isinstance(offset, dict) else {}
