"""The input that options name, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..spark.files.schema import parse_schema
from ..spark.files.source import Source, open_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def open_input(
    session: SparkSession,
    path: str,
    format: str | None,
    schema: str | None,
    known: StructType | None,
    *,
    multiline: bool = False,
    may_be_empty: bool = False,
) -> Source:
    """Return the files that options name.

    Args:
        session: The session to read them with.
        path: Where they are.
        format: Their format, if it was given.
        schema: Names and types of the columns, or a file with them, if given.
        known: The schema that an earlier run had, if there was one.
        multiline: Whether a record may go over several lines.
        may_be_empty: Whether it is fine that there are no files yet.
    """
    given = parse_schema(schema) if schema is not None else known
    return open_source(
        session, path, format and str(format), given, multiline=multiline, may_be_empty=may_be_empty
    )


def check_columns(source: Source, id: str, order_by: str | None) -> None:
    """Check that the input has the columns that options name.

    Raises:
        ConfigError: If it has not.
    """
    names = source.columns.names
    for option, name in (("id", id), ("order by", order_by)):
        if name is not None and name not in names:
            raise ConfigError(f"{option}: the input has no column {name!r}; choose one of {', '.join(names)}")
