"""Cleans data streams by rules.

A dirty stream comes in; functional dependencies and conditional ones say what clean means; violations are
detected and repaired on the way, tuple by tuple, from what was seen earlier.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .config import Window
from .controller import RuleController
from .engine import Engine
from .errors import (
    ConfigError,
    DownloadError,
    KafkaError,
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
from .rulelog import open_log
from .update import RuleUpdate

if TYPE_CHECKING:
    from .spark.session import SPARK_SETTINGS
    from .spark.topology import audit, clean, report
    from .spark.writer import Writer

__all__ = [
    "SPARK_SETTINGS",
    "WILDCARD",
    "ConfigError",
    "DownloadError",
    "Engine",
    "KafkaError",
    "LimitError",
    "Rule",
    "RuleController",
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
    "open_log",
    "report",
]

#: where the names are that need PySpark, which is imported with the first of them
_ON_SPARK = {
    "SPARK_SETTINGS": ".spark.session",
    "Writer": ".spark.writer",
    "audit": ".spark.topology",
    "clean": ".spark.topology",
    "report": ".spark.topology",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_SPARK[name], __name__), name)
