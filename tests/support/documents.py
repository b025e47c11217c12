"""The documents of the repository: their examples, and where these run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a document: language and text."""
    return BLOCK.findall((ROOT / document).read_text())


@contextlib.contextmanager
def working_directory(spark: SparkSession, directory: Path) -> Iterator[None]:
    """Let relative paths of this process and of its JVM begin at a directory."""
    path = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
    files = path(str(directory)).getFileSystem(spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(path(str(directory)))
    try:
        with contextlib.chdir(directory):
            yield
    finally:
        files.setWorkingDirectory(before)
        spark.conf.set("spark.sql.shuffle.partitions", "1")  # an example of lanes changes it


def is_set_up(code: str) -> bool:
    """Return whether commands set the project up: the tests run in what they make."""
    return "make " in code or "pip install" in code
