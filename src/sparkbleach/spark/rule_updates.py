"""Rule updates, and other changes between two tuples: what is applied, what is refused, and each outcome.

Events come from four places: a restart with other rules or columns, control records that are read with a
micro-batch, rule updates that are scheduled for a position, and rules that the engine has withdrawn. The
applied ones are part of the delta of their micro-batch, so that a lane that is rebuilt applies the same
events at the same positions. It also cuts the tuples where a scheduled update was refused: what
`repair: bayes` decides depends on where tuples are cut.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from ..control.outcome import Outcome
from ..control.record import ControlRecord
from ..engine.acceptance import Acceptance
from ..engine.engine import Engine
from ..engine.placement import Placement
from ..engine.withdrawal import Withdrawal
from ..errors import RuleError
from ..rules.rule import Rule
from ..rules.update import RuleUpdate, check_readable
from ..schema_text import schema_from_text, schema_to_text
from .plan import Plan

#: the most accepted changes of a micro-batch that its report names
ACCEPTED_SHOWN = 100

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The stream has another schema from a position on."""

    at: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """Attributes without a rule are on other lanes from a position on."""

    at: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class OutOfForce:
    """A lane, one of several, applies a rule to no tuple from a position on."""

    at: int
    rule: str


Event = RuleUpdate | SchemaChange | PlacementChange | OutOfForce


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as a delta stores it."""
    match event:
        case SchemaChange(at, schema):
            return {"at": at, "op": "schema", "schema": schema_to_text(schema)}
        case PlacementChange(at, placement):
            return {"at": at, "op": "lanes", "lanes": placement.to_lists()}
        case OutOfForce(at, rule):
            return {"at": at, "op": "out_of_force", "rule": rule}
    return event.to_dict()


def event_from_dict(data: dict[str, Any]) -> Event:
    """Return the event that a delta has stored."""
    if data["op"] == "schema":
        return SchemaChange(data["at"], schema_from_text(data["schema"]))
    if data["op"] == "lanes":
        return PlacementChange(data["at"], Placement.from_lists(data["lanes"]))
    if data["op"] == "out_of_force":
        return OutOfForce(data["at"], data["rule"])
    return RuleUpdate.from_dict(data)


class AcceptsRules(Protocol):
    """What rules are added to and deleted from: an engine, or a sequencer."""

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
        """The active rules."""

    def change_rules(self, update: RuleUpdate) -> None:
        """Apply a rule update, or refuse it."""

    def adopt_schema(self, schema: pa.Schema) -> None:
        """Continue with another schema, or refuse it."""


class Events:
    """The events of a micro-batch. Outcomes are collected if a plan is given that asks for control."""

    def __init__(
        self,
        target: AcceptsRules,
        scheduled: Iterable[Event] = (),
        plan: Plan | None = None,
        refused_at: Iterable[int] | None = None,
    ) -> None:
        self._target = target
        #: whether these events were applied before
        self._replays = refused_at is not None
        #: where tuples were cut for updates that were then refused, when these events were applied first
        self._refused_before = sorted(refused_at or ())
        self.refused_at: list[int] = []  #: the same, now
        #: by position; those before the position of the target are over
        self._scheduled = [event for event in scheduled if _position(event) >= target.position]
        self._plan = plan if plan and plan.control else None
        self.applied: list[Event] = []  #: each with the position where it was applied
        #: what became of control records and scheduled updates, and accepted changes
        self.outcomes: list[Outcome] = []
        self.withdrawn: list[str] = []  #: withdrawn rules in words
        self.accepted: list[str] = []  #: accepted changes in words, the first ones only
        self.n_accepted = 0  #: how many there are

    def cuts(self, end: int) -> Iterator[int]:
        """Cut the tuples up to a position where rules change: apply what is due, then yield where the cut is.

        The caller moves the target to that cut before it asks for the next one.
        """
        while self._target.position < end:
            self.apply_due()
            coming = [at for at in self._refused_before if at > self._target.position]
            yield min([end, *coming[:1], *map(_position, self._scheduled[:1])])

    def apply_due(self) -> None:
        """Apply the events that are scheduled for the position of the target."""
        while self._scheduled and _position(self._scheduled[0]) <= self._target.position:
            event = self._scheduled.pop(0)
            reason = self.apply(event)
            if reason:
                self.refused_at.append(self._target.position)
            if isinstance(event, RuleUpdate):
                self._add_outcome("refused" if reason else "applied", update=event, reason=reason)

    def apply(self, event: Event) -> str | None:
        """Apply an event; return the reason if it is refused, which changes nothing."""
        try:
            match event:
                case SchemaChange():
                    self._target.adopt_schema(event.schema)
                case RuleUpdate():
                    self._target.change_rules(event)
                case PlacementChange() if isinstance(self._target, Engine):
                    self._target.adopt_placement(event.placement)
                case OutOfForce() if isinstance(self._target, Engine):
                    self._target.put_out_of_force(event.rule)
        except RuleError as error:
            if self._replays:
                raise
            logger.warning("rule update at %d refused: %s", self._target.position, error)
            return str(error)
        self.applied.append(replace(event, at=self._target.position))
        return None

    def note_withdrawn(self, withdrawn: Iterable[Withdrawal]) -> None:
        """Collect rules that were withdrawn since the last event; in a replay they are events like others."""
        for one in withdrawn:
            logger.warning("%s", one)
            self.withdrawn.append(str(one))
            is_deleted = one.lane is None
            self.applied.append(one.update if is_deleted else OutOfForce(one.position, one.rule))
            self._add_outcome(
                "withdrawn", update=one.update, reason=one.reason, text=str(one), position=one.position
            )

    def note_accepted(self, accepted: Iterable[Acceptance]) -> None:
        """Collect changes that were accepted since the last event."""
        for one in accepted:
            self.n_accepted += 1
            if len(self.accepted) < ACCEPTED_SHOWN:
                self.accepted.append(str(one))
            if self._plan is not None:
                outcome = Outcome(
                    index=len(self.outcomes),
                    kind="accepted",
                    position=one.position,
                    version=self._target.version,
                    rules=[],
                    schema="",
                    columns=[],
                    id=self._plan.id,
                    accepted=one.to_dict(),
                    text=str(one),
                )
                self.outcomes.append(outcome)

    def update_lines(self) -> list[str]:
        """Return in words how the stream began and what became of rule updates."""
        return [str(outcome) for outcome in self.outcomes if outcome.kind not in ("accepted", "withdrawn")]

    def note_start(self) -> None:
        """Collect the outcome that says with which rules the stream begins or continues."""
        self._add_outcome("started")

    def apply_records(self, records: Iterable[ControlRecord]) -> None:
        """Apply control records, one after the other, before the next tuple."""
        plan = self._plan
        if plan is None:
            return
        for record in records:
            if record.update is None:
                self._add_outcome("refused", record, reason=record.problem)
                continue
            try:
                check_readable(record.update, self._target.schema, plan.readable, plan.id)
            except RuleError as error:
                reason: str | None = str(error)
            else:
                reason = self.apply(record.update)
            self._add_outcome("refused" if reason else "applied", record, record.update, reason)

    def _add_outcome(
        self,
        kind: str,
        record: ControlRecord | None = None,
        update: RuleUpdate | None = None,
        reason: str | None = None,
        text: str | None = None,
        position: int | None = None,
    ) -> None:
        if self._plan is None:
            return
        target = self._target
        self.outcomes.append(
            Outcome(
                index=len(self.outcomes),
                kind=kind,
                position=target.position if position is None else position,
                version=target.version,
                rules=[rule.to_dict() for rule in target.rules],
                schema=schema_to_text(target.schema),
                columns=list(self._plan.readable),
                id=self._plan.id,
                number=record.number if record else None,
                update=update.to_dict() if update else None,
                reason=reason,
                by=record.by if record else None,
                published=record.published if record else None,
                text=text,
            )
        )


def _position(event: Event) -> int:
    """Return the position of a scheduled event: updates without one take effect when they are read."""
    return event.at or 0
