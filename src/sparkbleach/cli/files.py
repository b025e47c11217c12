"""From files to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer

from ..errors import ConfigError
from ..kafka.topic import is_topic
from . import options
from .checkpoint import Memory, check_output_is_new
from .read_paths import ReadPaths, real, within
from .route import Opened, check_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..control.rule_log import RuleLog
    from ..spark.files.source import Source
    from ..spark.files.writer import Writer
    from ..spark.hadoop import Entry
    from .clean_options import Control, Output, Stream

_FILES_SHOWN = 5


@dataclass(frozen=True)
class FileRoute:
    """Files that are read, and directories that are written."""

    places: Places  #: where all is
    stream: Stream  #: the options of the input
    parsing: options.Parsing  #: how files are read
    output_format: str | None  #: the format of clean rows, if it was given
    log: RuleLog | None  #: where rule updates come from

    @classmethod
    def from_options(
        cls, stream: Stream, parsing: options.Parsing, output: Output, control: Control
    ) -> FileRoute:
        """Return the route that options name."""
        for name, place in {"audit": output.audit, "quarantine": output.quarantine}.items():
            if place is not None and is_topic(place):
                raise ConfigError(f"{name}: {place} is a topic, but the output is a path; give a path")
        options.refuse(
            "is for topics", kafka_option=control.kafka_option, records_per_batch=stream.records_per_batch
        )
        places = Places.from_options(stream.input, output, control.log)
        places.check()
        return cls(places, stream, parsing, output.output_format, control.log)

    @property
    def checkpoint(self) -> str:
        """The directory that remembers what is done."""
        return self.places.checkpoint

    def settings(self) -> dict[str, str]:
        """Return what the Spark session needs: nothing."""
        return {}

    def open(self, session: SparkSession, id: str, memory: Memory | None) -> Opened:
        """Open the files, after checking that they go on with what earlier runs have begun."""
        places = self.places
        source = self.parsing.open(
            session,
            places.input,
            id,
            memory.schema if memory else None,
            multiline=bool(memory and memory.multiline),
            may_be_empty=self.stream.follow,
        )
        format = self.output_format or (memory.output_format if memory else source.format)
        _check_output(source, format)
        if memory is None:
            for directory in (places.output, places.audit, places.quarantine):
                if directory is not None:
                    check_output_is_new(session, directory, places.checkpoint)
        target = self.log.target if self.log else None
        wanted = Memory(source.columns, id, places.output, format, source.multiline, target)
        check_memory(places.checkpoint, memory, wanted, self.log)
        if memory is not None:
            _warn_of_changes(source.changed_since_read(places.checkpoint))

        def make_sink() -> Writer:
            from ..spark.files.writer import Writer

            return Writer(places.output, format, places.audit, places.quarantine, control=self.log)

        stream = source.stream(self.stream.files_per_batch, format)
        return Opened(
            stream,
            self.parsing.order_by or source.order,
            wanted,
            make_sink,
            check=source.check_new,
            end=partial(source.remember_sizes, places.checkpoint),
        )


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
    def from_options(cls, input: str, output: Output, log: RuleLog | None) -> Places:
        """Return the paths that options name, or their defaults."""
        bare = _bare(output.output)
        return cls(
            options.absolute(input),
            options.absolute(output.output),
            options.absolute(output.checkpoint or f"{bare}-checkpoint"),
            None if output.no_audit else options.absolute(output.audit or f"{bare}-audit"),
            options.absolute(output.quarantine or f"{bare}-quarantine"),
            log.target if log else None,
        )

    def check(self) -> None:
        """Check that directories are apart from each other and can be written."""
        named = {
            "output": self.output,
            "checkpoint": self.checkpoint,
            "audit": self.audit,
            "quarantine": self.quarantine,
            "rules target": self.rules_target,
        }
        seen: dict[str, str] = {}
        read = ReadPaths(self.input)
        for name, path in named.items():
            if path is None:
                continue
            for other, taken in seen.items():
                if within(real(path), real(taken)) or within(real(taken), real(path)):
                    raise ConfigError(
                        f"{name}: {path} and {other} {taken} are in each other; keep them apart"
                    )
            if read.covers(path):
                raise ConfigError(
                    f"{name}: {path} is in the input {self.input}, which would read it again; "
                    "choose a directory elsewhere"
                )
            _check_writable(name, path)
            seen[name] = path


def _warn_of_changes(files: Sequence[Entry]) -> None:
    """Say which files have changed since they were read: what was appended to them is not read."""
    for file in files[:_FILES_SHOWN]:
        typer.echo(
            f"warning: {file} was changed after it was read, and is not read again; "
            "write rows that were added to it to a new file",
            err=True,
        )
    if len(files) > _FILES_SHOWN:
        typer.echo(f"warning: and {len(files) - _FILES_SHOWN:,} more files", err=True)


def _bare(path: str) -> str:
    return path.rstrip("/") or "/"


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
    """Check that a format can hold the columns."""
    if format != "csv":
        return
    for field in source.columns:
        if field.dataType.typeName() in ("array", "struct", "map", "binary", "variant"):
            raise ConfigError(
                f"output format: csv cannot hold the column {field.name!r} of type "
                f"{field.dataType.simpleString()}; "
                "choose --output-format json or parquet"
            )
