"""DuckDB in this process: it parses conditions, and computes nothing."""

from __future__ import annotations

import functools
import threading

import duckdb

from .condition_child import connect


class _Local(threading.local):
    """One connection per thread for parsing: opening one takes some 20 ms."""

    def __init__(self) -> None:
        self.connection = connect()


@functools.cache
def _local() -> _Local:
    return _Local()


def thread_connection() -> duckdb.DuckDBPyConnection:
    """Return the connection of this thread."""
    return _local().connection
