"""The stream of the benchmarks: generated sales, a tenth of the cells dirty."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sparkbleach import Rule
from sparkbleach.evaluate.dirt import paper_errors
from sparkbleach.evaluate.sales import RULES, SalesStream
from sparkbleach.evaluate.spoil import spoil

_ERRORS = paper_errors([Rule.parse(text, id=id) for id, text in RULES.items()], 0.1)


def dirty_batches(n_tuples: int, batch_tuples: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield a dirty stream in batches."""
    first = 0
    for batch in SalesStream(seed).batches(n_tuples, batch_tuples):
        dirty = spoil(pa.Table.from_batches([batch]), _ERRORS, seed, first).dirty
        (part,) = dirty.combine_chunks().to_batches()
        yield part
        first += batch.num_rows
