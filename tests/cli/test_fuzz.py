"""A small share of `make test-fuzz`: odd inputs are out or in quarantine, whole but for repaired cells."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparkbleach.kafka import Broker
from tests import fuzz
from tests.fuzz import KINDS, run_round
from tests.support.profiles import NIGHTLY

SIZE = 3_000 if NIGHTLY else 300
FILES = (
    sorted({*KINDS} - {"kafka"})
    if NIGHTLY
    else [*("checkpoints", "csv", "csv to json", "documents", "json", "multiline", "parquet")]
)
SEEDS = range(4 if NIGHTLY else 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", FILES)
def test_files(spark: SparkSession, kind: str, seed: int) -> None:
    """No odd file, and no damage to a checkpoint, loses a row, changes a cell or takes the command down."""
    done = run_round(kind, seed, SIZE)
    assert not done.problems, done


@pytest.mark.parametrize("seed", SEEDS)
def test_records(spark: SparkSession, broker: Broker, seed: int) -> None:
    """No odd record of a topic is lost, loses its key or its headers, or takes the command down."""
    done = run_round("kafka", seed, SIZE, broker)
    assert not done.problems, done


def test_a_round_that_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception, or too long a time, makes a round wrong, with its replay line."""

    def fail(*_: Any) -> None:
        raise OSError("no round")

    def wait(*_: Any) -> None:
        signal.pause()

    monkeypatch.setattr(fuzz, "_SECONDS_MAX", 1)
    for draw, error in ((fail, "OSError: no round"), (wait, "TimeoutError: a round takes more than 1 s")):
        monkeypatch.setattr(fuzz, "draw_case", draw)
        done = str(run_round("csv", 7, 30))
        assert re.search(rf"\(csv\): 30 inputs, WRONG\n(.*\n)*.*{error}", done), done
        assert done.splitlines()[-1].endswith("--inputs 1 --kinds 'csv' --seed 7 --size 30")
