"""Every error that sparkbleach raises on purpose, and every warning it gives."""

from __future__ import annotations


class SparkbleachError(Exception):
    """Base of all errors raised by sparkbleach: the message names the place and the remedy."""


class RuleError(SparkbleachError):
    """A rule, or a file of rules, is wrong; nothing of it was taken over."""


class SchemaError(SparkbleachError):
    """A batch or a schema does not fit the engine it was given to."""


class ConfigError(SparkbleachError):
    """An option, such as window, repair or id, is wrong."""


class LimitError(SparkbleachError):
    """The state of an engine has outgrown what it can hold, or a condition needs more than it may use."""


class SnapshotError(SparkbleachError):
    """A snapshot is damaged, foreign, or of another format version."""


class DownloadError(SparkbleachError):
    """A jar is not in the cache, and the repository does not give it."""


class KafkaError(SparkbleachError):
    """A Kafka cluster cannot be reached, or refuses what it was asked for."""


class RuleWarning(UserWarning):
    """A set of rules is valid, but probably not what was meant."""


class SessionWarning(UserWarning):
    """A Spark session works, but slowly; or its workers may not find the package."""
