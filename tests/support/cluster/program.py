"""A program that cleans directories of files on a cluster, one after the other in one session.

It finds what to do in `runs.json`: for each run its directory, and options of `clean`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tests.support.cleaner import new_session, start

N_EXECUTORS = 2
#: of each run, this micro-batch is held back
HELD_BATCH = 1


def wait_for_executors(spark: SparkSession) -> None:
    """Wait until all executors are there."""
    tracker: Any = spark.sparkContext._jsc.sc().statusTracker()
    while len(tracker.getExecutorInfos()) < 1 + N_EXECUTORS:  # the driver is one of them
        time.sleep(0.1)


def packages(spark: SparkSession) -> list[str]:
    """Return where tasks have imported sparkbleach from."""

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sparkbleach

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"package": [str(Path(sparkbleach.__file__).resolve())]})

    found = spark.range(0, 8, 1, 8).mapInArrow(find, "package string").collect()
    return [row["package"] for row in found]


def hold(cleaned: DataFrame, here: Path) -> DataFrame:
    """Hold the clean rows of a micro-batch back until there is a file `released`.

    The state after the micro-batch is stored by then, but the micro-batch is not committed.
    """

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context: Any = TaskContext.get()
        if context.getLocalProperty("streaming.sql.batchId") == str(HELD_BATCH):
            (here / "reached").touch()
            while not (here / "released").exists():
                time.sleep(0.02)
        yield from batches

    return cleaned.mapInArrow(held, cleaned.schema)


if __name__ == "__main__":
    spark = new_session({"spark.executor.cores": "1", "spark.executor.memory": "512m"})
    wait_for_executors(spark)
    Path("packages.json").write_text(json.dumps(packages(spark)))
    for directory, options in json.loads(Path("runs.json").read_text()):
        here = Path(directory)
        wait_for_executors(spark)
        query = start(spark, here, options, lambda cleaned, here=here: hold(cleaned, here))  # type: ignore[misc]
        query.awaitTermination()
