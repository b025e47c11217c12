"""Run a query on Spark and measure it: throughput over files, latency at a steady rate."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from ..errors import SparkbleachError
from ..spark.clean import news_of, report
from ..spark.compat import spark_schema
from .arrive import SteadySource
from .watch import Usage, Watch

Transform = Callable[[DataFrame], DataFrame]

#: one tuple in so many is a sample of the latency
SAMPLE_EVERY = 100
_FILES_PER_BATCH = 4
_STALL_S = 300.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch that has ended.

    Attributes:
        started: When, in seconds since the epoch.
        seconds: How long it took.
        first: The position of its first tuple.
        end: The position after its last one.
        report: What the lane reports; None if there is no lane.
        clock: When tuples began to arrive at a steady rate; 0 if they did not.
    """

    started: float
    seconds: float
    first: int
    end: int
    report: dict[str, Any] | None
    clock: float = 0.0

    @property
    def tuples(self) -> int:
        """How many tuples it had."""
        return self.end - self.first

    @property
    def ended(self) -> float:
        """When it ended."""
        return self.started + self.seconds


@dataclass(frozen=True)
class SparkRun:
    """What a run gave.

    Attributes:
        batches: Its micro-batches that had tuples.
        usage: CPU and memory while it ran.
    """

    batches: list[MicroBatch]
    usage: list[Usage]


def repeated(stream: pa.Table, n_tuples: int) -> pa.Table:
    """Return so many tuples of a stream; after the last one comes the first."""
    return pa.concat_tables([stream] * -(-n_tuples // stream.num_rows)).slice(0, n_tuples)


def write_files(stream: pa.Table, directory: Path, file_tuples: int) -> None:
    """Write a stream as Parquet files that Spark reads in order."""
    directory.mkdir(parents=True)
    for number, first in enumerate(range(0, stream.num_rows, file_tuples)):
        path = directory / f"{number:05}.parquet"
        pq.write_table(stream.slice(first, file_tuples), path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark takes older files first


def files(spark: SparkSession, directory: Path, schema: pa.Schema, files_per_batch: int = 1) -> DataFrame:
    """Return a stream of the files of a directory."""
    reader = spark.readStream.schema(spark_schema(schema))
    return reader.option("maxFilesPerTrigger", files_per_batch).parquet(str(directory))


def write_backlog(stream: pa.Table, directory: Path, batch_tuples: int) -> None:
    """Write a stream for `backlog`, with so many tuples in a micro-batch."""
    write_files(stream, directory, batch_tuples // _FILES_PER_BATCH)


def backlog(spark: SparkSession, directory: Path, schema: pa.Schema) -> DataFrame:
    """Return a stream that is there as a whole, each micro-batch in several files that tasks read at once."""
    return files(spark, directory, schema, _FILES_PER_BATCH)


def run_files(df: DataFrame, checkpoint: Path, advance: Callable[[int], object] = lambda _: None) -> SparkRun:
    """Run a query over all files that there are."""
    return _run(df, checkpoint, advance, lambda _: False, available_now=True)


def write_steady(stream: pa.Table, path: Path) -> None:
    """Write a stream for `run_steady`."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, stream.schema) as writer:
        writer.write_table(stream.combine_chunks(), max_chunksize=50_000)


def steady_stream(spark: SparkSession, path: Path, *, rate: int, backlog: int) -> DataFrame:
    """Return a stream whose tuples arrive at a steady rate: see `SteadySource`.

    Args:
        spark: The session.
        path: Where `write_steady` has written the stream.
        rate: Tuples per second.
        backlog: How many tuples are there at the beginning.
    """
    spark.dataSource.register(SteadySource)
    with pa.memory_map(str(path)) as file:
        schema = spark_schema(pa.ipc.open_file(file).schema).toDDL()
    reader = spark.readStream.format("steady").options(path=str(path), rate=rate, backlog=backlog)
    return reader.option("schema", schema).load()


def run_steady(
    spark: SparkSession,
    path: Path,
    transform: Transform,
    checkpoint: Path,
    *,
    rate: int,
    backlog: int,
    first: int = 0,
    n_tuples: int = 0,
    n_batches: int = 1,
    trigger_s: float = 0.0,
    advance: Callable[[int], object] = lambda _: None,
) -> SparkRun:
    """Let tuples arrive at a steady rate until there were enough of them, in enough micro-batches.

    Args:
        spark: The session.
        path: Where `write_steady` has written the stream.
        transform: What the query does with it.
        checkpoint: Where the query may have its checkpoint.
        rate: Tuples per second.
        backlog: How many tuples are there at the beginning.
        n_tuples: How many tuples must have arrived, at least, the backlog included.
        first: From which position on micro-batches count.
        n_batches: How many such micro-batches must have ended, at least, after the backlog.
        trigger_s: How often a micro-batch begins; as often as possible if 0.
        advance: Is told how many tuples were read, batch by batch.
    """
    source = steady_stream(spark, path, rate=rate, backlog=backlog)

    def enough(batches: list[MicroBatch]) -> bool:
        counted = [batch for batch in steady(batches) if batch.first >= first]
        return len(counted) >= n_batches and batches[-1].end >= n_tuples

    return _run(transform(source), checkpoint, advance, enough, trigger_s=trigger_s)


def steady(batches: list[MicroBatch], warm_up: int = 0) -> list[MicroBatch]:
    """Return the micro-batches with tuples that arrived at the steady rate, without the first so many."""
    return [batch for batch in batches if batch.clock][warm_up:]


def latencies_ms(batches: list[MicroBatch], rate: int, backlog: int) -> NDArray[np.float64]:
    """Return the latency of sampled tuples, from arrival to the end of their micro-batch."""
    parts = [np.empty(0)]
    for batch in batches:
        sampled = np.arange(-(-batch.first // SAMPLE_EVERY) * SAMPLE_EVERY, batch.end, SAMPLE_EVERY)
        sampled = sampled if sampled.size else np.array([batch.end - 1])
        parts.append((batch.ended - batch.clock - (sampled - backlog) / rate) * 1000)
    return np.concatenate(parts)


def _run(
    df: DataFrame,
    checkpoint: Path,
    advance: Callable[[int], object],
    enough: Callable[[list[MicroBatch]], bool],
    *,
    available_now: bool = False,
    trigger_s: float = 0.0,
) -> SparkRun:
    writer = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger_s:
        writer = writer.trigger(processingTime=f"{int(trigger_s * 1000)} milliseconds")
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
                for progress in news_of(query, known):
                    if progress.numInputRows:
                        known = progress.batchId
                        end = batches[-1].end if batches else 0
                        batches.append(_micro_batch(progress, end))
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


def _micro_batch(progress: Any, end: int) -> MicroBatch:
    started = dt.datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    seconds = progress["durationMs"]["triggerExecution"] / 1000
    try:
        first, last = (json.loads(progress["sources"][0][one]) for one in ("startOffset", "endOffset"))
    except (TypeError, ValueError):
        first = last = None
    if isinstance(last, dict) and "begin" in last:
        begin = int(first["n"]) if isinstance(first, dict) else 0
        return MicroBatch(started, seconds, begin, int(last["n"]), report(progress), last["begin"])
    return MicroBatch(started, seconds, end, end + progress["numInputRows"], report(progress))
