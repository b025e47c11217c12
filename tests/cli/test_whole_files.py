"""`--multiline`: JSON documents, and CSV records over several lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sparkbleach.spark.files.whole_files import joined_lines, json_records
from tests.support.commands import Run, read_csv

SCHEMA = "id INT, zip INT, city STRING"


def written(directory: Path) -> str:
    """Return what is in all part files of a directory."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("part-*"))).decode()


def quarantined(directory: Path) -> list[tuple[str, str]]:
    """Return the records and the reasons of a quarantine of JSON."""
    rows = [json.loads(line) for line in written(directory).splitlines()]
    return [(row["_record"], row["_quarantine"]) for row in rows]


def test_documents(run: Run, rules: Path, tmp_path: Path) -> None:
    """The objects of JSON documents leave as they came, a line each; each that is malformed is quarantined.

    A file that is not one document is quarantined whole.
    """
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.json").write_bytes(
        b'\xef\xbb\xbf[{"id": 1, "zip": 1, "city": "a"}, {"zip":1,"id":2,"city":"a","n":[1.10,'
        b'\r\n  {"x":"\\n]"}]}\n,'
        b'{"id":3,"zip":1,"city":"Caf\xe9"},{"id":4,"zip":1,"city":"\\ud800x"},{"id":5,"zip":1,"zip":2},'
        b'{"id":6 "zip":1}, null,\n{\n    "id": 7,\n    "zip": 1,\n    "city": "b"\n}\n]\n'
    )
    for name, data in (("b", b""), ("c", b" [\n]\n"), ("d", b'{\n"id":8,"zip":2}'), ("e", b"7")):
        (source / f"{name}.json").write_bytes(data)
    (source / "f.json.gz").write_bytes(gzip.compress(b'[{"id":9,"zip":2,"city":null}]'))
    malformed = {
        '{"id":10,"zip":3} {"id":11,"zip":3}': "malformed: not valid JSON: Extra data at character 19",
        '{"id":12,"zip":3}\n{"id":13}\n': (
            "malformed: not valid JSON: Extra data at character 19; "
            "leave --multiline out if each line is an object"
        ),
        '[{"id":14,"zip":3}] more': "malformed: not valid JSON: Extra data at character 21",
        '[{"id":15,"zip":3}, {"id":\n "zip"': (
            "malformed: not valid JSON: Expecting ',' delimiter at character 34"
        ),
        '[{"id":17,"zip":3},]': "malformed: not valid JSON: Expecting value at character 20",
    }
    for number, text in enumerate(malformed):
        (source / f"g{number}.json").write_text(text)
    result = run(
        "clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out",
        "--repair", "class", "--multiline", "--schema", SCHEMA,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert sorted(written(tmp_path / "out").splitlines()) == [
        '{"id": 1, "zip": 1, "city": "a"}',
        '{"id": 7,"zip": 1,"city": "a"}',
        '{"id":8,"zip":2}',
        '{"id":9,"zip":2,"city":null}',
        '{"zip":1,"id":2,"city":"a","n":[1.10,{"x":"\\n]"}]}',
    ]
    found = quarantined(tmp_path / "out-quarantine")
    assert found[:5] == [
        ('{"id":3,"zip":1,"city":"Café"}', "malformed: not valid UTF-8; save the file as UTF-8"),
        (
            '{"id":4,"zip":1,"city":"\\ud800x"}',
            "malformed: a text has half a character (\\ud800 to \\udfff without the other half)",
        ),
        ('{"id":5,"zip":1,"zip":2}', "malformed: not valid JSON: the name 'zip' is there twice"),
        ('{"id":6 "zip":1}', "malformed: not valid JSON: Expecting ',' delimiter at character 9"),
        ("null", "malformed: a JSON object is needed, this is 'null'"),
    ]
    assert dict(found[5:]) == {"7": "malformed: a JSON object is needed, this is '7'", **malformed}


def test_later_documents(run: Run, rules: Path, tmp_path: Path) -> None:
    """A later document keeps members that no column has; on the way to Parquet their object does not pass."""
    source = tmp_path / "in"
    source.mkdir()
    later = '[{"id":2,"zip":1,"new":1}, {"id":3,"f":0.12345678901234567890},{"id":4,"city":7},{"id":5}]'
    for format in ("json", "parquet"):
        (source / "b.json").unlink(missing_ok=True)
        (source / "a.json").write_text('[{"id":1,"zip":1,"city":"a","f":1.5}]')
        arguments = ["clean", "--rules", rules, "--input", source, "--id", "id", "--multiline"]
        arguments += ["--output", tmp_path / format, "--output-format", format]
        assert run(*arguments).exit_code == 0
        (source / "b.json").write_text(later)
        assert run(*arguments).exit_code == 0
    assert written(tmp_path / "json").splitlines()[1:] == [
        '{"id":2,"zip":1,"new":1}',
        '{"id":3,"f":0.12345678901234567890}',
        '{"id":4,"city":7}',
        '{"id":5}',
    ]
    ids = [pq.read_table(path)["id"].to_pylist() for path in sorted((tmp_path / "parquet").glob("part-*"))]
    assert ids == [[1], [5]]
    (path,) = (tmp_path / "parquet-quarantine").glob("part-*")
    assert [reason.partition(" would")[0] for reason in pq.read_table(path)["_quarantine"].to_pylist()] == [
        "'new': not in the schema; name it there",
        "f: '0.12345678901234567890'",
        "city: '7'",
    ]


def test_json_lines_as_documents(run: Run, rules: Path, tmp_path: Path) -> None:
    """If no file is a document, the error says that JSON lines are read without --multiline."""
    (tmp_path / "in.json").write_text('{"id":1,"zip":1,"city":"a"}\n{"id":2,"zip":1,"city":"a"}\n')
    arguments = ["clean", "--rules", rules, "--input", tmp_path / "in.json", "--id", "id", "--multiline"]
    result = run(*arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "in.json: no file of the input is a JSON object or a list of them" in result.stderr
    assert "leave --multiline out if each line is an object" in result.stderr


def test_documents_that_are_too_long(
    run: Run, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that Spark has no memory for is refused by its path before anything is read."""
    monkeypatch.setattr("sparkbleach.spark.files.schema.memory_bytes", lambda _: 100)
    (tmp_path / "in.json").write_text('[{"id":1,"zip":1,"city":"a"}]')
    arguments = ["clean", "--rules", rules, "--input", tmp_path / "in.json", "--id", "id", "--multiline"]
    result = run(*arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "in.json: it has 0 MB, but a JSON document is read whole" in result.stderr


@pytest.mark.parametrize("schema", [["--schema", SCHEMA], []])
def test_csv_over_several_lines(run: Run, rules: Path, tmp_path: Path, schema: list[str]) -> None:
    """CSV records over several lines leave byte for byte, but for line ends; malformed ones do not."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_bytes(
        b'\xef\xbb\xbf\r\nid,zip,city\n1,1,"a\r\n""b"""\r\n2,2,"Paris"\r\n\r\n3,03,Paris\n4,4,"\n\nc,\n"\n'
        b'5,5,a"b\n6,6,\n20,7,"x\r\ny"\r\n21,7,"x\r\ny"\n22,7,z\n7,2,"a"b\n8,1\n9,2,Caf\xe9\n10,10,x'
    )
    (source / "b.csv").write_text('id,zip,city\n11,11,a\n12,3,"b\n13,3,c\n14,3,d\n')
    result = run(
        "clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out",
        "--repair", "class", "--multiline", *schema,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    parts = [path.read_bytes() for path in sorted((tmp_path / "out").glob("part-*"))]
    assert b"".join(part.removeprefix(b"id,zip,city\n") for part in parts) == (
        b'1,1,"a\r\n""b"""\n2,2,"Paris"\n3,03,Paris\n4,4,"\n\nc,\n"\n5,5,a"b\n6,6,\n20,7,"x\r\ny"\n21,7,"x\r\ny"\n22,7,"x\r\ny"\n10,10,x\n11,11,a\n'
    )
    found = {row["_record"]: row["_quarantine"] for row in read_csv(tmp_path / "out-quarantine")}
    assert list(found) == ['7,2,"a"b', "8,1", "9,2,Café", '12,3,"b\n13,3,c\n14,3,d']
    assert "a quoted cell does not end, or has text after it" in found['7,2,"a"b']
    assert "a quoted cell does not end, or has text after it" in found['12,3,"b\n13,3,c\n14,3,d']


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"", []),
        (b" \n", []),
        (b"[ ]", []),
        (b' {"a": "}"} ', [b'{"a": "}"}']),
        (b'[{"a":1]\n, "x,]" ,[1,[2]],true ]', [b'{"a":1]', b'"x,]"', b"[1,[2]]", b"true"]),
        (b'[{"a":"\\"\n{",\n\n "b":1}]', [b'{"a":"\\"\n{","b":1}']),
        (b"[" * 100_000 + b"]" * 100_000, [b"[" * 99_999 + b"]" * 99_999]),
    ],
)
def test_values_of_a_document(data: bytes, values: list[bytes]) -> None:
    """The values of a list are found by their brackets, and line breaks between their tokens are left out."""
    assert json_records(data) == values


