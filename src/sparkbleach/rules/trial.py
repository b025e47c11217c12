"""Tries the conditions of new rules on made-up tuples, before a stream does."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from .check import CheckedRule
from .condition_evaluator import ConditionEvaluator, ConditionLimitError
from .constants import is_bytes, is_text
from .placed_error import PlacedError

_TUPLES = 64
_TEXTS = ("", "a", "7", "2024-05-01", "Rue de Rivoli", "0123456789" * 100)
#: by kind of a type: values that an attribute of that type may well have
_VALUES: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (is_text, _TEXTS),
    (is_bytes, tuple(text.encode() for text in _TEXTS)),
    (pa.types.is_boolean, (False, True)),
    (pa.types.is_integer, (0, 1, 7, 100)),
    (pa.types.is_floating, (0.0, 0.5, 100.0)),
    (pa.types.is_decimal, (Decimal(0), Decimal(1), Decimal(100))),
    (pa.types.is_date, (dt.date(1999, 12, 31), dt.date(2024, 5, 1))),
    (pa.types.is_timestamp, (dt.datetime(1999, 12, 31, 23), dt.datetime(2024, 5, 1))),
    (pa.types.is_time, (dt.time(0), dt.time(23, 59, 59))),
    (pa.types.is_duration, (dt.timedelta(0), dt.timedelta(days=30))),
)


def try_conditions(rules: Iterable[CheckedRule], schema: pa.Schema) -> None:
    """Evaluate the conditions of rules on tuples of a schema; RuleError if one needs more than it may use.

    It finds conditions that are dangerous for usual tuples. Others are withdrawn when their tuple comes.
    """
    for checked in rules:
        condition = checked.condition
        if condition is None:
            continue
        batch = _made_up(pa.schema([schema.field(name) for name in checked.columns]))
        try:
            ConditionEvaluator(batch.schema, [condition]).evaluate(batch)
        except ConditionLimitError as error:
            (found,) = error.broken.values()
            problem = f"tried on made-up tuples, it {found}"
            fault = PlacedError("when", problem, "write it so that it needs less")
            raise fault.error(checked.rule.id, checked.rule.origin) from None


def _made_up(schema: pa.Schema) -> pa.RecordBatch:
    """Return tuples of usual values, the same ones each time."""
    choice = random.Random(0)  # noqa: S311 -- not for secrets
    columns = [_array(choice.choices(_values(field.type), k=_TUPLES), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _values(type: pa.DataType) -> tuple[Any, ...]:
    return next((values for is_kind, values in _VALUES if is_kind(type)), (None,))


def _array(values: list[Any], type: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type)
    except pa.ArrowInvalid:  # a binary type of fixed width, or a decimal without room for 100
        return pa.nulls(len(values), type)
