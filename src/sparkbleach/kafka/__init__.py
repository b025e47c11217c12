"""Kafka in and out: topics as sources, sinks and rule logs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .broker import Broker
from .jars import spark_jars
from .rule_log import TopicLog
from .topic import Topic

if TYPE_CHECKING:
    from .source import read_topic, topic_order
    from .writer import TopicWriter

__all__ = ["Broker", "Topic", "TopicLog", "TopicWriter", "read_topic", "spark_jars", "topic_order"]

#: the modules of the names that need PySpark: it is imported with the first of them
_ON_SPARK = {"TopicWriter": ".writer", "read_topic": ".source", "topic_order": ".source"}


def __getattr__(name: str) -> Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_SPARK[name], __name__), name)
