"""What an experiment gives: numbers, figures that show them, and the claims that they support or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Series:
    """Points of one kind.

    Attributes:
        label: In the legend.
        x: Where; names of categories for bars.
        y: How much.
        style: `line`, `steps`, `dots` or `bars`.
    """

    label: str
    x: Sequence[Any] | np.ndarray[Any, Any]
    y: Sequence[float] | np.ndarray[Any, Any]
    style: str = "line"


@dataclass(frozen=True)
class Mark:
    """A straight line that says something: a figure of the paper, an event.

    Attributes:
        axis: `x` (a vertical line at this x) or `y`.
        at: Where.
        label: In the legend.
    """

    axis: str
    at: float
    label: str


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        y_floor: With `log_y`, a power of ten in place of all that is less, because zero has no place on such
            an axis; its tick says so.
    """

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
    y_floor: float | None = None


@dataclass(frozen=True)
class Figure:
    """Panels side by side, and what they show, in a sentence or two."""

    name: str
    caption: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Claim:
    """Something that should be true, and what was found.

    Attributes:
        source: Who says so: `paper` or `goal`.
        says: What.
        measured: What was found.
        holds: Whether it is true here; None where it cannot be said.
    """

    source: str
    says: str
    measured: str
    holds: bool | None


@dataclass(frozen=True)
class Result:
    """What an experiment gave.

    Attributes:
        title: What it is about.
        question: For someone who has not read the paper.
        method: What was run, where, on what.
        claims: What it says about claims.
        figures: What it shows.
        tables: All numbers, by name.
        shown: Which of the tables the report shows.
    """

    title: str
    question: str
    method: str
    claims: Sequence[Claim]
    figures: Sequence[Figure]
    tables: Mapping[str, pa.Table]
    shown: Sequence[str] = field(default=())


def save(result: Result, name: str, output: Path, circumstances: Mapping[str, Any]) -> None:
    """Write a result below a directory: numbers as Parquet and CSV, figures as SVG and PNG, the rest as JSON.

    Args:
        result: What to write.
        name: Of the experiment.
        output: The directory.
        circumstances: When and where it was run.
    """
    from .figures import draw

    data, pictures, results = (output / part for part in ("data", "figures", "results"))
    for directory in (data, pictures, results):
        directory.mkdir(parents=True, exist_ok=True)
    for title, table in result.tables.items():
        pq.write_table(table, data / f"{name}-{title}.parquet")
        pa.csv.write_csv(table, data / f"{name}-{title}.csv")
    for figure in result.figures:
        draw(figure, pictures)
    told = {
        "title": result.title,
        "question": result.question,
        "method": result.method,
        "claims": [asdict(claim) for claim in result.claims],
        "figures": [{"name": figure.name, "caption": figure.caption} for figure in result.figures],
        "tables": list(result.tables),
        "shown": list(result.shown),
        "circumstances": dict(circumstances),
    }
    (results / f"{name}.json").write_text(json.dumps(told, indent=2), encoding="utf-8")
