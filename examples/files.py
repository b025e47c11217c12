"""Clean a directory of files that grows, with Spark: `python examples/files.py`.

Each run of a query cleans what has arrived since the last one. The checkpoint has the state, so that the
rows of the second file are repaired by those of the first.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from sparkbleach import SPARK_SETTINGS, Writer, clean

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for Spark's workers: it has sparkbleach
here = Path(tempfile.mkdtemp(prefix="sparkbleach-"))
(here / "in").mkdir()

# The state is in Spark's RocksDB state store: these settings say so, and make it fast.
spark = SparkSession.builder.master("local[2]").config(map=SPARK_SETTINGS).getOrCreate()


def clean_what_is_new() -> None:
    """Clean the files that no earlier run has seen, and show what was repaired so far."""
    stream = spark.readStream.schema("id int, zipcode string, city string").csv(f"{here}/in")
    cleaned = clean(stream, ["zip_city: zipcode -> city"], id="id", order_by="id")
    # The writer writes each micro-batch once, even if Spark runs it again after a crash.
    writer = Writer(f"{here}/clean", audit=f"{here}/audit")
    sink = cleaned.writeStream.foreachBatch(writer).option("checkpointLocation", f"{here}/checkpoint")
    sink.trigger(availableNow=True).start().awaitTermination()
    spark.read.parquet(f"{here}/clean").orderBy("id").show()
    spark.read.parquet(f"{here}/audit").select("id", "old_value", "new_value", "rules").orderBy("id").show()


(here / "in" / "monday.csv").write_text(
    "1,75001,Paris\n2,75001,Paris\n3,75001,Pariss\n4,75001,Paris\n5,75001,Paris\n6,75001,Paris\n"
)
clean_what_is_new()
(here / "in" / "tuesday.csv").write_text("7,75001,Pari\n8,69001,Lyon\n9,75001,Paris\n")
clean_what_is_new()
print(f"the files are in {here}")
