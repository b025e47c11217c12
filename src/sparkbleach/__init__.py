"""Cleans data streams by rules.

A dirty stream comes in; functional dependencies and conditional ones say what clean means; violations are
detected and repaired on the way, tuple by tuple, from what was seen earlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .control.openers import OPENERS

if TYPE_CHECKING:
    from .config import Options, Window
    from .control.controller import RuleController
    from .control.rule_log import RuleLog, open_log
    from .engine.engine import Engine
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
    from .paper.topology import PaperTopology
    from .rules.condition_process import ConditionLimits
    from .rules.constants import WILDCARD
    from .rules.file import load_options, load_rules
    from .rules.rule import Rule
    from .rules.update import RuleUpdate
    from .spark.clean import audit, clean
    from .spark.control import read_control
    from .spark.files.writer import Writer
    from .spark.limits import Limits
    from .spark.report import report
    from .spark.settings import SPARK_SETTINGS

__all__ = [
    "SPARK_SETTINGS",
    "WILDCARD",
    "ConditionLimits",
    "ConfigError",
    "DownloadError",
    "Engine",
    "KafkaError",
    "LimitError",
    "Limits",
    "Options",
    "PaperTopology",
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
    "load_options",
    "load_rules",
    "open_log",
    "read_control",
    "report",
]

#: where the names are: each is imported when it is first needed, so that `import sparkbleach` takes no time
_HOMES = {
    "SPARK_SETTINGS": ".spark.settings",
    "WILDCARD": ".rules.constants",
    "ConditionLimits": ".rules.condition_process",
    "ConfigError": ".errors",
    "DownloadError": ".errors",
    "Engine": ".engine.engine",
    "KafkaError": ".errors",
    "LimitError": ".errors",
    "Limits": ".spark.limits",
    "Options": ".config",
    "PaperTopology": ".paper.topology",
    "Rule": ".rules.rule",
    "RuleController": ".control.controller",
    "RuleError": ".errors",
    "RuleUpdate": ".rules.update",
    "RuleWarning": ".errors",
    "SchemaError": ".errors",
    "SessionWarning": ".errors",
    "SnapshotError": ".errors",
    "SparkbleachError": ".errors",
    "Window": ".config",
    "Writer": ".spark.files.writer",
    "audit": ".spark.clean",
    "clean": ".spark.clean",
    "load_options": ".rules.file",
    "load_rules": ".rules.file",
    "open_log": ".control.rule_log",
    "read_control": ".spark.control",
    "report": ".spark.report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def _open_topic(target: str, options: Mapping[str, str] | None) -> RuleLog:
    """Open a rule log in a topic: control/ does not know of Kafka, so the package brings the two together."""
    from .kafka.rule_log import TopicLog
    from .kafka.topic import Topic

    return TopicLog(Topic.parse(target, options))


OPENERS["kafka"] = _open_topic
