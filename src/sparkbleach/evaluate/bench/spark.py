"""What cleaning costs on Spark: throughput beside that of Spark alone, and end-to-end latency.

Usage: python -m sparkbleach.evaluate.bench.spark [--quick] [throughput] [lanes] [latency]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...spark.clean import clean
from ...spark.settings import PARTITIONS, SPARK_SETTINGS
from ..measures import Latency
from ..sales import SCHEMA, SIX_RULES
from ..spark_run import Arrival, run_files, run_steady, tuples_per_s
from ..streams import dirty_table, read_files, write_files, write_steady
from .workbench import parser, show, workbench

FILE_TUPLES = 100_000
FILES_PER_BATCH = 5
LATENCY_RATE = 15_000

SOURCE = "(a) source to no-op sink"
IDENTITY = "(b) identity mapInArrow"
TUNED = "(b') the same without a limit in bytes"
CLEANING = "(c) cleaning, r0-r5"
BARE = "(c') without the column _repairs"
CLASS = "(d) cleaning with class"
#: of the throughput of (b)
GOALS = {CLEANING: 0.30, BARE: 0.30, CLASS: 0.55}
#: SPARK_SETTINGS remove this limit of Arrow batches; (b) has the limit, as with Spark's defaults
BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return what came."""
    yield from batches


def write_input(spark: SparkSession, directory: Path, n_files: int) -> DataFrame:
    """Write files of dirty sales; return them as a stream."""
    write_files(dirty_table(n_files * FILE_TUPLES, FILE_TUPLES), directory, FILE_TUPLES)
    return read_files(spark, directory, SCHEMA, FILES_PER_BATCH)


def measure_rounds(
    here: Path, queries: Mapping[str, Callable[[], DataFrame]], rounds: int
) -> dict[str, list[float]]:
    """Run queries in turns; return their throughputs without the first round, in which the JVM compiles.

    By name, `queries` has functions that set what a query needs and return it. Checkpoints go to `here`.
    """
    rates: dict[str, list[float]] = {name: [] for name in queries}
    for turn in range(rounds + 1):
        for number, (name, make) in enumerate(queries.items()):
            rate = tuples_per_s(run_files(make(), here / f"checkpoint-{turn}-{number}").warm)
            if turn:
                rates[name].append(rate)
            print(f"  {f'round {turn}' if turn else 'warm-up'}, {name}: {rate:,.0f} tuples/s", flush=True)
    return rates


def throughput(spark: SparkSession, here: Path, n_files: int, rounds: int) -> None:
    """Print the throughput of source, identity and cleaning, on the same files and in turns."""
    source = write_input(spark, here / "in", n_files)
    queries = {
        SOURCE: source,
        IDENTITY: source.mapInArrow(identity, source.schema),
        TUNED: source.mapInArrow(identity, source.schema),
        CLEANING: clean(source, SIX_RULES, id="id"),
        BARE: clean(source, SIX_RULES, id="id", audit=False),
        CLASS: clean(source, SIX_RULES, id="id", repair="class"),
    }

    def prepared(name: str) -> DataFrame:
        spark.conf.unset(BYTES_PER_BATCH)
        if name != IDENTITY:
            spark.conf.set(BYTES_PER_BATCH, str(SPARK_SETTINGS[BYTES_PER_BATCH]))
        return queries[name]

    rates = measure_rounds(here, {name: partial(prepared, name) for name in queries}, rounds)
    print(f"\nthroughput, {FILES_PER_BATCH * FILE_TUPLES:,} tuples a micro-batch, median of {rounds}")
    for name, found in rates.items():
        show(name, f"{statistics.median(found):,.0f}", "tuples/s")
    for name, goal in GOALS.items():
        ratios = [ours / theirs for ours, theirs in zip(rates[name], rates[IDENTITY], strict=True)]
        by_round = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        median = statistics.median(ratios)
        label = f"{name.split()[0]}/{IDENTITY.split()[0]}"
        show(label, f"{median:.2f}", f"by round {by_round};", goal=f"{goal:.2f}", reached=median >= goal)


def lanes(spark: SparkSession, here: Path, n_files: int, rounds: int) -> None:
    """Print the throughput of cleaning in one lane and in two, in turns."""
    source = write_input(spark, here / "lanes", n_files)

    def prepared(n_lanes: int) -> DataFrame:
        spark.conf.set(PARTITIONS, n_lanes)
        return clean(source, SIX_RULES, id="id", lanes=n_lanes)

    queries = {f"{n} lanes": partial(prepared, n) for n in (1, 2)}
    rates = measure_rounds(here / "checkpoints-lanes", queries, rounds)
    spark.conf.set(PARTITIONS, 1)
    print(f"\nlanes, median of {rounds}")
    for name, found in rates.items():
        show(name, f"{statistics.median(found):,.0f}", "tuples/s")


def latency(spark: SparkSession, here: Path, backlog: int, warm_up: int, n_batches: int) -> None:
    """Print the latency of tuples that arrive at a steady rate, from their arrival to the end of their batch.

    A backlog is cleaned first, so that the window is full and slides during the measurement.
    """
    path = here / "steady.arrow"
    write_steady(dirty_table(backlog + 3_000_000), path)
    done = run_steady(
        spark,
        path,
        Arrival(rate=LATENCY_RATE, backlog=backlog, warm_up=warm_up, n_batches=n_batches),
        lambda df: clean(df, SIX_RULES, id="id", egress_partitions=1),
        here / "checkpoint-latency",
    )
    found = Latency.of(done.all_ms)
    slides = len({batch.end // 1_000_000 for batch in done.measured}) - 1
    state_bytes = (done.measured[-1].report or {}).get("nbytes", 0)
    print(
        f"\nlatency at {LATENCY_RATE:,} tuples/s, {found.samples:,} samples in {len(done.measured)}", end=" "
    )
    print(f"micro-batches after a backlog of {backlog:,} and {warm_up} micro-batches; {slides} slides")
    show("mean", f"{found.mean_ms:.0f}", "ms;", goal="320", reached=found.mean_ms <= 320)
    show("p50", f"{found.median_ms:.0f}", "ms")
    show("p99", f"{found.p99_ms:.0f}", "ms;", goal="1,000", reached=found.p99_ms <= 1_000)
    show("longest", f"{found.max_ms:.0f}", "ms")
    seconds = statistics.median(batch.seconds for batch in done.measured)
    show("micro-batches, median", f"{seconds * 1000:.0f}", "ms")
    show("state of the lane", f"{state_bytes / 1e6:.0f}", "MB")


def main() -> None:
    """Measure."""
    options = parser(__doc__)
    options.add_argument("what", nargs="*", default=["throughput", "latency"])
    given = options.parse_args()
    n_files = 30 if given.quick else 60
    with workbench() as (spark, here):
        if "throughput" in given.what:
            throughput(spark, here, n_files, rounds=1 if given.quick else 5)
        if "lanes" in given.what:
            lanes(spark, here, n_files, rounds=1 if given.quick else 3)
        if "latency" in given.what and given.quick:
            latency(spark, here, backlog=100_000, warm_up=100, n_batches=100)
        elif "latency" in given.what:
            latency(spark, here, backlog=2_000_000, warm_up=250, n_batches=350)


if __name__ == "__main__":
    main()
