"""Streams of odd files: they are cleaned by the command, in two runs, and compared with what came in."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.commands import run_command
from tests.support.fuzz import csv_files, json_lines
from tests.support.fuzz.compare import Written, compare, readable
from tests.support.fuzz.csv_files import Table
from tests.support.fuzz.texts import (
    csv_file,
    document_file,
    document_values,
    json_file,
    multiline_csv_file,
    raw_cells,
    read_csv_record,
    read_json_record,
    value_of,
)

_FILES_MAX = 8
#: why a schema is rightly not inferred from odd objects: a damaged name of a member is another one's in
#: capitals, one is taken, or there is no object
_REFUSALS = ("case does not count", "is taken; rename the column", "is a JSON object or a list of them")


@dataclass(frozen=True)
class InputFile:
    """A file of a stream.

    Attributes:
        name: Its name.
        head: What is before the records.
        records: The records, each with the end of its line.
        run: Before which run it comes.
        between: What is between records.
        tail: What is after them.
    """

    name: str
    head: bytes
    records: tuple[bytes, ...]
    run: int
    between: bytes = b""
    tail: bytes = b""

    @property
    def data(self) -> bytes:
        """The whole file, without compression."""
        return self.head + self.between.join(self.records) + self.tail


@dataclass(frozen=True)
class Case:
    """A stream of files, and how it is cleaned."""

    kind: str
    files: tuple[InputFile, ...]
    rules: str
    arguments: tuple[str, ...] = ()
    n_inputs: int = field(default=0)

    def shrunk(self, files: Sequence[InputFile]) -> Case:
        """Return the same with other files."""
        return replace(self, files=tuple(files))


def draw_case(kind: str, seed: int, n: int) -> Case:
    """Return the stream of files that a seed stands for, with about `n` records.

    Args:
        kind: `csv`, `json`, `multiline`, `documents`, `csv to json`, `csv to parquet` or `json to csv`.
        seed: Of the stream.
        n: How many records.
    """
    draw = random.Random(f"{kind} {seed}")  # noqa: S311 -- not for secrets
    is_json = kind.startswith("json") or kind == "documents"
    table = Table.draw(draw, json_lines.NAMES if is_json else None)
    given = draw.random() < 0.5
    files: list[InputFile] = []
    number = 0
    for run in (0, 1):
        # What is inferred is mostly inferred from tame records.
        tame = run == 0 and not given and draw.random() < 0.8
        left = n // 2
        while left > 0:
            size = (
                left if len(files) % _FILES_MAX == _FILES_MAX - 1 else min(left, draw.randint(1, 1 + n // 5))
            )
            left -= size
            frame = _frame(draw, damaged=given or run == 1) if kind == "documents" else None
            ids = range(number, number + size)
            number += size
            ending = ("json" if frame else "jsonl") if is_json else "csv"
            packed = ".gz" if draw.random() < 0.1 else ""
            head = b"\xef\xbb\xbf" if is_json and draw.random() < 0.1 else b""
            if not is_json:
                head = csv_files.header(draw, table)
            make = _maker(kind, draw, table, tame=tame)
            records = [make(one) for one in ids]
            if draw.random() < 0.3:
                records[-1] = records[-1].rstrip(b"\r\n")
            name = f"{run}-{len(files):03}.{ending}{packed}"
            if frame:
                files.append(InputFile(name, head + frame[0], tuple(records), run, *frame[1:]))
            else:
                files.append(InputFile(name, head, tuple(records), run))
    arguments: list[str] = []
    if given:
        arguments += ["--schema", table.ddl]
    if kind in ("multiline", "documents"):
        arguments.append("--multiline")
    if " to " in kind:
        arguments += ["--output-format", kind.rpartition(" ")[2]]
    arguments += ["--repair", draw.choice(["bayes", "class", "vote"])]
    rules: list[dict[str, Any]] = [{"id": "k_v", "lhs": ["k"], "rhs": "v"}]
    if draw.random() < 0.3:
        rules[0]["nulls"] = "fill"
    if draw.random() < 0.5:
        rules.append({"id": "k_more", "lhs": ["k"], "rhs": table.columns[3][0]})
    return Case(kind, tuple(files), json.dumps({"rules": rules}), tuple(arguments), number)


def _frame(draw: random.Random, *, damaged: bool) -> tuple[bytes, bytes, bytes]:
    """Return what is before, between and after the objects of a document; if damaged, it may be none."""
    if damaged and draw.random() < 0.2:
        return draw.choice(
            [
                (b"", b"\n", b"\n"),
                (b"", b" ", b""),
                (b"[", b",", b""),
                (b"[", b",", b"] x"),
                (b"[", b",", b",]"),
            ]
        )
    return (
        draw.choice([b"[", b" [\n", b"\r\n["]),
        draw.choice([b",", b",\n", b"\n, "]),
        draw.choice([b"]", b"\n]\r\n"]),
    )


def _maker(kind: str, draw: random.Random, table: Table, *, tame: bool) -> Callable[[int], bytes]:
    if kind == "multiline":
        return lambda number: csv_files.multiline_record(draw, table, number)
    if kind == "documents":
        return lambda number: _object(draw, table, number, tame=tame or draw.random() < 0.3)
    # An odd file has tame records, too.
    if kind.startswith("json"):
        return lambda number: (
            json_lines.record(draw, table, number, tame=tame or draw.random() < 0.3)
            + csv_files.line_end(draw)
        )
    return lambda number: csv_files.record(draw, table, number, tame=tame or draw.random() < 0.3)


def _object(draw: random.Random, table: Table, number: int, *, tame: bool) -> bytes:
    """Return an object of a document; an odd one has brackets in pairs, but for one in a thousand."""
    data = json_lines.record(draw, table, number, tame=tame, gap=" \t\r\n")
    if tame or draw.random() < 0.001 or len(document_values(b"[" + data + b"]") or ()) == 1:
        return data
    return json_lines.record(draw, table, number, tame=True, gap=" \t\r\n")


def check_case(case: Case, directory: Path) -> list[str]:
    """Clean a stream in a new directory and return what is wrong; nothing if all is as it must be."""
    shutil.rmtree(directory, ignore_errors=True)
    source = directory / "in"
    source.mkdir(parents=True)
    (directory / "rules.yml").write_text(case.rules)
    read: list[InputFile] = []
    for run in (0, 1):
        new = [file for file in case.files if file.run == run]
        for file in new:
            data = file.data
            (source / file.name).write_bytes(gzip.compress(data) if file.name.endswith(".gz") else data)
        read += new
        if not read:
            continue
        result = run_command(
            "clean", "--rules", directory / "rules.yml", "--input", source, "--id", "id", "--output",
            directory / "out",
            *case.arguments,
        )  # fmt: skip
        if (
            result.exit_code == 2
            and "--schema" not in case.arguments
            and any(refusal in result.stderr for refusal in _REFUSALS)
        ):
            return []
        if result.exit_code:
            return [f"exit code {result.exit_code}: {result.output[-2000:]}"]
        if re.search(r"Traceback|^\s+at .+\(", result.output, re.MULTILINE):
            return [f"a stack trace: {result.output[-2000:]}"]
    fields = json.loads((directory / "out-checkpoint" / "sparkbleach.json").read_text())["schema"]["fields"]
    schema = _Schema([one["name"] for one in fields], [str(one["type"]) for one in fields])
    if " to " in case.kind:
        return _check_conversion(case, read, directory, schema)
    if case.kind in ("json", "documents"):
        split = json_file if case.kind == "json" else document_file
        records = [record for file in read for record in split(file.data)]
        reader = partial(read_json_record, names=schema.names, types=schema.types, id="id")
        out = [line for path in parts(directory / "out") for line in path.read_bytes().split(b"\n")[:-1]]
    else:
        split = csv_file if case.kind == "csv" else multiline_csv_file
        records = [record for file in read for record in split(file.data)]
        reader = partial(read_csv_record, names=schema.names, types=schema.types, id="id")
        out = []
        for path in parts(directory / "out"):
            head, _, body = path.read_bytes().partition(b"\n")
            if (
                not body.endswith(b"\n")
                or [value_of(cell) for cell in raw_cells(head.decode()) or ()] != schema.names
            ):
                return [f"{path} has no header, or no end"]
            out += body.split(b"\n")[:-1] if case.kind == "csv" else multiline_csv_file(head + b"\n" + body)
    return compare(records, Written(out, quarantined(directory), audit(directory)), reader)


@dataclass(frozen=True)
class _Schema:
    names: list[str]
    types: list[str]


def parts(directory: Path) -> list[Path]:
    """Return the files that were written to a directory."""
    return sorted(directory.glob("part-*"))


def audit(directory: Path) -> list[dict[str, Any]]:
    """Return the audit."""
    if parquet := sorted((directory / "out-audit").glob("part-*.parquet")):
        import pyarrow.parquet as pq

        return [row for path in parquet for row in pq.read_table(path).to_pylist()]
    return [
        json.loads(line)
        for path in parts(directory / "out-audit")
        for line in path.read_bytes().split(b"\n")
        if line
    ]


def quarantined(directory: Path) -> list[str]:
    """Return the texts of quarantined records."""
    found = []
    for path in parts(directory / "out-quarantine"):
        if path.suffix == ".csv":
            rows = whole_csv(path.read_bytes())
            assert rows[0] == ["_quarantine", "_record"], rows[0]
            found += [(cells[1] or "", cells[0]) for cells in rows[1:]]
        elif path.suffix == ".json":
            lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
            found += [(line["_record"], line["_quarantine"]) for line in lines]
        else:
            import pyarrow.parquet as pq

            found += [(row["_record"], row["_quarantine"]) for row in pq.read_table(path).to_pylist()]
    assert all(reason for _, reason in found)
    return [record for record, _ in found]


def whole_csv(data: bytes) -> list[list[str | None]]:
    """Return the rows of a CSV file whose cells may go over several lines."""
    rows: list[list[str | None]] = []
    text = ""
    for line in data.removeprefix(b"\xef\xbb\xbf").decode().split("\n"):
        text = f"{text}\n{line}" if text else line
        cells = raw_cells(text.removesuffix("\r"))
        if cells is not None and text.strip(" \r\n"):
            rows.append([value_of(cell) for cell in cells])
        if cells is not None or not text.strip("\r\n"):
            text = ""
    assert not text, f"no end: {text[:100]!r}"
    return rows


def _check_conversion(case: Case, read: Sequence[InputFile], directory: Path, schema: _Schema) -> list[str]:
    source, _, target = case.kind.partition(" to ")
    split, reader = (json_file, read_json_record) if source == "json" else (csv_file, read_csv_record)
    records = [record for file in read for record in split(file.data)]
    repaired = {(str(row["id"]), row["attribute"]) for row in audit(directory)}
    texts = Counter(quarantined(directory))
    names = [
        name
        for name, type in zip(schema.names, schema.types, strict=True)
        if type == "string" or name == "id"
    ]
    rows = _rows(directory / "out", target, names)
    problems: list[str] = []
    if len(rows) + texts.total() != len(records):
        problems.append(f"{len(records)} came, {len(rows)} are out and {texts.total()} in quarantine")
    out: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        out.setdefault(str(row["id"]), []).append(row)
    nulls = ("", None) if target == "csv" else (None,)
    for record in records:
        if texts[readable(record)]:
            texts[readable(record)] -= 1
            continue
        reading = reader(record, schema.names, schema.types, "id")
        alike = out.get(str(_number(reading.id, schema)), [])
        for row in alike:
            id = str(row["id"])
            if all(
                row[name] == value or (id, name) in repaired or (value in nulls and row[name] in nulls)
                for name, value in reading.values
            ):
                alike.remove(row)
                break
        else:
            problems.append(f"{record[:300]!r} is nowhere, or is other: {alike!r}")
    problems += [f"in quarantine, but not in: {text!r}" for text in texts.elements()]
    return problems[:5]


def _number(id: str | None, schema: _Schema) -> Any:
    if schema.types[schema.names.index("id")] == "string":
        return id
    try:
        return int(id or "")
    except ValueError:
        return id


def _rows(directory: Path, format: str, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in parts(directory):
        if format == "csv":
            head, *cells = whole_csv(path.read_bytes())
            rows += [dict(zip(map(str, head), row, strict=True)) for row in cells]
        elif format == "json":
            rows += [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
        else:
            import pyarrow.parquet as pq

            rows += pq.read_table(path, columns=names).to_pylist()
    return rows
