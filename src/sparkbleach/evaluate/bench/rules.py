"""Rules that change while the stream runs, the paper's experiment: r5 is deleted, then r6 and r7 are added.

Tuples arrive at a steady rate; the window is full before the first update. Updates are control records in a
directory. What an update costs is seen in the micro-batch that takes it in, against the median of the others
and the longest of those without an update.

The first control record of a query is told apart: Spark plans and compiles the way from the log to the lane
when it has first something to carry. It comes in the warm-up, and is refused.

Usage: python -m sparkbleach.evaluate.bench.rules [--quick]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from sparkbleach import Rule, RuleUpdate, clean, open_log, read_control, report
from sparkbleach.evaluate.sales import RULES
from sparkbleach.evaluate.spark_run import steady_stream, write_steady

from .spark import LATENCY_RATE, SIX_RULES, session
from .stream import dirty_batches

GOAL = 2.0
AROUND = 3
UPDATES = {
    "r5 deleted": [RuleUpdate(delete="r5")],
    "r6 and r7 added": [RuleUpdate(rule=Rule.parse(RULES[id], id=id)) for id in ("r6", "r7")],
}
PHASES = ["before", *UPDATES]


@dataclass(frozen=True)
class Batch:
    """A micro-batch.

    Attributes:
        number: Its number.
        phase: The phase that it belongs to.
        seconds: How long it took.
        latencies: From each tuple's arrival to its end, in seconds.
        updates: What became of rule updates in it.
    """

    number: int
    phase: int
    seconds: float
    latencies: NDArray[np.float64]
    updates: list[str]


def run(spark: SparkSession, here: Path, backlog: int, warm_up: float, seconds: float) -> list[Batch]:
    """Run the experiment; return the micro-batches after the warm-up."""
    path = here / "steady.arrow"
    n = backlog + int((warm_up + len(PHASES) * seconds + 60) * LATENCY_RATE)
    write_steady(pa.Table.from_batches(dirty_batches(n, 50_000)), path)
    source = steady_stream(spark, path, rate=LATENCY_RATE, backlog=backlog)
    log = open_log(str(here / "rules"))
    cleaned = clean(source, SIX_RULES, id="id", control=read_control(spark, log), egress_partitions=1)
    checkpoint = str(here / "checkpoint")
    query = cleaned.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    while not _has_begun(query.lastProgress):
        query.awaitTermination(1)
    query.awaitTermination(warm_up / 2)  # type: ignore[arg-type]
    log.publish(RuleUpdate(delete="no such rule"), by="bench")
    query.awaitTermination(warm_up / 2 + seconds)  # type: ignore[arg-type]
    for updates in UPDATES.values():
        for update in updates:
            log.publish(update, by="bench")
        query.awaitTermination(seconds)  # type: ignore[arg-type]
    query.stop()
    return batches_of(query.recentProgress, backlog, warm_up)


def _has_begun(progress: Any) -> bool:
    """Tell whether the backlog is done and tuples arrive at their rate."""
    return bool(progress and _offset(progress, "endOffset")["begin"])


def _offset(progress: Any, end: str) -> dict[str, Any]:
    """Return where a micro-batch begins or ends in the stream of tuples."""
    source = next(one for one in progress["sources"] if "FileStreamSource" not in one["description"])
    offset: dict[str, Any] = json.loads(source[end])
    return offset


def batches_of(progress: list[Any], backlog: int, warm_up: float) -> list[Batch]:
    """Return the micro-batches after the backlog and so many seconds of warm-up."""
    found = []
    phase = 0
    for batch in progress:
        told = report(batch)
        if told is None:
            continue
        updates = [line for line in told["updates"] if not line.startswith("started")]
        phase += any("r5" in line or "r6" in line for line in updates)
        started = dt.datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()
        took = batch["durationMs"]["triggerExecution"] / 1000
        end = _offset(batch, "endOffset")
        if not end["begin"] or started < end["begin"] + warm_up:
            if updates:
                print(f"the first control record: {took * 1000:.0f} ms, {batch['durationMs']}")
            continue
        start = _offset(batch, "startOffset")
        arrived = end["begin"] + (np.arange(start["n"], end["n"]) - backlog) / LATENCY_RATE
        found.append(Batch(batch["batchId"], phase, took, started + took - arrived, updates))
    return found


def print_results(batches: list[Batch]) -> None:
    """Print throughput and latency by phase, and the micro-batches around updates."""
    print(
        f"\n{LATENCY_RATE:,} tuples/s arrive; a phase begins with the micro-batch that takes the updates in"
    )
    heads = ("tuples", "batches", "tuples/s", "mean ms", "p99 ms", "max ms")
    print(f"  {'phase':<18}" + "".join(f"{head:>10}" for head in heads))
    for number, phase in enumerate(PHASES):
        mine = [batch for batch in batches if batch.phase == number]
        if not mine:
            continue
        ms = np.concatenate([batch.latencies for batch in mine]) * 1000
        rate = ms.size / sum(batch.seconds for batch in mine)
        figures = (ms.size, len(mine), rate, ms.mean(), np.quantile(ms, 0.99), ms.max())
        print(f"  {phase:<18}" + "".join(f"{figure:>10,.0f}" for figure in figures))
    print("  (tuples/s: while a micro-batch runs; latency: from a tuple's arrival to its micro-batch's end)")
    calm = [batch.seconds for batch in batches if not batch.updates]
    median = statistics.median(calm)
    print(f"\nmicro-batches: median {median * 1000:.0f} ms,", end=" ")
    print(f"longest without an update {max(calm) * 1000:.0f} ms")
    for at, batch in enumerate(batches):
        if not batch.updates:
            continue
        for line in batch.updates:
            print(f"  {line}")
        for near in batches[max(0, at - AROUND) : at + AROUND + 1]:
            mark = "  <-" if near is batch else ""
            ms_and_tuples = f"{near.seconds * 1000:>6.0f} ms, {near.latencies.size:>7,} tuples"
            print(f"    batch {near.number}: {ms_and_tuples}{mark}")
        print(f"    {batch.seconds / median:.2f} x the median (goal: at most {GOAL:.0f})")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: a look, not a result")
    options = parser.parse_args()
    with session() as spark, tempfile.TemporaryDirectory(prefix="sparkbleach-bench-") as directory:
        if options.quick:
            batches = run(spark, Path(directory), backlog=500_000, warm_up=30, seconds=15)
        else:
            batches = run(spark, Path(directory), backlog=2_000_000, warm_up=60, seconds=40)
        print_results(batches)


if __name__ == "__main__":
    main()
