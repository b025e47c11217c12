"""The control records of a rule log as a streaming DataFrame."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from ..control.rule_log import DirectoryLog, RuleLog
from ..errors import ConfigError


@runtime_checkable
class StreamedLog(Protocol):
    """A rule log that brings its own way to be read as a stream."""

    def stream(self, session: SparkSession) -> DataFrame:
        """Return the control records as a streaming DataFrame with the columns `number` and `value`."""


def read_control(session: SparkSession, log: RuleLog) -> DataFrame:
    """Return the control records of a log as a streaming DataFrame, for `clean(…, control=…)`.

    Raises:
        ConfigError: If the log cannot be read as a stream.
        SparkbleachError: If the log cannot be created.
    """
    if isinstance(log, StreamedLog):
        return log.stream(session)
    if not isinstance(log, DirectoryLog):
        raise ConfigError(f"rule log: {log.target} cannot be read as a stream; give what open_log returns")
    log.create()
    reader = session.readStream.format("text").option("wholetext", True)
    # Spark ignores files older than the newest one by maxFileAge, also those that came while it was down.
    reader = reader.options(pathGlobFilter="*.json", maxFileAge="36500d")
    name = "substring_index(_metadata.file_name, '.', 1)"
    return reader.load(log.directory.as_uri()).selectExpr(f"{name} AS number", "value")
