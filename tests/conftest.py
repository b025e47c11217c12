"""The profiles of Hypothesis, and fixtures that import Spark and Kafka only when a test asks for them."""

from __future__ import annotations

from tests.support.profiles import load_profile

load_profile()
pytest_plugins = ["tests.support.fixtures"]
