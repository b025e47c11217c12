"""Two real dirty tables with ground truth, cleaned in one pass: the scores that are published."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest

from sparkbleach import Engine
from sparkbleach.config import OptionValues
from sparkbleach.evaluate import tables
from sparkbleach.evaluate.measures import Score, score
from sparkbleach.evaluate.tables import RealTable, real_table
from tests.support.commands import Run, read_csv

Scores = tuple[float, float, float]

COUNTED: dict[tuple[str, str], Scores] = {
    ("hospital", "class"): (0.947, 0.703, 0.807),
    ("hospital", "vote"): (0.947, 0.703, 0.807),
    ("flights", "class"): (0.541, 0.461, 0.498),
    ("flights", "vote"): (0.608, 0.476, 0.534),
}
#: by table, what `bayes` knows beside the rules, and the look-ahead
PROBABLE: list[tuple[str, OptionValues, int, Scores]] = [
    ("hospital", {}, 1, (0.930, 0.760, 0.837)),
    ("hospital", {}, 1000, (0.947, 0.780, 0.856)),
    ("hospital", {"implied": True}, 1, (0.935, 0.855, 0.893)),
    ("hospital", {"implied": True}, 1000, (0.954, 0.894, 0.923)),
    ("flights", {}, 1, (0.879, 0.380, 0.530)),
    ("flights", {}, 1000, (0.941, 0.420, 0.581)),
    ("flights", {"trust": "src"}, 1, (0.773, 0.634, 0.697)),
    ("flights", {"trust": "src"}, 1000, (0.875, 0.842, 0.859)),
]
SHAPES = {"hospital": (1_000, 20, 509), "flights": (2_376, 7, 4_920)}


def clean(table: RealTable, batch_tuples: int, options: OptionValues) -> Score:
    """Clean a table with an engine, and check that the audit has each repair."""
    engine = Engine(table.dirty.schema, table.rules, **options)
    parts = [engine.process(batch) for batch in table.dirty.to_batches(max_chunksize=batch_tuples)]
    cleaned = pa.Table.from_batches([part for part, _ in parts])
    found = score(table.truth, table.dirty, cleaned, table.dirty.column_names)
    applied = [row for _, audit in parts for row in audit.to_pylist() if row["applied"]]
    assert found.repairs == len(applied)
    return found


def rounded(found: Score) -> tuple[float, ...]:
    """Return precision, recall and F1 as they are published."""
    return tuple(round(one, 3) for one in found.values)


@pytest.mark.parametrize(("name", "repair"), list(COUNTED))
def test_scores(name: str, repair: str) -> None:
    """One pass in file order has the published precision, recall and F1, however it is cut in batches."""
    table = real_table(name)
    found = clean(table, 700, {"repair": repair, "window": None})
    assert (*table.dirty.shape, found.wrong) == SHAPES[name]
    assert rounded(found) == COUNTED[name, repair]


@pytest.mark.parametrize(("name", "known", "look_ahead", "expected"), PROBABLE)
def test_scores_of_bayes(name: str, known: OptionValues, look_ahead: int, expected: Scores) -> None:
    """The most probable reading has the scores of its specification, to three decimals."""
    options: OptionValues = {"repair": "bayes", "look_ahead": look_ahead, "window": None, **known}
    assert rounded(clean(real_table(name), 5_000, options)) == expected


def test_scores_of_bayes_do_not_depend_on_batches() -> None:
    """Without a look-ahead a table may be cut anywhere."""
    found = clean(real_table("hospital"), 7, {"repair": "bayes", "look_ahead": 1, "window": None})
    assert rounded(found) == PROBABLE[0][-1]


def test_scores_of_the_command(run: Run, tmp_path: Path) -> None:
    """`sparkbleach clean`, from CSV to CSV, has the scores of the engine."""
    table = real_table("hospital")
    with (tmp_path / "dirty.csv").open("w", newline="") as file:
        writer = csv.writer(file)  # which writes null as an empty cell
        writer.writerow(table.dirty.column_names)
        writer.writerows(row.values() for row in table.dirty.to_pylist())
    result = run(
        "clean", "--rules", Path(tables.__file__).parent / "data" / "hospital" / "rules.yml",
        "--input", tmp_path / "dirty.csv", "--id", "index", "--output", tmp_path / "out",
        "--schema", ", ".join(f"{name} STRING" for name in table.dirty.column_names),
        "--repair", "bayes", "--look-ahead", 1000, "--no-window",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = [{name: cell or None for name, cell in row.items()} for row in read_csv(tmp_path / "out")]
    cleaned = pa.Table.from_pylist(sorted(rows, key=lambda row: int(row["index"] or 0)), table.dirty.schema)
    found = score(table.truth, table.dirty, cleaned, table.dirty.column_names)
    assert rounded(found) == PROBABLE[1][-1]
