"""The sequencer: which tuple is at which position, and which rules are in force there."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import pyarrow as pa

from ..engine.apply import evaluate_conditions
from ..engine.withdrawal import Withdrawal
from ..errors import RuleError
from ..rules.active import ActiveRules
from ..rules.condition_evaluator import ConditionLimitError
from ..rules.condition_process import DEFAULT_CONDITION_LIMITS, ConditionLimits
from ..rules.rule import Rule
from ..rules.update import RuleUpdate
from .messages import Clock


class Sequencer:
    """Counts tuples, and lets rules change between them.

    It raises a RuleError for a rule that this topology has no state for: a shadow rule, or one that accepts a
    new truth.
    """

    def __init__(
        self, active_rules: ActiveRules, position: int = 0, deletions: Sequence[tuple[int, int]] = ()
    ) -> None:
        for rule in active_rules.rules:
            _check_supported(rule)
        self.active_rules = active_rules
        self.position = position  #: where the next tuple will be; whoever takes tuples moves it
        self.deletions = tuple(deletions)  #: position and serial number of rules deleted since the last clock
        self._first = position

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stream."""
        return self.active_rules.schema

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The active rules, earlier ones first."""
        return self.active_rules.rules

    @property
    def version(self) -> int:
        """The version of the rule set: grows by one with each update."""
        return self.active_rules.version

    def copy(self) -> Sequencer:
        """Return a sequencer that goes on by itself."""
        other = copy(self)
        other.active_rules = self.active_rules.copy()
        return other

    def change_rules(self, update: RuleUpdate) -> None:
        """Apply a rule update now, whatever its position; RuleError if it is refused: nothing is changed."""
        if update.rule is not None:
            _check_supported(update.rule)
        active = self.active_rules.apply(update)
        if update.delete is not None:
            self.deletions = (*self.deletions, (self.position, active.serial))

    def adopt_schema(self, schema: pa.Schema) -> None:
        """Go on with another schema: columns that no rule and not the id reads may come, go and change.

        Raises:
            SchemaError: If a column that is read is gone or of another type; nothing is changed.
        """
        self.active_rules.adopt_schema(schema, self.position)

    def withdraw_rules(
        self, batches: Sequence[pa.RecordBatch], limits: ConditionLimits = DEFAULT_CONDITION_LIMITS
    ) -> list[Withdrawal]:
        """Delete the rules whose condition needs too much for the next tuples; return them.

        Whoever evaluates these tuples next finds rules that hold the limits.
        """
        withdrawn: list[Withdrawal] = []
        while broken := self._broken_conditions(batches, limits):
            for id, reason in broken.items():
                withdrawn.append(Withdrawal(id, self.position, reason))
                self.change_rules(withdrawn[-1].update)
        return withdrawn

    def _broken_conditions(
        self, batches: Sequence[pa.RecordBatch], limits: ConditionLimits
    ) -> dict[str, str]:
        """Return by rule what its condition does, if it needs more than the limits; the first ones found."""
        try:
            for batch in batches:
                evaluate_conditions(self.active_rules, batch, limits=limits)
        except ConditionLimitError as error:
            return error.broken
        return {}

    def tick(self) -> Clock:
        """Return the clock of the micro-batch that ends here; the next one begins."""
        clock = Clock(self._first, self.position, self.deletions)
        self._first, self.deletions = self.position, ()
        return clock

    def save(self) -> dict[str, Any]:
        """Return all state between two micro-batches, fit for JSON."""
        return {
            "position": self.position,
            "deletions": list(self.deletions),
            "active_rules": self.active_rules.save(),
        }

    @classmethod
    def load(cls, schema: pa.Schema, id: str | None, saved: dict[str, Any]) -> Sequencer:
        """Return a sequencer as it was saved."""
        deletions = [(at, serial) for at, serial in saved["deletions"]]
        return cls(ActiveRules.load(schema, id, saved["active_rules"]), saved["position"], deletions)


def _check_supported(rule: Rule) -> None:
    if isinstance(rule.accept_after, int):
        raise RuleError(
            f"rule {rule.id!r}, accept_after: new truths are not accepted here; leave it out, "
            "or clean with the fused topology"
        )
    if rule.is_shadow:
        raise RuleError(
            f"rule {rule.id!r}, mode: shadow rules are not supported here; add it as a live rule, "
            "or clean with the fused topology"
        )
