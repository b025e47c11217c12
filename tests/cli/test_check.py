"""`sparkbleach check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Run


def test_a_trial_writes_nothing(run: Run, rules: Path, tmp_path: Path) -> None:
    """A trial shows counts, examples and reasons, and leaves the disk as it was."""
    (tmp_path / "in.csv").write_text('id,zip,city\n1,1,a\n2,1,a\n3,1,b\n5,2,5" pipe\n,1,a\n4,1\n')
    before = sorted(path.name for path in tmp_path.rglob("*"))
    result = run("check", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "6 rows: 1 cell would be repaired, 2 rows would be quarantined; nothing was written",
        "rule        violations       repairs",
        "zip_city             1             1",
        "some repairs:",
        "  3: city 'b' -> 'a' (zip_city)",
        "reasons for the quarantine:",
        "  1 x id: the id is null",
        "  1 x malformed: 2 fields, but the schema has 3",
    ]
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 0, "1 rule: well formed"),
        (["--schema", "id INT, zip INT, city STRING"], 0, "1 rule: no errors with this schema"),
        (["--schema", "id INT, zipp INT, city STRING"], 2, "unknown attribute 'zip'; did you mean 'zipp'?"),
        (["--input", "x.csv"], 2, "give --id"),
    ],
)
def test_rules_against_a_schema(run: Run, rules: Path, options: list[str], code: int, message: str) -> None:
    """Without an input, rules are checked as far as a schema is there to check them against."""
    result = run("check", "--rules", rules, *options)
    assert result.exit_code == code
    assert message in result.output
    assert len(result.stderr.splitlines()) == (code != 0)


def test_a_schema_in_a_file(run: Run, rules: Path, tmp_path: Path) -> None:
    """A schema may be in a file, on several lines."""
    (tmp_path / "schema.ddl").write_text("id INT,\n  zip INT,\n  city STRING\n")
    result = run("check", "--rules", rules, "--schema", tmp_path / "schema.ddl")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "updates.jsonl:2: it is not valid JSON"),
        ('{"at": 1, "op": "move"}', "updates.jsonl:2: rule update, op: 'move' is unknown"),
        ('{"at": 1, "op": "add", "rule": "nope -> city"}', "rule update at 1: "),
    ],
)
def test_wrong_rule_updates(run: Run, rules: Path, tmp_path: Path, line: str, message: str) -> None:
    """A wrong rule update is reported with its file and line, or with its position."""
    path = tmp_path / "updates.jsonl"
    path.write_text(f"\n{line}\n")
    result = run(
        "check", "--rules", rules, "--schema", "id INT, zip INT, city STRING", "--rule-updates", path
    )
    assert result.exit_code == 2
    assert message in result.stderr
