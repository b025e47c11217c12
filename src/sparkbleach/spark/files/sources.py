"""Files as streaming or static DataFrames, checked before anything is read from them for good."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...config import check_choice
from ...errors import ConfigError, SchemaError
from ..compat import JVM_ERRORS, error_message, spark_type
from ..hadoop import Entry, FileSystem, without_scheme
from .quarantine import TEXT_FORMAT
from .writer import FORMATS

_FORMAT_OF = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")

_READ_OPTIONS: dict[str, dict[str, Any]] = {
    # A quote in a cell is doubled, as RFC 4180 has it; each file's header is checked, also of later files.
    "csv": {"header": True, "enforceSchema": False, "escape": '"', "mode": "PERMISSIVE"},
    "json": {"mode": "PERMISSIVE"},
    "parquet": {},
}

_HEADER_BYTES_MAX = 1 << 20
_SHOWN_MAX = 60
#: a micro-batch takes so many bytes of files, unless a number of files was given
_BYTES_PER_BATCH = 256 << 20
_WIDER: dict[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (ShortType, IntegerType, LongType),
    ShortType: (IntegerType, LongType),
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
}


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that fit a schema.

    Attributes:
        session: The session to read them with.
        path: A file, a directory or a glob.
        format: `csv`, `json` or `parquet`.
        schema: Of the rows; for text formats with the column for records that could not be read.
        files: Those that were there at the start.
        multiline: Whether a record may go over several lines.
    """

    session: SparkSession
    path: str
    format: str
    schema: StructType
    files: tuple[Entry, ...]
    multiline: bool = False
    _checked: set[str] = dataclasses.field(default_factory=set)

    @property
    def columns(self) -> StructType:
        """The schema without the column for records that could not be read."""
        corrupt = _corrupt_name(self.session)
        fields = [one for one in self.schema if self.format == "parquet" or one.name != corrupt]
        return StructType(fields)

    def stream(self, files_per_batch: int | None = None) -> DataFrame:
        """Return the files, and those that come later, as a streaming DataFrame."""
        reader = self.session.readStream.format(self.format).schema(self.schema)
        reader = reader.options(**_options(self.format, self.multiline), recursiveFileLookup=True)
        # A file that comes late with an old date would be left out without a word.
        reader = reader.option("maxFileAge", "36500d")
        if files_per_batch is None:
            reader = reader.option("maxBytesPerTrigger", _BYTES_PER_BATCH)
        else:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        return reader.load(_as_pattern(self.session, self.path))

    def static(self) -> DataFrame:
        """Return the files that are there now as a static DataFrame, in the order that `order` says."""
        reader = self.session.read.format(self.format).schema(self.schema)
        options = _options(self.format, self.multiline)
        rows = reader.options(**options).load([file.path for file in self.files])
        # Spark's sort does not keep the order of the rows of a block.
        order = [*self.order, F.monotonically_increasing_id()]
        names = [f"_sort_{number}" for number in range(len(order))]
        hidden = [column.alias(name) for column, name in zip(order, names, strict=True)]
        return rows.select("*", *hidden).orderBy(*names).drop(*names)

    def check_new(self) -> None:
        """Check files that have come since the last time, where Spark would not.

        It reads columns that a Parquet file lacks as nulls; all else that is wrong it refuses by itself.

        Raises:
            SchemaError: If a file does not fit the schema.
        """
        if self.format != "parquet":
            return
        file_system = FileSystem(self.session, self.path)
        for path in file_system.paths(self.path):
            if path not in self._checked:
                _check_parquet(self.session, list(file_system.walk(path)), self.schema)
                self._checked.add(path)

    @property
    def order(self) -> list[Column]:
        """What puts rows in the order of their files' paths, and then of their places in a file."""
        return [F.col("_metadata.file_path"), F.col("_metadata.file_block_start")]


