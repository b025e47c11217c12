"""`sparkbleach rules`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from sparkbleach.cli.app import app
from sparkbleach.control.outcome import Outcome
from sparkbleach.control.rule_log import DirectoryLog
from sparkbleach.schema_text import schema_to_text
from tests.support.commands import Run, read_csv

SCHEMA = pa.schema([("id", pa.int32()), ("zip", pa.int32()), ("city", pa.string())])


def rules(*arguments: object) -> Result:
    """Run `sparkbleach rules`."""
    return CliRunner().invoke(app, ["rules", *map(str, arguments)])


def outcome(index: int, kind: str, position: int, version: int, ids: list[str], **more: object) -> Outcome:
    """Return an outcome with some rules of one kind."""
    given = [{"id": id, "lhs": ["zip"], "rhs": "city", "nulls": "ignore"} for id in ids]
    schema = schema_to_text(SCHEMA)
    return Outcome(index, kind, position, version, given, schema, SCHEMA.names, "id", **more)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> DirectoryLog:
    """Give the log of a stream that has begun."""
    log = DirectoryLog(tmp_path / "rules")
    log.record(0, [outcome(0, "started", 0, 1, ["r0", "r1"])])
    return log


def test_updates_are_checked_before_they_are_published(log: DirectoryLog, tmp_path: Path) -> None:
    """What the stream would refuse is not published, those published before it are taken into account."""
    assert rules("delete", "r0", "--target", log.target).exit_code == 0
    for arguments, problem in [
        (("delete", "r0"), "rule 'r0': cannot be deleted"),
        (("promote", "r1"), "it is live already"),
        (("add", "r1: zip -> city"), "there is a rule of this id already"),
        (("add", "r2: zip -> town"), "unknown attribute 'town'"),
        (("add", "r2: zip -> id"), "is the id of the tuples"),
        (("add", "r2: zip --> city"), "'->' is expected"),
        (("add",), "there is nothing to add"),
        (("add", "--file", tmp_path / "none.yml"), "cannot read it"),
        (("add", "r3: zip -> city WHERE id > 1", "r4: zip -> nowhere"), "nowhere"),
    ]:
        result = rules(*arguments, "--target", log.target)
        assert (result.exit_code, problem in result.stderr) == (2, True), result.output
    assert len(log.published()) == 1
    (tmp_path / "more.yml").write_text("rules:\n  - id: r5\n    lhs: [city]\n    rhs: zip\n")
    result = rules(
        "add", "r2: id -> city", "--file", tmp_path / "more.yml", "--shadow", "--target", log.target
    )
    assert result.exit_code == 0, result.output
    assert [record.number for record in log.published()] == ["00000001", "00000002", "00000003"]
    assert rules("promote", "r5", "--target", log.target).exit_code == 0


def test_before_the_stream_begins(tmp_path: Path) -> None:
    """Without a schema only the update itself can be checked, which is said."""
    result = rules("add", "r: zip -> anything", "--target", tmp_path / "new", "--by", "somebody")
    assert result.exit_code == 0
    assert "no stream has begun with this log" in result.stderr
    (record,) = DirectoryLog(tmp_path / "new").published()
    assert (record.by, str(record.update)) == ("somebody", "add r: zip -> anything")
    assert "waits to be read" in rules("history", "--target", tmp_path / "new").stdout
    assert "no rules are active" in rules("list", "--target", tmp_path / "new").stdout


def test_list_and_history(log: DirectoryLog) -> None:
    """The active rules are shown with the position they came at, the history with all that happened."""
    update = {"op": "delete", "id": "r0"}
    added = {"op": "add", "rule": {"id": "r2", "lhs": ["zip"], "rhs": "city"}}
    who = {"by": "ann", "published": "2026-11-16T12:00:00+00:00"}
    log.record(
        7,
        [
            outcome(0, "applied", 1500, 2, ["r1"], number="00000001", update=update, **who),
            outcome(1, "refused", 1500, 2, ["r1"], number="00000002", update=update, reason="why", **who),
        ],
    )
    log.record(10, [outcome(0, "applied", 2500, 3, ["r1", "r2"], number="00000003", update=added, **who)])
    listed = rules("list", "--target", log.target).stdout.splitlines()
    assert [line.split(maxsplit=3) for line in listed[1:]] == [
        ["live", "0", "1", "r1: zip -> city"],
        ["live", "2,500", "3", "r2: zip -> city"],
    ]
    shown = rules("history", "--target", log.target).stdout
    assert "2026-11-16T12:00:00+00:00  ann  delete r0" in shown
    assert "applied at position 1,500, version 2" in shown
    assert "refused at position 1,500, version 2\n" in shown
    assert "  why\n" in shown
    as_json = [
        json.loads(line) for line in rules("history", "--target", log.target, "--json").stdout.splitlines()
    ]
    assert [change["state"] for change in as_json] == ["started", "applied", "refused", "applied"]
    as_json = [
        json.loads(line) for line in rules("list", "--target", log.target, "--json").stdout.splitlines()
    ]
    assert [(one["rule"]["id"], one["since"]) for one in as_json] == [("r1", 0), ("r2", 2500)]


def test_a_poisonous_rule_does_not_stop_a_run(run: Run, tmp_path: Path) -> None:
    """`clean` goes on without a rule whose condition needs too much, says so, and ends with 0."""
    (tmp_path / "in.csv").write_text("id,zip,city\n1,75,Paris\n2,75,Paris\n3,75,Pariss\n")
    poison = "poison: id -> city WHERE length(repeat(left(city, 1), 2000000000)) > 0"
    (tmp_path / "rules.yml").write_text(f'rules:\n  - zip -> city\n  - "{poison}"\n')
    target = tmp_path / "updates"
    result = run(
        "clean", "--rules", tmp_path / "rules.yml", "--input", tmp_path / "in.csv", "--id", "id",
        "--output", tmp_path / "out", "--rules-target", target,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "withdrawn: rule 'poison', from position 0 on; its condition needs more than" in result.stderr
    assert [row["city"] for row in read_csv(tmp_path / "out")] == ["Paris"] * 3
    assert "poison" not in rules("list", "--target", target).stdout
    history = rules("history", "--target", target).stdout
    assert "withdrawn at position 0, version 2" in history
    assert "its condition needs more than" in history


def test_a_rule_that_a_lane_has_withdrawn_is_listed(log: DirectoryLog) -> None:
    """It is shown as withdrawn, because it waits to be deleted."""
    update = {"at": 9, "op": "delete", "id": "r0"}
    log.record(1, [outcome(0, "withdrawn", 9, 1, ["r0", "r1"], update=update)])
    lines = rules("list", "--target", log.target).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["mode", "withdrawn", "live"]
    as_json = rules("list", "--target", log.target, "--json").stdout.splitlines()
    assert [json.loads(line)["withdrawn"] for line in as_json] == [True, False]


def test_a_target_of_an_unknown_kind(tmp_path: Path) -> None:
    """A target must be one that there can be a log at."""
    (tmp_path / "file").write_text("")
    for target, problem in [("ftp://there/rules", "unknown scheme 'ftp'"), (tmp_path / "file", "is a file")]:
        result = rules("list", "--target", target)
        assert (result.exit_code, problem in result.stderr) == (2, True)


def test_rules_of_a_run_change(run: Run, tmp_path: Path) -> None:
    """`clean --rules-target` reads what `rules` publishes and shows what became of it."""
    (tmp_path / "rules.yml").write_text('rules:\n  - "zip_city: zip -> city"\n')
    (tmp_path / "in").mkdir()
    dirty = "id,zip,city\n1,75,Paris\n2,75,Paris\n3,75,Pariss\n"
    (tmp_path / "in" / "1.csv").write_text(dirty)
    target = tmp_path / "updates"
    command = (
        "clean", "--rules", tmp_path / "rules.yml", "--input", tmp_path / "in", "--id", "id",
        "--schema", "id INT, zip INT, city STRING", "--output", tmp_path / "out", "--rules-target", target,
    )  # fmt: skip
    assert run(*command).exit_code == 0
    assert run("rules", "delete", "zip_city", "--target", target).exit_code == 0
    (tmp_path / "in" / "2.csv").write_text(dirty.replace("3,75", "4,75"))
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "rule update applied: delete zip_city; active from position 3 on, version 2" in result.stderr
    cities = {row["id"]: row["city"] for row in read_csv(tmp_path / "out")}
    assert (cities["3"], cities["4"]) == ("Paris", "Pariss")
    other = [tmp_path / "other" if one == tmp_path / "out" else one for one in command]
    result = run(*other)
    assert (result.exit_code, "is that of another run" in result.stderr) == (2, True)
    result = run(*command[:-2])
    assert (result.exit_code, "rules target: the checkpoint" in result.stderr) == (2, True)
