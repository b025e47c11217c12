"""The text of records in files: what no rule changes leaves byte for byte."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkbleach.spark.files.csv_text import cells_of, record_of
from sparkbleach.spark.files.json_text import put_members
from tests.support.commands import Run, read_csv

HEADER = "id,zip,city,note\n"
#: more cells than Spark's parser takes
LONG = b"," * 30_000
#: cells that another program would write in another way
ODD = [
    "", '""', "01234", "1.10", "+3", "007", "1e5", "NaN", "True", "null", " a ", "\ta", "a\rb", "a\x00b", "é",
    '"a, b"', '"a ""b"""', '5" pipe', '"a"', "'a'", "#", "\\", '"\\"', "2024-01-31T10:00:00.123456+02:00",
    "\ufeffa", "\u2028", "𝄞", "\ufffd", "x" * 40_000,
]  # fmt: skip


def bodies(directory: Path) -> bytes:
    """Return the lines of all part files of a directory, without headers."""
    parts = [path.read_bytes() for path in sorted(directory.glob("part-*"))]
    header = HEADER.encode()
    assert all(part.startswith(header) for part in parts if directory.glob("part-*.csv"))
    return b"".join(part.removeprefix(header) for part in parts)


def test_odd_csv_lines(run: Run, rules: Path, tmp_path: Path) -> None:
    """Each line of a CSV file is in the output or in the quarantine, byte for byte but for repaired cells."""
    draw = random.Random(5)  # noqa: S311
    rows = [[str(n), "1", "Paris", draw.choice(ODD)] for n in range(200)]
    good = [",".join(row).encode() for row in rows]
    bad = [
        b'200,1,"Paris',
        b'201,1,"' + b"x" * 40_000,
        b'202,1,"Paris"x,y',
        b"203,1,Caf\xe9,",
        b"204,1,Paris",
        b"205,1,Paris,,",
        b"," * 30_000,
        HEADER.rstrip().encode(),
        b"\x00",
        b'"',
    ]
    repaired = b'206,01,"Paris, x", "a" \n207,1,Pariss,1.10\n208,1,"Pariss",""\n'
    source = tmp_path / "in"
    source.mkdir()
    lines = [*good, *bad]
    draw.shuffle(lines)
    text = (
        b"\xef\xbb\xbf" + HEADER.encode() + b"\n".join([lines[0] + b"\r", b"", *lines[1:]]) + b"\n" + repaired
    )
    (source / "a.csv").write_bytes(text.rstrip(b"\n"))
    (tmp_path / "rules.yml").write_text('rules:\n  - "city: zip -> city WHERE id > 206"\n')
    arguments = ["clean", "--rules", tmp_path / "rules.yml", "--input", source, "--id", "id"]
    result = run(
        *arguments, "--output", tmp_path / "out", "--schema", "id INT, zip INT, city STRING, note STRING"
    )
    assert result.exit_code == 0, result.output
    expected = [line for line in lines if line in good]
    expected += [b'206,01,"Paris, x", "a" ', b"207,1,Pariss,1.10", b'208,1,"Pariss",""']
    assert bodies(tmp_path / "out").split(b"\n") == [*expected, b""]
    quarantined = {row["_record"]: row["_quarantine"] for row in read_csv(tmp_path / "out-quarantine")}
    assert sorted(quarantined) == sorted(line.decode("latin-1") for line in bad if line.strip(b"\x00"))
    assert quarantined["203,1,Café,"].startswith("malformed: not valid UTF-8")
    assert "a quoted cell does not end" in quarantined['200,1,"Paris']


