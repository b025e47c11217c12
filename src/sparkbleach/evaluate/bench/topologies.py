"""What the topologies cost on Spark: throughput, latency, messages and state, on the same stream.

Usage: python -m sparkbleach.evaluate.bench.topologies [tuples per micro-batch] [micro-batches]
"""

from __future__ import annotations

import sys

from ...config import Window
from ..sales import SCHEMA
from ..spark_run import Arrival
from ..streams import dirty_table, read_files, write_files, write_steady
from ..topologies import WAYS, WORKERS, clean_arriving, clean_backlog
from .workbench import workbench

#: how many micro-batches of files are not measured
WARM_UP = 1
#: the rate is one that the slowest topology can take
ARRIVAL = Arrival(rate=500, backlog=2_000, warm_up=4, n_batches=8, n_tuples=7_000)


def main(batch_tuples: int = 20_000, n_batches: int = 4) -> None:
    """Print one line for each topology."""
    window = Window.tuples(2 * batch_tuples, slide=batch_tuples)
    print(
        f"r0-r5, a window of {window.size:,} tuples, {WORKERS} detect and {WORKERS} repair workers\n"
        f"files: {n_batches} micro-batches of {batch_tuples:,} tuples, the first {WARM_UP} not in tuples/s\n"
        f"latency: {ARRIVAL.rate:,} tuples/s after {ARRIVAL.backlog:,}, {ARRIVAL.n_batches} micro-batches or "
        f"more, the {ARRIVAL.warm_up} before them not counted\n\n"
        f"{'':<15} {'tuples/s':>9} {'latency ms':>11} {'micro-batch ms':>15} {'messages':>9} "
        f"{'super cells':>12} {'state MB':>9}",
        flush=True,
    )
    with workbench() as (spark, here):
        stream = dirty_table(n_batches * batch_tuples, batch_tuples)
        write_files(stream, here / "in", batch_tuples)
        write_steady(stream, here / "stream.arrow")
        source = read_files(spark, here / "in", SCHEMA)
        # The JVM compiles during the first run, whichever topology it is.
        clean_backlog(spark, WAYS[0], source, window, here / "warm-up", WARM_UP)
        for number, way in enumerate(WAYS):
            files = clean_backlog(spark, way, source, window, here / f"files-{number}", WARM_UP)
            steady = clean_arriving(
                spark, way, here / "stream.arrow", window, ARRIVAL, here / f"steady-{number}"
            )
            print(
                f"{way.name:<15} {files.tuples_per_s:>9,.0f} {steady.all_ms.mean():>11,.0f} "
                f"{steady.mean_batch_ms:>15,.0f} {files.messages:>9,} {files.super_cells:>12,} "
                f"{files.state_bytes / 1e6:>9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
