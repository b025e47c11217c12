"""The options that commands share, in groups, and the checks of what they say."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import typer
from typer import Option

from ..config import (
    DEFAULT_REMEMBER,
    DEFAULT_REPAIR,
    DEFAULT_WINDOW,
    FILE_OPTIONS,
    TEXT_OF_NONE,
    OptionValues,
    Window,
    microseconds,
    read_option,
)
from ..errors import ConfigError
from ..kafka.topic import parse_options, read_options, secrets_among, secrets_in
from ..rules.file import load_updates
from .failure import hide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ..rules.update import RuleUpdate
    from ..spark.files.source import Source

Format = Literal["csv", "json", "parquet"]

Rules = Annotated[Path, Option(help="The YAML file with the rules.", metavar="FILE")]
Master = Annotated[
    str | None,
    Option(
        help="Where Spark runs.",
        metavar="URL",
        rich_help_panel="Spark",
        envvar="SPARK_MASTER",
        show_default="local[*]: all cores of this machine",
    ),
]
Debug = Annotated[
    bool, Option("--debug", help="Show tracebacks and Spark's log messages.", rich_help_panel="Spark")
]


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """What Kafka's clients need to connect."""

    panel: ClassVar[str | None] = "Kafka"
    kafka_config: Annotated[
        Path | None,
        Option(
            help="A file with settings that Kafka's clients need to connect, in lines such as "
            "security.protocol=SSL. It is the place for passwords, which other users see on a command line.",
            metavar="FILE",
            envvar="SPARKBLEACH_KAFKA_CONFIG",
            rich_help_panel="Kafka",
        ),
    ] = None
    kafka_option: Annotated[
        list[str] | None,
        Option(
            help="One such setting, which wins over the file. May be repeated.",
            metavar="KEY=VALUE",
            rich_help_panel="Kafka",
        ),
    ] = None

    @cached_property
    def kafka(self) -> dict[str, str]:
        """The settings; from here on no message shows their secrets."""
        hide(secrets_among([str(self.kafka_config)]))  # given in place of the file
        found = read_options(self.kafka_config) if self.kafka_config else {}
        if self.kafka_config and secrets_in(found) and self.kafka_config.stat().st_mode & stat.S_IROTH:
            typer.echo(
                f"warning: kafka config: {self.kafka_config} has secrets, and all users can read it; "
                f"chmod 600 {self.kafka_config}",
                err=True,
            )
        found |= parse_options(self.kafka_option or ())
        hide(secrets_in(found))
        return found


