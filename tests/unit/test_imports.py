"""What does not need Spark does not import it."""

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


def test_the_package_imports_neither_spark_nor_kafka() -> None:
    """Rules, engine and rule log are there without PySpark, which comes with the first name that needs it."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)  # noqa: S603 -- this interpreter
