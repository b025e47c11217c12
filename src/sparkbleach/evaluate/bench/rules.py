"""Rules that change while the stream runs, the paper's experiment: r5 is deleted, then r6 and r7 are added.

Tuples arrive at a steady rate; the window is full before the first update. Updates are control records in a
directory. The cost of an update is that of the micro-batch that reads it, compared with the median of the
others and with the longest of those without an update.

The first control record of a query is shown apart: Spark plans and compiles the way from the log to the lane
when there is first something on it. It comes in the warm-up, and is refused.

Usage: python -m sparkbleach.evaluate.bench.rules [--quick]
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from ... import RuleUpdate, clean, open_log, read_control
from ..sales import SALES_RULES, SIX_RULES
from ..spark_run import Arrival, MicroBatch
from ..streams import dirty_table, read_steady, write_steady
from .spark import LATENCY_RATE
from .workbench import parser, show, workbench

GOAL = 2.0
AROUND = 3
UPDATES = {
    "r5 deleted": [RuleUpdate(delete="r5")],
    "r6 and r7 added": [RuleUpdate(rule=rule) for rule in SALES_RULES[6:]],
}
PHASES = ["before", *UPDATES]


@dataclass(frozen=True)
class MeasuredBatch:
    """A micro-batch after the warm-up: its number, its phase, its latencies, and the updates in it."""

    number: int
    phase: int
    seconds: float
    latencies_ms: NDArray[np.float64]
    updates: list[str]


def run(spark: SparkSession, here: Path, backlog: int, warm_up: float, seconds: float) -> list[MeasuredBatch]:
    """Run the experiment; return the micro-batches after the warm-up."""
    arrival = Arrival(rate=LATENCY_RATE, backlog=backlog)
    write_steady(
        dirty_table(backlog + int((warm_up + len(PHASES) * seconds + 60) * LATENCY_RATE)),
        here / "steady.arrow",
    )
    source = read_steady(spark, here / "steady.arrow", rate=arrival.rate, backlog=backlog)
    log = open_log(str(here / "rules"))
    cleaned = clean(source, SIX_RULES, id="id", control=read_control(spark, log), egress_partitions=1)
    checkpoint = str(here / "checkpoint")
    query = cleaned.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    while not (query.lastProgress and MicroBatch.from_progress(query.lastProgress, 0).clock):
        query.awaitTermination(1)
    query.awaitTermination(warm_up / 2)  # type: ignore[arg-type]
    log.publish(RuleUpdate(delete="no such rule"), by="bench")
    query.awaitTermination(warm_up / 2 + seconds)  # type: ignore[arg-type]
    for updates in UPDATES.values():
        for update in updates:
            log.publish(update, by="bench")
        query.awaitTermination(seconds)  # type: ignore[arg-type]
    query.stop()

    found = []
    phase = 0
    for progress in query.recentProgress:
        batch = MicroBatch.from_progress(progress, 0)
        if batch.report is None:
            continue
        changes = [line for line in batch.report["updates"] if not line.startswith("started")]
        applied = [line for line in changes if line.startswith("applied")]
        phase += any("r5" in line or "r6" in line for line in applied)
        if batch.clock and batch.started >= batch.clock + warm_up:
            ms = arrival.latencies_ms(batch, every=1)
            found.append(MeasuredBatch(progress.batchId, phase, batch.seconds, ms, changes))
        elif changes:
            print(f"the first control record: {batch.seconds * 1000:.0f} ms, {progress['durationMs']}")
    return found


def print_results(batches: list[MeasuredBatch]) -> None:
    """Print throughput and latency by phase, and the micro-batches around updates."""
    print(f"\n{LATENCY_RATE:,} tuples/s arrive; a phase begins with the micro-batch that reads the updates")
    heads = ("tuples", "batches", "tuples/s", "mean ms", "p99 ms", "max ms")
    print(f"  {'phase':<18}" + "".join(f"{head:>10}" for head in heads))
    for number, phase in enumerate(PHASES):
        mine = [batch for batch in batches if batch.phase == number]
        if not mine:
            continue
        ms = np.concatenate([batch.latencies_ms for batch in mine])
        rate = ms.size / sum(batch.seconds for batch in mine)
        figures = (ms.size, len(mine), rate, ms.mean(), np.quantile(ms, 0.99), ms.max())
        print(f"  {phase:<18}" + "".join(f"{figure:>10,.0f}" for figure in figures))
    print("  (tuples/s: while a micro-batch runs; latency: from a tuple's arrival to its micro-batch's end)")
    calm = [batch.seconds for batch in batches if not batch.updates]
    median = statistics.median(calm)
    print("\nmicro-batches")
    show("median", f"{median * 1000:.0f}", "ms")
    show("longest without an update", f"{max(calm) * 1000:.0f}", "ms")
    for at, batch in enumerate(batches):
        if not batch.updates:
            continue
        for line in batch.updates:
            print(f"  {line}")
        for near in batches[max(0, at - AROUND) : at + AROUND + 1]:
            mark = "  <-" if near is batch else ""
            ms_and_tuples = f"{near.seconds * 1000:>6.0f} ms, {near.latencies_ms.size:>7,} tuples"
            print(f"    batch {near.number}: {ms_and_tuples}{mark}")
        times = batch.seconds / median
        show("times the median", f"{times:.2f}", goal=f"{GOAL:.0f}", reached=times <= GOAL)


def main() -> None:
    """Measure."""
    quick = parser(__doc__).parse_args().quick
    with workbench() as (spark, here):
        if quick:
            print_results(run(spark, here, backlog=500_000, warm_up=30, seconds=15))
        else:
            print_results(run(spark, here, backlog=2_000_000, warm_up=60, seconds=40))


if __name__ == "__main__":
    main()
