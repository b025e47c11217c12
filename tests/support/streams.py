"""Dirty streams in files, and what the engine makes of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkbleach import Engine, RuleUpdate, Window

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("client", pa.int32()),
        ("zipcode", pa.string()),
        ("city", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("open", pa.bool_()),
        ("rate", pa.float64()),
        ("note", pa.list_(pa.string())),
    ]
)
DDL = (
    "id long, client int, zipcode string, city string, price decimal(9,2), day date, at timestamp, "
    "open boolean, rate double, note array<string>"
)
RULES: list[Any] = [
    "zip_city: zipcode -> city",
    "client_city: client -> city",
    {"id": "zip_rate", "lhs": ["zipcode"], "rhs": "rate", "when": "open", "nulls": "fill"},
    {"id": "client_day", "lhs": ["client", "zipcode"], "rhs": "day"},
    "price_at: price -> at",
    {"id": "shut", "lhs": ["city"], "rhs": "open", "tableau": [["city 1", False], ["_", "_"]]},
]
WINDOW = Window.tuples(400, slide=100)
#: in a micro-batch of the program that is killed
FILES_PER_BATCH = 2


def tuples(n: int, seed: int) -> pa.Table:
    """Return a dirty stream with all kinds of columns."""
    random = np.random.default_rng(seed)

    def null(share: float = 0.05) -> Any:
        return random.random(n) < share

    zipcode = random.integers(0, 20, n)
    wrong = random.random(n) < 0.1
    city = np.where(wrong, random.integers(0, 8, n), zipcode % 8)
    day = np.datetime64("2026-01-01", "D") + random.integers(0, 4, n)
    return pa.table(
        {
            "id": pa.array(np.arange(n)),
            "client": pa.array(random.integers(0, 60, n).astype(np.int32), mask=null()),
            "zipcode": pa.array([f"{z:05}" for z in zipcode], mask=null()),
            "city": pa.array([f"city {c}" for c in city], mask=null()),
            "price": pa.array([f"{p}.50" for p in random.integers(0, 40, n)]).cast(pa.decimal128(9, 2)),
            "day": pa.array(day),
            "at": pa.array(day.astype("datetime64[us]"), pa.timestamp("us", "UTC"), mask=null()),
            "open": pa.array(random.random(n) < 0.8, mask=null()),
            "rate": pa.array(np.where(wrong, 0.5, zipcode / 4), mask=null()),
            "note": pa.array([["a", None], None, []] * n, pa.list_(pa.string())).slice(0, n),
        },
        SCHEMA,
    )


def write_files(table: pa.Table, directory: Path, sizes: Sequence[int]) -> None:
    """Write a stream as Parquet files of these many tuples, to be read in this order."""
    directory.mkdir(parents=True, exist_ok=True)
    begin = 0
    for number, size in enumerate(sizes):
        path = directory / f"{number:04}.parquet"
        pq.write_table(table.slice(begin, size), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # the source goes by time
        begin += size
    assert begin == table.num_rows


def cleaned_by_engine(
    table: pa.Table, updates: Sequence[dict[str, Any]] = (), batches: Sequence[int] = (), **options: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows and the audit rows that the engine gives for a stream, in batches of these sizes."""
    engine = Engine(table.schema, **{"rules": RULES, "id": "id", "window": WINDOW, **options})
    rows: list[dict[str, Any]] = []
    audit: list[dict[str, Any]] = []
    for begin, end in _cut(
        table.num_rows, [*(update["at"] for update in updates), *itertools.accumulate(batches)]
    ):
        for update in updates:
            if update["at"] == begin:
                engine.apply(RuleUpdate.from_dict(update))
        batch = table.slice(begin, end - begin).combine_chunks().to_batches()[0]
        clean, why = engine.process(batch)
        rows += clean.to_pylist()
        audit += why.to_pylist()
    return rows, audit


def _cut(n: int, at: Sequence[int]) -> Iterator[tuple[int, int]]:
    bounds = sorted({0, n, *at})
    yield from itertools.pairwise(bounds)
