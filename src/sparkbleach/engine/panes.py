"""In which pane of a time window each tuple lies.

Panes are numbered from the first one that a tuple names, so that numbers stay small whatever the year.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import Window
from ..errors import ConfigError
from .encode import plain

#: microseconds, as a fraction, in one unit of a column
_UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000), "day": (86_400_000_000, 1)}
_NOWHERE = -(1 << 62)  # the number of the pane of a null
_NUMBER_MAX = 1 << 61


def check_time_column(window: Window | None, schema: pa.Schema) -> None:
    """Check that the column of a time window is there, and has times."""
    if window is None or window.column is None:
        return
    if schema.names.count(window.column) != 1:
        raise ConfigError(
            f"window: the schema has no single attribute {window.column!r}; "
            f"choose one of {', '.join(schema.names)}"
        )
    type = schema.field(window.column).type
    if not (pa.types.is_timestamp(type) or pa.types.is_date(type)):
        raise ConfigError(
            f"window: {window.column!r} is of type {type}; cast it to a timestamp or a date before"
        )


@dataclass(frozen=True, slots=True)
class PaneClock:
    """Where in the panes of a time window a stream has got to."""

    column: str  #: the column with the time of each tuple
    slide: int  #: microseconds in a pane
    first: int | None = None  #: the number, since 1970, of the first pane that a tuple named
    pane: int = 0  #: the pane of the newest tuple, counted from the first one

    def read(self, batches: Iterable[pa.RecordBatch]) -> tuple[list[NDArray[np.int64]], PaneClock]:
        """Return the panes of the tuples of the next batches, and the clock after them.

        The pane of a tuple is the greatest that it or a tuple before it names; a null names none.
        """
        clock = self
        panes = []
        for batch in batches:
            numbers = _pane_numbers(plain(batch.column(self.column)), self.slide)
            first = clock.first
            named = numbers[numbers != _NOWHERE]
            if first is None and named.size:
                first = int(named[0])
            if first is None:
                panes.append(np.zeros(numbers.size, np.int64))
                continue
            relative = np.where(numbers == _NOWHERE, clock.pane, numbers - first)
            reached = np.maximum.accumulate(np.maximum(relative, clock.pane))
            clock = replace(clock, first=first, pane=int(reached[-1]) if reached.size else clock.pane)
            panes.append(reached)
        return panes, clock

    def to_list(self) -> list[Any]:
        """Return what changes with the stream, fit for JSON."""
        return [self.first, self.pane]


def _pane_numbers(column: pa.Array, slide: int) -> NDArray[np.int64]:
    """Return the number of each cell's pane since 1970."""
    type = column.type
    unit = type.unit if pa.types.is_timestamp(type) else "day" if pa.types.is_date32(type) else "ms"
    times, parts = _UNITS[unit]
    parts *= slide
    common = math.gcd(times, parts)
    times, parts = times // common, parts // common
    width = pa.int32() if pa.types.is_date32(type) else pa.int64()
    cells = column.view(width).cast(pa.int64())
    values = cells.fill_null(0).to_numpy().astype(np.int64)
    limit = _NUMBER_MAX // times  # a time that far away is that of the end of the world
    numbers = np.clip(values, -limit, limit) * times // parts
    return np.where(cells.is_valid().to_numpy(zero_copy_only=False), numbers, _NOWHERE)
