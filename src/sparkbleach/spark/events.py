"""What happens between two tuples: rules come, go and are promoted, the schema changes.

Events come from three places: a restart with other rules or columns, control records that were read with a
micro-batch, and rule updates that were scripted for a position. Those that took effect are stored with the
tuples of their micro-batch, so that a lane that is rebuilt goes through the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from ..control.outcome import Outcome
from ..control.record import ControlRecord
from ..engine.engine import Engine
from ..engine.placement import Placement
from ..errors import RuleError
from ..rules.rule import Rule
from ..rules.update import RuleUpdate, check_readable
from ..schema_text import schema_from_text, schema_to_text
from .plan import Plan

#: an update as a dictionary with its position, or one of the operations `schema` and `lanes`
Event = dict[str, Any]

logger = logging.getLogger(__name__)


class AcceptsRules(Protocol):
    """What rules come to and go from: an engine, or a sequencer."""

    #: where the next tuple will be
    position: int

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stream."""

    @property
    def version(self) -> int:
        """The version of the rule set."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force."""

    def change_rules(self, update: RuleUpdate) -> None:
        """Apply a rule update, or refuse it."""

    def adopt_schema(self, schema: pa.Schema) -> None:
        """Go on with another schema, or refuse it."""


class Events:
    """The events of a micro-batch.

    Args:
        engine: What they happen to.
        coming: Events by position; those before the engine's position are past.
        plan: If given and it asks for control, outcomes are noted.

    Attributes:
        applied: What took effect, and before which tuple.
        outcomes: What became of control records and scripted updates.
    """

    def __init__(self, engine: AcceptsRules, coming: Iterable[Event] = (), plan: Plan | None = None) -> None:
        self._engine = engine
        self._coming = [event for event in coming if event["at"] >= engine.position]
        self._plan = plan if plan and plan.control else None
        self.applied: list[Event] = []
        self.outcomes: list[Outcome] = []

    @property
    def next_at(self) -> int | None:
        """The position of the next event; None if there is none to come."""
        return self._coming[0]["at"] if self._coming else None

    def apply_due(self) -> None:
        """Let the events take effect whose position has come."""
        while self._coming and self._coming[0]["at"] <= self._engine.position:
            event = self._coming.pop(0)
            self._note(event, self.apply(event))

    def apply(self, event: Event) -> str | None:
        """Let an event take effect; return the reason if it is refused, which changes nothing."""
        try:
            if event["op"] == "schema":
                self._engine.adopt_schema(schema_from_text(event["schema"]))
            elif isinstance(self._engine, Engine) and event["op"] == "lanes":
                self._engine.adopt_placement(Placement.from_lists(event["lanes"]))
            else:
                self._engine.change_rules(RuleUpdate.from_dict(event))
        except RuleError as error:
            logger.warning("rule update at %d refused: %s", self._engine.position, error)
            return str(error)
        self.applied.append({**event, "at": self._engine.position})
        return None

    def note_start(self) -> None:
        """Note with which rules the stream begins or goes on."""
        if self._plan:
            self._add("started")

    def apply_records(self, records: Iterable[ControlRecord]) -> None:
        """Let control records take effect, one after the other, before the next tuple."""
        plan = self._plan
        if plan is None:
            return
        for record in records:
            if record.update is None:
                self._add("refused", record, reason=record.problem)
                continue
            try:
                check_readable(record.update, self._engine.schema, plan.readable, plan.id)
            except RuleError as error:
                reason: str | None = str(error)
            else:
                reason = self.apply(record.update.to_dict())
            self._add("refused" if reason else "applied", record, record.update.to_dict(), reason)

    def _note(self, event: Event, reason: str | None) -> None:
        if self._plan and event["op"] != "schema":
            self._add("refused" if reason else "applied", update=event, reason=reason)

    def _add(
        self,
        kind: str,
        record: ControlRecord | None = None,
        update: Event | None = None,
        reason: str | None = None,
    ) -> None:
        assert self._plan is not None  # noqa: S101 -- all callers have asked
        engine = self._engine
        self.outcomes.append(
            Outcome(
                index=len(self.outcomes),
                kind=kind,
                position=engine.position,
                version=engine.version,
                rules=[rule.to_dict() for rule in engine.rules],
                schema=schema_to_text(engine.schema),
                columns=list(self._plan.readable),
                id=self._plan.id,
                number=record.number if record else None,
                update=update,
                reason=reason,
                by=record.by if record else None,
                published=record.published if record else None,
            )
        )
