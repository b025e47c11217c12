"""What one run of the experiments has written, for all tests of them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.evaluation import NAMES, ON_SPARK, run_experiments
from tests.support.once import once


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
