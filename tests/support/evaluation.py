"""A run of the experiments, with little data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkbleach.evaluate.experiments import EXPERIMENTS
from tests.support.profiles import NIGHTLY

#: these run on Spark; of them the long ones clean again and again: they would be a quarter of all tests
ON_SPARK = ("throughput", "latency", "dynamic", "baseline", "coordination", "cores")
LONG = ("dynamic", "baseline", "cores")
NAMES = [name for name in EXPERIMENTS if NIGHTLY or name not in LONG]
#: runs the command, and measures its process, but not Spark's workers: they write nothing when they end
COMMAND = """
import os, runpy
for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
    del os.environ[name]
runpy.run_module("sparkbleach.cli", run_name="__main__", alter_sys=True)
"""


def run_experiments(output: Path, names: Sequence[str], **variables: str) -> None:
    """Run the command that evaluates, with little data."""
    done = subprocess.run(  # noqa: S603
        [
            *(sys.executable, "-c", COMMAND, "bench", *names),
            *("--profile", "tiny", "--output", str(output), "--master", "local[2]"),
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line for line in done.stderr.splitlines() if line] == [f"{name} ..." for name in names]
    assert f"report      {output / 'report.html'}" in done.stdout
