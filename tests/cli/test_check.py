"""`sparkbleach check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Run


def test_a_trial_writes_nothing(run: Run, rules: Path, tmp_path: Path) -> None:
    """A trial shows counts, examples and reasons, and leaves the disk as it was."""
    (tmp_path / "in.csv").write_text('id,zip,city\n1,1,a\n2,1,a\n3,1,b\n5,2,5" pipe\n,1,a\n4,1\n')
    before = sorted(path.name for path in tmp_path.rglob("*"))
    result = run("check", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--repair", "class")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "6 rows: 1 cell would be repaired, 2 rows would be quarantined; nothing was written",
        "rule        violations       repairs",
        "zip_city             1             1",
        "repairs:",
        "  3: city 'b' -> 'a' (zip_city; 66.7%)",
        "reasons for the quarantine:",
        "  1 x id: the id is null",
        "  1 x malformed: 2 fields, but the schema has 3",
    ]
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_the_most_probable_value(run: Run, tmp_path: Path) -> None:
    """With bayes a trial shows how far rules are trusted, doubtful and frequent repairs, and flagged keys."""
    (tmp_path / "rules.yml").write_text(
        'rules:\n  - "zip_city: zip -> city"\n  - {id: trial, lhs: [phone], rhs: city, mode: shadow}\n'
    )
    good = [("1", "birmingham", "205", "a"), ("2", "boaz", "256", "b")] * 20
    wrong = [("1", "birminghxm", "205", "b")] * 2 + [("1", f"birm{n}ngham", "205", "b") for n in range(4)]
    rows = [*good, *wrong, ("2", "birmingham", "205", "a")]
    lines = [",".join((str(n), *row)) for n, row in enumerate(rows)]
    (tmp_path / "in.csv").write_text("\n".join(["id,zip,city,phone,src", *lines]) + "\n")
    before = ["check", "--rules", tmp_path / "rules.yml", "--input", tmp_path / "in.csv", "--id", "id"]
    result = run(*before, "--repair", "bayes", "--look-ahead", 50, "--confidence", 0.55)
    assert result.exit_code == 0, result.output
    shown = result.stdout.splitlines()
    assert shown[0].startswith("47 rows: 6 cells would be repaired, 0 rows")
    names = "rule  violations  repairs  flags  trust  error rate  confidence  doubtful"
    assert " ".join(shown[1].split()) == names.replace("  ", " ")
    rule = dict(zip(shown[1].replace("error rate", "error").split(), shown[2].split(), strict=True))
    assert (rule["rule"], rule["repairs"], rule["flags"]) == ("zip_city", "6", "1")
    for name in ("trust", "error", "confidence", "doubtful"):
        assert rule[name].endswith("%")
    assert max(map(len, shown)) <= 100
    at = {line: n for n, line in enumerate(shown)}
    doubtful = shown[at["the least certain repairs:"] + 1 : at["the most frequent repairs:"]]
    assert len(doubtful) == 5
    assert all("-> 'birmingham' (zip_city; " in line for line in doubtful)
    assert shown[at["the most frequent repairs:"] + 1] == "  2 x city 'birminghxm' -> 'birmingham'"
    assert shown[at["flagged, not changed: a key may be wrong:"] + 1].startswith("  46: zip '2' -> '1' (")
    assert "trial" in shown[at["shadow rules would repair:"] + 1]


def test_sources(run: Run, tmp_path: Path) -> None:
    """With a column of sources a trial shows how often each is right."""
    (tmp_path / "rules.yml").write_text('rules:\n  - "zip_city: zip -> city"\n')
    rows = [f"{3 * n + k},{n},{'x' if k == 2 else 'c'}{n},source {k}" for n in range(9) for k in range(3)]
    (tmp_path / "in.csv").write_text("\n".join(["id,zip,city,src", *rows]) + "\n")
    options = ["--repair", "bayes", "--trust", "src"]
    files = ["--rules", tmp_path / "rules.yml", "--input", tmp_path / "in.csv"]
    result = run("check", *files, "--id", "id", *options)
    assert result.exit_code == 0, result.output
    shown = result.stdout.splitlines()
    at = shown.index("source    accuracy")
    assert [line.split("  ")[0] for line in shown[at + 1 : at + 4]] == ["source 0", "source 1", "source 2"]


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


def test_a_condition_that_needs_too_much(run: Run, tmp_path: Path) -> None:
    """Conditions are tried on made-up tuples of a schema, or on the input; needing too much is an error."""
    path = tmp_path / "rules.yml"
    path.write_text(
        'rules:\n  - {id: r, lhs: [zip], rhs: city, when: "length(repeat(city, 2000000000)) > 9"}\n'
    )
    result = run("check", "--rules", path, "--schema", "id INT, zip INT, city STRING")
    assert result.exit_code == 2
    assert "rules.yml:2: rule 'r', when: tried on made-up tuples, it needs more than" in result.stderr
    (tmp_path / "in.csv").write_text("id,zip,city\n1,1,a\n2,1,a\n3,1,b\n")
    result = run("check", "--rules", path, "--input", tmp_path / "in.csv", "--id", "id")
    assert result.exit_code == 2
    assert "withdrawn: rule 'r', from position 0 on; its condition needs more than" in result.stderr
    assert "3 rows: 0 cells would be repaired" in result.stdout


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
