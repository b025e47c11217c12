"""What one run of the experiments has written, for all tests of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparkbleach.evaluate.experiments import EXPERIMENTS
from tests.support.once import once
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


@pytest.fixture(scope="session")
def engine_evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give what the experiments on the engine have written: they do without Spark, for there is no Java."""
    without_java = {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": os.devnull}
    names = [name for name in NAMES if name not in ON_SPARK]
    return once(
        tmp_path_factory, "engine-evaluation", lambda output: run_experiments(output, names, **without_java)
    )


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory: pytest.TempPathFactory, engine_evaluation: Path) -> Path:
    """Give what all experiments have written: those on Spark add to the report of the others."""

    def add(output: Path) -> None:
        shutil.copytree(engine_evaluation, output, dirs_exist_ok=True)
        run_experiments(output, [name for name in NAMES if name in ON_SPARK])

    return once(tmp_path_factory, "evaluation", add)
