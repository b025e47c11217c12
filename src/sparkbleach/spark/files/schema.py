"""The schema of files: given as text, or found in them; and the check that all files fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from ...errors import ConfigError, SchemaError
from ..compat import error_message, memory_bytes, rows_of_text
from ..hadoop import Entry, as_plain, without_scheme
from .csv_schema import INFERRED, check_csv
from .parquet_schema import check_parquet
from .quarantine import unreadable_column
from .record_text import is_record
from .records import read_texts

#: how many times as much memory as it is long a JSON document takes, as measured
_MEMORY_OF_DOCUMENT = 32


def check_schema(
    session: SparkSession, files: Sequence[Entry], format: str, schema: StructType | None, multiline: bool
) -> StructType:
    """Return the schema of files, inferred if none is given, after checking that each file fits."""
    if format == "json" and multiline:
        _check_sizes(session, files)
    if format == "csv":
        schema = check_csv(session, files, schema, multiline)
    elif format == "parquet":
        schema = check_parquet(session, files, schema)
    elif schema is None:
        schema = _infer_json(session, files, multiline)
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise SchemaError(f"schema: the column {name!r} is there twice (case does not count); rename one")
        seen.add(name.lower())
    return schema


def _check_sizes(session: SparkSession, files: Sequence[Entry]) -> None:
    """Check that Spark's memory has room for each JSON document; a compressed one may still be too long."""
    most = memory_bytes(session) // _MEMORY_OF_DOCUMENT
    for file in files:
        if file.size > most:
            raise SchemaError(
                f"{file}: it has {file.size >> 20} MB, but a JSON document is read whole, and Spark has "
                f"memory for {most >> 20} MB; split it, write an object per line and leave --multiline out, "
                "or set SPARK_DRIVER_MEMORY, as in SPARK_DRIVER_MEMORY=8g"
            )


def parse_schema(text: str) -> StructType:
    """Return the schema that a text such as `id INT, city STRING`, or a file with one, says."""
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


def _infer_json(session: SparkSession, files: Sequence[Entry], multiline: bool) -> StructType:
    texts = read_texts(session.read, [as_plain(file.path) for file in files], "json", multiline)
    objects = texts.where(is_record(F.col("text"), "json"))
    inferred = session.read.json(rows_of_text(objects)).schema
    fields = [field for field in inferred if field.name != unreadable_column(session)]
    if not fields:
        raise SchemaError(
            f"{files[0]}: no file of the input is a JSON object or a list of them; correct them, or leave "
            "--multiline out if each line is an object"
            if multiline
            else f"{files[0]}: no line of the input is a JSON object; write one per line, or give --multiline"
        )
    _check_spellings(objects, [field.name for field in fields])
    return StructType([StructField(field.name, field.dataType, True, {INFERRED: True}) for field in fields])


def _check_spellings(objects: DataFrame, names: Sequence[str]) -> None:
    """Check that no members of JSON objects differ by upper and lower case only; name the rarer of two."""
    by_lower: dict[str, str] = {}
    for name in names:
        other = by_lower.setdefault(name.lower(), name)
        if other == name:
            continue
        members = objects.select(
            F.explode(F.json_object_keys("text")).alias("name"), F.col("_metadata.file_path").alias("path")
        )
        counts = members.where(F.col("name").isin(name, other)).groupBy("name")
        rarer = counts.agg(F.count("*").alias("n"), F.min("path").alias("path")).orderBy("n", "name").first()
        if rarer is not None:
            usual = name if rarer["name"] == other else other
            raise SchemaError(
                f"{without_scheme(unquote(rarer['path']))}: an object has the member {rarer['name']!r}, "
                f"others have {usual!r} (case does not count); make them the same, or give --schema with one "
                "of them: the other stays in the text of its object"
            )
