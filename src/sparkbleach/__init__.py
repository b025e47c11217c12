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
    SnapshotError,
    SparkbleachError,
)
from .rule import WILDCARD, Rule
from .rulefile import load_rules

__all__ = [
    "WILDCARD",
    "ConfigError",
    "Engine",
    "LimitError",
    "Rule",
    "RuleError",
    "RuleWarning",
    "SchemaError",
    "SnapshotError",
    "SparkbleachError",
    "Window",
    "load_rules",
]