def open_source(
    session: SparkSession,
    path: str,
    format: str | None = None,
    schema: StructType | None = None,
    *,
    multiline: bool = False,
    may_be_empty: bool = False,
) -> Source:
    """Return the files at a path, after checking that all that are there can be read.

    Args:
        session: The session to read them with.
        path: A file, a directory or a glob.
        format: `csv`, `json` or `parquet`; guessed from the names of the files if not given.
        schema: Of the rows; inferred if not given, which reads everything.
        multiline: Whether quoted CSV cells may have line breaks, and JSON files are whole documents.
        may_be_empty: Whether it is fine that there are no files yet.

    Raises:
        ConfigError: If there are no files, or files of no known format.
        SchemaError: If a file does not fit the schema, or the others.
    """
    files = _list_files(session, path)
    if not files and not may_be_empty:
        raise ConfigError(f"input: {path} has no files; check the path")
    if not files and (format is None or schema is None):
        raise ConfigError(
            f"input: {path} has no files to tell the format and the schema; give --input-format and --schema"
        )
    format = check_choice("input format", format, FORMATS) if format else _guess_format(path, files)
    corrupt = _corrupt_name(session)
    if schema is not None and corrupt in schema.names:
        raise ConfigError(f"schema: the name {corrupt} is taken; leave this column out")
    if format == "csv":
        schema = _check_csv(session, files, schema, multiline)
    elif format == "json":
        schema = schema or _infer_json(session, path, files, multiline)
    else:
        schema = _check_parquet(session, files, schema)
    _check_names(schema)
    if format != "parquet":
        # What was read is told to who explains why a record could not be.
        schema = StructType([*schema.fields, StructField(corrupt, StringType(), True, {TEXT_FORMAT: format})])
    checked = {file.path for file in files}
    source = Source(session, path, format, schema, tuple(files), multiline, checked)
    try:
        source.stream().schema  # noqa: B018 (Spark looks at the schema here)
    except AnalysisException as error:
        raise SchemaError(f"schema: {error_message(error)}") from error
    return source


def parse_schema(text: str) -> StructType:
    """Return the schema that a text such as `id INT, city STRING`, or a file with one, says.

    Raises:
        ConfigError: If it says none.
    """
    if os.path.isfile(text):
        try:
            with open(text, encoding="utf-8-sig") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"schema: cannot read {text} ({error}); save it as text in UTF-8") from error
    remedy = 'write names and types, such as "id INT, city STRING", or the path of a file with that'
    try:
        schema = DataType.fromDDL(" ".join(text.split()))
    except ParseException as error:
        raise ConfigError(
            f"schema: {text.strip()!r} is not a schema ({error_message(error)}); {remedy}"
        ) from error
    if not isinstance(schema, StructType) or not schema.names:
        raise ConfigError(f"schema: {text.strip()!r} has no columns; {remedy}")
    return schema


def _options(format: str, multiline: bool) -> dict[str, Any]:
    return {**_READ_OPTIONS[format], **({"multiLine": True} if multiline and format != "parquet" else {})}


def _corrupt_name(session: SparkSession) -> str:
    return session.conf.get("spark.sql.columnNameOfCorruptRecord") or "_corrupt_record"


def _check_names(schema: StructType) -> None:
    seen: set[str] = set()
    for field in schema:
        if field.name.lower() in seen:
            raise SchemaError(
                f"schema: the column {field.name!r} is there twice (case does not count); rename one"
            )
        seen.add(field.name.lower())


def _list_files(session: SparkSession, path: str) -> list[Entry]:
    try:
        file_system = FileSystem(session, path)
        files = sorted(file_system.walk(path), key=lambda file: file.path)
        if not files and file_system.find(path) is None:
            raise ConfigError(f"input: {path} does not exist; check the path")
    except JVM_ERRORS as error:
        raise ConfigError(f"input: cannot list {path} ({error_message(error)}); check the path") from error
    return files


def _as_pattern(session: SparkSession, path: str) -> str:
    """Return a path as Spark's file stream takes it: a single file only as a pattern that matches it."""
    found = FileSystem(session, path).find(path)
    if found is None or found.is_directory:
        return path
    directory, name = os.path.split(path)
    name = re.sub(r"([{}\[\]*?\\])", r"\\\1", name)
    return os.path.join(directory, f"{name[:-1]}[{name[-1]}]")