@pytest.mark.parametrize(
    "data",
    [
        b"[",
        b"]",
        b"[,]",
        b"[1,]",
        b"[1 2]",
        b"[1[2]",
        b"{} {}",
        b"[] x",
        b'["a]',
        b'{"a',
        b"[{}",
        b"[" * 100_000,
    ],
)
def test_no_document(data: bytes) -> None:
    """What is not one value, or one list of values, is one text as it is."""
    assert json_records(data) == [data]


def test_lines_of_csv_records() -> None:
    """A record is beside its last line, one that does not end beside the last line of its file."""
    files = {
        "a": [
            b"\xef\xbb\xbf",
            b"id,v",
            b"1,a",
            b"",
            b'2,"a',
            b"",
            b'b""',
            b'"',
            b'3,"a"b\r',
            b'4,a"b',
            b'5,"',
        ],
        "b": [b"id,v", b'1,"', b'"",2,"'],
        "c": [b"id,v"],
        "d": [b"id,v", b"1,a"],
    }
    texts = [
        *[None, None, b"1,a", None, None, None, None, b'2,"a\n\nb""\n"', b'3,"a"b', b'4,a"b', b'5,"'],
        *[None, None, b'1,"\n"",2,"'],
        *[None, None, b"1,a"],
    ]
    rows = [(line, path, 0) for path, lines in files.items() for line in lines]
    for size in (1, 2, 3, 5, 100):
        batches = [rows[at : at + size] for at in range(0, len(rows), size)]
        columns = (tuple(list(column) for column in zip(*batch, strict=True)) for batch in batches)
        found = list(joined_lines(columns))  # type: ignore[arg-type]
        assert [text for batch in found for text in batch.to_pylist()] == texts
        assert [len(batch) for batch in found] == [len(batch) for batch in batches]


def test_a_quote_that_does_not_end() -> None:
    """It takes no longer the more lines come after it."""
    lines = [b"id,v", b'1,"', *[b'x"",'] * 200_000]
    (found,) = joined_lines([(lines, ["a"] * len(lines), [0] * len(lines))])
    assert found[-1].as_py() == b"\n".join(lines[1:])
