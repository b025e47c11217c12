"""Two real dirty tables with ground truth, cleaned in one pass: the scores that are published."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from sparkbleach import Engine, load_rules

DATA = Path(__file__).parents[3] / "shared" / "data"
NULLS = {"hospital": ["", "empty"], "flights": [""]}
SCORES = {
    ("hospital", "class"): (0.947, 0.703, 0.807),
    ("hospital", "vote"): (0.947, 0.703, 0.807),
    ("flights", "class"): (0.541, 0.461, 0.498),
    ("flights", "vote"): (0.608, 0.476, 0.534),
}
WRONG_CELLS = {"hospital": 509, "flights": 4920}


def load(table: str, name: str) -> pa.RecordBatch:
    """Read a CSV file: all columns are text, and the table's words for null are null."""
    path = DATA / table / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"the real tables are not beside this clone: no {path}")
    names = path.read_text(encoding="utf-8").partition("\n")[0].strip().split(",")
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=NULLS[table],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    (batch,) = pa.csv.read_csv(path, convert_options=options).combine_chunks().to_batches()
    return batch


def differ(left: pa.RecordBatch, right: pa.RecordBatch) -> list[pa.Array]:
    """Tell by column where two batches differ; null equals null."""
    columns = []
    for a, b in zip(left.columns, right.columns, strict=True):
        both_null = pc.and_(pc.is_null(a), pc.is_null(b))
        same = pc.or_(both_null, pc.fill_null(pc.equal(a, b), False))
        columns.append(pc.invert(same))
    return columns


def count(columns: list[pa.Array]) -> int:
    """Return how many cells are True."""
    return sum(pc.sum(pc.cast(column, pa.int64())).as_py() for column in columns)


@pytest.mark.parametrize(("table", "repair"), list(SCORES))
def test_scores(table: str, repair: str) -> None:
    """One pass in file order has the published precision, recall and F1, however it is cut in batches."""
    dirty = load(table, "dirty")
    truth = load(table, "clean")
    engine = Engine(dirty.schema, load_rules(DATA / table / "rules.yml"), window=None, repair=repair)
    parts = [engine.process(dirty.slice(start, 700)) for start in range(0, dirty.num_rows, 700)]
    (cleaned,) = pa.Table.from_batches([part for part, _ in parts]).combine_chunks().to_batches()

    wrong = differ(dirty, truth)
    repaired = differ(dirty, cleaned)
    still_wrong = differ(cleaned, truth)
    right = [pc.and_not(repair, error) for repair, error in zip(repaired, still_wrong, strict=True)]
    assert count(wrong) == WRONG_CELLS[table]
    assert count(repaired) == sum(audit.num_rows for _, audit in parts)
    precision = count(right) / count(repaired)
    recall = count(right) / count(wrong)
    f1 = 2 * precision * recall / (precision + recall)
    assert (round(precision, 3), round(recall, 3), round(f1, 3)) == SCORES[table, repair]
