"""The records of text files, each with its text."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from .formats import CSV_QUOTES, WRITE_OPTIONS

#: each byte is a character, so that no byte is lost
_BYTES = "ISO-8859-1"
#: as CSV: Spark leaves the header of each file out, and these separators are no bytes
_LINES: dict[str, Any] = {
    "header": True,
    "enforceSchema": True,
    "encoding": _BYTES,
    "lineSep": "\n",
    "sep": "\uffff",
    "quote": "\ufffe",
    "escape": "\ufffd",
    "nullValue": "\ufffc",
}
_CELLS: dict[str, Any] = {
    "header": True,
    "enforceSchema": True,
    "encoding": _BYTES,
    "multiLine": True,
    **CSV_QUOTES,
    "nullValue": "\ufffc",  # so that "" is not null
    "columnNameOfCorruptRecord": "unread",
}


def keeps_text(format: str, multiline: bool) -> bool:
    """Return whether the records of files have a text: all but Parquet and JSON documents."""
    return format == "csv" or (format == "json" and not multiline)


def read_texts(
    reader: DataFrameReader | DataStreamReader, path: Any, format: str, n_columns: int, multiline: bool
) -> DataFrame:
    """Return the records of files as rows with the column `text`; blank lines are left out.

    The text is that of the line, without its end; it may not be valid UTF-8. The text of a CSV record over
    several lines is made of its cells.
    """
    if format == "json":
        lines = reader.format("text").option("lineSep", "\n").load(path)
        text = _without_return(F.col("value"))
        return lines.select(text.alias("text")).where(F.btrim("text", F.lit(" \t\r")) != "")
    if not multiline:
        lines = reader.format("csv").options(**_LINES).schema("value STRING").load(path)
        text = _without_return(F.col("value"))
    else:
        names = [f"c{place}" for place in range(n_columns)]
        schema = ", ".join(f"{name} STRING" for name in [*names, "unread"])
        lines = reader.format("csv").options(**_CELLS).schema(schema).load(path)
        text = F.coalesce("unread", F.to_csv(F.struct(*names), WRITE_OPTIONS["csv"]))
    return lines.select(F.encode(text, _BYTES).cast("string").alias("text"))


def _without_return(line: Column) -> Column:
    """Return a line without the carriage return of a line end of two characters."""
    # As bytes: in a line that is not valid UTF-8, the last characters may be fewer or more than they seem.
    rest = F.substring(line.cast("binary"), F.lit(1), F.octet_length(line) - 1).cast("string")
    return F.when(F.endswith(line, F.lit("\r")), rest).otherwise(line)
