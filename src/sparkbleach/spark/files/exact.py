"""CSV records whose cells an inferred type would take for others: they are set aside."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..plan import fresh, quoted
from .csv_schema import INFERRED, returns
from .quarantine import EXACT, TEXT_FORMAT
from .record_text import MEMBERS, RECORD, csv_cells


def only_exact(rows: DataFrame, read: Collection[str], unreadable: str | None) -> DataFrame:
    """Return rows in which a CSV record is unreadable if a cell that matters does not fit its inferred type.

    Such a cell would be written back in another way, as 007 is as 7; it becomes null. It matters if rules
    read it (they would see the same in 007 and in 7), or if the record is written in another format. Of JSON,
    `quarantine.py: is_lossy` finds out.
    """
    if unreadable is None or unreadable not in rows.columns:
        return rows
    notes = rows.schema[unreadable].metadata
    if notes.get(TEXT_FORMAT) != "csv" or RECORD not in rows.columns:
        return rows
    matters = {*read, *notes.get(EXACT, ())}
    inferred = [field for field in rows.schema if INFERRED in field.metadata and field.name in matters]
    if not inferred:
        return rows
    cells = fresh("_cells", rows.columns)
    names = rows.schema[RECORD].metadata[MEMBERS]
    texts = StructType([StructField(f"c{place}", StringType()) for place in range(len(names))])
    whole = F.when(F.col(quoted(unreadable)).isNull(), F.col(RECORD).cast("string"))
    differs = {
        field.name: F.coalesce(
            ~returns(F.col(f"{cells}.c{names.index(field.name)}"), field.dataType), F.lit(False)
        )
        for field in inferred
    }
    changed = F.when(reduce(or_, differs.values()), F.col(RECORD).cast("string"))

    def kept(field: StructField) -> Column:
        column = F.col(quoted(field.name))
        if field.name in differs:
            column = F.when(~differs[field.name], column)
        if field.name == unreadable:
            column = F.coalesce(column, changed)
            return column.alias(field.name, metadata={**notes, EXACT: list(differs)})
        return column.alias(field.name, metadata=field.metadata)

    return rows.withColumn(cells, csv_cells(whole, texts)).select(*map(kept, rows.schema))


def inferred_names(fields: StructType) -> list[str]:
    """Return the names of the columns whose types were inferred."""
    return [field.name for field in fields if INFERRED in field.metadata]
