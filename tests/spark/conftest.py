"""One Spark session for all tests that need one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkbleach import SPARK_SETTINGS


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers must find the same packages
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PySpark leaves open while it starts is not ours
        session = (
            SparkSession.builder.master("local[2]")
            .config(map=SPARK_SETTINGS)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
