"""The schema of CSV files: their headers are checked, types are inferred from their cells."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from ...errors import SchemaError
from ..compat import rows_of_text
from ..hadoop import Entry, as_plain, read_part
from .csv_text import cells_of
from .formats import CSV_CELLS
from .record_text import parse
from .records import read_texts

#: the key in the metadata of a column whose type was inferred
INFERRED = "sparkbleach.inferred"

_HEADER_BYTES_MAX = 1 << 20
#: what Spark ignores in a line that has nothing else
_BLANK = bytes(range(33))


def check_csv(
    session: SparkSession, files: Sequence[Entry], schema: StructType | None, multiline: bool
) -> StructType:
    """Return the schema of CSV files, inferred if None, after checking that all headers agree with it.

    With `multiline`, quoted cells may have line breaks.
    """
    expected = schema.names if schema else None
    origin = "the schema"
    for file in files:
        header = _header(session, file)
        if expected is None:
            expected, origin = header, str(file)
        problem = _header_problem(header, expected)
        if problem:
            raise SchemaError(
                f"{file}: {problem}; its header has {', '.join(header)}, {origin} has {', '.join(expected)}; "
                "make them the same, or leave the file out"
            )
    return schema or _infer(session, [as_plain(file.path) for file in files], expected or [], multiline)


def _header(session: SparkSession, file: Entry) -> list[str]:
    data = read_part(session, file, _HEADER_BYTES_MAX).removeprefix(b"\xef\xbb\xbf")
    found = next((line for line in data.split(b"\n") if line.strip(_BLANK)), None)
    if found is None:
        raise SchemaError(f"{file}: it is empty and has no header; remove it, or write the header line")
    try:
        line = found.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"{file}: the header is not valid UTF-8; save the file as UTF-8") from error
    if "\r" in line:
        raise SchemaError(f"{file}: lines end with a carriage return alone; save it with newlines")
    header = cells_of(line)
    if header is None:
        raise SchemaError(
            f"{file}: a quoted name in the header does not end, or has text after it; correct it"
        )
    for place, name in enumerate(header):
        if not name:
            raise SchemaError(f"{file}: column {place + 1} has no name in the header; give it one")
        if name in header[:place]:
            raise SchemaError(f"{file}: its header has {name!r} twice; rename one of the two columns")
    return header


def _header_problem(header: Sequence[str], expected: Sequence[str]) -> str | None:
    found = [name.lower() for name in header]
    wanted = [name.lower() for name in expected]
    for name in expected:
        if name.lower() not in found:
            return f"the column {name!r} is missing"
    for name in header:
        if name.lower() not in wanted:
            return f"the column {name!r} is not in the schema"
    return None if found == wanted else "the columns are in another order"


def _infer(session: SparkSession, paths: list[str], names: Sequence[str], multiline: bool) -> StructType:
    """Infer types; one whose text would differ from the cell's, as 7 does from 007, is not taken."""
    texts = read_texts(session.read, paths, "csv", multiline)
    fields = StructType([StructField(f"c{place}", StringType()) for place in range(len(names))])
    rows = parse(texts, "csv", fields, "unreadable").where(F.col("broken").isNull())
    reader = session.read.options(**CSV_CELLS, inferSchema=True, timestampType="TIMESTAMP_NTZ")
    inferred = reader.csv(rows_of_text(rows.select("text"))).schema
    types = [field.dataType for field in inferred] or [StringType()] * len(names)
    checks = [
        F.bool_or(~returns(F.col(f"parsed.{field.name}"), type)).alias(field.name)
        for field, type in zip(fields, types, strict=True)
    ]
    differs = rows.agg(*checks).first() or [False] * len(names)
    times = TimestampNTZType | TimestampType
    return StructType(
        [
            StructField(name, StringType())
            if other or isinstance(type, times | StringType)
            else StructField(name, type, True, {INFERRED: True})
            for name, type, other in zip(names, types, differs, strict=True)
        ]
    )


def returns(cell: Column, type: DataType) -> Column:
    """Return whether a cell would be written back as it is if it had a type."""
    return cell.try_cast(type).cast("string") == cell
