"""The schema of CSV files: their headers are checked, types are inferred from their cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType, TimestampType

from ...errors import SchemaError
from ..hadoop import Entry, read_part, without_scheme
from .formats import read_options

_HEADER_BYTES_MAX = 1 << 20
_LINE_CHARS_SHOWN = 60


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
    return schema or _infer(session, [file.path for file in files], expected or [], multiline)


def _header(session: SparkSession, file: Entry) -> list[str]:
    data = read_part(session, file, _HEADER_BYTES_MAX)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The cut at the end may be in the middle of a character.
        if error.start < len(data) - 4:
            raise SchemaError(f"{file}: not valid UTF-8 at byte {error.start}; save it as UTF-8") from error
        text = data[: error.start].decode("utf-8-sig")
    line = next((line for line in io.StringIO(text, newline=None) if line.strip()), None)
    if line is None:
        raise SchemaError(f"{file}: it is empty and has no header; remove it, or write the header line")
    header = next(csv.reader([line.rstrip("\n")]))
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
    _check_lines(session, paths, multiline)
    options = {**read_options("csv", multiline), "enforceSchema": True}
    inferred = session.read.options(**options, inferSchema=True, timestampType="TIMESTAMP_NTZ").csv(paths)
    types = [field.dataType for field in inferred.schema]
    text = StructType([StructField(f"c{place}", StringType()) for place in range(len(names))])
    cells = session.read.options(**options).schema(text).csv(paths)
    checks = [
        F.bool_or(F.col(cell.name).try_cast(type).cast("string") != F.col(cell.name)).alias(cell.name)
        for cell, type in zip(text, types, strict=True)
    ]
    differs = cells.agg(*checks).first() or [False] * len(names)
    times = TimestampNTZType | TimestampType
    return StructType(
        [
            StructField(name, StringType() if other or isinstance(type, times) else type)
            for name, type, other in zip(names, types, differs, strict=True)
        ]
    )


def _check_lines(session: SparkSession, paths: list[str], multiline: bool) -> None:
    """Check for what Spark would silently read as something else."""
    line = F.col("value")
    foreign = ~F.is_valid_utf8(line)
    n_quotes = F.length(F.regexp_replace(line, '[^"]', ""))
    goes_on = (n_quotes % 2 == 1) & line.rlike('(^|,)"([^"]|"")*$') & F.lit(not multiline)
    lines = session.read.text(paths).select(
        F.col("_metadata.file_path"), foreign.alias("foreign"), goes_on.alias("on"), line.alias("line")
    )
    found = lines.where(F.col("foreign") | F.col("on")).first()
    if found is None:
        return
    file = without_scheme(found["file_path"])
    if found["foreign"]:
        raise SchemaError(f"{file}: not valid UTF-8; save it as UTF-8")
    raise SchemaError(
        f"{file}: a quote is not closed in the line {found['line'][:_LINE_CHARS_SHOWN]!r}; close it, or give "
        "--multiline if cells have line breaks"
    )
