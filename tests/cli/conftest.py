"""A way to run the command in this process."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from sparkbleach.cli import app

Run = Callable[..., Result]


@pytest.fixture
def run(spark: SparkSession) -> Run:
    """Give a function that runs the command with some arguments."""

    def invoke(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Give a file with one rule."""
    path = tmp_path / "rules.yml"
    path.write_text('rules:\n  - "zip_city: zip -> city"\n')
    return path


def read_csv(directory: Path) -> list[dict[str, str]]:
    """Return the rows of all part files of a directory, by file name."""
    rows: list[dict[str, str]] = []
    for path in sorted(directory.glob("part-*.csv")):
        with path.open(newline="") as file:
            rows += csv.DictReader(file)
    return rows
