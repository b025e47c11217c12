"""The control records of a rule log as a streaming DataFrame."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..control.rule_log import DirectoryLog, RuleLog
from ..errors import ConfigError
from .hadoop import as_plain


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
    columns = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
    reader = session.readStream.format("binaryFile").schema(columns)
    # Spark ignores files older than the newest one by maxFileAge, also those that came while it was down. It
    # reads files several times if the path of their directory has a bracket, unless it looks below, too.
    reader = reader.options(pathGlobFilter="*.json", maxFileAge="36500d", recursiveFileLookup=True)
    files = reader.load(f"file://{as_plain(log.target)}")
    number = F.regexp_extract("path", r"/([0-9]{8})\.json\z", 1)
    here = F.col("path") == F.concat(F.lit(f"file:{log.target}/"), number, F.lit(".json"))
    # Spark would follow symbolic links, wait for the writer of a pipe, and read a file of any length.
    value = F.udf(log.text_of, "string", useArrow=False)(number)
    return files.where(here).select(number.alias("number"), value.alias("value"))
