"""Cleans data streams by rules.

A dirty stream comes in; functional dependencies and conditional ones say what clean means; violations are
detected and repaired on the way, tuple by tuple, from what was seen earlier.
"""

from .config import Window
from .engine import Engine
from .errors import (
    ConfigError,
    LimitError,
    RuleError,
    RuleWarning,
    SchemaError,
    SessionWarning,
    SnapshotError,
    SparkbleachError,
)
from .rule import WILDCARD, Rule
from .rulefile import load_rules
from .spark.session import SPARK_SETTINGS
from .spark.topology import audit, clean, report
from .spark.writer import Writer
from .update import RuleUpdate

__all__ = [
    "SPARK_SETTINGS",
    "WILDCARD",
    "ConfigError",
    "Engine",
    "LimitError",
    "Rule",
    "RuleError",
    "RuleUpdate",
    "RuleWarning",
    "SchemaError",
    "SessionWarning",
    "SnapshotError",
    "SparkbleachError",
    "Window",
    "Writer",
    "audit",
    "clean",
    "load_rules",
    "report",
]