def test_characters_and_names_that_spark_trips_over(run: Run, rules: Path, tmp_path: Path) -> None:
    """U+0000, U+FFFF, many commas, days that Python lacks, names with dots and backticks lose nothing."""
    good = [
        '1,1,"Par\x00is, x",' + '"' + "," * 30_000 + '",2024-01-31',
        '2,1,"Par\x00is, x",,',
        "3,2,,,+12024-01-01",
    ]
    bad = ["4,1,Paris,,\uffff", "5,1,\ufffe5,1,a,,", "x,1,,,+12024-01-01", "6,1,,,no", 'x,1,"a\x00, ""b""",,']
    bad.append("x" + "," * 30_000)
    repaired = "7,1,Pariss,,"
    (tmp_path / "in.csv").write_text("\n".join(["id,zip,city,a.b,back`tick", *good, *bad, repaired]))
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--output", tmp_path / "out",
        "--schema", "id INT, zip INT, city STRING, `a.b` STRING, `back``tick` DATE", "--repair", "class",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = [path.read_text().split("\n") for path in sorted((tmp_path / "out").glob("part-*"))]
    assert [line for part in lines for line in part[1:-1]] == [*good, '7,1,"Par\x00is, x",,']
    quarantined = {row["_record"]: row["_quarantine"] for row in read_csv(tmp_path / "out-quarantine")}
    assert sorted(quarantined) == sorted(bad)
    assert "U+FFFE and U+FFFF are no characters" in quarantined[bad[0]]
    assert quarantined["x,1,,,+12024-01-01"] == "id: 'x' is not of type int"


