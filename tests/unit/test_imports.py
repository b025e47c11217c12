"""What does not need Spark does not import it, and nothing is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import sparkbleach
sparkbleach.Engine, sparkbleach.RuleController, sparkbleach.open_log, sparkbleach.load_rules
heavy = {"pyspark", "py4j", "confluent_kafka", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
ALONE = """
import sys
import sparkbleach
heavy = {"numba", "numpy", "pyarrow", "duckdb", "yaml"} & set(sys.modules)
assert not heavy, heavy
for name in sparkbleach.__all__:
    getattr(sparkbleach, name)
"""


def test_the_package_imports_neither_spark_nor_kafka() -> None:
    """Rules, engine and rule log are there without PySpark, which comes with the first name that needs it."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)  # noqa: S603 -- this interpreter


def test_a_name_is_imported_when_it_is_needed() -> None:
    """The package by itself imports nothing that takes time: the command must be there for signals."""
    subprocess.run([sys.executable, "-c", ALONE], check=True)  # noqa: S603 -- this interpreter
