"""Evaluates the conditions of rules on Arrow batches, by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import SchemaError
from .condition import Condition
from .duckdb_connection import BatchSource, connect, thread_connection

#: by row: whether something holds
Mask = NDArray[np.bool_]

# Data that DuckDB cannot read or compute with, as opposed to a fault of the program or the machine.
_ROW_ERRORS = (duckdb.DataError, duckdb.InvalidInputException, duckdb.NotSupportedError)


class ConditionEvaluator:
    """Evaluates conditions, compiled against the batches' schema, in one query; for one thread at a time."""

    def __init__(self, schema: pa.Schema, conditions: Sequence[Condition]) -> None:
        self._schema = schema
        self._conditions = {condition.normal: condition for condition in conditions}
        #: For each condition asked for, its key in _conditions: equal ones are evaluated once.
        self._order = [condition.normal for condition in conditions]
        self._constant: dict[str, bool] = {}
        #: Keys of the conditions that the query evaluates, in its order.
        self._queried: list[str] = []
        for key, condition in self._conditions.items():
            if not condition.columns:
                [(value,)] = thread_connection().execute(f"SELECT {_make_total(condition.sql)}").fetchall()
                self._constant[key] = value
            elif condition.not_null is None:
                self._queried.append(key)
        self._query = _Query(schema, [self._conditions[key] for key in self._queried])

    def evaluate(self, batch: pa.RecordBatch) -> list[Mask]:
        """Return for each condition the rows that it is TRUE for.

        FALSE, NULL and an error in a row (a cast that fails, say) all give False for that row and condition.
        Conditions that are the same share one array.
        """
        if not batch.schema.equals(self._schema) and not _same_types(batch.schema, self._schema):
            raise SchemaError(
                f"the batch has the columns {_describe(batch.schema)}, but the conditions were compiled for "
                f"{_describe(self._schema)}; cast the batch, or compile them again"
            )
        if batch.num_rows == 0:
            return [np.zeros(0, dtype=np.bool_) for _ in self._order]
        found = dict(zip(self._queried, self._query.run(batch), strict=True))
        for key, condition in self._conditions.items():
            if key in self._constant:
                found[key] = np.full(batch.num_rows, self._constant[key], dtype=np.bool_)
            elif condition.not_null is not None:
                valid = [_valid(batch.column(name)) for name in condition.not_null]
                found[key] = valid[0] if len(valid) == 1 else np.logical_and.reduce(valid)
        return [found[key] for key in self._order]


class _Query:
    """One prepared statement that evaluates some conditions on whatever batch it is given."""

    def __init__(self, schema: pa.Schema, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        self._columns = list(dict.fromkeys(name for one in conditions for name in one.columns))
        self._source = BatchSource(pa.schema([schema.field(name) for name in self._columns]))
        #: One query for each condition, made when an error first calls for them.
        self._singles: list[_Query] = []
        if conditions:
            self._prepare()

    def _prepare(self) -> None:
        self._connection = connect()
        self._connection.register("tuples", self._source)
        selected = ", ".join(f"{_make_total(one.sql)} AS c{n}" for n, one in enumerate(self._conditions))
        self._connection.execute(f"PREPARE evaluation AS SELECT {selected} FROM tuples")  # noqa: S608

    def run(self, batch: pa.RecordBatch) -> list[Mask]:
        """Evaluate the conditions on a batch that has at least one row."""
        if not self._conditions:
            return []
        arrays = [batch.column(name) for name in self._columns]
        part = pa.RecordBatch.from_arrays(arrays, schema=self._source.schema)
        try:
            return self._execute(part)
        except duckdb.Error as error:
            # TRY has no hold on DuckDB's reading of the columns: a timestamp out of its range fails there.
            self._refuse_bad_text(part, error)
            if not isinstance(error, _ROW_ERRORS):
                self._prepare()  # a fatal error has closed the database
        if len(self._conditions) == 1:
            return [self._run_halved(part)]
        self._singles = self._singles or [_Query(batch.schema, [condition]) for condition in self._conditions]
        return [query.run(batch)[0] for query in self._singles]

    def _run_halved(self, part: pa.RecordBatch) -> Mask:
        try:
            return self._execute(part)[0]
        except _ROW_ERRORS:
            if part.num_rows == 1:
                return np.zeros(1, dtype=np.bool_)
        half = part.num_rows // 2
        return np.concatenate([self._run_halved(part.slice(0, half)), self._run_halved(part.slice(half))])

    def _execute(self, part: pa.RecordBatch) -> list[Mask]:
        self._source.batch = part
        try:
            result = self._connection.execute("EXECUTE evaluation").fetchnumpy()
        finally:
            self._source.batch = None
        return [np.asarray(result[f"c{n}"], dtype=np.bool_) for n in range(len(self._conditions))]

    @staticmethod
    def _refuse_bad_text(part: pa.RecordBatch, error: duckdb.Error) -> None:
        for name, array in zip(part.schema.names, part.columns, strict=True):
            try:
                array.validate(full=True)
            except pa.ArrowInvalid as invalid:
                raise SchemaError(
                    f"column {name!r} holds invalid data ({invalid}); decode it as UTF-8 before cleaning"
                ) from error


def _make_total(sql: str) -> str:
    return f"COALESCE(TRY(({sql})), false)"


def _same_types(one: pa.Schema, other: pa.Schema) -> bool:
    # Whether a field may be null makes no difference.
    return bool(one.names == other.names and one.types == other.types)


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _valid(array: pa.Array) -> Mask:
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
