"""Clean a table that is there already, with Spark: `python examples/back_fill.py`.

A static DataFrame is cleaned as a stream that has ended: rows in the order of `order_by`, each
repaired by those before it. There is no checkpoint, and the result is a DataFrame like any other.
"""

import os
import sys

from pyspark.sql import SparkSession

from sparkbleach import SPARK_SETTINGS, audit, clean

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for Spark's workers: it has sparkbleach
spark = SparkSession.builder.master("local[2]").config(map=SPARK_SETTINGS).getOrCreate()

ROWS = [
    (1, "75001", "Paris", "FR"),
    (2, "75001", "Paris", "FR"),
    (3, "75001", "Pariss", "FR"),
    (4, "75001", None, "FR"),
    (5, "10115", "Berlin", "DE"),
]
table = spark.createDataFrame(ROWS, "id int, zipcode string, city string, country string")

RULES = [
    # Fill in what is missing, but only where the condition holds.
    {"id": "zip_city", "lhs": ["zipcode"], "rhs": "city", "when": "country = 'FR'", "nulls": "fill"},
    {"id": "city_country", "lhs": ["city"], "rhs": "country"},
]
# Without a window, a row is compared with all rows before it.
cleaned = clean(table, RULES, id="id", order_by="id", window=None)
cleaned.drop("_repairs").orderBy("id").show()

# One row for each changed cell says what was changed, by which rule, and how sure that is.
audit(cleaned).select("id", "attribute", "old_value", "new_value", "rules", "confidence").show(truncate=False)