def _guess_format(path: str, files: Sequence[Entry]) -> str:
    formats: dict[str, str] = {}
    for file in files:
        name = file.path.lower()
        for ending in _COMPRESSIONS:
            name = name.removesuffix(ending)
        found = _FORMAT_OF.get(os.path.splitext(name)[1])
        if found is None:
            raise ConfigError(
                f"input: the name of {file} does not tell its format; give --input-format, "
                "or a pattern that leaves this file out, such as 'DIR/*.csv'"
            )
        formats.setdefault(found, str(file))
    if len(formats) > 1:
        first, second = list(formats.values())[:2]
        raise ConfigError(
            f"input: {path} has files of several formats, such as {first} and {second}; "
            "give a pattern for those of one format, such as 'DIR/*.csv'"
        )
    return next(iter(formats))


def _check_csv(
    session: SparkSession, files: Sequence[Entry], schema: StructType | None, multiline: bool
) -> StructType:
    expected = schema.names if schema else None
    origin = "the schema"
    for file in files:
        header = _header(session, file)
        if expected is None:
            expected, origin = header, str(file)
        problem = _header_problem(header, expected)
        if problem:
            raise SchemaError(
                f"{file}: {problem}; its header has {_told(header)}, {origin} has {_told(expected)}; "
                "make them the same, or leave the file out"
            )
    return schema or _infer_csv(session, files, expected or [], multiline)


def _header(session: SparkSession, file: Entry) -> list[str]:
    data = _read(session, file, _HEADER_BYTES_MAX)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The cut at the end may be in the middle of a character.
        if error.start < len(data) - 4:
            raise SchemaError(
                f"{file}: it is not valid UTF-8 at byte {error.start}; save it as UTF-8"
            ) from error
        text = data[: error.start].decode("utf-8-sig")
    lines = (line for line in io.StringIO(text, newline=None) if line.strip())
    line = next(lines, None)
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
    lower = [name.lower() for name in header]
    for name in expected:
        if name.lower() not in lower:
            return f"the column {name!r} is missing"
    wanted = [name.lower() for name in expected]
    for name in header:
        if name.lower() not in wanted:
            return f"the column {name!r} is not in the schema"
    return None if lower == wanted else "the columns are in another order"


def _told(names: Iterable[str]) -> str:
    return ", ".join(names)


def _infer_csv(
    session: SparkSession, files: Sequence[Entry], names: Sequence[str], multiline: bool
) -> StructType:
    """Infer types; a type whose text would differ from the cell's, as 7 does from 007, is not taken."""
    paths = [file.path for file in files]
    _check_csv_lines(session, paths, multiline)
    options = {**_options("csv", multiline), "enforceSchema": True}
    inferred = session.read.options(**options, inferSchema=True, timestampType="TIMESTAMP_NTZ").csv(paths)
    types = [field.dataType for field in inferred.schema]
    text = StructType([StructField(f"c{place}", StringType()) for place in range(len(names))])
    cells = session.read.options(**options).schema(text).csv(paths)
    checks = [
        F.bool_or(F.col(cell.name).try_cast(type).cast("string") != F.col(cell.name)).alias(cell.name)
        for cell, type in zip(text, types, strict=True)
    ]
    differs = cells.agg(*checks).first() or [False] * len(names)
    return StructType(
        [
            StructField(
                name, StringType() if bad or isinstance(type, TimestampNTZType | TimestampType) else type
            )
            for name, type, bad in zip(names, types, differs, strict=True)
        ]
    )


def _check_csv_lines(session: SparkSession, paths: list[str], multiline: bool) -> None:
    """Check for what Spark would read as something else without a word.

    Raises:
        SchemaError: If a file is not UTF-8, or has a line break in a cell though it must not.
    """
    line = F.col("value")
    foreign = ~F.is_valid_utf8(line)
    n_quotes = F.length(F.regexp_replace(line, '[^"]', ""))
    goes_on = (n_quotes % 2 == 1) & line.rlike('(^|,)"([^"]|"")*$') & F.lit(not multiline)
    lines = session.read.text(paths).select(
        F.col("_metadata.file_path"), foreign.alias("foreign"), goes_on.alias("on"), line.alias("line")
    )
    bad = lines.where(F.col("foreign") | F.col("on")).first()
    if bad is None:
        return
    name = without_scheme(bad["file_path"])
    if bad["foreign"]:
        raise SchemaError(f"{name}: it is not valid UTF-8; save it as UTF-8")
    raise SchemaError(
        f"{name}: a quote is not closed in the line {bad['line'][:_SHOWN_MAX]!r}; close it, or give "
        "--multiline if cells have line breaks"
    )


