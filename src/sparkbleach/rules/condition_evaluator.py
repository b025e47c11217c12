"""Evaluates the conditions of rules on Arrow batches, by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import LimitError, SchemaError
from .condition import Condition
from .condition_process import (
    DEFAULT_CONDITION_LIMITS,
    BrokenLimitError,
    Budget,
    ConditionLimits,
    ConditionProcess,
    DuckDBError,
    ask,
)

#: by row: whether something holds
Mask = NDArray[np.bool_]

#: how many tuples are evaluated at once
_TUPLES_MAX = 8192


class ConditionLimitError(LimitError):
    """Some conditions need more than they may use.

    Attributes:
        broken: By rule: what its condition does, in words that follow `it`.
    """

    def __init__(self, broken: Mapping[str, str], remedy: str = "write it so that it needs less") -> None:
        found = "; ".join(f"rule {rule!r}, when: it {what}" for rule, what in broken.items())
        super().__init__(f"{found}; {remedy}")
        self.broken = dict(broken)

    def in_replay(self) -> ConditionLimitError:
        """Return the error where tuples are evaluated again, and no rule is withdrawn."""
        remedy = "it did not when these tuples came; start the query again, with more memory"
        return ConditionLimitError(self.broken, remedy)


class _BrokenConditions(Exception):  # noqa: N818 -- it does not leave this module
    """Conditions that need more than they may use."""

    def __init__(self, broken: dict[str, str]) -> None:
        super().__init__(broken)
        self.broken = broken  #: by `normal` of a condition: what it does


class ConditionEvaluator:
    """Evaluates conditions, compiled against the batches' schema, in one query; for one thread at a time.

    Args:
        schema: The schema of the batches.
        conditions: The conditions.
        rules: The ids of their rules, for errors; the conditions themselves if not given.
    """

    def __init__(
        self, schema: pa.Schema, conditions: Sequence[Condition], rules: Sequence[str] | None = None
    ) -> None:
        self._schema = schema
        self._rules = [condition.sql for condition in conditions] if rules is None else list(rules)
        self._conditions = {condition.normal: condition for condition in conditions}
        #: For each condition asked for, its key in _conditions: equal ones are evaluated once.
        self._order = [condition.normal for condition in conditions]
        #: By condition that reads no column: whether it holds; found with the first batch.
        self._constant: dict[str, bool] = {}
        #: Conditions that the query evaluates.
        self._queried = [one for one in self._conditions.values() if one.columns and one.not_null is None]
        self._read = list(dict.fromkeys(name for one in self._queried for name in one.columns))

    def evaluate(
        self, batch: pa.RecordBatch, limits: ConditionLimits = DEFAULT_CONDITION_LIMITS
    ) -> list[Mask]:
        """Return for each condition the rows that it is TRUE for.

        FALSE, NULL and an error in a row (a cast that fails, say) all give False for that row and condition.
        Conditions that are the same share one array.

        Raises:
            SchemaError: If the batch has other columns, or text that is not UTF-8.
            ConditionLimitError: If some conditions need more than the limits.
        """
        if not batch.schema.equals(self._schema) and not _same_types(batch.schema, self._schema):
            raise SchemaError(
                f"the batch has the columns {_describe(batch.schema)}, but the conditions were compiled for "
                f"{_describe(self._schema)}; cast the batch, or compile them again"
            )
        if batch.num_rows == 0:
            return [np.zeros(0, dtype=np.bool_) for _ in self._order]
        try:
            found = self._query(batch, limits)
        except _BrokenConditions as error:
            named = zip(self._rules, self._order, strict=True)
            broken = {rule: error.broken[key] for rule, key in named if key in error.broken}
            raise ConditionLimitError(broken) from None
        for key, condition in self._conditions.items():
            if key in self._constant:
                found[key] = np.full(batch.num_rows, self._constant[key], dtype=np.bool_)
            elif condition.not_null is not None:
                valid = [_valid(batch.column(name)) for name in condition.not_null]
                found[key] = valid[0] if len(valid) == 1 else np.logical_and.reduce(valid)
        return [found[key] for key in self._order]

    def _query(self, batch: pa.RecordBatch, limits: ConditionLimits) -> dict[str, Mask]:
        """Return where the conditions hold that take a query, and find out which constant ones hold."""
        nothing = pa.RecordBatch.from_pylist([], pa.schema([]))
        for key, condition in self._conditions.items():
            if not condition.columns and key not in self._constant:
                self._constant[key] = bool(_evaluate([condition], nothing, limits)[0][0])
        if not self._queried:
            return {}
        masks = _evaluate(self._queried, batch.select(self._read), limits)
        return {one.normal: mask for one, mask in zip(self._queried, masks, strict=True)}


def _evaluate(conditions: list[Condition], batch: pa.RecordBatch, limits: ConditionLimits) -> list[Mask]:
    """Evaluate conditions on a batch, or once on one without columns.

    If they need more than the limits, each is tried alone: one that needs more by itself, in a process that
    has done nothing else before, is to blame.
    """
    try:
        return _evaluate_parts(conditions, batch, limits)
    except (BrokenLimitError, DuckDBError) as error:
        _refuse_bad_text(batch, error)
        return _evaluate_alone(conditions, batch, limits)


def _evaluate_parts(
    conditions: list[Condition],
    batch: pa.RecordBatch,
    limits: ConditionLimits,
    process: ConditionProcess | None = None,
) -> list[Mask]:
    """Evaluate conditions on a batch, part by part, within limits for all of it."""
    predicates = tuple((one.sql, one.columns) for one in conditions)
    budget = Budget(limits, batch.num_rows)
    found = []
    for first in range(0, max(1, batch.num_rows), _TUPLES_MAX):
        part = batch.slice(first, _TUPLES_MAX)
        flags, failed = ask("evaluate", predicates, part, budget, process)
        if failed:
            _refuse_bad_text(part)
        found.append(np.frombuffer(flags, np.bool_).reshape(len(conditions), -1))
    return list(np.concatenate(found, axis=1))


def _evaluate_alone(
    conditions: list[Condition], batch: pa.RecordBatch, limits: ConditionLimits
) -> list[Mask]:
    masks: list[Mask] = []
    broken = {}
    for one in conditions:
        try:
            with closing(ConditionProcess()) as process:
                masks += _evaluate_parts([one], batch.select(one.columns), limits, process)
        except BrokenLimitError as error:
            broken[one.normal] = str(error)
        except DuckDBError as error:
            broken[one.normal] = f"makes DuckDB fail ({str(error).splitlines()[0]})"
    if broken:
        raise _BrokenConditions(broken)
    return masks


def _refuse_bad_text(batch: pa.RecordBatch, error: Exception | None = None) -> None:
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as invalid:
            raise SchemaError(
                f"column {name!r} holds invalid data ({invalid}); decode it as UTF-8 before cleaning"
            ) from error


def _same_types(one: pa.Schema, other: pa.Schema) -> bool:
    # Whether a field may be null makes no difference.
    return bool(one.names == other.names and one.types == other.types)


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _valid(array: pa.Array) -> Mask:
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
