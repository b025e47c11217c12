"""Where a stream comes from and goes to: from files to files, or from a topic to a topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..errors import ConfigError
from .checkpoint import Memory

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ..control.rule_log import RuleLog
    from ..spark.sink import Sink
    from .progress import Trouble


@dataclass(frozen=True)
class Opened:
    """A route in a session."""

    stream: DataFrame  #: the dirty rows
    order_by: str | list[Column]  #: what says in which order the rows of a micro-batch come
    memory: Memory  #: what the next run needs to know
    make_sink: Callable[[], Sink]  #: makes the sink, and what it writes to; called after all checks
    egress_partitions: int | None = None  #: in how many partitions clean rows leave; Spark's default if None
    check: Callable[[], None] = lambda: None  #: is called before each micro-batch
    end: Callable[[], None] = lambda: None  #: is called after the last one
    trouble: Callable[[], Trouble | None] = lambda: None  #: returns what keeps it waiting, if anything


class Route(Protocol):
    """Where rows come from and go to."""

    @property
    def checkpoint(self) -> str:
        """The checkpoint directory."""

    def settings(self) -> dict[str, str]:
        """Return the settings that the Spark session needs."""

    def open(self, session: SparkSession, id: str, memory: Memory | None) -> Opened:
        """Open it, after checking that it continues the earlier runs."""


def check_memory(checkpoint: str, memory: Memory | None, wanted: Memory, log: RuleLog | None) -> None:
    """Check that a run continues the earlier runs of its checkpoint."""
    if memory is None:
        if log is not None and log.outcomes():
            raise ConfigError(
                f"rules target: {log.target} is that of another run, but the checkpoint {checkpoint} "
                "is new; give the checkpoint of that run to go on with it, or choose another target"
            )
        return
    memory.check(
        checkpoint,
        id=wanted.id,
        output=wanted.output,
        output_format=wanted.output_format,
        rules_target=wanted.rules_target,
    )
