"""Scripted rule updates: which rule comes or goes before which tuple."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import RuleError
from .rule import Rule


@dataclass(frozen=True, slots=True)
class RuleUpdate:
    """One update; it takes effect before the tuple at its position.

    Attributes:
        at: The position.
        rule: The rule to add; None for a deletion.
        delete: The id of the rule to delete; None for an addition.
    """

    at: int
    rule: Rule | None = None
    delete: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.at, bool) or not isinstance(self.at, int) or self.at < 0:
            raise RuleError(f"rule update, at: {self.at!r} is not a position; give a whole number, 0 or more")
        if (self.rule is None) == (self.delete is None):
            raise RuleError(f"rule update at {self.at}: give either a rule to add or the id of one to delete")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RuleUpdate:
        """Return the update that a line like `{"at": 1000, "op": "delete", "id": "r5"}` says.

        Raises:
            RuleError: If it is wrong.
        """
        if not isinstance(data, Mapping):
            raise RuleError(f"rule update {data!r}: it is not an object with at, op, and rule or id")
        op = data.get("op")
        wanted = {"add": {"at", "op", "rule"}, "delete": {"at", "op", "id"}}.get(str(op))
        if wanted is None:
            raise RuleError(f"rule update, op: {op!r} is unknown; write add or delete")
        if set(data) != wanted:
            raise RuleError(
                f"rule update {dict(data)!r}: it has {', '.join(sorted(data))}; "
                f"{op} needs exactly {', '.join(sorted(wanted))}"
            )
        if op == "delete":
            return cls(data["at"], delete=str(data["id"]))
        rule = data["rule"]
        return cls(data["at"], rule=Rule.parse(rule) if isinstance(rule, str) else Rule.from_dict(rule))

    def to_dict(self) -> dict[str, Any]:
        """Return the update as a line says it."""
        if self.rule is not None:
            return {"at": self.at, "op": "add", "rule": self.rule.to_dict()}
        return {"at": self.at, "op": "delete", "id": self.delete}


def in_order(updates: Iterable[RuleUpdate | Mapping[str, Any]]) -> tuple[RuleUpdate, ...]:
    """Return updates by position; those at the same position in the order in which they were given."""
    checked = [
        update if isinstance(update, RuleUpdate) else RuleUpdate.from_dict(update) for update in updates
    ]
    return tuple(sorted(checked, key=lambda update: update.at))


def difference(old: Sequence[Rule], new: Sequence[Rule], at: int) -> list[RuleUpdate]:
    """Return the updates that turn one set of rules into another; a rule that changed goes and comes."""
    before = {rule.id: rule for rule in old}
    after = {rule.id: rule for rule in new}
    gone = [RuleUpdate(at, delete=rule.id) for rule in old if after.get(rule.id) != rule]
    come = [RuleUpdate(at, rule=rule) for rule in new if before.get(rule.id) != rule]
    return gone + come
