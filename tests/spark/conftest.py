"""Fixtures of tests on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkbleach.spark import replica as replica_module
from tests.support.streams import DDL


@pytest.fixture
def stream(spark: SparkSession) -> Callable[..., DataFrame]:
    """Read a directory of Parquet files as a stream."""

    def read(directory: Path, files_per_batch: int = 1) -> DataFrame:
        reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", files_per_batch)
        return reader.parquet(str(directory))

    return read


@pytest.fixture
def new_worker() -> Iterator[None]:
    """Begin each test with an empty cache, as a new worker does."""
    replica_module._cached.clear()
    yield
    replica_module._cached.clear()
