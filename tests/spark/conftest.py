"""Fixtures of tests on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkbleach.spark import clean_blobs
from sparkbleach.spark import replica as replica_module
from sparkbleach.spark import state_store as state_module
from tests.support.streams import DDL


@pytest.fixture
def stream(spark: SparkSession) -> Callable[..., DataFrame]:
    """Read a directory of Parquet files as a stream."""

    def read(directory: Path, files_per_batch: int = 1) -> DataFrame:
        reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", files_per_batch)
        return reader.parquet(str(directory))

    return read


@pytest.fixture
def new_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin each test as a new worker does, with chunks and parts so small that there are many."""
    monkeypatch.setattr(clean_blobs, "_BLOBS_AT_ONCE", 2)
    monkeypatch.setattr(state_module, "_CHUNK_BYTES", 256)
    monkeypatch.setattr(replica_module, "_SNAPSHOT_BYTES_PER_BATCH", 600)
    monkeypatch.setattr(replica_module, "_SNAPSHOT_BYTES_PER_DELTA_BYTE", 0)
    replica_module._cached.clear()
    yield
    replica_module._cached.clear()
