"""Short streams whose truth is known."""

from __future__ import annotations

import pyarrow as pa

from sparkbleach import Rule
from sparkbleach.evaluate.sales import RULES, SalesStream

SALES_RULES = [Rule.parse(text, id=id) for id, text in RULES.items()]


def sales(n: int, seed: int = 3) -> pa.Table:
    """Return clean sales, some of whose right-hand cells are null."""
    table = pa.Table.from_batches([SalesStream(seed).batch(n)])
    for name in ("i_brand", "s_store_name"):
        cells = table.column(name).to_pylist()
        cells[::17] = [None] * len(cells[::17])
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(name), pa.chunked_array([pa.array(cells)]))
    return table
