"""The profiles of Hypothesis, and fixtures that import Spark and Kafka only when a test asks for them."""

from __future__ import annotations

import sys

from tests.support.profiles import FAST, load_profile

load_profile()
pytest_plugins = ["tests.support.fixtures", "tests.support.order"]

if FAST:  # which is for what needs neither: an import of them is an error
    sys.modules |= dict.fromkeys(["pyspark", "py4j", "confluent_kafka"])  # type: ignore[arg-type]
