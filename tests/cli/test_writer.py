"""The writer of micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkbleach import ConfigError
from sparkbleach.spark.clean import clean
from sparkbleach.spark.files.writer import Writer
from tests.support.commands import read_csv


def test_a_batch_written_again_replaces_its_first_attempt(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever a first attempt left, each row of the batch is there once, and other batches stay."""
    rows = spark.range(20).selectExpr("id", "CAST(id % 3 AS STRING) AS city")
    writer = Writer(str(tmp_path / "out"), "csv")
    writer(rows.repartition(1), 3)
    writer(rows.repartition(7), 4)
    staging = tmp_path / "out" / "_staging" / "batch-4"
    staging.mkdir(parents=True)
    (staging / "part-0.csv").write_text("left by a crash")
    writer(rows.repartition(2), 4)
    ids = [int(row["id"]) for row in read_csv(tmp_path / "out")]
    assert sorted(ids) == sorted(2 * list(range(20)))
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["part-000003-0000.csv", "part-000004-0000.csv", "part-000004-0001.csv"]


def test_an_empty_batch_removes_an_earlier_attempt(spark: SparkSession, tmp_path: Path) -> None:
    """A batch without rows leaves no file, and makes no directory."""
    rows = spark.range(5)
    writer = Writer(str(tmp_path / "out"), "json")
    writer(rows, 0)
    writer(rows.where("id < 0"), 0)
    assert list((tmp_path / "out").glob("part-*")) == []
    Writer(str(tmp_path / "new"), "json")(rows.where("id < 0"), 0)
    assert not (tmp_path / "new").exists()


def test_what_has_no_place_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Quarantined rows need a directory, an audit needs its column, a format has to be known."""
    rows = spark.sql("SELECT 1 AS id, 2 AS a, 3 AS b")
    cleaned = clean(rows, ["a -> b"], id="id", quarantine=True)
    with pytest.raises(ConfigError, match="give quarantine="):
        Writer(str(tmp_path / "out"))(cleaned, 0)
    with pytest.raises(ConfigError, match="no column _repairs"):
        Writer(str(tmp_path / "out"), audit=str(tmp_path / "audit"))(rows, 0)
    with pytest.raises(ConfigError, match="format: 'xml' is unknown"):
        Writer(str(tmp_path / "out"), "xml")
    assert list(tmp_path.iterdir()) == []
