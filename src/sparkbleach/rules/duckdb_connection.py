"""DuckDB, which compiles and evaluates conditions."""

from __future__ import annotations

import functools
import threading

import duckdb
import pyarrow as pa


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database in memory that reaches nothing outside itself, in UTC wherever it runs."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            "python_enable_replacements": False,
            "threads": 1,
        },
    )
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false; SET errors_as_json = true")
    connection.execute("SET lock_configuration = true")
    return connection


class _Local(threading.local):
    """One connection per thread for compiling: opening one takes some 20 ms."""

    def __init__(self) -> None:
        self.connection = connect()


@functools.cache
def _local() -> _Local:
    return _Local()


def thread_connection() -> duckdb.DuckDBPyConnection:
    """Return the connection of this thread."""
    return _local().connection


class BatchSource:
    """The batch that a statement reads next: DuckDB asks for its stream at each run."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batch: pa.RecordBatch | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = [] if self.batch is None else [self.batch]
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)
