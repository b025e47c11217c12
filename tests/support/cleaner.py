"""A program that cleans a directory of files by rules that change, to be killed and started again.

Usage: cleaner.py DIRECTORY MASTER OPTIONS, with more options of `clean` as JSON
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sparkbleach import SPARK_SETTINGS, Limits, PaperTopology, Writer, clean, open_log, read_control
from tests.support.streams import DDL, FILES_PER_BATCH, RULES, WINDOW


def new_session(settings: Mapping[str, str]) -> SparkSession:
    """Return a session that says nothing."""
    spark = (
        SparkSession.builder.config(map={**SPARK_SETTINGS, **settings})
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def start(
    spark: SparkSession,
    here: Path,
    options: dict[str, Any],
    then: Callable[[DataFrame], DataFrame] = lambda cleaned: cleaned,
) -> StreamingQuery:
    """Start to clean the files of a directory.

    Args:
        spark: The session.
        here: The directory.
        options: More options of `clean`; those of the paper's topology under `paper`.
        then: What becomes of clean rows on their way to the sink.
    """
    paper = options.pop("paper", None)
    n_tasks = options.get("lanes") or 1
    if paper:
        options["topology"] = PaperTopology(**paper)
        n_tasks = paper.get("repair_workers", 1)
    spark.conf.set("spark.sql.shuffle.partitions", n_tasks)
    source = (
        spark.readStream.schema(DDL).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(here / "in"))
    )
    log = open_log(str(here / "rules"))
    cleaned = clean(
        source,
        RULES,
        id="id",
        order_by="id",
        window=WINDOW,
        control=read_control(spark, log),
        limits=Limits(snapshot_bytes=20_000),
        **options,
    )
    return (
        then(cleaned)
        .writeStream.foreachBatch(Writer(str(here / "out"), audit=str(here / "audit"), control=log))
        .option("checkpointLocation", str(here / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    here, master, options = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    start(new_session({"spark.master": master}), here, options).awaitTermination()
