"""What the topologies cost on Spark, on the same files.

Usage: python -m bench.topologies [tuples per micro-batch] [micro-batches]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from bench.spark import SIX_RULES, session
from bench.stream import dirty_batches
from sparkbleach import Window, clean
from sparkbleach.evaluate.sales import SCHEMA
from sparkbleach.evaluate.spark_run import files, run_files, write_files

WORKERS = 2
WAYS: dict[str, dict[str, str | int]] = {
    "fused": {},
    **{
        f"paper, {coordination}": {
            "topology": "paper",
            "detect_workers": WORKERS,
            "repair_workers": WORKERS,
            "coordination": coordination,
        }
        for coordination in ("hinge", "dr", "basic")
    },
}


def main(batch_tuples: int, n_batches: int) -> None:
    """Print one line for each topology."""
    spark = session()
    window = Window.tuples(2 * batch_tuples, slide=batch_tuples)
    print(f"{batch_tuples:,} tuples a micro-batch, {n_batches} of them, the first one not counted")
    with tempfile.TemporaryDirectory(prefix="sparkbleach-bench-") as directory:
        here = Path(directory)
        n = n_batches * batch_tuples
        write_files(pa.Table.from_batches(dirty_batches(n, batch_tuples)), here / "in", batch_tuples)
        source = files(spark, here / "in", SCHEMA, 1)
        for turn in range(2):  # in the first one the JVM compiles
            for way, options in WAYS.items():
                spark.conf.set("spark.sql.shuffle.partitions", str(WORKERS if options else 1))
                cleaned = clean(source, SIX_RULES, id="id", window=window, **options)  # type: ignore[arg-type]
                warm = run_files(cleaned, here / f"checkpoint {turn} {way}").batches[1:]
                if turn:
                    seconds = sum(batch.seconds for batch in warm)
                    rate = sum(batch.tuples for batch in warm) / seconds
                    each = seconds / len(warm)
                    print(f"  {way:<15} {rate:>9,.0f} tuples/s, {each:.2f} s a micro-batch", flush=True)
    spark.stop()


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    main(*(arguments + [20_000, 3][len(arguments) :]))