@dataclass(frozen=True, kw_only=True)
class Parsing:
    """How files are read."""

    panel: ClassVar = "Input"
    input_format: Annotated[
        Format | None,
        Option(
            help="The format of the input; guessed from the names of the files if not given. "
            "CSV files have a header, JSON files one object per line."
        ),
    ] = None
    schema: Annotated[
        str | None,
        Option(
            help='Names and types of the columns, such as "id INT, city STRING", or a file with them. '
            "If not given, they are inferred, which reads the whole input twice more; a CSV column becomes "
            "a number only if every cell of it would be written back as it was (007 stays text). Rows with "
            "cells that do not fit a given type go to the quarantine.",
            metavar="DDL|FILE",
        ),
    ] = None
    multiline: Annotated[
        bool,
        Option(
            "--multiline",
            help="Quoted CSV cells may have line breaks, and a JSON file is one document, an object or a "
            "list of objects, which leave as a line each. One task then reads all files of a micro-batch.",
        ),
    ] = False
    order_by: Annotated[
        str | None,
        Option(
            help="The column by which the tuples of a micro-batch are ordered. "
            "If not given: the path of the file, then the place in it.",
            metavar="COL",
        ),
    ] = None

    def open(
        self,
        session: SparkSession,
        path: str,
        id: str,
        known: StructType | None = None,
        *,
        multiline: bool = False,
        may_be_empty: bool = False,
    ) -> Source:
        """Return the files at a path, after checking that they have the columns which options name.

        Args:
            session: The session to read them with.
            path: A file, a directory or a pattern.
            id: The id column.
            known: The schema of an earlier run, used if none is given.
            multiline: Whether an earlier run had records that go over several lines.
            may_be_empty: Whether there may be no files yet.
        """
        from ..spark.files.schema import parse_schema
        from ..spark.files.source import open_source

        schema = known if self.schema is None else parse_schema(self.schema)
        source = open_source(
            session,
            path,
            self.input_format,
            schema,
            multiline=self.multiline or multiline,
            may_be_empty=may_be_empty,
        )
        names = source.columns.names
        for option, name in (("id", id), ("order by", self.order_by)):
            if name is not None and name not in names:
                raise ConfigError(
                    f"{option}: the input has no column {name!r}; choose one of {', '.join(names)}"
                )
        return source


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """How rows are cleaned."""

    panel: ClassVar = "Cleaning"
    window: Annotated[
        str | None,
        Option(
            help="How many tuples the window holds, or how long it is, such as '1 hour': "
            "older tuples no longer count in repairs.",
            metavar="N|DURATION",
            show_default=f"{DEFAULT_WINDOW.size}",
        ),
    ] = None
    slide: Annotated[
        str | None,
        Option(
            help="By how many tuples the window moves, or by how much time, such as '10 minutes'.",
            metavar="N|DURATION",
            show_default=f"{DEFAULT_WINDOW.slide}, or half the window",
        ),
    ] = None
    window_column: Annotated[
        str | None,
        Option(help="The column with the time of each tuple, for a window in time.", metavar="COL"),
    ] = None
    no_window: Annotated[bool, Option("--no-window", help="Keep everything forever: memory grows.")] = False
    windowing: Annotated[
        Literal["bleach", "basic"] | None,
        Option(
            help="basic: only tuples in the window count; bleach: older counts do, too, with bayes all that "
            "are remembered, else those of groups that had violations.",
            show_default="bleach",
        ),
    ] = None
    remember: Annotated[
        str | None,
        Option(
            help="For how many tuples, or how long, Bleach windowing keeps a count: a multiple of the slide, "
            "or forever.",
            metavar="N|DURATION|forever",
            show_default=DEFAULT_REMEMBER,
        ),
    ] = None
    accept_after: Annotated[
        str | None,
        Option(
            help="A value that leads over the one that its group holds by this many is accepted as the new "
            "truth.",
            metavar="N|never",
            show_default="10",
        ),
    ] = None
    repair: Annotated[
        Literal["bayes", "class", "vote"] | None,
        Option(
            help="bayes: take the most probable reading of each tuple; class: the most frequent value of all "
            "connected groups; vote: of the tuple's own groups.",
            show_default=f"{DEFAULT_REPAIR}; with several lanes, or the paper's topology: class",
        ),
    ] = None
    look_ahead: Annotated[
        int | None,
        Option(
            help="bayes: how many tuples are counted before the first of them is decided; fewer at the end "
            "of a batch, so that no row waits for a later one.",
            metavar="N",
            show_default="1000",
        ),
    ] = None
    confidence: Annotated[
        float | None,
        Option(
            help="bayes: the probability from which a cell is changed, from 0.5 to below 1.",
            metavar="P",
            show_default="0.6",
        ),
    ] = None
    trust: Annotated[
        str | None,
        Option(
            help="bayes: the column that names each tuple's source; how often each is right, and who copies "
            "whom, is estimated.",
            metavar="COL",
        ),
    ] = None
    implied: Annotated[
        bool | None,
        Option(
            "--implied/--no-implied",
            help="bayes: use rules X -> A for columns A that no rule mentions, where the data bear them out.",
            show_default="no-implied",
        ),
    ] = None
    left: Annotated[
        Literal["flag", "repair"] | None,
        Option(
            help="bayes: what to do with a cell that stands on left-hand sides only and seems wrong: flag it "
            "in the audit, or repair it.",
            show_default="flag",
        ),
    ] = None
    rule_updates: Annotated[
        Path | None,
        Option(
            help='Rules to add and delete on the way: lines such as {"at": 1000, "op": "delete", "id": "r5"} '
            'and {"at": 2000, "op": "add", "rule": "a -> b"}, where "at" is the position of a tuple, counted '
            "from 0.",
            metavar="FILE.jsonl",
        ),
    ] = None

    def over(self, of_file: OptionValues) -> OptionValues:
        """Return the options that are given here, and those of the file of rules that are not."""
        given: dict[str, Any] = {
            name: getattr(self, name) for name in FILE_OPTIONS if getattr(self, name) is not None
        }
        for name in TEXT_OF_NONE.keys() & given.keys():
            given[name] = read_option(name, _number_or_text(given[name]))
        if self.no_window or any(one is not None for one in (self.window, self.slide, self.window_column)):
            given["window"] = self._window()
        return cast(OptionValues, {**of_file, **given})

    def updates(self) -> list[RuleUpdate]:
        """Return the rule updates."""
        return load_updates(self.rule_updates) if self.rule_updates else []

    def _window(self) -> Window | None:
        if self.no_window:
            for option, value in (
                ("--window", self.window),
                ("--slide", self.slide),
                ("--window-column", self.window_column),
            ):
                if value is not None:
                    raise ConfigError(f"window: --no-window does not go with {option}; leave one out")
            return None
        if self.window_column is not None:
            return self._time_window(self.window_column)
        size, slide = (
            None if text is None else _tuples(option, text)
            for option, text in (("window", self.window), ("slide", self.slide))
        )
        if size is None:
            size = DEFAULT_WINDOW.size
        half = size // 2 if size % 2 == 0 else size
        return Window.tuples(size, half if slide is None else slide)

    def _time_window(self, column: str) -> Window:
        if self.window is None:
            raise ConfigError("window: --window-column needs a duration; give one, such as --window '1 hour'")
        size = microseconds("window", self.window)
        half = size // 2 if size % 2 == 0 else size
        return Window(size, half if self.slide is None else microseconds("slide", self.slide), column)


def _tuples(option: str, text: str) -> int:
    """Return a number of tuples."""
    number = _number_or_text(text)
    if isinstance(number, str):
        raise ConfigError(
            f"{option}: {text!r} is not a number of tuples; a duration needs --window-column, "
            "the column with the times"
        )
    return number


def _number_or_text(text: str) -> int | str:
    return int(text) if text.strip().isdecimal() else text


def refuse(why: str, **given: object) -> None:
    """Check that options which make no sense here are not given."""
    for name, value in given.items():
        if value:
            raise ConfigError(f"{name.replace('_', ' ')}: --{name.replace('_', '-')} {why}; leave it out")


def absolute(path: str) -> str:
    """Return a path that means the same in every process; one with a scheme (hdfs://) already does."""
    return path if "://" in path else os.path.abspath(path)
