"""The constants in a pattern tableau: as they are written, as JSON, and in the type of an attribute."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, cast

import numpy as np
import pyarrow as pa

from .placed_error import PlacedError, check_text, refuse

WILDCARD = "_"
#: an integer of 64 bits has no more digits
_INTEGER_DIGITS_MAX = 20

_CONSTANTS = (bool, int, float, str, bytes, Decimal, dt.date, dt.datetime, dt.time, dt.timedelta)

_DECODERS: dict[str, Callable[[Any], object]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$date": dt.date.fromisoformat,
    "$datetime": dt.datetime.fromisoformat,
    "$decimal": Decimal,
    "$duration": lambda microseconds: dt.timedelta(microseconds=microseconds),
    "$float": float,
    "$time": dt.time.fromisoformat,
}


def check_tableau(tableau: object, lhs: Sequence[str]) -> tuple[tuple[object, ...], ...]:
    """Return the rows of a tableau, each with one constant for each attribute."""
    if not _is_list(tableau):
        refuse("tableau", f"{tableau!r} is not a list of rows", "write a list of lists")
    rows = []
    for number, row in enumerate(cast("Sequence[Any]", tableau), start=1):
        place = f"tableau row {number}"
        if not _is_list(row):
            refuse(place, f"{row!r} is not a list of constants", "write each row as a list")
        if len(row) != len(lhs) + 1:
            problem = f"it has {len(row)} items, not {len(lhs) + 1}"
            refuse(place, problem, "write one for each LHS attribute, then one for the RHS; _ is any value")
        for value in row:
            _check_constant(place, value)
        rows.append(tuple(row))
    return tuple(rows)


def _check_constant(place: str, value: object) -> None:
    if value is None:
        refuse(place, "it has a null", "write a constant, or _ for any value; a rule never matches null")
    if type(value) not in _CONSTANTS:
        kind = type(value).__name__
        refuse(place, f"{value!r} is of type {kind}", "write a plain number, text, date, time or bytes")
    if isinstance(value, str):
        check_text(place, value)
    nan = isinstance(value, float) and math.isnan(value)
    if nan or (isinstance(value, Decimal) and not value.is_finite()):
        refuse(place, f"{value!r} is not a number", "leave this row out, or write a number")


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def encode_constant(value: Any) -> object:
    """Return a constant as a value that JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return {f"${type(value).__name__}": value.isoformat()}
    if isinstance(value, dt.timedelta):
        return {"$duration": value // dt.timedelta(microseconds=1)}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    return value


def decode_tableau(tableau: object) -> Any:
    """Return a tableau in which constants are decoded; what is not a list of lists stays as it is."""
    if tableau is None:
        return ()
    if not _is_list(tableau):
        return tableau
    return [
        [_decode(value, f"tableau row {number}") for value in row] if _is_list(row) else row
        for number, row in enumerate(cast("Sequence[Any]", tableau), start=1)
    ]


def _decode(value: object, place: str) -> object:
    if not isinstance(value, Mapping):
        return value
    [tag, *others] = value or [None]
    if tag not in _DECODERS or others:
        refuse(place, f"{value!r} is not a constant", f"write one of {', '.join(_DECODERS)} and its value")
    try:
        return _DECODERS[tag](value[tag])
    except (TypeError, ValueError, ArithmeticError):
        raise PlacedError(
            place, f"{value!r} is not a valid {tag[1:]}", "write it as to_dict() does"
        ) from None


def is_text(type: pa.DataType) -> bool:
    """Return whether a type is one of text."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def is_bytes(type: pa.DataType) -> bool:
    """Return whether a type is one of bytes."""
    kinds = pa.types
    variable = kinds.is_binary(type) or kinds.is_large_binary(type) or kinds.is_binary_view(type)
    return bool(variable or kinds.is_fixed_size_binary(type))


def to_scalar(value: object, type: pa.DataType, place: str) -> pa.Scalar:
    """Convert a constant of a tableau to an attribute's type, without loss."""
    try:
        return _convert(value, type)
    except _MisfitError as misfit:
        remedy = str(misfit)
    except (pa.ArrowException, ArithmeticError, ValueError):
        remedy = f"write a value that {type} can hold exactly"
    raise PlacedError(place, f"the constant {value!r} does not fit {type}", remedy)


class _MisfitError(Exception):
    """A constant is of the wrong kind for an attribute; the message is the remedy."""


def _convert(value: Any, type: pa.DataType) -> pa.Scalar:
    kinds = pa.types
    if kinds.is_boolean(type):
        return pa.scalar(_expect(value, (bool,), "write true or false"), type)
    if kinds.is_integer(type):
        _expect(value, (int, float, Decimal), "write a whole number, without quotes")
        if isinstance(value, Decimal) and value.adjusted() > _INTEGER_DIGITS_MAX:  # int would take hours
            raise _MisfitError(f"write a whole number within the range of {type}")
        if value != int(value):
            raise _MisfitError("write a whole number")
        return pa.scalar(int(value), type)
    if kinds.is_floating(type):
        return _convert_float(_expect(value, (int, float, Decimal), "write a number, without quotes"), type)
    if kinds.is_decimal(type):
        _expect(value, (int, float, Decimal, str), "write a number")
        return pa.scalar(_rescaled(value, type), type)
    if is_text(type):
        return pa.scalar(_expect(value, (str,), "put it in quotes"), type)
    if is_bytes(type):
        return pa.scalar(_expect(value, (bytes,), "write bytes (in YAML: !!binary and base64)"), type)
    return _convert_time(value, type)


def _rescaled(value: Any, type: pa.DataType) -> Decimal:
    """Return a number with as many decimals as a type has; ArithmeticError if it does not fit.

    Arrow does not check that: of a number with hundreds of decimals it makes another one, or it crashes.
    """
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise _MisfitError("write a number") from None
    exactly = Context(prec=type.precision, traps=[InvalidOperation, Inexact])
    return number.quantize(Decimal(1).scaleb(-type.scale), context=exactly)


def _convert_float(value: float | Decimal, type: pa.DataType) -> pa.Scalar:
    # A fraction takes the nearest value of the type, as the data itself did; a whole number stays exact.
    with np.errstate(over="ignore"):
        near: Any = {16: np.float16, 32: np.float32, 64: np.float64}[type.bit_width](float(value))
    if np.isinf(near) and not (isinstance(value, float) and math.isinf(value)):
        raise _MisfitError(f"write a number within the range of {type}")
    if isinstance(value, int) and int(near) != value:
        raise _MisfitError(f"write a whole number that {type} can hold exactly")
    return pa.scalar(near, type)


def _convert_time(value: Any, type: pa.DataType) -> pa.Scalar:
    kinds = pa.types
    if kinds.is_duration(type):
        _expect(value, (dt.timedelta,), "write a timedelta (in YAML or JSON: {$duration: microseconds})")
        return pa.scalar(value, pa.duration("us")).cast(type)
    if kinds.is_date(type):
        remedy = "write a date as YYYY-MM-DD"
        if isinstance(_expect(value, (dt.date, str), remedy), str):
            return _parse(value, type, remedy)
        return pa.scalar(value, type)
    if kinds.is_time(type):
        remedy = "write a time of day as 'HH:MM:SS', without a zone"
        if isinstance(_expect(value, (dt.time, str), remedy), str):
            try:
                value = dt.time.fromisoformat(value)
            except ValueError:
                raise _MisfitError(remedy) from None
        if value.tzinfo is not None:
            raise _MisfitError(remedy)
        return pa.scalar(value, pa.time64("us")).cast(type)
    remedy = "write a timestamp without a zone offset, such as '2024-05-01T12:00:00'"
    if type.tz is not None:
        remedy = "write a timestamp with its zone offset, such as '2024-05-01T12:00:00+00:00'"
    if isinstance(_expect(value, (dt.date, dt.datetime, str), remedy), str):
        return _parse(value, type, remedy)
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if (value.tzinfo is None) != (type.tz is None):
        raise _MisfitError(remedy)
    return pa.scalar(value, pa.timestamp("us", type.tz)).cast(type)


def _expect(value: object, accepted: tuple[type, ...], remedy: str) -> Any:
    if type(value) not in accepted:
        raise _MisfitError(remedy)
    return value


def _parse(text: str, type: pa.DataType, remedy: str) -> pa.Scalar:
    try:
        return pa.scalar(text).cast(type)
    except pa.ArrowInvalid:
        raise _MisfitError(remedy) from None
