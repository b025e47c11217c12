"""What cleaning costs on Spark: throughput beside that of Spark alone, and end-to-end latency.

Usage: python -m bench.spark [--quick] [throughput] [latency]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.steady import SteadySource
from bench.stream import RULES, SCHEMA, SalesStream
from sparkbleach import SPARK_SETTINGS, clean, report

SIX_RULES = [f"{id}: {text}" for id, text in list(RULES.items())[:6]]
DDL = ", ".join(f"{field.name} {'long' if field.type == pa.int64() else 'string'}" for field in SCHEMA)
FILE_TUPLES = 100_000
FILES_PER_BATCH = 5
LATENCY_RATE = 15_000


def session() -> SparkSession:
    """Return a session on two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config(map=SPARK_SETTINGS)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return what came."""
    yield from batches


def run(df: DataFrame, checkpoint: Path, seconds: float | None = None) -> list[Any]:
    """Run a query over all that there is, or for some seconds; return the progress of its micro-batches."""
    query = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    if seconds is None:
        query.processAllAvailable()
    else:
        query.awaitTermination(seconds)  # type: ignore[arg-type]
    query.stop()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def throughput(spark: SparkSession, here: Path, n_files: int, rounds: int) -> None:
    """Print the throughput of source, identity and cleaning, on the same files and in turns.

    The first round is not counted: the JVM compiles while it runs.
    """
    stream = SalesStream()
    (here / "in").mkdir()
    for number, batch in enumerate(stream.batches(n_files * FILE_TUPLES, FILE_TUPLES)):
        path = here / "in" / f"{number:05}.parquet"
        pq.write_table(pa.Table.from_batches([batch]), path)
        os.utime(path, (1e9 + number, 1e9 + number))
    source = (
        spark.readStream.schema(DDL).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(here / "in"))
    )
    ways = {
        "(a) source to no-op sink": source,
        "(b) identity mapInArrow": source.mapInArrow(identity, source.schema),
        "(c) cleaning, r0-r5": clean(source, SIX_RULES, id="id"),
        "(c') without the column _repairs": clean(source, SIX_RULES, id="id", audit=False),
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for number, (way, df) in enumerate(ways.items()):
            batches = run(df, here / f"checkpoint-{turn}-{number}")
            warm = batches[len(batches) // 3 :]
            seconds = sum(batch["durationMs"]["triggerExecution"] for batch in warm) / 1000
            rate = sum(batch["numInputRows"] for batch in warm) / seconds
            if turn:
                rates[way].append(rate)
            print(f"  {f'round {turn}' if turn else 'warm-up'}, {way}: {rate:,.0f} tuples/s", flush=True)
    median = {way: statistics.median(found) for way, found in rates.items()}
    print(f"\nthroughput, {FILES_PER_BATCH * FILE_TUPLES:,} tuples a micro-batch, median of {rounds}")
    for way, rate in median.items():
        print(f"  {way:<34} {rate:>10,.0f} tuples/s")
    base = median["(b) identity mapInArrow"]
    ratios = [clean_rate / base_rate for clean_rate, base_rate in zip(*_b_and_c(rates), strict=True)]
    print(f"  (c)/(b) {median['(c) cleaning, r0-r5'] / base:.2f}; by round {_told(ratios)} (goal 0.50)")


def _b_and_c(rates: dict[str, list[float]]) -> tuple[list[float], list[float]]:
    return rates["(c) cleaning, r0-r5"], rates["(b) identity mapInArrow"]


def _told(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


def latency(spark: SparkSession, here: Path, backlog: int, warm_up: float, seconds: float) -> None:
    """Print the latency of tuples that arrive at a steady rate, from their arrival to the end of their batch.

    A backlog is cleaned first, so that the window is full and slides while it is measured.
    """
    path = here / "steady.arrow"
    n = backlog + int((warm_up + seconds + 60) * LATENCY_RATE)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for batch in SalesStream().batches(n, 50_000):
            writer.write_batch(batch)
    spark.dataSource.register(SteadySource)
    begin = time.time() + 10
    source = (
        spark.readStream.format("steady")
        .options(path=str(path), rate=LATENCY_RATE, begin=begin, backlog=backlog, schema=DDL)
        .load()
    )
    df = clean(source, SIX_RULES, id="id", egress_partitions=1)
    batches = run(df, here / "checkpoint-latency", 10 + warm_up + seconds)
    latencies, durations = [], []
    slides = set()
    for batch in batches:
        started = dt.datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()
        took = batch["durationMs"]["triggerExecution"] / 1000
        if started < begin + warm_up:
            continue
        offsets = batch["sources"][0]
        first, last = (json.loads(offsets[end])["n"] for end in ("startOffset", "endOffset"))
        arrived = begin + (np.arange(first, last) - backlog) / LATENCY_RATE
        latencies.append(started + took - arrived)
        durations.append(took)
        slides.add(last // 1_000_000)
    ms = np.concatenate(latencies) * 1000
    last_report = report(batches[-1]) or {}
    print(f"\nlatency at {LATENCY_RATE:,} tuples/s, {ms.size:,} tuples in {len(durations)} micro-batches,")
    print(
        f"  after {backlog:,} tuples of backlog and {warm_up:.0f} s; {len(slides) - 1} slides of the window"
    )
    print(f"  mean {ms.mean():.0f} ms (goal 320), p50 {np.median(ms):.0f} ms,", end=" ")
    print(f"p99 {np.quantile(ms, 0.99):.0f} ms (goal 1,000), longest {ms.max():.0f} ms")
    print(f"  micro-batches: median {statistics.median(durations) * 1000:.0f} ms")
    print(f"  state of the lane: {last_report.get('nbytes', 0) / 1e6:.0f} MB")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["throughput", "latency"])
    parser.add_argument("--quick", action="store_true", help="less of everything: a look, not a result")
    options = parser.parse_args()
    spark = session()
    with tempfile.TemporaryDirectory(prefix="sparkbleach-bench-") as directory:
        here = Path(directory)
        if "throughput" in options.what:
            throughput(spark, here, n_files=30 if options.quick else 60, rounds=1 if options.quick else 3)
        if "latency" in options.what:
            if options.quick:
                latency(spark, here, backlog=100_000, warm_up=30, seconds=30)
            else:
                latency(spark, here, backlog=2_000_000, warm_up=75, seconds=105)
    spark.stop()


if __name__ == "__main__":
    main()
