"""The logarithm of the gamma function, and of factorials; and sums that are the same in any order.

Sums of log factorials are kept as whole numbers, so that they are the same in whatever order they are made.
"""

from __future__ import annotations

from math import floor, lgamma, log

import numpy as np

from ..jit import apart, i64, inline

_UNITS = 2.0**34  # of a sum of log factorials: beyond 10 M cells it would be too large for 64 bits
_TABLE_SIZE = 1024
_TABLE = np.array([round(lgamma(count + 1.0) * _UNITS) for count in range(_TABLE_SIZE)], np.int64)


@apart
def log_gamma(x: float) -> float:
    """Return the logarithm of gamma(x) for x > 0: Stirling's series, from 8 on."""
    product = 1.0
    while x < 8.0:
        product *= x
        x += 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0))
    return (x - 0.5) * log(x) - x + 0.9189385332046727 + series - log(product)


@inline
def log_factorial(count: int) -> int:
    """Return the log factorial of a count, in units of `log_factorials`."""
    if count < _TABLE_SIZE:
        return _TABLE[count]
    return i64(round(log_gamma(count + 1.0) * _UNITS))


@inline
def as_term(x: float) -> float:
    """Return a number as a multiple of 2**-36: sums of these below 2**17 are exact, in whatever order."""
    return floor(x * 2.0**36 + 0.5) * 2.0**-36


@inline
def in_nats(units: int) -> float:
    """Return a sum of log factorials as a number."""
    return units / _UNITS
