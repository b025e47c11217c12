"""`sparkbleach explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sparkbleach.cli import app

ROW = {
    "id": "007",
    "position": 12_345,
    "attribute": "city",
    "old_value": None,
    "new_value": "Edinburgh",
    "rules": ["dialling", "zip_city"],
    "candidates": [{"value": "Leith", "count": 1_200}, {"value": "Edinburgh", "count": 3}],
    "confidence": 1.0,
    "groups": 2,
    "decided_by": "constant",
    "overruled": ["postal"],
    "version": 4,
    "applied": True,
}


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_repair_in_words(tmp_path: Path, format: str) -> None:
    """Everything that an audit row says is explained in words; staged files are not read."""
    path = tmp_path / f"part-000000-0000.{format}"
    if format == "json":
        path.write_text(json.dumps(ROW) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([ROW]), path)
    (tmp_path / "_staging").mkdir()
    (tmp_path / "_staging" / "part-0.json").write_text("not even JSON")
    result = CliRunner().invoke(app, ["explain", "007", "--audit", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "city: null -> 'Edinburgh'",
        "  because it violated rules dialling, zip_city",
        "  a constant in a rule's tableau demands this value; counts did not matter",
        "  candidates and their counts, from 2 groups: 'Leith' 1,200, 'Edinburgh' 3",
        "  overruled, because their constants say otherwise: postal",
        "  tuple 007 at position 12,345, version 4 of the rules",
    ]


def test_an_unknown_id(tmp_path: Path) -> None:
    """A tuple that is not in the audit was not changed; ids are compared as text."""
    (tmp_path / "part-000000-0000.json").write_text(json.dumps(ROW) + "\n")
    result = CliRunner().invoke(app, ["explain", "7", "--audit", str(tmp_path)])
    assert result.exit_code == 0
    assert result.stdout.startswith("the audit has no tuple 7: none of its cells was changed")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "is not a directory"), ({}, "has no part files"), ({"part-0.json": "1,2\n"}, "is not an audit")],
)
def test_no_audit(tmp_path: Path, content: dict[str, str] | None, message: str) -> None:
    """A directory that is not there, is empty, or is no audit, is an error with a remedy."""
    directory = tmp_path / "audit"
    if content is not None:
        directory.mkdir()
        for name, text in content.items():
            (directory / name).write_text(text)
    result = CliRunner().invoke(app, ["explain", "7", "--audit", str(directory)])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_a_shadow_rule_would_repair(tmp_path: Path) -> None:
    """A repair that was not made is shown as one."""
    (tmp_path / "part-000000-0000.json").write_text(json.dumps(ROW | {"applied": False}) + "\n")
    result = CliRunner().invoke(app, ["explain", "007", "--audit", str(tmp_path)])
    first = result.stdout.splitlines()[0]
    assert first == "city: null -> 'Edinburgh', if its shadow rules were live; it was not changed by them"
