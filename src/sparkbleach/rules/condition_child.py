"""DuckDB in a process of its own: compiles and evaluates conditions within limits that the system enforces.

DuckDB's own means do not hold a scalar function: `memory_limit` does not count what it allocates, and
`interrupt` waits until it is through with 2,048 rows. A limit of the operating system holds everything.

This module imports nothing of the package: `condition_process.py` has another interpreter run its text.
"""

from __future__ import annotations

import math
import os
import resource
import signal
from collections import OrderedDict
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import duckdb
import pyarrow as pa

#: a condition as SQL, and the columns that it reads
Predicate = tuple[str, tuple[str, ...]]

# Data that DuckDB cannot read or compute with, as opposed to a fault of the program or the machine.
_ROW_ERRORS = (duckdb.DataError, duckdb.InvalidInputException, duckdb.NotSupportedError)
_STATEMENTS_MAX = 64


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


class BatchSource:
    """The batch that a statement reads next: DuckDB asks for its stream at each run."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batch: pa.RecordBatch | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = [] if self.batch is None else [self.batch]
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)


class Statement:
    """A prepared statement that evaluates some predicates on whatever batch it is given."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        schema: pa.Schema,
        predicates: Sequence[Predicate],
    ) -> None:
        self._connection = connection
        self._name = name
        self._n = len(predicates)
        columns = dict.fromkeys(column for _, columns in predicates for column in columns)
        self._source = BatchSource(pa.schema([schema.field(column) for column in columns]))
        selected = ", ".join(
            f"COALESCE(TRY(({sql})), false) AS c{n}" for n, (sql, _) in enumerate(predicates)
        )
        read = ""
        if columns:
            connection.register(f"{name}_tuples", self._source)
            read = f" FROM {name}_tuples"
        connection.execute(f"PREPARE {name} AS SELECT {selected}{read}")

    def run(self, batch: pa.RecordBatch) -> list[Any]:
        """Return for each predicate an array that says by row whether it is TRUE."""
        self._source.batch = batch.select(self._source.schema.names)
        try:
            found = self._connection.execute(f"EXECUTE {self._name}").fetchnumpy()
        finally:
            self._source.batch = None
        return [found[f"c{n}"].astype("bool") for n in range(self._n)]

    def close(self) -> None:
        """Forget the statement."""
        self._connection.execute(f"DEALLOCATE {self._name}")
        self._connection.unregister(f"{self._name}_tuples")


class Evaluation:
    """Answers requests. Statements are kept for batches of the same schema."""

    def __init__(self) -> None:
        self._connection = connect()
        self._statements: OrderedDict[object, Statement] = OrderedDict()
        self._n_statements = 0

    def describe(self, sql: str, batch: pa.RecordBatch) -> str:
        """Return the type of a predicate over the columns of a batch."""
        if not batch.schema.names:
            return str(self._connection.execute(f"DESCRIBE SELECT TRY(({sql}))").fetchall()[0][1])
        self._connection.register("tuples", BatchSource(batch.schema))
        try:
            query = f"DESCRIBE SELECT TRY(({sql})) FROM tuples"  # noqa: S608
            return str(self._connection.execute(query).fetchall()[0][1])
        finally:
            self._connection.unregister("tuples")

    def evaluate(self, predicates: tuple[Predicate, ...], batch: pa.RecordBatch) -> tuple[bytes, bool]:
        """Return by predicate and row whether it is TRUE, a byte for each, and whether a row has failed.

        TRY has no hold on DuckDB's reading of the columns: a timestamp out of its range fails there.
        """
        try:
            return b"".join(mask.tobytes() for mask in self._run(predicates, batch)), False
        except _ROW_ERRORS:
            return b"".join(self._run_halved(predicate, batch) for predicate in predicates), True

    def _run_halved(self, predicate: Predicate, batch: pa.RecordBatch) -> bytes:
        try:
            return bytes(self._run((predicate,), batch)[0].tobytes())
        except _ROW_ERRORS:
            if batch.num_rows == 1:
                return b"\0"
        half = batch.num_rows // 2
        halves = batch.slice(0, half), batch.slice(half)
        return b"".join(self._run_halved(predicate, one) for one in halves)

    def _run(self, predicates: tuple[Predicate, ...], batch: pa.RecordBatch) -> list[Any]:
        key = predicates, batch.schema
        statement = self._statements.pop(key, None)
        if statement is None:
            self._n_statements += 1
            name = f"evaluation_{self._n_statements}"
            statement = Statement(self._connection, name, batch.schema, predicates)
        self._statements[key] = statement
        if len(self._statements) > _STATEMENTS_MAX:
            self._statements.popitem(last=False)[1].close()
        return statement.run(batch)


def serve(requests: Connection, replies: Connection) -> None:
    """Answer requests until there are no more, each within its limits."""
    evaluation = Evaluation()
    # The first query starts threads and imports modules, which is not for the first condition to pay.
    warm = pa.record_batch({"a": ["x"]})
    evaluation.describe("a = 'x'", warm)
    evaluation.evaluate((("a = 'x'", ("a",)),), warm)
    beginning = _address_space()
    replies.send(("ready", None, 0.0))
    while True:
        try:
            what, about, cells, cpu_seconds, memory_bytes = requests.recv()
        except EOFError:
            return
        used = _cpu_seconds()
        _limit(resource.RLIMIT_AS, None if beginning is None else beginning + memory_bytes)
        _limit(resource.RLIMIT_CPU, math.ceil(used + cpu_seconds))
        try:
            reply = "done", getattr(evaluation, what)(about, pa.ipc.open_stream(cells).read_next_batch())
        except (MemoryError, duckdb.OutOfMemoryException):
            reply = "memory", None
        except duckdb.Error as error:
            is_fatal = isinstance(error, duckdb.FatalException | duckdb.InternalException)
            reply = "fatal" if is_fatal else "failed", str(error)
        finally:
            _limit(resource.RLIMIT_AS, None)
            _limit(resource.RLIMIT_CPU, None)
        replies.send((*reply, _cpu_seconds() - used))


def _limit(kind: int, value: int | None) -> None:
    """Set a limit of this process, or lift it; what the system has set before stays the upper bound."""
    _, upper = resource.getrlimit(kind)
    if value is None or (upper != resource.RLIM_INFINITY and value > upper):
        value = upper
    resource.setrlimit(kind, (value, upper))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _address_space() -> int | None:
    """Return how much this process has; None where the system does not say, as macOS, which limits it not."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except FileNotFoundError:
        return None


def main() -> None:
    """Take requests from the standard input, and write replies to what was the standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends this process by closing its input
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.dup(1)
    os.dup2(2, 1)  # nothing but replies is written there
    serve(Connection(0, writable=False), Connection(output, readable=False))
