"""Two real dirty tables with ground truth, cleaned in one pass: the scores that are published."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkbleach import Engine
from sparkbleach.evaluate.measures import score
from sparkbleach.evaluate.tables import real_table

SCORES = {
    ("hospital", "class"): (0.947, 0.703, 0.807),
    ("hospital", "vote"): (0.947, 0.703, 0.807),
    ("flights", "class"): (0.541, 0.461, 0.498),
    ("flights", "vote"): (0.608, 0.476, 0.534),
}
SHAPES = {"hospital": (1_000, 20, 509), "flights": (2_376, 7, 4_920)}


@pytest.mark.parametrize(("name", "repair"), list(SCORES))
def test_scores(name: str, repair: str) -> None:
    """One pass in file order has the published precision, recall and F1, however it is cut in batches."""
    table = real_table(name)
    engine = Engine(table.dirty.schema, table.rules, window=None, repair=repair)
    parts = [engine.process(batch) for batch in table.dirty.to_batches(max_chunksize=700)]
    cleaned = pa.Table.from_batches([part for part, _ in parts])
    found = score(table.truth, table.dirty, cleaned, table.dirty.column_names)
    assert (*table.dirty.shape, found.wrong) == SHAPES[name]
    assert found.repairs == sum(audit.num_rows for _, audit in parts)
    rounded = tuple(round(one, 3) for one in (found.precision, found.recall, found.f1))
    assert rounded == SCORES[name, repair]
