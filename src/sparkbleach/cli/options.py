"""Options that commands share, and the checks of what they say."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import DEFAULT_WINDOW, Window
from ..errors import ConfigError, RuleError
from ..paper.topology import PaperTopology
from ..rules.update import RuleUpdate

_INPUT = "Input"
_CLEANING = "Cleaning"
_SPARK = "Spark"
_SPREAD = "Topology"


class Format(StrEnum):
    """A format of files."""

    csv = "csv"
    json = "json"
    parquet = "parquet"


class Windowing(StrEnum):
    """What a window forgets."""

    bleach = "bleach"
    basic = "basic"


class Repair(StrEnum):
    """What counts in a repair."""

    by_class = "class"
    vote = "vote"


class Topology(StrEnum):
    """How the work is spread."""

    fused = "fused"
    paper = "paper"


class Coordination(StrEnum):
    """How repair workers learn of each other's links."""

    hinge = "hinge"
    basic = "basic"
    dr = "dr"
    ir = "ir"


Rules = Annotated[
    Path, typer.Option("--rules", help="The YAML file with the rules.", metavar="FILE", show_default=False)
]
InputFormat = Annotated[
    Format | None,
    typer.Option(
        "--input-format",
        help="The format of the input; guessed from the names of the files if not given. "
        "CSV files have a header, JSON files one object per line.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        help='Names and types of the columns, such as "id INT, city STRING", or a file with that. '
        "If not given, they are inferred, which reads the whole input twice more; a CSV column becomes "
        "a number only if every cell of it would be written back as it was (007 stays text). Rows with cells "
        "that do not fit a given type go to the quarantine.",
        metavar="DDL|FILE",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
Multiline = Annotated[
    bool,
    typer.Option(
        "--multiline",
        help="Quoted CSV cells may hold line breaks, and a JSON file is one document, such as a list of "
        "objects. A file is then read by one task.",
        rich_help_panel=_INPUT,
    ),
]
OrderBy = Annotated[
    str | None,
    typer.Option(
        "--order-by",
        help="The column that says in which order the tuples of a micro-batch come. If not given: by the "
        "path of the file, then by the place in it.",
        metavar="COL",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
WindowSize = Annotated[
    int | None,
    typer.Option(
        "--window",
        help="How many tuples the window holds: older ones no longer count in repairs.",
        metavar="N",
        rich_help_panel=_CLEANING,
        show_default=f"{DEFAULT_WINDOW.size}",
    ),
]
WindowSlide = Annotated[
    int | None,
    typer.Option(
        "--slide",
        help="By how many tuples the window moves.",
        metavar="N",
        rich_help_panel=_CLEANING,
        show_default=f"{DEFAULT_WINDOW.slide}, or half the window",
    ),
]
NoWindow = Annotated[
    bool,
    typer.Option("--no-window", help="Keep everything, forever: memory grows.", rich_help_panel=_CLEANING),
]
WindowingOption = Annotated[
    Windowing,
    typer.Option(
        "--windowing",
        help="bleach: a group with violations keeps its counts when the window moves on; "
        "basic: only the window counts.",
        rich_help_panel=_CLEANING,
    ),
]
RepairOption = Annotated[
    Repair,
    typer.Option(
        "--repair",
        help="class: the most frequent value of all connected groups; vote: of the tuple's own groups, "
        "which is better where the left-hand sides may be wrong.",
        rich_help_panel=_CLEANING,
    ),
]
LanesOption = Annotated[
    int,
    typer.Option(
        "--lanes",
        help="In how many tasks, each with its own part of the state, the attributes are cleaned.",
        metavar="N",
        min=1,
        rich_help_panel=_SPARK,
    ),
]
RuleUpdates = Annotated[
    Path | None,
    typer.Option(
        "--rule-updates",
        help="Rules that come or go on the way: lines like "
        '{"at": 1000, "op": "delete", "id": "r5"} and {"at": 2000, "op": "add", "rule": "a -> b"}, where '
        '"at" is the position of a tuple, counted from 0.',
        metavar="FILE.jsonl",
        rich_help_panel=_CLEANING,
        show_default=False,
    ),
]
TopologyOption = Annotated[
    Topology,
    typer.Option(
        "--topology",
        help="fused: one task has all rules and all state, which is fastest; "
        "paper: detect workers and repair workers share the state.",
        rich_help_panel=_SPREAD,
    ),
]
DetectWorkers = Annotated[
    int | None,
    typer.Option(
        "--detect-workers",
        help="Over how many workers the paper's topology spreads cell groups.",
        metavar="N",
        rich_help_panel=_SPREAD,
        show_default="2",
    ),
]
RepairWorkers = Annotated[
    int | None,
    typer.Option(
        "--repair-workers",
        help="Over how many workers the paper's topology spreads cells.",
        metavar="N",
        rich_help_panel=_SPREAD,
        show_default="2",
    ),
]
CoordinationOption = Annotated[
    Coordination | None,
    typer.Option(
        "--coordination",
        help="How repair workers learn of each other's links: hinge: with the violations; basic, dr: from a "
        "coordinator; ir: likewise, but a micro-batch late, which is not exact.",
        rich_help_panel=_SPREAD,
        show_default="hinge",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs.",
        metavar="URL",
        rich_help_panel=_SPARK,
        envvar="SPARK_MASTER",
        show_default="local[*]: all cores of this machine",
    ),
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show tracebacks and what Spark logs.", rich_help_panel=_SPARK),
]


KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        help="What Kafka's clients have to know to connect, such as security.protocol=SSL; may be repeated.",
        metavar="KEY=VALUE",
        rich_help_panel="Kafka",
        show_default=False,
    ),
]


def kafka_options_of(given: list[str] | None) -> dict[str, str]:
    """Return the options for Kafka's clients.

    Raises:
        ConfigError: If one is not `key=value`.
    """
    from ..kafka.topic import parse_options

    return parse_options(given or ())


def is_topic(place: str) -> bool:
    """Return whether a place is a topic, and not a path."""
    from ..kafka import topic

    return topic.is_topic(place)


def check_no_topic(
    audit: str | None, quarantine: str | None, kafka_option: list[str] | None, records_per_batch: int | None
) -> None:
    """Check that no option was given that is for topics only.

    Raises:
        ConfigError: If one was.
    """
    for name, place in {"audit": audit, "quarantine": quarantine}.items():
        if place is not None and is_topic(place):
            raise ConfigError(f"{name}: {place} is a topic, but the output is a path; give a path")
    for name, value in {"kafka option": kafka_option, "records per batch": records_per_batch}.items():
        if value:
            raise ConfigError(f"{name}: --{name.replace(' ', '-')} is for topics; leave it out")


def window_of(size: int | None, slide: int | None, no_window: bool) -> Window | None:
    """Return the window that three options say.

    Raises:
        ConfigError: If they contradict each other.
    """
    if no_window:
        if size is not None or slide is not None:
            raise ConfigError("window: --no-window does not go with --window and --slide; leave one out")
        return None
    if size is None and slide is None:
        return DEFAULT_WINDOW
    size = DEFAULT_WINDOW.size if size is None else size
    if slide is None:
        slide = size // 2 if size % 2 == 0 else size
    return Window.tuples(size, slide)


def updates_of(path: Path | None) -> list[RuleUpdate]:
    """Return the rule updates in a file.

    Raises:
        RuleError: If it cannot be read or is wrong anywhere; the message names the file and the line.
    """
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise RuleError(
            f"{path}: cannot read it ({error.strerror}); check the path and its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: it is not valid UTF-8; save it as UTF-8") from error
    updates = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            updates.append(RuleUpdate.from_dict(json.loads(line)))
        except json.JSONDecodeError as error:
            raise RuleError(
                f"{path}:{number}: it is not valid JSON: {error.msg}; write one object per line"
            ) from error
        except RuleError as error:
            raise RuleError(f"{path}:{number}: {error}") from error
    return updates


def absolute(path: str) -> str:
    """Return a path that means the same in every process; one with a scheme (hdfs://) already does."""
    return path if "://" in path else os.path.abspath(path)


def make_topology(topology: Topology, **given: int | str | None) -> str | PaperTopology:
    """Return the topology that `clean` takes.

    Raises:
        ConfigError: If an option of the paper's topology is given with the fused one, or is wrong.
    """
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    if topology == Topology.paper:
        return PaperTopology(**options)
    for option in options:
        raise ConfigError(
            f"{option}: it is for the paper's topology, this is the fused one; "
            "leave it out, or give --topology paper"
        )
    return str(topology)
