"""What the benchmarks share: a session with a directory, and figures with their goals."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def workbench() -> Iterator[tuple[SparkSession, Path]]:
    """Give a quiet session on two cores that remembers all progress, and a directory; both end afterwards."""
    from ...cli.session import spark_session

    settings = {"spark.driver.memory": "4g", "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    with (
        # Removed after the session ends: until then Spark writes state to it.
        tempfile.TemporaryDirectory(prefix="sparkbleach-bench-") as directory,
        spark_session("local[2]", debug=False, settings=settings) as spark,
    ):
        yield spark, Path(directory)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of options with the option --quick."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="less of everything: a look, not a result")
    return options


def show(name: str, value: str, note: str = "", *, goal: str = "", reached: bool = True) -> None:
    """Print a figure on a line of its own, with its goal and whether the goal is reached."""
    if goal:
        note += f" goal {goal}: {'reached' if reached else 'MISSED'}"
    print(f"  {name:<40} {value:>12} {note.strip()}".rstrip(), flush=True)
