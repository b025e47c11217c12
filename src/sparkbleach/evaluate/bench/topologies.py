"""What the topologies cost on Spark: throughput, latency, messages and state, on the same stream.

Usage: python -m sparkbleach.evaluate.bench.topologies [tuples per micro-batch] [micro-batches]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import fmean

import pyarrow as pa

from sparkbleach import Window
from sparkbleach.evaluate.sales import SCHEMA
from sparkbleach.evaluate.spark_run import files, write_files, write_steady
from sparkbleach.evaluate.topologies import WAYS, WORKERS, clean_arriving, clean_backlog

from .spark import session
from .stream import dirty_batches

#: a rate that the slowest of them can take
RATE = 500
#: how many micro-batches do not count: of files, and as tuples arrive
WARM_UP, STEADY_WARM_UP = 1, 4
#: how much is measured as tuples arrive, at least
STEADY_BATCHES, STEADY_TUPLES = 8, 5_000
#: how many tuples are there when the others begin to arrive
BACKLOG = 2_000


def main(batch_tuples: int, n_batches: int) -> None:
    """Print one line for each topology."""
    window = Window.tuples(2 * batch_tuples, slide=batch_tuples)
    print(
        f"r0-r5, a window of {window.size:,} tuples, {WORKERS} detect and {WORKERS} repair workers\n"
        f"files: {n_batches} micro-batches of {batch_tuples:,} tuples, the first {WARM_UP} not in tuples/s\n"
        f"latency: {RATE:,} tuples/s after {BACKLOG:,}, {STEADY_BATCHES} micro-batches or more, the "
        f"{STEADY_WARM_UP} before them not counted\n\n"
        f"{'':<15} {'tuples/s':>9} {'latency ms':>11} {'micro-batch ms':>15} {'messages':>9} "
        f"{'super cells':>12} {'state MB':>9}",
        flush=True,
    )
    with session() as spark, tempfile.TemporaryDirectory(prefix="sparkbleach-bench-") as directory:
        here = Path(directory)
        stream = pa.Table.from_batches(dirty_batches(n_batches * batch_tuples, batch_tuples))
        write_files(stream, here / "in", batch_tuples)
        write_steady(stream, here / "stream.arrow")
        source = files(spark, here / "in", SCHEMA)
        # The JVM compiles while the first way runs; that is not its fault.
        clean_backlog(spark, WAYS[0], source, window, here / "warm-up", WARM_UP)
        for number, way in enumerate(WAYS):
            backlog = clean_backlog(spark, way, source, window, here / f"files-{number}", WARM_UP)
            arriving = clean_arriving(
                spark,
                way,
                here / "stream.arrow",
                window,
                here / f"steady-{number}",
                rate=RATE,
                backlog=BACKLOG,
                warm_up=STEADY_WARM_UP,
                n_batches=STEADY_BATCHES,
                n_tuples=BACKLOG + STEADY_TUPLES,
            )
            print(
                f"{way.name:<15} {backlog.tuples_per_s:>9,.0f} {arriving.all_ms.mean():>11,.0f} "
                f"{1000 * fmean(batch.seconds for batch in arriving.measured):>15,.0f} "
                f"{backlog.messages:>9,} {backlog.super_cells:>12,} {backlog.state_bytes / 1e6:>9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    main(*(arguments + [20_000, 4][len(arguments) :]))
