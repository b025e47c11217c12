"""CSV records that leave in another format: only those that lose nothing."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..plan import quoted
from .csv_schema import INFERRED, returns
from .record_text import csv_cells


def only_exact(rows: DataFrame, fields: StructType) -> DataFrame:
    """Return parsed rows of CSV in which a record is broken if its cells would not be written as they are.

    Those are cells of an inferred type that would be written in another way, such as 007 as 7; they become
    null. Of JSON, `quarantine.py: is_lossy` finds out.
    """
    inferred = [field for field in fields if INFERRED in field.metadata]
    if not inferred:
        return rows
    texts = StructType([StructField(field.name, StringType()) for field in fields])
    whole = F.when(F.col("broken").isNull(), F.col("text"))
    rows = rows.withColumn("cells", csv_cells(whole, texts))
    differs = {
        field.name: F.coalesce(~returns(F.col(f"cells.{quoted(field.name)}"), field.dataType), F.lit(False))
        for field in inferred
    }
    changed = reduce(or_, differs.values())
    kept = [
        F.when(~differs[name], F.col(f"parsed.{quoted(name)}")).alias(name)
        if name in differs
        else F.col(f"parsed.{quoted(name)}").alias(name)
        for name in fields.names
    ]
    return rows.select(
        "text",
        F.struct(*kept).alias("parsed"),
        F.coalesce("broken", F.when(changed, F.col("text"))).alias("broken"),
    )


def inferred_names(fields: StructType) -> list[str]:
    """Return the names of the columns whose types were inferred."""
    return [field.name for field in fields if INFERRED in field.metadata]
