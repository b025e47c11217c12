"""`sparkbleach dirty` on files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from sparkbleach.cli.app import app
from tests.support.sales import sales


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, ["dirty", *map(str, arguments)])


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Give a file with one rule."""
    path = tmp_path / "rules.yml"
    path.write_text('rules:\n  - "zip_city: zip -> city"\n')
    return path


def test_csv_by_rules(tmp_path: Path, rules: Path) -> None:
    """The log says what differs between the clean and the dirty file, and nothing else differs."""
    clean, dirty, log = (tmp_path / name for name in ("clean.csv", "dirty.csv", "log.jsonl"))
    with clean.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("id", "zip", "city"), *((n, f"0{n % 5}", ["Paris", "Lyon", "Nice"][n % 3]) for n in range(300))]
        )
    done = run("--input", clean, "--output", dirty, "--rules", rules, "--p", 0.2, "--log", log, "--seed", 4)
    assert done.exit_code == 0, done.output
    was, now = (list(csv.DictReader(path.read_text().splitlines())) for path in (clean, dirty))
    changes = [json.loads(line) for line in log.read_text().splitlines()]
    assert f"300 tuples, {len(changes)} changes: " in done.output
    differ = {
        (n, name): (old[name], new[name])
        for n, (old, new) in enumerate(zip(was, now, strict=True))
        for name in old
        if old[name] != new[name]
    }
    assert {(one["position"], one["attribute"]): (one["old"], one["new"] or "") for one in changes} == differ
    assert {one["kind"] for one in changes} == {"domain", "missing"}
    again = tmp_path / "again.csv"
    run("--input", clean, "--output", again, "--rules", rules, "--p", 0.2, "--seed", 4)
    assert again.read_bytes() == dirty.read_bytes()


def test_parquet_by_processes(tmp_path: Path) -> None:
    """Parquet keeps its types; processes come from a file, and duplicates are in the log."""
    clean, dirty, log = (tmp_path / name for name in ("clean.parquet", "dirty.parquet", "log.parquet"))
    pq.write_table(sales(500), clean)
    errors = tmp_path / "errors.yml"
    errors.write_text(
        "errors:\n  - {kind: typo, p: 0.2, attributes: [i_brand], burst: [100, 200]}\n"
        "  - {kind: duplicate, p: 0.1}\n"
    )
    done = run("--input", clean, "--output", dirty, "--errors", errors, "--log", log)
    assert done.exit_code == 0, done.output
    changes = pq.read_table(log).to_pylist()
    doubled = [one for one in changes if one["kind"] == "duplicate"]
    assert pq.read_table(dirty).schema == pq.read_table(clean).schema
    assert pq.read_table(dirty).num_rows == 500 + len(doubled) > 500
    assert all(100 <= one["origin"] < 200 for one in changes if one["kind"] == "typo")


def test_json_lines(tmp_path: Path) -> None:
    """JSON lines keep their types, and a missing cell is null."""
    clean, dirty = tmp_path / "clean.json", tmp_path / "dirty.jsonl"
    clean.write_text("".join(json.dumps({"id": n, "city": "Paris"}) + "\n" for n in range(20)))
    errors = tmp_path / "errors.yml"
    errors.write_text("errors:\n  - {kind: missing, p: 1, attributes: [city], burst: [3, 5]}\n")
    assert run("--input", clean, "--output", dirty, "--errors", errors).exit_code == 0
    rows = [json.loads(line) for line in dirty.read_text().splitlines()]
    assert rows == [{"id": n, "city": None if n in (3, 4) else "Paris"} for n in range(20)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "d.csv"], "nothing says what should go wrong; give --rules"),
        (["--output", "d.txt", "--rules", "rules.yml"], "d.txt ends with none of .csv, .json"),
        (["--output", "d.csv", "--rules", "rules.yml", "--log", "l.txt"], "l.txt ends with none of .csv"),
        (["--output", "d.csv", "--rules", "rules.yml"], "none.csv cannot be read"),
    ],
)
def test_mistakes(
    arguments: list[str], message: str, tmp_path: Path, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake is reported in a sentence, with exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    done = run("--input", "none.csv", *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["rules.yml"]
