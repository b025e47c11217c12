"""A long run: memory of the lane's worker and size of the checkpoint while many windows pass.

Usage: python -m sparkbleach.evaluate.bench.long_run [MILLIONS] [bleach or basic]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkbleach import clean, report
from sparkbleach.evaluate.sales import SCHEMA
from sparkbleach.evaluate.spark_run import files
from sparkbleach.evaluate.watch import size_bytes

from .spark import FILE_TUPLES, SIX_RULES, session
from .stream import dirty_batches

FILES_PER_BATCH = 1


def worker_mb() -> int:
    """Return the memory of the largest Python worker, in MB."""
    largest = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                pages = int((entry / "statm").read_text().split()[1])
                largest = max(largest, pages * os.sysconf("SC_PAGE_SIZE") >> 20)
        except OSError:
            continue  # it has ended
    return largest


def main() -> None:
    """Print a line for each million tuples; of the checkpoint, the largest size seen meanwhile."""
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    windowing = sys.argv[2] if len(sys.argv) > 2 else "bleach"
    with session() as spark, tempfile.TemporaryDirectory(prefix="sparkbleach-long-") as directory:
        here = Path(directory)
        (here / "in").mkdir()
        for number, batch in enumerate(dirty_batches(millions * 1_000_000, FILE_TUPLES)):
            path = here / "in" / f"{number:05}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), path)
            os.utime(path, (1e9 + number, 1e9 + number))
        source = files(spark, here / "in", SCHEMA, FILES_PER_BATCH)
        cleaned = clean(source, SIX_RULES, id="id", windowing=windowing)
        query = (
            cleaned.writeStream.format("noop")
            .option("checkpointLocation", str(here / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
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
                    f"{latest['position']:>12,} {latest['nbytes'] >> 20:>10,} {worker_mb():>10,} "
                    f"{largest:>14,} {time.monotonic() - begun:>8.1f}",
                    flush=True,
                )
                largest = 0
        query.awaitTermination()


if __name__ == "__main__":
    main()
