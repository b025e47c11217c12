"""CSV records with cells of which the types of their columns would lose something: they are quarantined."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..plan import fresh, quoted
from .csv_schema import INFERRED, returns
from .fit import fits
from .quarantine import EXACT, TEXT_FORMAT
from .record_text import MEMBERS, RECORD, csv_cells


def only_exact(rows: DataFrame, read: Collection[str], unreadable: str | None) -> DataFrame:
    """Return rows in which a CSV record is unreadable if a cell that matters loses something by its type.

    An inferred type loses what would be written back in another way, as 007 is as 7. The cell matters if
    rules read it (they would see the same in 007 and in 7), or if the record is written in another format:
    then a given type may lose nothing either, as DECIMAL(10,2) does of 1.005. Such a cell becomes null. Of
    JSON, `quarantine.py: is_lossy` finds out.
    """
    if unreadable is None or unreadable not in rows.columns:
        return rows
    notes = rows.schema[unreadable].metadata
    if notes.get(TEXT_FORMAT) != "csv" or RECORD not in rows.columns:
        return rows
    names = rows.schema[RECORD].metadata[MEMBERS]
    cells = fresh("_cells", rows.columns)
    differs: dict[str, Column] = {}
    for field in rows.schema:
        if field.name not in names or isinstance(field.dataType, StringType):
            continue
        cell = F.col(f"{cells}.c{names.index(field.name)}")
        if INFERRED not in field.metadata and EXACT in notes:
            kept = fits(cell, F.col(quoted(field.name)), field.dataType)
        elif INFERRED in field.metadata and (EXACT in notes or field.name in read):
            kept = returns(cell, field.dataType)
        else:
            continue
        differs[field.name] = F.coalesce(~kept, F.lit(False))
    if not differs:
        return rows
    texts = StructType([StructField(f"c{place}", StringType()) for place in range(len(names))])
    whole = F.when(F.col(quoted(unreadable)).isNull(), F.col(RECORD).cast("string"))
    changed = F.when(reduce(or_, differs.values()), F.col(RECORD).cast("string"))

    def exact(field: StructField) -> Column:
        column = F.col(quoted(field.name))
        if field.name in differs:
            column = F.when(~differs[field.name], column)
        if field.name == unreadable:
            column = F.coalesce(column, changed)
            return column.alias(field.name, metadata={**notes, EXACT: inferred_names(rows.schema)})
        return column.alias(field.name, metadata=field.metadata)

    return rows.withColumn(cells, csv_cells(whole, texts)).select(*map(exact, rows.schema))


def inferred_names(fields: StructType) -> list[str]:
    """Return the names of the columns whose types were inferred."""
    return [field.name for field in fields if INFERRED in field.metadata]
