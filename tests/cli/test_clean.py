"""`sparkbleach clean`."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparkbleach import Engine, load_rules
from sparkbleach.cli.options import Parsing
from tests.support.commands import Run, read_csv

SCHEMA = "id INT, zip INT, city STRING"
HEADER = "id,zip,city\n"

DIRTY = (
    HEADER
    + """\
1,75001,Paris
2,75001,Paris
3,75001,Pariss
x,75001,Paris

4,75001
5,75001,Paris,extra
,75001,Paris
6,75001,"The ""old"" town"
7,75001," Paris "
8,,Lyon
9,75001,
"""
)


def files_in(directory: Path) -> list[str]:
    """Return the names of all files in a directory, hidden ones included."""
    return sorted(os.listdir(directory)) if directory.exists() else []


def test_clean_rows_are_those_of_the_engine(run: Run, rules: Path, tmp_path: Path) -> None:
    """Rows come out as the engine has them, unreadable ones go to the quarantine with a reason."""
    (tmp_path / "in.csv").write_text(DIRTY)
    out = tmp_path / "out"
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--output", out,
        "--schema", SCHEMA, "--repair", "class",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    schema = pa.schema([("id", pa.int32()), ("zip", pa.int32()), ("city", pa.string())])
    rows = [
        (1, 75001, "Paris"),
        (2, 75001, "Paris"),
        (3, 75001, "Pariss"),
        *[(None, None, None)] * 4,  # quarantined rows have a position, too
        (6, 75001, 'The "old" town'),
        (7, 75001, " Paris "),
        (8, None, "Lyon"),
        (9, 75001, None),
    ]
    batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    clean, audit = Engine(schema, load_rules(rules), id="id", repair="class").process(batch)
    expected = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in clean.to_pylist()
        if row["id"] is not None
    ]
    assert sorted(read_csv(out), key=lambda row: row["id"]) == expected
    written = (tmp_path / "out-audit" / "part-000000-0000.json").read_text().splitlines()
    assert [json.loads(line) for line in written] == audit.to_pylist()
    reasons = {row["_record"]: row["_quarantine"] for row in read_csv(tmp_path / "out-quarantine")}
    assert reasons == {
        "x,75001,Paris": "id: 'x' is not of type int",
        "4,75001": "malformed: 2 fields, but the schema has 3",
        "5,75001,Paris,extra": "malformed: 4 fields, but the schema has 3",
        ",75001,Paris": "id: the id is null",
    }
    assert "11 tuples" in result.stdout
    assert "4 rows in quarantine" in result.stdout
    assert not [name for name in files_in(out) if not name.startswith("part-")]


def test_again_goes_on(run: Run, rules: Path, tmp_path: Path) -> None:
    """The same command again does nothing twice; new files are cleaned by what the old ones taught."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text(HEADER + "1,75001,Paris\n2,75001,Paris\n")
    arguments = ("clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out")
    assert run(*arguments).exit_code == 0
    before = {path: path.read_text() for path in (tmp_path / "out").glob("part-*")}
    again = run(*arguments)
    assert "nothing new" in again.stdout
    assert {path: path.read_text() for path in (tmp_path / "out").glob("part-*")} == before
    # The type of the first run stays: the row with another one is quarantined.
    (source / "b.csv").write_text(HEADER + "3,75001,Pariss\nfour,75001,Paris\n")
    os.utime(source / "b.csv", (1, 1))
    third = run(*arguments)
    assert third.exit_code == 0
    assert "2 tuples" in third.stdout
    cities = {row["id"]: row["city"] for row in read_csv(tmp_path / "out")}
    assert cities == {"1": "Paris", "2": "Paris", "3": "Paris"}
    assert [row["_quarantine"] for row in read_csv(tmp_path / "out-quarantine")] == [
        "id: 'four' is not of type int"
    ]


