"""Profiles: `make test` draws hundreds of cases, `make test-nightly` thousands. One session, one broker."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from sparkbleach.cli.session import spark_session
from sparkbleach.errors import DownloadError
from sparkbleach.kafka import Broker, spark_jars

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
NIGHTLY = PROFILE == "nightly"

for name, max_examples in {"default": 300, "nightly": 5_000, "interpreted": 30}.items():
    settings.register_profile(
        name,
        max_examples=max_examples,
        deadline=None,  # the first case compiles
        suppress_health_check=list(HealthCheck),  # a case is a whole stream
        print_blob=True,
    )
settings.load_profile(PROFILE)

# The JVMs of tests live for seconds: what they spend on optimising code they never get back.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def unmeasured() -> dict[str, str]:
    """Return the environment without coverage, for programs that are killed: they leave damaged files."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


@pytest.fixture(scope="session")
def connector() -> str | None:
    """The jars of Spark's Kafka connector; None if they cannot be fetched."""
    try:
        return spark_jars()
    except DownloadError:
        if os.environ.get("SPARKBLEACH_REQUIRE_KAFKA"):
            raise
        return None


@pytest.fixture(scope="session")
def spark(connector: str | None) -> Iterator[SparkSession]:
    """Give the one session of this process, which commands find when they look for one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers must find the same packages
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PySpark leaves open while it starts is not ours
        context = spark_session("local[2]", debug=False, settings={"spark.jars": connector or ""})
        session = context.__enter__()
    session.sparkContext.setLogLevel("OFF")
    yield session
    context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def broker(connector: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker, for all tests that need one."""
    if connector is None:
        pytest.skip("Kafka: its jars are not in the cache, and Maven Central cannot be reached")
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
