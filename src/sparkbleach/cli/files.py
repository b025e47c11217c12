"""From files to files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..config import check_choice
from ..errors import ConfigError
from . import options
from .checkpoint import Memory, check_output_is_new
from .input import check_columns, open_input
from .route import Opened, check_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..control.rule_log import RuleLog
    from ..spark.files.source import Source
    from ..spark.files.writer import Writer


@dataclass(frozen=True)
class FileRoute:
    """Files that are read, and directories that are written.

    Attributes:
        places: Where all is.
        log: Where rule updates come from.
        input_format: The format of the input, if it was given.
        schema: Names and types of the columns, or a file with them, if given.
        multiline: Whether a record may go over several lines.
        order_by: The column that gives the order, if one was given.
        files_per_batch: How many files a micro-batch takes, if told.
        output_format: The format of clean rows, if it was given.
        may_be_empty: Whether it is fine that there are no files yet.
    """

    places: Places
    log: RuleLog | None
    input_format: str | None
    schema: str | None
    multiline: bool
    order_by: str | None
    files_per_batch: int | None
    output_format: str | None
    may_be_empty: bool

    @property
    def checkpoint(self) -> str:
        """The directory that remembers what is done."""
        return self.places.checkpoint

    def settings(self) -> dict[str, str]:
        """Return what the Spark session needs: nothing."""
        return {}

    def open(self, session: SparkSession, id: str, memory: Memory | None) -> Opened:
        """Open the files, after checking that they go on with what earlier runs have begun.

        Raises:
            ConfigError: If they do not, or an option is wrong.
            SchemaError: If a file does not fit the schema.
        """
        places = self.places
        source = open_input(
            session,
            places.input,
            self.input_format,
            self.schema,
            memory.schema if memory else None,
            multiline=self.multiline or bool(memory and memory.multiline),
            may_be_empty=self.may_be_empty,
        )
        check_columns(source, id, self.order_by)
        format = str(self.output_format or (memory.output_format if memory else source.format))
        _check_output(source, format)
        if memory is None:
            for directory in (places.output, places.audit, places.quarantine):
                if directory is not None:
                    check_output_is_new(session, directory, places.checkpoint)
        target = self.log.target if self.log else None
        wanted = Memory(source.columns, id, places.output, format, source.multiline, target)
        check_memory(places.checkpoint, memory, wanted, self.log)

        def make_writer() -> Writer:
            from ..spark.files.writer import Writer

            return Writer(places.output, format, places.audit, places.quarantine, control=self.log)

        stream = source.stream(self.files_per_batch)
        return Opened(stream, self.order_by or source.order, wanted, make_writer, check=source.check_new)


@dataclass(frozen=True)
class Places:
    """All paths, absolute."""

    input: str
    output: str
    checkpoint: str
    audit: str | None
    quarantine: str
    rules_target: str | None

    @classmethod
    def of(
        cls,
        input: str,
        output: str,
        checkpoint: str | None,
        audit: str | None,
        quarantine: str | None,
        log: RuleLog | None,
    ) -> Places:
        """Return the paths that options name, or their defaults; an audit is named or not written."""
        return cls(
            options.absolute(input),
            options.absolute(output),
            options.absolute(checkpoint or f"{_bare(output)}-checkpoint"),
            options.absolute(audit) if audit else None,
            options.absolute(quarantine or f"{_bare(output)}-quarantine"),
            log.target if log else None,
        )

    def check(self) -> None:
        """Check that directories are apart from each other and can be written.

        Raises:
            ConfigError: If not.
        """
        named = {
            "output": self.output,
            "checkpoint": self.checkpoint,
            "audit": self.audit,
            "quarantine": self.quarantine,
            "rules target": self.rules_target,
        }
        seen: dict[str, str] = {}
        for name, path in named.items():
            if path is None:
                continue
            for other, taken in seen.items():
                if _within(path, taken) or _within(taken, path):
                    raise ConfigError(
                        f"{name}: {path} and {other} {taken} are in each other; keep them apart"
                    )
            if _within(path, self.input):
                raise ConfigError(
                    f"{name}: {path} is in the input {self.input}, which would read it again; "
                    "choose a directory elsewhere"
                )
            _check_writable(name, path)
            seen[name] = path


def _bare(path: str) -> str:
    return path.rstrip("/") or "/"


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{_bare(directory)}/")


def _check_writable(name: str, path: str) -> None:
    if "://" in path:
        return
    nearest = path
    while not os.path.exists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        raise ConfigError(
            f"{name}: {nearest} is a file, but {path} has to be a directory; choose another name"
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{name}: {nearest} cannot be written; check its permissions")


def _check_output(source: Source, format: str) -> None:
    """Check that a format can hold the columns.

    Raises:
        ConfigError: If it cannot.
    """
    check_choice("output format", format, tuple(options.Format))
    if format != "csv":
        return
    for field in source.columns:
        if field.dataType.typeName() in ("array", "struct", "map", "binary", "variant"):
            raise ConfigError(
                f"output format: csv cannot hold the column {field.name!r} of type "
                f"{field.dataType.simpleString()}; "
                "choose --output-format json or parquet"
            )
