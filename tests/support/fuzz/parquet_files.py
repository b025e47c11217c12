"""Parquet files whose schemas drift: each is refused by name, or all its cells come out."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.commands import run_command
from tests.support.fuzz import odd

_DAY = datetime.date(2024, 1, 31)
_WHEN = datetime.datetime(2024, 1, 31, 10, 0, 0, 123_456)
_UTC = datetime.UTC
#: types, with some values
_TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, -128]),
    (pa.int16(), [1, -300]),
    (pa.int32(), [1, -(2**31)]),
    (pa.int64(), [1, 2**63 - 1]),
    (pa.uint8(), [255]),
    (pa.uint32(), [2**32 - 1]),
    (pa.uint64(), [2**63 - 1, 2**64 - 1]),
    (pa.float16(), [1.5]),
    (pa.float32(), [1.5, math.inf, 0.1]),
    (pa.float64(), [0.1, -0.0, 1e300]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["a", "", "\ufffd\x00"]),
    (pa.large_string(), ["a", "𝄞"]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    (pa.binary(), [b"", b"\xff"]),
    (pa.date32(), [_DAY, datetime.date(1, 1, 1)]),
    (pa.date64(), [_DAY]),
    (pa.timestamp("ms"), [_WHEN.replace(microsecond=0)]),
    (pa.timestamp("us"), [_WHEN, datetime.datetime(1, 1, 1)]),
    (pa.timestamp("us", "UTC"), [_WHEN.replace(tzinfo=_UTC)]),
    (pa.timestamp("ns"), [_WHEN]),
    (pa.time32("ms"), [datetime.time(10)]),
    (pa.decimal128(10, 2), [decimal.Decimal("1.50")]),
    (pa.decimal128(20, 2), [decimal.Decimal("1.50")]),
    (pa.decimal128(20, 6), [decimal.Decimal("1.500001")]),
    (pa.list_(pa.int32()), [[1, None], []]),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": None}]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)]]),
    (pa.null(), [None]),
]
_NAMES = ["note", "a.b", "x y", "back`tick", "é", "NOTE2", "#"]
_ROWS = 20


def check_parquet_files(seed: int, n: int, directory: Path) -> list[str]:
    """Clean files with about `n` rows and return what is wrong."""
    draw = random.Random(f"parquet {seed}")  # noqa: S311 -- not for secrets
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "in").mkdir(parents=True)
    (directory / "rules.yml").write_text('rules:\n  - "k_v: k -> v"\n')
    columns = [(name, draw.choice(_TYPES)) for name in draw.sample(_NAMES, draw.randint(1, 3))]
    tables = {}
    for number in range(max(2, n // _ROWS)):
        path = directory / "in" / f"{number:04}.parquet"
        tables[path] = _table(draw, _drifted(draw, columns) if number else columns, number * _ROWS)
        data = directory / "whole"
        pq.write_table(tables[path], data)
        content = data.read_bytes()
        if draw.random() < 0.05 and number:
            content = (
                odd.damaged(draw, content) if draw.random() < 0.5 else content[: draw.randrange(len(content))]
            )
            tables[path] = None
        path.write_bytes(content)
    while True:
        result = run_command(
            "clean", "--rules", directory / "rules.yml", "--input", directory / "in", "--id", "id",
            "--output",
            directory / "out", "--repair", "class",
        )  # fmt: skip
        if re.search(r"Traceback|^\s+at .+\(", result.output, re.MULTILINE):
            return [f"a stack trace: {result.output[-2000:]}"]
        if result.exit_code == 0:
            break
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        named = [path for path in tables if str(path) in "".join(errors)]
        if len(errors) != 1 or not named or ";" not in errors[0]:
            return [f"not one line with a file and a remedy: {result.output[-2000:]}"]
        named[0].unlink()
        del tables[named[0]]
        if not tables:
            return []
    return _compare(tables, directory)


def _drifted(draw: random.Random, columns: list[Any]) -> list[Any]:
    """Return columns, mostly the same."""
    columns = list(columns)
    kind = draw.random()
    if kind < 0.1:
        columns.pop()
    elif kind < 0.2:
        columns.append(("more", draw.choice(_TYPES)))
    elif kind < 0.5:
        place = draw.randrange(len(columns))
        columns[place] = (columns[place][0], draw.choice(_TYPES))
    elif kind < 0.6:
        columns[0] = (columns[0][0].upper(), columns[0][1])
    elif kind < 0.7:
        draw.shuffle(columns)
    return columns


def _table(draw: random.Random, columns: list[Any], first: int) -> pa.Table:
    names, arrays = ["id", "k", "v"], [pa.array(range(first, first + _ROWS), pa.int64())]
    arrays.append(pa.array([str(draw.randrange(3)) for _ in range(_ROWS)]))
    arrays.append(pa.array([draw.choice(["a"] * 8 + ["b", "", None]) for _ in range(_ROWS)], pa.string()))
    for name, (type, values) in columns:
        names.append(name)
        arrays.append(pa.array([draw.choice([*values, None]) for _ in range(_ROWS)], type))
    order = list(range(len(names)))
    if draw.random() < 0.2:
        draw.shuffle(order)
    return pa.table([arrays[at] for at in order], names=[names[at] for at in order])


def _compare(tables: dict[Path, pa.Table | None], directory: Path) -> list[str]:
    came: dict[int, dict[str, Any]] = {}
    for table in tables.values():
        if table is None:
            return []  # damage in a place that Parquet has no checksum of
        came |= {row["id"]: {name.lower(): value for name, value in row.items()} for row in table.to_pylist()}
    audit = [
        row for path in (directory / "out-audit").glob("part-*") for row in pq.read_table(path).to_pylist()
    ]
    new = {row["id"]: row["new_value"] for row in audit}
    out = [row for path in (directory / "out").glob("part-*") for row in pq.read_table(path).to_pylist()]
    if sorted(row["id"] for row in out) != sorted(came):
        return [f"{len(came)} rows came, {len(out)} are out"]
    problems = []
    for row in out:
        before = {**came[row["id"]], **({"v": new[row["id"]]} if row["id"] in new else {})}
        for name, value in row.items():
            if _plain(value) != _plain(before[name.lower()]):
                problems.append(f"{name} of {before} is out as {value!r}")
    return problems[:5]


def _plain(value: Any) -> Any:
    """Return a value without what differs between types that hold the same."""
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=value.tzinfo or _UTC)
        return value if value.__class__ is datetime.datetime else value.to_pydatetime()
    return value
