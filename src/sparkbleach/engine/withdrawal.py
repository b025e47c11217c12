"""Withdrawn rules: a condition needs more than it may use, so its rule is deleted by the engine itself."""

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
    """

    rule: str
    position: int
    reason: str

    @property
    def update(self) -> RuleUpdate:
        """The update that does the same."""
        return RuleUpdate(self.position, delete=self.rule)

    def __str__(self) -> str:
        return (
            f"withdrawn: rule {self.rule!r}, from position {self.position:,} on; "
            f"its condition {self.reason}; add it again when it needs less"
        )
