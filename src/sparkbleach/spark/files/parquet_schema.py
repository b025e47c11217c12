"""The schema of Parquet files, from their footers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import ConfigError, SchemaError
from ..compat import spark_type
from ..hadoop import Entry, read_part

#: the types that Spark reads a type as without a loss
_WIDER: dict[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (ShortType, IntegerType, LongType),
    ShortType: (IntegerType, LongType),
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
}
_TIMES = (TimestampType, TimestampNTZType)


def check_parquet(session: SparkSession, files: Sequence[Entry], schema: StructType | None) -> StructType:
    """Return a schema, that of the first file if none is given, after checking that all files fit."""
    origin = "the schema"
    for file in files:
        found = {field.name: _spark_type(file, field) for field in _footer(session, file)}
        _check_apart(file, found)
        if schema is None:
            schema = StructType([StructField(name, type) for name, type in found.items()])
            origin = str(file)
        for name in found:
            if name.lower() not in {known.lower() for known in schema.names}:
                raise SchemaError(
                    f"{file}: the column {name!r} is not in {origin}, and would be lost; name it in --schema "
                    "from the first run on, remove it from the file, or leave the file out"
                )
        for field in schema:
            if field.name not in found:
                raise SchemaError(
                    f"{file}: the column {field.name!r} is missing; it has {', '.join(found)}; "
                    f"add it, or leave the file out ({origin} has it)"
                )
            if not _fits(found[field.name], field.dataType):
                raise SchemaError(
                    f"{file}: the column {field.name!r} is of type {found[field.name].simpleString()}, "
                    f"but {origin} has {field.dataType.simpleString()}; cast it, or leave the file out"
                )
    if schema is None:
        raise ConfigError("schema: there is no file to read it from; give --schema")
    return schema


def _footer(session: SparkSession, file: Entry) -> pa.Schema:
    """Return the schema of a Parquet file, of which no more than the end is read."""
    broken = SchemaError(f"{file}: it is not a whole Parquet file; write it anew, or leave it out")
    end = read_part(session, file, 8, at_end=True)
    if len(end) < 8 or end[4:] != b"PAR1":
        raise broken
    length = int.from_bytes(end[:4], "little")
    if length + 12 > file.size:
        raise broken
    footer = read_part(session, file, length + 8, at_end=True)
    try:
        metadata = pq.read_metadata(pa.BufferReader(b"PAR1" + footer))
    except (pa.ArrowException, OSError) as error:
        raise broken from error
    _check_times(file, metadata.schema)
    return metadata.schema.to_arrow_schema()


def _check_times(file: Entry, schema: pq.ParquetSchema) -> None:
    """Check that Spark can read all times. It reads nanoseconds in 96 bits, but not in 64."""
    for number in range(len(schema)):
        column = schema.column(number)
        if column.physical_type == "INT64" and '"nanoseconds"' in column.logical_type.to_json():
            raise SchemaError(
                f"{file}: the column {column.path!r} has times in nanoseconds, which Spark cannot read; "
                "write them in microseconds"
            )


def _check_apart(file: Entry, names: Iterable[str]) -> None:
    """Check that names differ by more than upper and lower case, which Spark takes for the same."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(
                f"{file}: the columns {other!r} and {name!r} differ by upper and lower case only; "
                "rename one of them"
            )


def _spark_type(file: Entry, field: pa.Field) -> DataType:
    type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    try:
        return spark_type(type)
    except PySparkException as error:
        raise SchemaError(
            f"{file}: the column {field.name!r} is of type {type}, which Spark does not know; cast it"
        ) from error


def _fits(found: DataType, wanted: DataType) -> bool:
    if isinstance(wanted, _TIMES):
        return isinstance(found, _TIMES)
    if isinstance(found, DecimalType) and isinstance(wanted, DecimalType):
        return (
            found.scale <= wanted.scale and found.precision - found.scale <= wanted.precision - wanted.scale
        )
    # Nested columns may differ in what is nullable; Spark reads those.
    return found.simpleString() == wanted.simpleString() or isinstance(wanted, _WIDER.get(type(found), ()))