def test_only_repaired_cells_change(run: Run, tmp_path: Path) -> None:
    """A repair changes its cell in the text of a CSV record or a JSON object, and nothing else."""
    (tmp_path / "rules.yml").write_text('rules:\n  - "city: zip -> city"\n')
    (tmp_path / "in.csv").write_text(
        HEADER + '1,01,"a, ""b""",+3\n2,1,"a, ""b""",\n3,001,"c" , "" \n4,+1,"c",""\n5,1, ,"1.10"\n'
    )
    broken = b'{"id":7,"zip":1,"city":"a"}\xed[\r'  # as if three bytes from \xed on were one character
    (tmp_path / "in.jsonl").write_bytes(
        b'{"id": 1, "zip": 1, "city": "a", "n": 1.10}\n{"zip":1,"city":"a","id":2, "more": [1.0,  2]}\n'
        b' {"id":3, "zip" : 1,"city": "b" ,"when": "2024-01-31T10:00:00.123456+02:00"}\r\n'
        b'{"id":4,"zip":1,"zip":2,"city":"a"}\n{"id":5,"zip":1,"city":"\\ud800"}\n{"id":6,"zip":1,"city":null}'
        b"\n" + broken + b"\n"
    )
    schema = "id INT, zip INT, city STRING"
    for name, fields in (("csv", f"{schema}, note STRING"), ("jsonl", schema)):
        result = run(
            "clean", "--rules", tmp_path / "rules.yml", "--input", tmp_path / f"in.{name}", "--id", "id",
            "--output", tmp_path / name, "--schema", fields, "--repair", "class",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
    assert bodies(tmp_path / "csv").decode() == (
        '1,01,"a, ""b""",+3\n2,1,"a, ""b""",\n4,+1,"a, ""b""",""\n5,1,"a, ""b""","1.10"\n'
    )
    written = b"".join(path.read_bytes() for path in sorted((tmp_path / "jsonl").glob("part-*")))
    assert written.decode() == (
        '{"id": 1, "zip": 1, "city": "a", "n": 1.10}\n{"zip":1,"city":"a","id":2, "more": [1.0,  2]}\n'
        ' {"id":3, "zip" : 1,"city": "a" ,"when": "2024-01-31T10:00:00.123456+02:00"}\n'
        '{"id":6,"zip":1,"city":null}\n'
    )
    quarantined = [
        json.loads(line)
        for path in (tmp_path / "jsonl-quarantine").glob("part-*")
        for line in path.read_text().splitlines()
    ]
    reasons = [row["_quarantine"] for row in quarantined]
    assert len(reasons) == 3
    assert "is there twice" in reasons[0]
    assert "half a character" in reasons[1]
    assert quarantined[2]["_record"] == broken.decode("latin-1").removesuffix("\r")


def test_later_files(run: Run, rules: Path, tmp_path: Path) -> None:
    """A cell that an inferred type would write differently stays, unless it is a key or leaves as Parquet."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("id,zip,city,reason\n1,1,a,1.5\n2,1,a,2.5\n")
    later = '007,5,a,3.5\n8,+3,a,1.5\n9,1,"x\nx",\n10,2,b,3.5\n12,01,b,3.5\n13,2,b,1.10\n14,2,b,1e2\n'
    for format in ("csv", "parquet"):
        (source / "b.csv").unlink(missing_ok=True)
        arguments = [
            "clean",
            "--rules",
            rules,
            "--input",
            source,
            "--id",
            "id",
            "--output",
            tmp_path / format,
        ]
        arguments += ["--output-format", format]
        assert run(*arguments).exit_code == 0
        (source / "b.csv").write_bytes(b"id,zip,city,reason\n" + later.encode() + b"11,1,Caf\xe9,\n" + LONG)
        result = run(*arguments)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "csv" / "part-000001-0000.csv").read_text() == (
        "id,zip,city,reason\n10,2,b,3.5\n13,2,b,1.10\n14,2,b,1e2\n"
    )
    quarantined = {row["_record"]: row["_quarantine"] for row in read_csv(tmp_path / "csv-quarantine")}
    keys = ["007,5,a,3.5", "8,+3,a,1.5"]
    assert list(quarantined) == [*keys, '9,1,"x', 'x",', "12,01,b,3.5", "11,1,Café,", LONG.decode()]
    assert "zip: '01' would not be written back as it is" in quarantined["12,01,b,3.5"]
    ids = [pq.read_table(path)["id"].to_pylist() for path in sorted((tmp_path / "parquet").glob("part-*"))]
    assert ids == [[1, 2], [10]]
    (path,) = (tmp_path / "parquet-quarantine").glob("part-*")
    reasons = pq.read_table(path)["_quarantine"].to_pylist()
    assert len(reasons) == 9
    assert "id: '007' would not be written back as it is" in reasons[0]
    assert "zip: '+3' would not" in reasons[1]


def test_dates_that_python_does_not_have(run: Run, rules: Path, tmp_path: Path) -> None:
    """A row with a date after the year 9999, or before the year 1, is cleaned or quarantined as any other."""
    lines = ["1,1,a,10000-01-01", "2,1,a,-0044-03-15", "x,1,a,10000-01-01", "4,1,a,2024-02-30"]
    (tmp_path / "in.csv").write_text("id,zip,city,note\n" + "\n".join(lines))
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--output", tmp_path / "out",
        "--schema", "id INT, zip INT, city STRING, note DATE",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert bodies(tmp_path / "out").decode().splitlines() == lines[:2]
    assert [row["_quarantine"] for row in read_csv(tmp_path / "out-quarantine")] == [
        "id: 'x' is not of type int",
        "note: '2024-02-30' is not of type date",
    ]


def test_json_in_another_format(run: Run, rules: Path, tmp_path: Path) -> None:
    """On the way from JSON to Parquet, what would be lost or changed is quarantined, also deep in a value."""
    source = tmp_path / "in"
    source.mkdir()
    wide = "12345678901234567890123456789012"  # more digits than Python's decimals have of themselves
    first = '{"id":1,"zip":1,"city":"a","n":{"x":[{"y":1}]},"f":1.5,"s":"t","wide":'
    (source / "a.jsonl").write_text(first + wide + "}\n")
    arguments = ["clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out"]
    arguments += ["--output-format", "parquet"]
    assert run(*arguments).exit_code == 0
    lossy = {
        '{"id":2,"zip":1,"n":{"x":[{"y":1,"z":2}]}}': "'n.x.z': not in the schema",
        '{"id":3,"zip":1,"new":null}': "'new': not in the schema",
        '{"id":4,"zip":1,"f":0.12345678901234567890}': "f: '0.12345678901234567890' would not be written",
        '{"id":5,"zip":1,"f":1e400}': "f: '1e400' would not be written back",
        '{"id":6,"zip":1,"s":1.10}': "s: '1.10' would not be written back",
        '{"id":10,"zip":1,"f":1e9999999999999999999}': "f: '1e9999999999999999999' would not be written",
        '{"zip":1,"s":1.10}': "id: the id is null",
        '{"id":7,"zip":"1","new":2}': "zip: '1' is not of type bigint; 'new': not in the schema",
    }
    kept = ['{"id":8,"zip":1,"f":1.10,"s":"1.10","n":null}', '{"id":9,"f":3,"zip":1,"n":{"x":[null,{}]}}']
    (source / "b.jsonl").write_text("\n".join([*lossy, *kept]))
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    ids = [id for path in (tmp_path / "out").glob("part-*") for id in pq.read_table(path)["id"].to_pylist()]
    assert sorted(ids) == [1, 8, 9]
    (path,) = (tmp_path / "out-quarantine").glob("part-*")
    found = pq.read_table(path).to_pylist()
    assert [row["_record"] for row in found] == list(lossy)
    for row, reason in zip(found, lossy.values(), strict=True):
        assert row["_quarantine"].startswith(reason)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_given_types_in_another_format(run: Run, rules: Path, tmp_path: Path, format: str) -> None:
    """A cell that says more than its given type takes quarantines its record in another format."""
    columns = {"d": "DATE", "p": "DECIMAL(10,2)", "t": "TIMESTAMP", "f": "FLOAT", "e": "DOUBLE"}
    kept = {
        "d": "2024-01-31", "p": "1.5", "t": "2024-01-31T10:00:00.123456000+02:00", "f": "0.1", "e": "1e40",
    }  # fmt: skip
    lossy = {
        "d": ["2024-01-31 23:59 junk", "2024-02-01T99"], "p": ["1.005"], "f": ["0.123456789012"],
        "t": ["2024-01-31T10:00:00.123456789+02:00"], "e": ["1e400"],
    }  # fmt: skip
    rows = [kept, *({**kept, name: cell} for name, cells in lossy.items() for cell in cells)]
    if format == "csv":
        lines = [",".join(["id,zip,city", *columns])]
        lines += [f"{id},1,a,{','.join(row.values())}" for id, row in enumerate(rows)]
    else:
        lines = [
            f'{{"id":{id},"zip":1,'
            + ",".join(
                f'"{name}":{cell if name in "pfe" else json.dumps(cell)}' for name, cell in row.items()
            )
            + "}"
            for id, row in enumerate(rows)
        ]
    (tmp_path / f"in.{format}").write_text("\n".join(lines))
    schema = ", ".join(
        ["id INT, zip INT, city STRING", *(f"{name} {type}" for name, type in columns.items())]
    )
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / f"in.{format}", "--id", "id",
        "--output", tmp_path / "out", "--schema", schema, "--output-format", "parquet",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert [
        id for path in (tmp_path / "out").glob("part-*") for id in pq.read_table(path)["id"].to_pylist()
    ] == [0]
    (path,) = (tmp_path / "out-quarantine").glob("part-*")
    reasons = {row["_record"]: row["_quarantine"] for row in pq.read_table(path).to_pylist()}
    assert list(reasons) == lines[-len(rows) + 1 :]
    cells = [(name, cell) for name, cells in lossy.items() for cell in cells]
    for (name, cell), reason in zip(cells, reasons.values(), strict=True):
        assert reason.startswith(f"{name}: '{cell}'")


def test_a_collation(run: Run, rules: Path, tmp_path: Path) -> None:
    """A repair leaves also where the collation of the column takes the old value for the new one."""
    (tmp_path / "in.csv").write_text("id,zip,city\n1,1,Paris\n2,1,Paris\n3,1,PARIS\n")
    result = run(
        "clean", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--output", tmp_path / "out",
        "--schema", "id INT, zip INT, city STRING COLLATE UTF8_LCASE", "--repair", "class",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "1 cell repaired" in result.stdout
    (path,) = (tmp_path / "out").glob("part-*")
    assert path.read_text().endswith("\n3,1,Paris\n")


def test_members_that_differ_by_case(run: Run, rules: Path, tmp_path: Path) -> None:
    """Members that differ by case only are refused with their file; with a schema the other one stays."""
    source = tmp_path / "in [é]"
    source.mkdir()
    (source / "a.jsonl").write_text('{"id":1,"zip":1,"city":"a"}\n{"id":2,"zip":1,"city":"b"}\n')
    line = '{"id":3,"zip":1,"city":"a","Zip":5}\n'
    (source / "b.jsonl").write_text(line)
    arguments = ["clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out"]
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"error: {source / 'b.jsonl'}: an object has the member 'Zip', others have 'zip' (case does not"
    )
    assert run(*arguments, "--schema", "id INT, zip INT, city STRING").exit_code == 0
    assert line in "".join(path.read_text() for path in (tmp_path / "out").glob("part-*"))


NAMES = [
    "_row",
    "_order_0",
    "_sort_0",
    "a`b",
    "a.b",
    "a b",
    "id.x",
    "lane",
    "value",
    "text",
    "parsed",
    "number",
]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_names_of_columns(run: Run, tmp_path: Path, format: str) -> None:
    """Columns may have any names, also those that are used inside, and rules may read them."""
    names = ["id", *NAMES]
    path = tmp_path / f"in.{format}"
    rows = [dict.fromkeys(names, "v") | {"id": str(n), "a.b": "v" if n < 3 else "w"} for n in range(4)]
    if format == "csv":
        path.write_text("\n".join(record_of(one) for one in (names, *(row.values() for row in rows), ["x"])))
    else:
        path.write_text("\n".join([*map(json.dumps, rows), "{"]))
    rule = "{id: r, lhs: ['a`b'], rhs: a.b, when: '\"a b\" IS NOT NULL'}"
    (tmp_path / "rules.yml").write_text(f"rules:\n  - {rule}\n")
    arguments = ["--rules", tmp_path / "rules.yml", "--input", path, "--id", "id"]
    result = run("clean", *arguments, "--output", tmp_path / "out", "--repair", "class")
    assert result.exit_code == 0, result.output
    assert "1 cell repaired, 1 row in quarantine" in result.stdout
    if format == "csv":
        written = read_csv(tmp_path / "out")
    else:
        lines = [path.read_text().splitlines() for path in sorted((tmp_path / "out").glob("part-*"))]
        written = [json.loads(line) for part in lines for line in part]
    assert written == [row | {"a.b": "v"} for row in rows]
    checked = run("check", *arguments, "--repair", "class")
    assert "1 cell would be repaired, 1 row would be quarantined" in checked.stdout


def test_names_that_are_taken(run: Run, rules: Path, tmp_path: Path) -> None:
    """A column with the name of one that is added to clean rows is refused before anything is read."""
    path = tmp_path / "in.csv"
    for name in ("_repairs", "_Quarantine", "_control", "_record", "_corrupt_record", "_metadata"):
        path.write_text(f"id,zip,city,{name}\n1,1,a,b\nx\n")
        result = run("clean", "--rules", rules, "--input", path, "--id", "id", "--output", tmp_path / "out")
        assert result.exit_code == 2
        assert f"the name {name} is taken; rename the column" in result.stderr


def test_paths_with_brackets(run: Run, rules: Path, tmp_path: Path) -> None:
    """Directories and files whose names look like patterns are read, each once."""
    source = tmp_path / "in {1} [é]"
    source.mkdir()
    target = tmp_path / "my rules [1]"
    arguments = ["clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "o [2]"]
    arguments += ["--rules-target", target]
    (source / "a [b]*.csv").write_text("id,zip,city,note\n1,1,a,x\n")
    (source / "c.csv").write_text("id,zip,city,note\n2,1,a,x\n")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert sorted(bodies(tmp_path / "o [2]").splitlines()) == [b"1,1,a,x", b"2,1,a,x"]
    assert run("rules", "add", "x: zip -> note", "y: city -> note", "--target", target).exit_code == 0
    (source / "d.csv").write_text("id,zip,city,note\n3,1,a,x\n")
    result = run(*arguments)
    assert result.stderr.count("rule update applied") == 2
    assert "refused" not in result.stderr
    assert "1 tuple in" in result.stdout


@pytest.mark.parametrize("seed", range(200))
def test_cells_of_records(seed: int) -> None:
    """A record that was made of cells has these cells."""
    draw = random.Random(seed)  # noqa: S311
    cells = [
        "".join(draw.choices('ab ,"\r\n\x00é', k=draw.randrange(5))) for _ in range(draw.randrange(1, 5))
    ]
    assert cells_of(record_of(cells)) == cells


def test_texts_that_are_no_records() -> None:
    """A quote that is not closed, or has text after it, makes no record, however long it is."""
    for text in ('"', '"a', '"a"b', 'a,"b" ', '"' + "x" * 100_000):
        assert cells_of(text) is None
    assert cells_of('5" pipe, "a"') == ['5" pipe', ' "a"']


def test_members_that_an_object_lacks() -> None:
    """A member that an object does not have comes at its end."""
    assert put_members(' {"a": 1.0 } ', '{"b":2}') == ' {"a": 1.0,"b":2 } '


def test_what_would_be_lost_is_said(run: Run, rules: Path, tmp_path: Path) -> None:
    """A column in the name of a directory is refused; a file that grew after it was read is named."""
    source = tmp_path / "in"
    (source / "year=2024").mkdir(parents=True)
    file = source / "year=2024" / "a b.csv"
    file.write_text("id,zip,city\n1,1,a\n")
    arguments = ["clean", "--rules", rules, "--id", "id", "--output", tmp_path / "out", "--input"]
    refused = run(*arguments, source)
    assert refused.exit_code == 2
    assert "the column 'year' is only in the name of the directory year=2024" in refused.stderr
    assert run(*arguments, file.parent).exit_code == 0
    assert "warning" not in run(*arguments, file.parent).stderr
    times = file.stat()
    for seconds in (times.st_mtime_ns, 10**9):  # its size differs, or its time, too
        file.write_text("id,zip,city\n1,1,a\n2,1,a\n")
        os.utime(file, ns=(seconds, seconds))
        again = run(*arguments, file.parent)
        assert "nothing new" in again.stdout
        assert f"warning: {file} was changed after it was read" in again.stderr


def test_times_in_parquet(run: Run, rules: Path, tmp_path: Path) -> None:
    """Times with a zone leave as microseconds, so that any reader has the year 1."""
    when = [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 1, 31, 10, 0, 0, 123456, tzinfo=UTC)]
    table = pa.table(
        {"id": [1, 2], "zip": [1, 1], "city": ["a", "a"], "when": pa.array(when, pa.timestamp("us", "UTC"))}
    )
    pq.write_table(table, tmp_path / "in.parquet")
    result = run(
        "clean",
        "--rules",
        rules,
        "--input",
        tmp_path / "in.parquet",
        "--id",
        "id",
        "--output",
        tmp_path / "out",
    )
    assert result.exit_code == 0, result.output
    (path,) = (tmp_path / "out").glob("part-*")
    assert pq.ParquetFile(path).schema.column(3).physical_type == "INT64"
    assert pq.read_table(path)["when"].to_pylist() == when


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"when": pa.array([1], pa.timestamp("ns"))},
            "'when' has times in nanoseconds, which Spark cannot read",
        ),
        ({"City": ["a"]}, "the columns 'city' and 'City' differ by upper and lower case only; rename one"),
    ],
)
def test_parquet_that_spark_cannot_read(
    run: Run, rules: Path, tmp_path: Path, columns: dict[str, object], message: str
) -> None:
    """It is refused before the first row is read, with the column and what to do."""
    pq.write_table(pa.table({"id": [1], "zip": [1], "city": ["a"], **columns}), tmp_path / "in.parquet")
    arguments = ["clean", "--rules", rules, "--id", "id", "--input", tmp_path / "in.parquet"]
    refused = run(*arguments, "--output", tmp_path / "out")
    assert refused.exit_code == 2
    assert message in refused.stderr
