"""A pytest plugin: one Spark session and one Kafka broker per process, started by the first test that asks.

It imports neither before that, so that tests without them need no Java.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import let_jvms_start_quickly, unmeasured_processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkbleach.kafka import Broker
    from tests.support.commands import Run

let_jvms_start_quickly()


@pytest.fixture(scope="session")
def connector() -> str | None:
    """Give the jars of Spark's Kafka connector; None if they cannot be fetched."""
    from sparkbleach.errors import DownloadError
    from sparkbleach.kafka import spark_jars

    try:
        return spark_jars()
    except DownloadError:
        if os.environ.get("SPARKBLEACH_REQUIRE_KAFKA"):
            raise
        return None


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Give the one session of this process, which commands find when they look for one.

    A session has its jars from the start: it has those of Kafka's connector if any test of this run asks for
    a broker.
    """
    from sparkbleach.cli.session import spark_session

    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers must find the same packages
    kafka = any("broker" in getattr(item, "fixturenames", ()) for item in request.session.items)
    jars = request.getfixturevalue("connector") if kafka else None
    with warnings.catch_warnings(), unmeasured_processes():
        warnings.simplefilter("ignore")  # PySpark leaves sockets open while it starts
        context = spark_session("local[2]", debug=False, settings={"spark.jars": jars or ""})
        session = context.__enter__()
    session.sparkContext.setLogLevel("OFF")
    yield session
    context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def broker(connector: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Give a Kafka broker, for all tests that need one."""
    from sparkbleach.kafka import Broker

    if connector is None:
        pytest.skip("Kafka: its jars are not in the cache, and Maven Central cannot be reached")
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def run(spark: SparkSession) -> Run:
    """Give a function that runs the command with some arguments, in the session of the tests."""
    from tests.support.commands import run_command

    return run_command
