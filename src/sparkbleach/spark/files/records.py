"""The records of text files, each with its text."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from .whole_files import csv_records, documents

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


def read_texts(
    reader: DataFrameReader | DataStreamReader, path: Any, format: str, multiline: bool
) -> DataFrame:
    """Return the records of files as rows with the column `text`; blank lines are left out.

    The text is that of the line or, with `multiline`, of the record; it has no line end, and may not be valid
    UTF-8.
    """
    if multiline:
        return _read_whole(reader, path, format).select(F.col("text").cast("string").alias("text"))
    if format == "json":
        lines = reader.format("text").option("lineSep", "\n").load(path)
        text = _without_return(F.col("value"))
        return lines.select(text.alias("text")).where(F.btrim("text", F.lit(" \t\r")) != "")
    lines = reader.format("csv").options(**_LINES).schema("value STRING").load(path)
    text = _without_return(F.col("value"))
    return lines.select(F.encode(text, _BYTES).cast("string").alias("text"))


def _read_whole(reader: DataFrameReader | DataStreamReader, path: Any, format: str) -> DataFrame:
    """Return the records of files, which may go over several lines, as bytes."""
    if format == "json":
        files = reader.format("text").option("wholetext", True).load(path)
        return files.select(documents(F.col("value")).alias("texts")).select(F.explode("texts").alias("text"))
    lines = reader.format("text").option("lineSep", "\n").load(path)
    place = (F.col("_metadata.file_path"), F.col("_metadata.file_block_start"))
    records = lines.select(csv_records(F.col("value").cast("binary"), *place).alias("text"))
    return records.where(F.col("text").isNotNull())


def _without_return(line: Column) -> Column:
    """Return a line without the carriage return of a line end of two characters."""
    # As bytes: in a line that is not valid UTF-8, the last characters may be fewer or more than they seem.
    rest = F.substring(line.cast("binary"), F.lit(1), F.octet_length(line) - 1).cast("string")
    return F.when(F.endswith(line, F.lit("\r")), rest).otherwise(line)