def test_a_checkpoint_keeps_to_its_options(run: Run, rules: Path, tmp_path: Path) -> None:
    """A checkpoint of another window, output or id, and an output of another checkpoint, are refused."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text(HEADER + "1,75001,Paris\n")
    arguments = ["clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out"]
    assert run(*arguments).exit_code == 0
    (source / "b.csv").write_text(HEADER + "2,75001,Paris\n")
    files = files_in(tmp_path / "out")
    window = run(*arguments, "--window", 10)
    assert window.exit_code == 2
    assert window.stderr.startswith("error: window: the checkpoint /")
    assert "-checkpoint was made with 2000000 tuples sliding by 1000000, not with 10 " in window.stderr
    assert len(window.stderr.splitlines()) == 1
    accepts = run(*arguments, "--accept-after", 5)
    assert accepts.exit_code == 2
    assert "error: accept after: the checkpoint" in accepts.stderr
    assert "was made with 10, not with 5; go on with 10, or begin" in accepts.stderr
    other = run(*arguments[:-1], tmp_path / "other", "--checkpoint", tmp_path / "out-checkpoint")
    assert other.exit_code == 2
    assert "output: the checkpoint" in other.stderr
    id = run(*arguments[:6], "zip", *arguments[7:])
    assert "id: the checkpoint" in id.stderr
    foreign = run(*arguments, "--checkpoint", tmp_path / "new")
    assert foreign.exit_code == 2
    assert "it has files of another run" in foreign.stderr
    assert files_in(tmp_path / "out") == files


def test_text_survives_inference(run: Run, rules: Path, tmp_path: Path) -> None:
    """Cells that no rule is about are written as they were, whatever they look like."""
    text = 'id,zip,city,price,when,flag,note\n1,01234,Paris,1.10,2024-01-31 10:00:00,True,"a, b"\n'
    text += "2,01234,Paris,2,2024-02-01 10:00:00,false,\n3,1234,Rome,3e2,,,\n"
    (tmp_path / "in.csv").write_text(text)
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--output", tmp_path / "out"
    )
    assert result.exit_code == 0
    assert "".join(path.read_text() for path in sorted((tmp_path / "out").glob("part-*"))) == text


def test_json(run: Run, rules: Path, tmp_path: Path) -> None:
    """Broken JSON and fields of a wrong type go to the quarantine with the reason."""
    lines = [
        '{"id": 1, "zip": 75001, "city": "Paris"}',
        '{"id": 2, "zip": 75001, "city": null}',
        '{"id": "three", "zip": 75001, "city": "Paris"}',
        '{"id": 4, "zip": 75001, "city": "Par',
        "",
        '{"id": 5, "zip": [1], "city": "Paris"}',
        '{"zip": 75001, "city": "Paris"}',
        "6",
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out"
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / "in.jsonl", "--id", "id", "--output", out,
        "--schema", SCHEMA,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for path in out.glob("part-*.json") for line in path.read_text().splitlines()]
    assert sorted(rows, key=lambda row: row["id"]) == [json.loads(lines[0]), json.loads(lines[1])]
    (path,) = (tmp_path / "out-quarantine").glob("part-*.json")
    quarantined = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["_record"]: row["_quarantine"] for row in quarantined} == {
        lines[2]: "id: 'three' is not of type int",
        lines[3]: "malformed: not valid JSON: Unterminated string starting at character 33",
        lines[5]: "zip: '[1]' is not of type int",
        lines[6]: "id: the id is null",
        "6": "malformed: a JSON object is needed, this is '6'",
    }


def test_parquet(run: Run, rules: Path, tmp_path: Path) -> None:
    """Parquet comes out as parquet, with an audit in parquet; a row without id is quarantined."""
    table = pa.table(
        {"id": [1, 2, 3, None], "zip": ["75001"] * 4, "city": ["Paris", "Paris", "Pariss", "Paris"]}
    )
    pq.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "out"
    result = run("clean", "--rules", rules, "--input", tmp_path / "in.parquet", "--id", "id", "--output", out)
    assert result.exit_code == 0, result.output
    rows = [row for path in out.glob("part-*.parquet") for row in pq.read_table(path).to_pylist()]
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": n, "zip": "75001", "city": "Paris"} for n in (1, 2, 3)
    ]
    assert files_in(tmp_path / "out-audit") == ["part-000000-0000.parquet"]
    explained = run("explain", 3, "--audit", tmp_path / "out-audit")
    assert "city: 'Pariss' -> 'Paris'" in explained.stdout
    (quarantined,) = (tmp_path / "out-quarantine").glob("part-*")
    assert pq.read_table(quarantined)["_quarantine"].to_pylist() == ["id: the id is null"]


def test_order_is_that_of_the_files(run: Run, rules: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Positions follow paths and places, also when a file is read in several blocks, by several tasks."""
    draw = random.Random(7)  # noqa: S311
    rows = [(n, draw.randrange(5), draw.choice("aaab")) for n in range(4_000)]
    source = tmp_path / "in"
    source.mkdir()
    # The first file by path is the smallest and the newest: neither size nor date is the order.
    for name, part in (("b.csv", rows[500:]), ("a.csv", rows[:500])):
        (source / name).write_text(HEADER + "".join(f"{a},{b},{c}\n" for a, b, c in part))
    schema = pa.schema([("id", pa.int32()), ("zip", pa.int32()), ("city", pa.string())])
    columns = [
        pa.array(column, type) for column, type in zip(zip(*rows, strict=True), schema.types, strict=True)
    ]
    _, audit = Engine(schema, load_rules(rules), id="id").process(
        pa.RecordBatch.from_arrays(columns, schema=schema)
    )
    option = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(option) or ""
    spark.conf.set(option, "4096")
    try:
        result = run(
            "clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out",
            "--schema", SCHEMA,
        )  # fmt: skip
        trial = run("check", "--rules", rules, "--input", source, "--id", "id", "--schema", SCHEMA)
    finally:
        spark.conf.set(option, before)
    assert result.exit_code == 0
    (path,) = (tmp_path / "out-audit").glob("part-*")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(written, key=lambda row: row["position"]) == audit.to_pylist()
    assert f"{audit.num_rows:,} cells would be repaired" in trial.stdout


