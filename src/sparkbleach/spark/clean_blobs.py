"""The tuples of a micro-batch: put in order, cut where rules change, decided on by the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..engine.audit import RepairedColumn, in_schema_order
from ..engine.encode import plain_columns
from ..engine.engine import Engine
from ..testing import reach
from .blob import unpack
from .limits import Limits
from .repairs import pack_repairs
from .rule_updates import Events

# macOS does not say which processors this process may use.
_N_PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ENGINE_THREADS = min(4, _N_PROCESSORS)


def clean_blobs(
    engine: Engine,
    blobs: Sequence[bytes | pa.Buffer],
    order_by: tuple[str, ...],
    events: Events,
    limits: Limits,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[pa.Buffer | None]:
    """Clean the tuples in blobs, in order; yield the repairs of each blob, None where there are none.

    Without `order_by` tuples stay in their order. While repairs are yielded, the engine decides on later
    blobs; `meanwhile` is called once, while it decides on the first ones.
    """
    with ThreadPoolExecutor(ENGINE_THREADS, "sparkbleach-blobs") as pool:
        for repaired in _decided(engine, blobs, order_by, events, limits, pool, meanwhile):
            yield from pool.map(pack_repairs, repaired)


def replay_blobs(
    engine: Engine, blobs: list[bytes], order_by: tuple[str, ...], events: Events, limits: Limits
) -> None:
    """Have an engine process the tuples in blobs again; the arguments are those of `clean_blobs`."""
    with ThreadPoolExecutor(ENGINE_THREADS, "sparkbleach-blobs") as pool:
        for _ in _decided(engine, blobs, order_by, events, limits, pool):
            pass


def _decided(
    engine: Engine,
    blobs: Sequence[bytes | pa.Buffer],
    order_by: tuple[str, ...],
    events: Events,
    limits: Limits,
    pool: ThreadPoolExecutor,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[list[list[RepairedColumn]]]:
    """Yield the repairs of some blobs at a time; another thread decides on the next blobs meanwhile."""

    def decide(some: Sequence[bytes | pa.Buffer]) -> list[list[RepairedColumn]]:
        batches = list(pool.map(unpack, some))
        if order_by:
            return _clean_sorted(engine, batches, order_by, events)
        return _clean(engine, batches, events)

    # Sorting needs all of them at once.
    n_at_once = max(1, len(blobs)) if order_by else limits.blobs_decided_at_once
    parts = [blobs[first : first + n_at_once] for first in range(0, len(blobs), n_at_once)]
    with ThreadPoolExecutor(1, "sparkbleach-decide") as ahead:
        decided = ahead.map(decide, parts)
        meanwhile()
        yield from decided


def _clean_sorted(
    engine: Engine, batches: list[pa.RecordBatch], order_by: tuple[str, ...], events: Events
) -> list[list[RepairedColumn]]:
    """Clean batches in the order of columns; return the repairs of each, by its own rows."""
    table = pa.concat_batches([plain_columns(batch) for batch in batches])
    order = sort_order(table, order_by)
    if table.num_rows:  # before the schema is asked which columns are there for the order only
        events.apply_due()
    cells = table.drop_columns([name for name in order_by if name not in engine.schema.names])
    if order is not None:
        cells = cells.take(pa.array(order))
    (repaired,) = _clean(engine, [cells], events)
    if order is not None:
        repaired = [replace(column, rows=order[column.rows]) for column in repaired]
    ends = np.cumsum([batch.num_rows for batch in batches])
    return [
        [own for column in repaired if (own := _between(column, end - batch.num_rows, end)).rows.size]
        for batch, end in zip(batches, ends, strict=True)
    ]


def _between(column: RepairedColumn, begin: int, end: int) -> RepairedColumn:
    """Return the repairs of some rows, which become the first ones."""
    which = np.flatnonzero((column.rows >= begin) & (column.rows < end))
    return column.select(which, column.rows[which] - begin)


def _clean(engine: Engine, batches: list[pa.RecordBatch], events: Events) -> list[list[RepairedColumn]]:
    """Clean batches, cut where rules change; return the repairs of each, attributes in schema order."""
    first = engine.position
    last = first + sum(batch.num_rows for batch in batches)
    repaired: list[list[RepairedColumn]] = [[] for _ in batches]
    for end in events.cuts(last):
        parts = _between_positions(batches, engine.position - first, end - first)
        reach("lane.decide")
        decided = engine.decide_all([part for _, _, part in parts])
        events.note_withdrawn(engine.take_withdrawn())
        events.note_accepted(engine.take_accepted())
        for (number, begin, _), columns in zip(parts, decided, strict=True):
            repaired[number] += [replace(column, rows=column.rows + begin) for column in columns]
    return [in_schema_order(columns, engine.schema.names) for columns in repaired]


def _between_positions(
    batches: list[pa.RecordBatch], first: int, last: int
) -> list[tuple[int, int, pa.RecordBatch]]:
    """Return the parts of batches between two places: number of the batch, beginning in it, the part."""
    parts = []
    at = 0
    for number, batch in enumerate(batches):
        begin, end = max(first - at, 0), min(last - at, batch.num_rows)
        if begin < end:
            parts.append((number, begin, batch.slice(begin, end - begin)))
        at += batch.num_rows
    return parts


def sort_order(table: pa.RecordBatch, order_by: tuple[str, ...]) -> NDArray[np.int64] | None:
    """Return the order of the rows; None if they are in order."""
    if len(order_by) == 1:
        column = table.column(order_by[0])
        if column.null_count == 0 and pc.all(pc.less_equal(column[:-1], column[1:])).as_py() is not False:
            return None
    keys = [(name, "ascending") for name in order_by]
    order: NDArray[np.int64] = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return order
