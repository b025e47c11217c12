"""A long run: memory of the lane's worker and size of the checkpoint while many windows pass.

Usage: python -m sparkbleach.evaluate.bench.long_run [MILLIONS] [bleach or basic]
"""

from __future__ import annotations

import sys
import time

import pyarrow as pa

from ...spark.clean import clean
from ...spark.report import report
from ..sales import SCHEMA, SIX_RULES
from ..streams import dirty_batches, read_files, write_parts
from ..watch import largest_worker_mb, size_bytes
from .spark import FILE_TUPLES
from .workbench import workbench


def main(millions: int, windowing: str) -> None:
    """Print a line for each million tuples, with the largest size of the checkpoint during that million."""
    with workbench() as (spark, here):
        batches = dirty_batches(millions * 1_000_000, FILE_TUPLES)
        write_parts((pa.Table.from_batches([batch]) for batch in batches), here / "in")
        cleaned = clean(read_files(spark, here / "in", SCHEMA), SIX_RULES, id="id", windowing=windowing)
        writer = cleaned.writeStream.format("noop").option("checkpointLocation", str(here / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        print(f"{'tuples':>12} {'engine MB':>10} {'worker MB':>10} {'checkpoint MB':>14} {'seconds':>8}")
        shown = largest = 0
        begun = time.monotonic()
        while query.isActive:
            time.sleep(0.2)
            largest = max(largest, size_bytes(here / "checkpoint") >> 20)
            latest = query.lastProgress and report(query.lastProgress)
            if latest and latest["position"] // 1_000_000 > shown:
                shown = latest["position"] // 1_000_000
                print(
                    f"{latest['position']:>12,} {latest['nbytes'] >> 20:>10,} {largest_worker_mb():>10,} "
                    f"{largest:>14,} {time.monotonic() - begun:>8.1f}",
                    flush=True,
                )
                largest = 0
        query.awaitTermination()


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["10"])[0]), (sys.argv[2:] or ["bleach"])[0])
