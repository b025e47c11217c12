"""A sink: where the micro-batches of a cleaned stream are written to."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame

from ..errors import ConfigError
from .plan import CONTROL, REPAIRS


class Sink(Protocol):
    """Writes the micro-batches of a cleaned stream; `foreachBatch` calls it.

    A micro-batch that is written again after a crash leaves each row there once. The columns `_repairs`,
    `_quarantine` and `_control` are not data: they become the audit, the quarantine and the rule log.
    """

    @property
    def rows(self) -> int:
        """How many clean rows it has written."""

    @property
    def repairs(self) -> int:
        """How many cells were changed in them."""

    @property
    def quarantined(self) -> int:
        """How many rows it has quarantined."""

    @property
    def audit(self) -> object:
        """Where the audit goes; None if nowhere."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch."""

    def places(self) -> list[tuple[str, str]]:
        """Return what was written where."""


def check_columns(sink: str, batch: DataFrame, audit: object, control: object) -> None:
    """Check that a sink with an audit gets repairs, and one that gets outcomes has a rule log."""
    if audit is not None and REPAIRS not in batch.columns:
        raise ConfigError(
            f"{sink}: the rows have no column {REPAIRS} to make an audit of; "
            "leave audit out, or call clean(…, audit=True)"
        )
    if control is None and CONTROL in batch.columns:
        raise ConfigError(
            f"{sink}: the rows have the column {CONTROL}, but there is no log for the outcomes of rule "
            "updates; give control=…"
        )