def test_rule_updates(run: Run, tmp_path: Path) -> None:
    """A rule that comes at a position repairs from there on, one that goes repairs no more."""
    (tmp_path / "rules.yml").write_text("rules: []\n")
    (tmp_path / "updates.jsonl").write_text(
        '{"at": 2, "op": "add", "rule": "r: zip -> city"}\n\n{"at": 5, "op": "delete", "id": "r"}\n'
    )
    cities = ["a", "b", "a", "a", "b", "b"]
    (tmp_path / "in.csv").write_text(HEADER + "".join(f"{n},1,{city}\n" for n, city in enumerate(cities)))
    result = run(
        "clean", "--rules", tmp_path / "rules.yml", "--input", tmp_path / "in.csv", "--id", "id",
        "--output", tmp_path / "out", "--rule-updates", tmp_path / "updates.jsonl",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert [row["city"] for row in read_csv(tmp_path / "out")] == ["a", "b", "a", "a", "a", "b"]


def test_one_line_per_batch(run: Run, rules: Path, tmp_path: Path) -> None:
    """Off a terminal, progress is shown in lines, and the summary has the counts of each rule."""
    source = tmp_path / "in"
    source.mkdir()
    for n in range(3):
        (source / f"{n}.csv").write_text(HEADER + f"{n},1,{'aab'[n]}\n")
        os.utime(source / f"{n}.csv", (n, n))
    result = run(
        "clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out",
        "--files-per-batch", 1,
    )  # fmt: skip
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert 1 <= len(lines) <= 3
    assert lines[-1].startswith("batch 2: 1 tuple in ")
    assert lines[-1].endswith("3 so far; 1 violations, 1 repairs")
    assert result.stdout.splitlines()[2].split()[:3] == ["zip_city", "1", "1"]


@pytest.fixture
def deaf() -> Iterator[None]:
    """Let signals that come too late end no test process."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_is_no_end(run: Run, rules: Path, tmp_path: Path, deaf: None) -> None:
    """A signal ends a run with its exit code, and the summary says how to go on, which gives all rows."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for n in range(60):
        (source / f"{n:02}.csv").write_text(HEADER + f"{n},1,a\n")
    arguments = ("clean", "--rules", rules, "--input", source, "--id", "id", "--output", out)

    def send(number: signal.Signals, n_files: int) -> None:
        deadline = time.monotonic() + 300
        while len(list(out.glob("part-*"))) < n_files and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    for number, n_files, code in ((signal.SIGTERM, 1, 143), (signal.SIGINT, 4, 130)):
        sender = threading.Thread(target=send, args=(number, n_files))
        sender.start()
        interrupted = run(*arguments, "--files-per-batch", 1)
        sender.join()
        assert interrupted.exit_code == code
        first = interrupted.stdout.splitlines()[0]
        assert first.startswith(f"interrupted by {number.name}, so there may be input that is not cleaned")
        assert first.endswith("run the same command again to go on")
        assert len(read_csv(out)) < 60
    assert run(*arguments).stdout.splitlines()[0].endswith("0 rows in quarantine")
    assert sorted(int(row["id"]) for row in read_csv(out)) == list(range(60))


def broken(name: str, directory: Path) -> tuple[list[object], str]:
    """Make an input that cannot be read; return the options for it and what the error says."""
    source = directory / "in"
    source.mkdir()
    good = HEADER + "1,1,a\n"
    options: list[object] = ["--input", source]
    if name == "missing":
        return ["--input", source / "nope.csv"], "nope.csv does not exist"
    if name == "no files":
        return options, "has no files"
    if name == "empty file":
        (source / "a.csv").write_text("")
        return options, "a.csv: it is empty"
    if name == "lacks a column":
        (source / "a.csv").write_text(good)
        (source / "b.csv").write_text("id,zip\n2,2\n")
        return options, "b.csv: the column 'city' is missing"
    if name == "renames a column":
        (source / "a.csv").write_text("id,zip,town\n2,2,a\n")
        return [*options, "--schema", SCHEMA], "a.csv: the column 'city' is missing"
    if name == "other order":
        (source / "a.csv").write_text("id,city,zip\n2,a,2\n")
        return [*options, "--schema", SCHEMA], "a.csv: the columns are in another order"
    if name == "twice a column":
        (source / "a.csv").write_text("id,zip,zip\n2,2,a\n")
        return options, "a.csv: its header has 'zip' twice"
    if name == "damaged gzip":
        (source / "a.csv.gz").write_bytes(gzip.compress(good.encode())[3:])
        return options, "a.csv.gz: cannot read it"
    if name == "not UTF-8":
        (source / "a.csv").write_bytes("id,zip,é\n2,2,aaaaaaaa\n".encode("latin-1"))
        return options, "a.csv: the header is not valid UTF-8"
    if name == "carriage returns":
        (source / "a.csv").write_bytes(good.encode().replace(b"\n", b"\r"))
        return options, "a.csv: lines end with a carriage return alone"
    if name == "no parquet":
        (source / "a.parquet").write_text(good)
        return options, "a.parquet: it is not a whole Parquet file"
    if name in ("parquet lacks a column", "parquet of another type", "parquet with one more column"):
        pq.write_table(pa.table({"id": [1], "zip": [1], "city": ["a"]}), source / "a.parquet")
        if name == "parquet with one more column":
            more_columns = pa.table({"id": [1], "zip": [1], "city": ["a"], "tel": ["1"]})
            pq.write_table(more_columns, source / "b.parquet")
            return options, "b.parquet: the column 'tel' is not in "
        if name == "parquet lacks a column":
            pq.write_table(pa.table({"id": [1], "zip": [1]}), source / "b.parquet")
            return options, "b.parquet: the column 'city' is missing"
        pq.write_table(pa.table({"id": [1], "zip": ["1"], "city": ["a"]}), source / "b.parquet")
        return options, "b.parquet: the column 'zip' is of type string"
    if name == "several formats":
        (source / "a.csv").write_text(good)
        (source / "b.json").write_text("{}\n")
        return options, "files of several formats"
    if name == "unknown format":
        (source / "a.txt").write_text(good)
        return options, "a.txt does not show its format"
    if name == "no json":
        (source / "a.json").write_text('[\n{\n"id": 1\n}\n]\n')
        return options, "no line of the input is a JSON object"
    (source / "a.csv").write_text(good)
    more: dict[str, tuple[list[object], str]] = {
        "no such id": (["--id", "key"], "id: the input has no column 'key'; choose one of id, zip, city"),
        "no such order": (["--order-by", "key"], "order by: the input has no column 'key'"),
        "no schema": (["--schema", "id INT zip"], "schema: 'id INT zip' is not a schema"),
        "output in input": (["--output", source / "out"], "is in the input"),
        "audit is output": (["--audit", directory / "out"], "keep them apart"),
        "output is a file": (["--output", source.parent / "rules.yml"], "is a file"),
        "no rules": (["--rules", directory / "no.yml"], "no.yml: cannot read it"),
        "windows": (["--window", 5, "--no-window"], "--no-window does not go with --window"),
        "window": (["--window", 5, "--slide", 2], "window: size 5 is not a multiple of slide 2"),
    }
    extra, message = more[name]
    return [*options, *extra], message


@pytest.mark.parametrize(
    "name",
    [
        "missing", "no files", "empty file", "lacks a column", "renames a column", "other order",
        "twice a column", "damaged gzip", "not UTF-8", "carriage returns", "no parquet",
        "parquet lacks a column", "parquet of another type", "parquet with one more column",
        "several formats", "unknown format", "no json", "no such id", "no such order", "no schema",
        "output in input", "audit is output", "output is a file", "no rules", "windows", "window",
    ],
)  # fmt: skip
def test_set_up_errors(run: Run, rules: Path, tmp_path: Path, name: str) -> None:
    """What is wrong from the start is one line on standard error, exit code 2, and nothing is written."""
    options, message = broken(name, tmp_path)
    defaults = ["--rules", rules, "--id", "id", "--output", tmp_path / "out"]
    result = run("clean", *defaults, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not [name for name in files_in(tmp_path) if name.startswith("out")]


def test_multiline(run: Run, rules: Path, tmp_path: Path) -> None:
    """With --multiline a quoted cell keeps its line breaks; that it was given is remembered."""
    source = tmp_path / "in"
    source.mkdir()
    arguments = ["clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out"]
    (source / "a.csv").write_text(HEADER + '1,1,"a\nb"\n2,1,"a\nb"\nx\n')
    assert run(*arguments, "--multiline").exit_code == 0
    (source / "b.csv").write_text(HEADER + '3,1,"c\nd"\n')
    assert run(*arguments).exit_code == 0
    assert [row["city"] for row in read_csv(tmp_path / "out")] == ["a\nb"] * 3
    assert [row["_record"] for row in read_csv(tmp_path / "out-quarantine")] == ["x"]
    lines = [json.dumps([{"id": n, "zip": 1, "city": "a"} for n in range(3)], indent=1)]
    (tmp_path / "in.json").write_text(lines[0])
    trial = run("check", "--rules", rules, "--input", tmp_path / "in.json", "--id", "id", "--multiline")
    assert trial.stdout.startswith("3 rows: 0 cells")


@pytest.mark.parametrize("name", ["b.csv", "b.csv.gz", "b.parquet"])
def test_a_bad_file_that_comes_later(
    run: Run, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file that comes after the start and cannot be read stops the query; its batch leaves nothing.

    Once it is removed, the same command cleans the rest.
    """
    source = tmp_path / "in"
    source.mkdir()
    if name == "b.parquet":
        pq.write_table(pa.table({"id": [1], "zip": [1], "city": ["a"]}), source / "a.parquet")
    else:
        (source / "a.csv").write_text(HEADER + "1,1,a\n")
    open_files = Parsing.open

    def then_spoil(*arguments: object, **options: object) -> object:
        found = open_files(*arguments, **options)  # type: ignore[arg-type]
        data = b"id,zip,town\n2,2,b\n" if name == "b.csv" else gzip.compress(HEADER.encode())[3:]
        (source / name).write_bytes(data)
        if name == "b.parquet":
            pq.write_table(pa.table({"id": [1], "zip": [1]}), source / name)
        return found

    monkeypatch.setattr(Parsing, "open", then_spoil)
    result = run(
        "clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out",
        "--output-format", "csv",
    )  # fmt: skip
    assert result.exit_code == 2
    assert f"in/{name}: " in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list((tmp_path / "out").glob("part-*"))
    monkeypatch.undo()
    (source / name).unlink()
    again = run(
        "clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out",
        "--output-format", "csv",
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    assert [row["id"] for row in read_csv(tmp_path / "out")] == ["1"]


def test_lanes_stay_as_they_were_placed(run: Run, tmp_path: Path, spark: SparkSession) -> None:
    """The command says how it placed attributes, and keeps to it when it goes on with other rules."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id,zip,city,state\n1,a,Rome,IT\n2,a,Rome,IT\n")

    def go_on(lanes: int, *rules: str) -> str:
        lines = "".join(f'  - "{rule}"\n' for rule in rules)
        (tmp_path / "rules.yml").write_text(f"rules:\n{lines}")
        result = run(
            "clean", "--rules", tmp_path / "rules.yml", "--input", tmp_path / "in", "--id", "id",
            "--output", tmp_path / "out", "--lanes", lanes,
        )  # fmt: skip
        return str(result.output)

    try:
        first = go_on(2, "zip_city: zip -> city", "zip_state: zip -> state")
        assert "lanes       lane 0: city; lane 1: state" in first
        (tmp_path / "in" / "2.csv").write_text("id,zip,city,state\n3,a,Rom,FR\n4,a,Rome,IT\n")
        assert "was made with 2, not with 3; go on with 2" in go_on(3, "zip_city: zip -> city")
        more = go_on(2, "city_state: city -> state", "zip_city: zip -> city", "zip_state: zip -> state")
        assert "lanes       lane 0: city; lane 1: state" in more
        assert [row["city"] for row in read_csv(tmp_path / "out")] == ["Rome"] * 4
        assert [row["state"] for row in read_csv(tmp_path / "out")] == ["IT"] * 4
        assert re.search(r"zip_state +2 +1\b", more)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "1")


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_the_most_probable_value(run: Run, rules: Path, tmp_path: Path, format: str) -> None:
    """With bayes the summary shows how good rules are, over all runs, and explain shows the sum."""
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    for n in range(2):
        cells = ["1,Rome", "2,Milan"] * 20 + ["1,Romx"]
        rows = [f"{100 * n + i},{cell}" for i, cell in enumerate(cells)]
        (tmp_path / "in" / f"{n}.csv").write_text(HEADER + "\n".join(rows) + "\n")
        result = run(
            "clean", "--rules", rules, "--input", tmp_path / "in", "--id", "id", "--output", out,
            "--schema", SCHEMA, "--repair", "bayes", "--look-ahead", 100, "--output-format", format,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        shown = result.stdout.splitlines()
        header, row = shown[1], shown[2].split()
        assert header.split() == [
            "rule", "violations", "repairs", "flags", "trust", "error", "rate", "confidence", "doubtful",
        ]  # fmt: skip
        assert (row[0], row[2], row[3]) == ("zip_city", str(n + 1), "0")
    text = run("explain", 140, "--audit", tmp_path / "out-audit").stdout.splitlines()
    assert re.fullmatch(r"city: 'Romx' -> 'Rome', confidence .*9\d?\.\d%", text[0])
    amounts = [float(line.split()[0]) for line in text if re.match("    +[+-]", line)]
    scores = [float(found[1]) for line in text if (found := re.search(r": score (\S+), the sum", line))]
    assert sum(amounts) == pytest.approx(sum(scores), abs=1e-9)
