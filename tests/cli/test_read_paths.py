"""Which paths an input reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkbleach.cli.read_paths import ReadPaths
from tests.support.commands import Run


@pytest.mark.parametrize(
    ("input", "written", "read"),
    [
        ("in", "in/out", True),
        ("in", "in", True),
        ("in", "in-out", False),
        ("in/*", "in/out", True),
        ("in/*", "in", True),
        ("in/*.csv", "in/out", False),
        ("in/*.csv", "in/out.csv", True),
        ("in/*.csv", "in", True),
        ("in/{a,b}*", "in/bout", True),
        ("in/{a,b}*", "in/cout", False),
        ("in/[!a]ut", "in/out", True),
        ("in/[a-c]ut", "in/out", False),
        ("*/day=?", "in/day=1/out", True),
        ("*/*/*.json", "in/checkpoint", True),
        ("link", "in/out", True),
        ("link/*", "in/out", True),
        ("deep", "in/out", True),
        ("deep/*/out", "in/out", True),
        ("in", "link/out", True),
        ("file:in", "in/out", True),
        ("in/a.csv", "in/out", False),
        ("odd[1]", "odd[1]/out", True),
        ("to-out", "out", True),
    ],
)
def test_what_is_read(tmp_path: Path, input: str, written: str, read: bool) -> None:
    """A directory that the input leads to, by its name, a pattern or a symlink, is read; no other is."""
    for name in ("in", "odd[1]", "deep", "to-out", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.csv").write_text("")
    (tmp_path / "out" / "part-1.csv").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    (tmp_path / "deep" / "er").symlink_to(tmp_path / "in")
    (tmp_path / "deep" / "loop").symlink_to(tmp_path / "deep")
    (tmp_path / "to-out" / "a.csv").symlink_to(tmp_path / "out" / "part-1.csv")
    scheme, _, path = input.rpartition(":")
    where = f"file://{tmp_path}/{path}" if scheme else f"{tmp_path}/{path}"
    assert ReadPaths(where).covers(f"{tmp_path}/{written}") == read


def test_a_remote_pattern() -> None:
    """Paths of other file systems are compared by their names."""
    assert ReadPaths("hdfs://a/in/*").covers("hdfs://a/in/out")
    assert not ReadPaths("hdfs://a/in/*.csv").covers("hdfs://a/in/out")


@pytest.mark.parametrize("pattern", ["in/*", "link"])
def test_output_in_the_input(run: Run, rules: Path, tmp_path: Path, pattern: str) -> None:
    """Output that a pattern or a symlink would read again is refused before anything is written."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,zip,city\n1,1,a\n")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / pattern, "--id", "id",
        "--output", tmp_path / "in" / "out",
    )  # fmt: skip
    assert result.exit_code == 2, result.output
    assert "is in the input" in result.stderr
    assert not (tmp_path / "in" / "out").exists()


def test_hidden_names(run: Run, rules: Path, tmp_path: Path) -> None:
    """Files that Spark does not read are left out, and named if they are all; what it reads is checked."""
    source = tmp_path / "in"
    source.mkdir()
    for name in ("_a.csv", ".a.csv", "a.csv._COPYING_"):
        (source / name).write_text("id,zip,city\n1,1,a\n")
    arguments = ["clean", "--rules", rules, "--id", "id", "--output", tmp_path / "out"]
    for input in (source / "_a.csv", source / ".a*"):
        result = run(*arguments, "--input", input)
        assert result.exit_code == 2, result.output
        assert "Spark reads no files whose names begin with _ or a dot" in result.stderr
    result = run(*arguments, "--input", source)
    assert (result.exit_code, "has no files" in result.stderr) == (2, True), result.output
    (source / "_x=1.csv").write_text("id,city,zip\n1,a,1\n")
    result = run(*arguments, "--input", source, "--schema", "id INT, zip STRING, city STRING")
    assert (result.exit_code, "_x=1.csv: the columns are in another order" in result.stderr) == (2, True)
    (source / "_x=1.csv").rename(source / "a.csv")
    (source / "_year=2024").mkdir()
    (source / "_year=2024" / "b.csv").write_text("id,city,zip\n2,a,1\n")
    result = run(*arguments, "--input", source)
    assert (result.exit_code, "the column '_year' is only in the name" in result.stderr) == (2, True)
