"""Withdrawn rules: a condition needs more than it may use, so the engine puts its rule out of force."""

from __future__ import annotations

from dataclasses import dataclass

from ..rules.update import RuleUpdate


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A rule that was withdrawn.

    Attributes:
        rule: The id of the rule.
        position: It is active up to this position; the tuple there is the first one without it.
        reason: What its condition does, in words that follow `it`.
        lane: The one of several lanes that has put it out of force; None if it was deleted.
    """

    rule: str
    position: int
    reason: str
    lane: int | None = None

    @property
    def update(self) -> RuleUpdate:
        """The update that deletes it."""
        return RuleUpdate(self.position, delete=self.rule)

    def __str__(self) -> str:
        where, remedy = "", "add it again when it needs less"
        if self.lane is not None:
            where, remedy = f" in lane {self.lane}", f"delete it, then {remedy}"
        return (
            f"withdrawn: rule {self.rule!r}{where}, from position {self.position:,} on; "
            f"its condition {self.reason}; {remedy}"
        )