def _infer_json(session: SparkSession, path: str, files: Sequence[Entry], multiline: bool) -> StructType:
    corrupt = _corrupt_name(session)
    inferred = session.read.options(**_options("json", multiline)).json([file.path for file in files]).schema
    fields = [field for field in inferred if field.name != corrupt]
    if not fields:
        raise SchemaError(
            f"{path}: no line of it is a JSON object; write one object per line, or give --multiline"
        )
    return StructType(fields)


def _check_parquet(session: SparkSession, files: Sequence[Entry], schema: StructType | None) -> StructType:
    origin = "the schema"
    for file in files:
        footer = _footer(session, file)
        found = {field.name: _spark_type(file, field) for field in footer}
        if schema is None:
            schema = StructType([StructField(name, type) for name, type in found.items()])
            origin = str(file)
        for field in schema:
            if field.name not in found:
                raise SchemaError(
                    f"{file}: the column {field.name!r} is missing; it has {_told(found)}; "
                    f"add it, or leave the file out ({origin} has it)"
                )
            if not _fits(found[field.name], field.dataType):
                raise SchemaError(
                    f"{file}: the column {field.name!r} is of type {found[field.name].simpleString()}, "
                    f"but {origin} has {field.dataType.simpleString()}; cast it, or leave the file out"
                )
    if schema is None:
        raise ConfigError("schema: there is no file to tell it; give --schema")
    return schema


def _footer(session: SparkSession, file: Entry) -> pa.Schema:
    """Return the schema of a Parquet file, of which no more than the end is read."""
    broken = SchemaError(f"{file}: it is not a whole Parquet file; write it anew, or leave it out")
    end = _read(session, file, 8, at_end=True)
    if len(end) < 8 or end[4:] != b"PAR1":
        raise broken
    length = int.from_bytes(end[:4], "little")
    if length + 12 > file.size:
        raise broken
    footer = _read(session, file, length + 8, at_end=True)
    try:
        return pq.read_schema(pa.BufferReader(b"PAR1" + footer))
    except (pa.ArrowException, OSError) as error:
        raise broken from error


def _spark_type(file: Entry, field: pa.Field) -> DataType:
    type = field.type
    if pa.types.is_dictionary(type):
        type = type.value_type
    try:
        return spark_type(type)
    except PySparkException as error:
        raise SchemaError(
            f"{file}: the column {field.name!r} is of type {type}, which Spark does not know; cast it"
        ) from error


def _fits(found: DataType, wanted: DataType) -> bool:
    if isinstance(wanted, TimestampType | TimestampNTZType):
        return isinstance(found, TimestampType | TimestampNTZType)
    if isinstance(found, DecimalType) and isinstance(wanted, DecimalType):
        return (
            found.scale <= wanted.scale and found.precision - found.scale <= wanted.precision - wanted.scale
        )
    # Nested columns may differ in what is nullable; Spark reads those.
    return found.simpleString() == wanted.simpleString() or isinstance(wanted, _WIDER.get(type(found), ()))


def _read(session: SparkSession, file: Entry, n_bytes: int, at_end: bool = False) -> bytes:
    """Return the beginning or the end of a file.

    Raises:
        SchemaError: If it cannot be read.
    """
    try:
        file_system = FileSystem(session, file.path)
        if at_end:
            return file_system.read_end(file, n_bytes)
        return file_system.read(file.path, n_bytes, decompress=True)
    except JVM_ERRORS as error:
        raise SchemaError(
            f"{file}: cannot read it ({error_message(error)}); check its permissions, or leave it out"
        ) from error
