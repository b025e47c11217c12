"""The result of an experiment: numbers, figures that show them, and claims that they support or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Series:
    """Points or bars of one kind."""

    label: str  #: the label in the legend
    x: Sequence[Any] | np.ndarray[Any, Any]  #: the positions; names of categories for bars
    y: Sequence[float] | np.ndarray[Any, Any]  #: the values
    style: str = "line"  #: `line`, `steps`, `dots` or `bars`


@dataclass(frozen=True)
class Mark:
    """A straight line for a number of the paper or an event."""

    axis: str  #: `x` (a vertical line at this x) or `y`
    at: float  #: the position on that axis
    label: str  #: the label in the legend


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    log_x: bool = False
    log_y: bool = False
    percent_y: bool = False
    y_max: float | None = None
    x_min: float | None = None
    #: with `log_y`, a power of ten that stands for all smaller values, as its tick says
    y_floor: float | None = None


@dataclass(frozen=True)
class Figure:
    """Panels side by side, and what they show, in a sentence or two."""

    name: str
    caption: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Claim:
    """A statement that should be true, and what was measured."""

    source: str  #: where the statement comes from: `paper` or `goal`
    says: str  #: the statement
    measured: str  #: what was measured
    holds: bool | None  #: whether the statement is true here; None if that is unknown


@dataclass(frozen=True)
class Result:
    """The result of an experiment."""

    title: str  #: the subject
    question: str  #: the question, for a reader who has not read the paper
    method: str  #: what was run, where, on which stream
    claims: Sequence[Claim]  #: the claims with what was measured
    figures: Sequence[Figure]  #: the figures
    #: all numbers, by name: tables, or rows of one
    tables: Mapping[str, pa.Table | Sequence[Mapping[str, Any]]]
    shown: Sequence[str] | None = None  #: which of the tables the report shows; all if None


def to_table(objects: Sequence[object], *names: str, **columns: Sequence[Any]) -> pa.Table:
    """Return a table of some attributes of objects, and further columns."""
    return pa.table({**columns, **{name: [getattr(one, name) for one in objects] for name in names}})


def dots(
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    label: str = "",
    *,
    x_unit: float = 1,
    y_unit: float = 1,
) -> Series:
    """Return the points of two columns of rows, in units; the label is that of the second if not given."""
    return Series(label or y, [row[x] / x_unit for row in rows], [row[y] / y_unit for row in rows], "dots")


def save(result: Result, name: str, output: Path, circumstances: Mapping[str, Any]) -> None:
    """Write the result of a named experiment: numbers as Parquet and CSV, figures, the rest as JSON."""
    from .figures import draw

    data, pictures, results = (output / part for part in ("data", "figures", "results"))
    for directory in (data, pictures, results):
        directory.mkdir(parents=True, exist_ok=True)
    for title, rows in result.tables.items():
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
        pq.write_table(table, data / f"{name}-{title}.parquet")
        pa.csv.write_csv(table, data / f"{name}-{title}.csv")
    for figure in result.figures:
        draw(figure, pictures)
    written = {
        "title": result.title,
        "question": result.question,
        "method": result.method,
        "claims": [asdict(claim) for claim in result.claims],
        "figures": [{"name": figure.name, "caption": figure.caption} for figure in result.figures],
        "tables": list(result.tables),
        "shown": list(result.tables if result.shown is None else result.shown),
        "circumstances": dict(circumstances),
    }
    (results / f"{name}.json").write_text(json.dumps(written, indent=2), encoding="utf-8")
