"""The options of `sparkbleach clean` beyond those that it shares with other commands, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from typer import Option

from ..control.rule_log import RuleLog, open_log
from ..errors import ConfigError
from ..paper.topology import PaperTopology
from .options import Format, Kafka


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is cleaned: where it is, how much of it is read at a time, and until when."""

    panel: ClassVar = "Input"
    input: Annotated[
        str,
        Option(
            help="What to clean: a file, a directory, a pattern in quotes, such as 'in/*.csv', or a topic, "
            "such as kafka://host:port/topic.",
            metavar="PATH|TOPIC",
        ),
    ]
    id: Annotated[str, Option(help="The column with each tuple's unique id.", metavar="COL")]
    files_per_batch: Annotated[
        int | None,
        Option(
            help="How many files a micro-batch takes, older ones first.",
            metavar="N",
            min=1,
            show_default="256 MB of files",
        ),
    ] = None
    records_per_batch: Annotated[
        int | None,
        Option(
            help="How many records of a topic a micro-batch takes.", metavar="N", min=1, show_default="200000"
        ),
    ] = None
    follow: Annotated[
        bool,
        Option(
            "--follow",
            help="Wait for more input until Ctrl-C. A new file must be moved in when it is complete.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where results go."""

    panel: ClassVar = "Output"
    output: Annotated[str, Option(help="The directory, or the topic, for clean rows.", metavar="DIR|TOPIC")]
    output_format: Annotated[
        Format | None, Option(help="The format of clean rows.", show_default="that of the input")
    ] = None
    checkpoint: Annotated[
        str | None,
        Option(
            help="The directory that keeps the state of the stream between runs.",
            metavar="DIR",
            show_default="OUTPUT-checkpoint",
        ),
    ] = None
    audit: Annotated[
        str | None,
        Option(
            help="The directory, or the topic, for the audit: one row per changed cell, with the reason.",
            metavar="DIR|TOPIC",
            show_default="OUTPUT-audit",
        ),
    ] = None
    no_audit: Annotated[bool, Option("--no-audit", help="Write no audit, which is faster.")] = False
    quarantine: Annotated[
        str | None,
        Option(
            help="The directory, or the topic, for rows that cannot be read or have no id, with the reason. "
            "A directory is made when it is needed.",
            metavar="DIR|TOPIC",
            show_default="OUTPUT-quarantine",
        ),
    ] = None

    def check_audit(self) -> None:
        """Check that an audit is wanted or not."""
        if self.no_audit and self.audit is not None:
            raise ConfigError("audit: --no-audit does not go with --audit; leave one out")


@dataclass(frozen=True, kw_only=True)
class Control(Kafka):
    """Where rule updates come from while the stream runs, and how to connect to Kafka."""

    panel: ClassVar = "Cleaning"
    rules_target: Annotated[
        str | None,
        Option(
            help="Where `sparkbleach rules` publishes rule updates for this stream, and finds out which of "
            "them were applied.",
            metavar="DIR|TOPIC",
        ),
    ] = None

    @cached_property
    def log(self) -> RuleLog | None:
        """The rule log; None if no target is given."""
        return open_log(self.rules_target, self.kafka) if self.rules_target else None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Over which tasks the work is spread."""

    panel: ClassVar = "Topology"
    lanes: Annotated[
        int,
        Option(
            help="In how many tasks, each with its own part of the state, the attributes are cleaned.",
            metavar="N",
            min=1,
        ),
    ] = 1
    topology: Annotated[
        Literal["fused", "paper"],
        Option(
            help="fused: one task has all rules and all state, which is fastest; "
            "paper: detect workers and repair workers share the state."
        ),
    ] = "fused"
    detect_workers: Annotated[
        int | None,
        Option(
            help="Over how many workers the paper's topology spreads cell groups.",
            metavar="N",
            show_default="2",
        ),
    ] = None
    repair_workers: Annotated[
        int | None,
        Option(
            help="Over how many workers the paper's topology spreads cells.", metavar="N", show_default="2"
        ),
    ] = None
    coordination: Annotated[
        Literal["hinge", "basic", "dr", "ir"] | None,
        Option(
            help="How repair workers learn of each other's links: hinge: with the violations; basic, dr: "
            "from a coordinator; ir: also from a coordinator, but one micro-batch late, which is not exact.",
            show_default="hinge",
        ),
    ] = None

    @cached_property
    def choice(self) -> str | PaperTopology:
        """The topology as `clean` takes it."""
        names = ("detect_workers", "repair_workers", "coordination")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.topology == "paper":
            return PaperTopology(**given)
        for name in given:
            raise ConfigError(
                f"{name}: it is for the paper's topology, this is the fused one; "
                "leave it out, or give --topology paper"
            )
        return self.topology

    @property
    def n_tasks(self) -> int:
        """How many tasks a shuffle has to have."""
        if isinstance(self.choice, PaperTopology):
            return max(self.choice.detect_workers, self.choice.repair_workers)
        return self.lanes

    @property
    def name(self) -> str:
        """The stages with state that a checkpoint belongs to."""
        if isinstance(self.choice, PaperTopology):
            return f"paper, {self.choice.coordination}"
        return self.choice
