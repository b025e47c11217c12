"""What a given type loses of a cell: Spark drops text after a date, and cuts and rounds numbers and times."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    TimestampNTZType,
    TimestampType,
)

_DATE = r"^\s*[+-]?\d{4,}-\d{1,2}-\d{1,2}\s*$"
#: a fraction of a second with more than six digits
_NANOSECONDS = r":\d\d\.\d{6}\d*[1-9]"
_INFINITE = "(?i)inf"


def fits(cell: Column, value: Column, type: DataType) -> Column:
    """Return whether the value of a CSV cell, in a given type, is all that it says; null for no value."""
    if isinstance(type, DateType):
        return cell.rlike(_DATE)
    if isinstance(type, TimestampType | TimestampNTZType):
        return ~cell.rlike(_NANOSECONDS)
    if isinstance(type, DecimalType):
        return cell.try_cast(DecimalType(38, 18)) == value
    if isinstance(type, DoubleType):
        return (F.abs(value) != float("inf")) | cell.rlike(_INFINITE)
    if isinstance(type, FloatType):
        return value.cast("string").cast("double") == cell.try_cast("double")
    return F.lit(True)


def text_fits(text: str, type: pa.DataType) -> bool:
    """Return whether the value of a text or a number in JSON, in a given type, is all that it says."""
    if pa.types.is_date(type):
        return re.search(_DATE, text) is not None
    if pa.types.is_timestamp(type):
        return re.search(_NANOSECONDS, text) is None
    if pa.types.is_decimal(type):
        return bool(n_decimals(Decimal(text)) <= type.scale)
    if pa.types.is_float32(type):
        return float(str(np.float32(text))) == float(text)
    if pa.types.is_float64(type):
        return abs(float(text)) != float("inf") or re.search(_INFINITE, text) is not None
    return True


def n_decimals(number: Decimal) -> int:
    """Return how many digits a number has after its point, without zeros at the end."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or not any(digits):
        return 0
    n_zeros = next(n for n, digit in enumerate(reversed(digits)) if digit)
    return max(0, -exponent - n_zeros)
