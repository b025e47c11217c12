"""What cleaning costs on Spark: throughput beside that of Spark alone, and end-to-end latency.

Usage: python -m sparkbleach.evaluate.bench.spark [--quick] [throughput] [lanes] [latency]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from sparkbleach import SPARK_SETTINGS, clean
from sparkbleach.cli.session import spark_session
from sparkbleach.evaluate.measures import Latency
from sparkbleach.evaluate.sales import RULES, SCHEMA
from sparkbleach.evaluate.spark_run import (
    files,
    latencies_ms,
    run_files,
    run_steady,
    steady,
    write_files,
    write_steady,
)

from .stream import dirty_batches

SIX_RULES = [f"{id}: {text}" for id, text in list(RULES.items())[:6]]
FILE_TUPLES = 100_000
FILES_PER_BATCH = 5
LATENCY_RATE = 15_000

SOURCE = "(a) source to no-op sink"
IDENTITY = "(b) identity mapInArrow"
TUNED = "(b') the same without a limit in bytes"
CLEANING = "(c) cleaning, r0-r5"
BARE = "(c') without the column _repairs"
#: SPARK_SETTINGS take this limit of Arrow batches away; it is there for (b), which is as users know it
BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"


def session() -> AbstractContextManager[SparkSession]:
    """Give a quiet session on two cores that remembers all progress."""
    settings = {"spark.driver.memory": "4g", "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    return spark_session("local[2]", debug=False, settings=settings)


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return what came."""
    yield from batches


def throughput(spark: SparkSession, here: Path, n_files: int, rounds: int) -> None:
    """Print the throughput of source, identity and cleaning, on the same files and in turns.

    The first round is not counted: the JVM compiles while it runs.
    """
    stream = pa.Table.from_batches(dirty_batches(n_files * FILE_TUPLES, FILE_TUPLES))
    write_files(stream, here / "in", FILE_TUPLES)
    source = files(spark, here / "in", SCHEMA, FILES_PER_BATCH)
    ways = {
        SOURCE: source,
        IDENTITY: source.mapInArrow(identity, source.schema),
        TUNED: source.mapInArrow(identity, source.schema),
        CLEANING: clean(source, SIX_RULES, id="id"),
        BARE: clean(source, SIX_RULES, id="id", audit=False),
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for number, (way, df) in enumerate(ways.items()):
            spark.conf.unset(BYTES_PER_BATCH)
            if way != IDENTITY:
                spark.conf.set(BYTES_PER_BATCH, str(SPARK_SETTINGS[BYTES_PER_BATCH]))
            batches = run_files(df, here / f"checkpoint-{turn}-{number}").batches
            warm = batches[len(batches) // 3 :]
            rate = sum(batch.tuples for batch in warm) / sum(batch.seconds for batch in warm)
            if turn:
                rates[way].append(rate)
            print(f"  {f'round {turn}' if turn else 'warm-up'}, {way}: {rate:,.0f} tuples/s", flush=True)
    print(f"\nthroughput, {FILES_PER_BATCH * FILE_TUPLES:,} tuples a micro-batch, median of {rounds}")
    for way, found in rates.items():
        print(f"  {way:<45} {statistics.median(found):>10,.0f} tuples/s")
    for ours, base in ((CLEANING, IDENTITY), (BARE, IDENTITY), (CLEANING, TUNED)):
        ratios = [mine / theirs for mine, theirs in zip(rates[ours], rates[base], strict=True)]
        by_round = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        names = "/".join(way[:4].strip() for way in (ours, base))
        print(f"  {names} {statistics.median(ratios):.2f}; by round {by_round} (goal 0.50)")


def lanes(spark: SparkSession, here: Path, n_files: int, rounds: int) -> None:
    """Print the throughput of cleaning in one lane and in two, in turns; the first round is not counted."""
    write_files(
        pa.Table.from_batches(dirty_batches(n_files * FILE_TUPLES, FILE_TUPLES)), here / "lanes", FILE_TUPLES
    )
    source = files(spark, here / "lanes", SCHEMA, FILES_PER_BATCH)
    rates: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(rounds + 1):
        for n_lanes, found in rates.items():
            spark.conf.set("spark.sql.shuffle.partitions", n_lanes)
            cleaned = clean(source, SIX_RULES, id="id", lanes=n_lanes)
            batches = run_files(cleaned, here / f"checkpoint-lanes-{turn}-{n_lanes}").batches
            warm = batches[len(batches) // 3 :]
            rate = sum(batch.tuples for batch in warm) / sum(batch.seconds for batch in warm)
            if turn:
                found.append(rate)
            print(
                f"  {f'round {turn}' if turn else 'warm-up'}, {n_lanes} lanes: {rate:,.0f} tuples/s",
                flush=True,
            )
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    for n_lanes, found in rates.items():
        print(f"lanes: {n_lanes}, median of {rounds}: {statistics.median(found):,.0f} tuples/s")


def latency(spark: SparkSession, here: Path, backlog: int, warm_up: int, n_batches: int) -> None:
    """Print the latency of tuples that arrive at a steady rate, from their arrival to the end of their batch.

    A backlog is cleaned first, so that the window is full and slides while it is measured.
    """
    path = here / "steady.arrow"
    write_steady(pa.Table.from_batches(dirty_batches(backlog + 3_000_000, 50_000)), path)
    batches = run_steady(
        spark,
        path,
        lambda df: clean(df, SIX_RULES, id="id", egress_partitions=1),
        here / "checkpoint-latency",
        rate=LATENCY_RATE,
        backlog=backlog,
        n_batches=warm_up + n_batches,
    ).batches
    measured = steady(batches, warm_up)
    found = Latency.of(latencies_ms(measured, LATENCY_RATE, backlog))
    slides = {batch.end // 1_000_000 for batch in measured}
    last_report = batches[-1].report or {}
    print(
        f"\nlatency at {LATENCY_RATE:,} tuples/s, {found.samples:,} samples, {len(measured)} micro-batches,"
    )
    print(f"  after a backlog of {backlog:,} and {warm_up} micro-batches; {len(slides) - 1} slides")
    print(f"  mean {found.mean_ms:.0f} ms (goal 320), p50 {found.median_ms:.0f} ms,", end=" ")
    print(f"p99 {found.p99_ms:.0f} ms (goal 1,000), longest {found.max_ms:.0f} ms")
    print(f"  micro-batches: median {statistics.median(batch.seconds for batch in measured) * 1000:.0f} ms")
    print(f"  state of the lane: {last_report.get('nbytes', 0) / 1e6:.0f} MB")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["throughput", "latency"])
    parser.add_argument("--quick", action="store_true", help="less of everything: a look, not a result")
    options = parser.parse_args()
    with session() as spark, tempfile.TemporaryDirectory(prefix="sparkbleach-bench-") as directory:
        here = Path(directory)
        if "throughput" in options.what:
            throughput(spark, here, n_files=30 if options.quick else 60, rounds=1 if options.quick else 5)
        if "lanes" in options.what:
            lanes(spark, here, n_files=30 if options.quick else 60, rounds=1 if options.quick else 3)
        if "latency" in options.what:
            if options.quick:
                latency(spark, here, backlog=100_000, warm_up=100, n_batches=100)
            else:
                latency(spark, here, backlog=2_000_000, warm_up=250, n_batches=350)


if __name__ == "__main__":
    main()
