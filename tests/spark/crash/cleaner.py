"""A program that cleans a directory of files by rules that change, to be killed and started again.

Usage: cleaner.py DIRECTORY MASTER OPTIONS, with more options of `clean` as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.streams import DDL, RULES, WINDOW

from sparkbleach import SPARK_SETTINGS, Writer, clean, open_log

if __name__ == "__main__":
    here, master, options = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    spark = (
        SparkSession.builder.master(master)
        .config(map=SPARK_SETTINGS)
        .config("spark.sql.shuffle.partitions", options.get("lanes", 1))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    source = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(here / "in"))
    log = open_log(str(here / "rules"))
    cleaned = clean(
        source,
        RULES,
        id="id",
        order_by="id",
        window=WINDOW,
        control=log.stream(spark),
        snapshot_bytes=20_000,
        **options,
    )
    query = (
        cleaned.writeStream.foreachBatch(Writer(str(here / "out"), audit=str(here / "audit"), control=log))
        .option("checkpointLocation", str(here / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
