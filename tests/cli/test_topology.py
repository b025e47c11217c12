"""`sparkbleach clean --topology paper`."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import Run, read_csv

SCHEMA = "id INT, zip INT, city STRING"
DIRTY = "id,zip,city\n1,75001,Paris\n2,75001,Paris\nx,75001,Rome\n3,75001,Pariss\n"


def test_the_papers_topology_cleans_and_goes_on(run: Run, rules: Path, tmp_path: Path) -> None:
    """Workers give the rows, audit and quarantine of one lane, count by rule, and remember what they saw."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text(DIRTY)
    out = tmp_path / "out"
    command = [
        "clean", "--rules", rules, "--input", tmp_path / "in", "--id", "id", "--output", out,
        "--schema", SCHEMA, "--topology", "paper", "--repair-workers", 3, "--coordination", "dr",
    ]  # fmt: skip
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert [row["city"] for row in read_csv(out)] == ["Paris"] * 3
    assert "1 violation" in result.output
    assert len(list((tmp_path / "out-audit").glob("*.json"))) == 1
    assert len(read_csv(tmp_path / "out-quarantine")) == 1

    result = run(*command[:-1], "hinge")
    assert result.exit_code == 2
    assert "was made with 'paper, dr', not with 'paper, hinge'; go on with 'paper, dr'" in result.output

    (tmp_path / "in" / "2.csv").write_text("id,zip,city\n4,75001,Lyon\n")
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert [row["city"] for row in read_csv(out)] == ["Paris"] * 4
    (tmp_path / "in" / "3.csv").write_text("id,zip,city\n5,75001,Lyon\n")
    result = run(*command, "--detect-workers", 3)
    assert result.exit_code != 0
    assert "detect_workers: the checkpoint was made with 2, not with 3" in result.output


def test_workers_are_for_the_papers_topology(run: Run, rules: Path, tmp_path: Path) -> None:
    """Options of the paper's topology are refused with the fused one, and nothing is written."""
    (tmp_path / "in.csv").write_text(DIRTY)
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--output",
        tmp_path / "out", "--schema", SCHEMA, "--detect-workers", 2,
    )  # fmt: skip
    assert result.exit_code == 2
    assert "detect_workers: it is for the paper's topology" in result.output
    assert not (tmp_path / "out").exists()
