"""The schema of files: given as text, or found in them; and the check that all files fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from ...errors import ConfigError, SchemaError
from ..compat import error_message, rows_of_text
from ..hadoop import Entry, as_plain
from .csv_schema import INFERRED, check_csv
from .parquet_schema import check_parquet
from .quarantine import unreadable_column
from .record_text import is_record
from .records import read_texts


def check_schema(
    session: SparkSession, files: Sequence[Entry], format: str, schema: StructType | None, multiline: bool
) -> StructType:
    """Return the schema of files, inferred if none is given, after checking that each file fits."""
    if format == "csv":
        schema = check_csv(session, files, schema, multiline)
    elif format == "parquet":
        schema = check_parquet(session, files, schema)
    elif schema is None:
        schema = _infer_json(session, files, multiline)
    elif multiline:
        for file in files:
            _check_document(session, file, schema)
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise SchemaError(f"schema: the column {name!r} is there twice (case does not count); rename one")
        seen.add(name.lower())
    return schema


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
    if multiline:
        inferred = _schema_of_documents(session, files)
    else:
        paths = [as_plain(file.path) for file in files]
        texts = read_texts(session.read, paths, "json", 0, multiline)
        inferred = session.read.json(rows_of_text(texts.where(is_record(F.col("text"), "json")))).schema
    fields = [field for field in inferred if field.name != unreadable_column(session)]
    if not fields:
        raise SchemaError(
            f"{files[0]}: no line of the input is a JSON object; write one per line, or give --multiline"
        )
    return StructType([StructField(field.name, field.dataType, True, {INFERRED: True}) for field in fields])


def _schema_of_documents(session: SparkSession, files: Sequence[Entry]) -> StructType:
    """Return the schema of JSON documents."""
    try:
        return session.read.json([as_plain(file.path) for file in files], multiLine=True).schema
    except AnalysisException as error:
        if error.getCondition() != "COLUMN_ALREADY_EXISTS":
            raise
        where = str(files[0]) if len(files) == 1 else f"one of {files[0]} and {len(files) - 1:,} more files"
        name = (error.getMessageParameters() or {}).get("columnName", "a name")
        raise SchemaError(
            f"{where}: an object has {name} twice (case does not count); correct it, or leave the file out"
        ) from error


def _check_document(session: SparkSession, file: Entry, schema: StructType) -> None:
    """Check that a JSON document has no member that the schema does not have, at any depth."""
    found = _schema_of_documents(session, [file])
    name = next(_missing(found, schema), None)
    if name is not None and name != unreadable_column(session):
        raise SchemaError(
            f"{file}: the member {name!r} is not in the schema, and would be lost; name it in --schema "
            "from the first run on, remove it from the file, or leave the file out"
        )


def _missing(found: DataType, wanted: DataType, place: str = "") -> Iterator[str]:
    """Yield what a type has that another one lacks."""
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        types = {field.name: field.dataType for field in wanted}
        for field in found:
            name = f"{place}{field.name}"
            if field.name in types:
                yield from _missing(field.dataType, types[field.name], f"{name}.")
            else:
                yield name
    elif isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        yield from _missing(found.elementType, wanted.elementType, place)
