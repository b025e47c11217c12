"""Rule updates: which rule comes, goes or is promoted, and before which tuple."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import RuleError
from .check import check_not_id, check_rules
from .placed_error import PlacedError, check_text
from .rule import Rule

#: by operation: the key of what it is about
_SUBJECT = {"add": "rule", "delete": "id", "promote": "id"}


@dataclass(frozen=True, slots=True)
class RuleUpdate:
    """One update: a rule to add, or the id of one to delete or to promote from shadow to live.

    Attributes:
        at: It takes effect before the tuple at this position; None if it takes effect before the first
            tuple that is read after it.
        rule: The rule to add.
        delete: The id of the rule to delete.
        promote: The id of the shadow rule that becomes a live one.
    """

    at: int | None = None
    rule: Rule | None = None
    delete: str | None = None
    promote: str | None = None

    def __post_init__(self) -> None:
        if self.at is not None and (isinstance(self.at, bool) or not isinstance(self.at, int) or self.at < 0):
            raise RuleError(f"rule update, at: {self.at!r} is not a position; give a whole number, 0 or more")
        if [self.rule, self.delete, self.promote].count(None) != 2:
            raise RuleError(
                f"{self.place}: give either a rule to add, or the id of one to delete or to promote"
            )
        try:
            check_text("id", self.id)
        except PlacedError as fault:
            raise RuleError(f"{self.place}, {fault.place}: {fault.problem}; {fault.remedy}") from None

    @property
    def place(self) -> str:
        """The update as errors name it."""
        return "rule update" if self.at is None else f"rule update at {self.at}"

    @property
    def op(self) -> str:
        """The operation: `add`, `delete` or `promote`."""
        return "add" if self.rule is not None else "delete" if self.delete is not None else "promote"

    @property
    def id(self) -> str:
        """The id of the rule that it is about."""
        return self.rule.id if self.rule is not None else str(self.delete or self.promote)

    def __str__(self) -> str:
        if self.rule is None:
            return f"{self.op} {self.id}"
        return f"add {'shadow ' if self.rule.is_shadow else ''}{self.rule}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RuleUpdate:
        """Return the update in a mapping such as `{"at": 1000, "op": "delete", "id": "r5"}`.

        Raises:
            RuleError: If it is wrong.
        """
        if not isinstance(data, Mapping):
            raise RuleError(f"rule update {data!r}: it is not an object with op, and rule or id")
        op = data.get("op")
        subject = _SUBJECT.get(str(op))
        if subject is None:
            raise RuleError(f"rule update, op: {op!r} is unknown; write add, delete or promote")
        if set(data) - {"at"} != {"op", subject}:
            raise RuleError(
                f"rule update {dict(data)!r}: it has {', '.join(map(repr, data))}; "
                f"{op} needs exactly op and {subject}, and at if it is for a given position"
            )
        about = data[subject]
        if "at" in data and data["at"] is None:
            raise RuleError("rule update, at: it is null; give a position, or leave it out")
        if op != "add":
            if not isinstance(about, str):
                raise RuleError(f"rule update, id: {about!r} is not a text; give the id of a rule")
            at = data.get("at")
            return cls(at, delete=about) if op == "delete" else cls(at, promote=about)
        if not isinstance(about, str | Mapping):
            raise RuleError(f"rule update, rule: {about!r} is not a rule; give a text or an object")
        return cls(
            data.get("at"), rule=Rule.parse(about) if isinstance(about, str) else Rule.from_dict(about)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the update as `from_dict` reads it."""
        about = self.id if self.rule is None else self.rule.to_dict()
        at = {} if self.at is None else {"at": self.at}
        return {**at, "op": self.op, _SUBJECT[self.op]: about}


def sort_updates(updates: Iterable[RuleUpdate | Mapping[str, Any]]) -> tuple[RuleUpdate, ...]:
    """Return scheduled updates by position; those at the same one in the order in which they were given."""
    checked = [
        update if isinstance(update, RuleUpdate) else RuleUpdate.from_dict(update) for update in updates
    ]
    for update in checked:
        if update.at is None:
            raise RuleError(f"rule update ({update}): it has no position; give it one by at")
    return tuple(sorted(checked, key=lambda update: update.at or 0))


def difference(old: Sequence[Rule], new: Sequence[Rule], at: int) -> list[RuleUpdate]:
    """Return the updates that turn one set of rules into another, promotions first, additions last.

    A rule that changed is deleted and added; one that changed from shadow to live only is promoted.
    """
    before = {rule.id: rule for rule in old}
    promoted = [
        rule.id for rule in new if rule.id in before and before[rule.id] == rule.with_mode("shadow") != rule
    ]
    after = {rule.id: rule for rule in new}
    promotions = [RuleUpdate(at, promote=id) for id in promoted]
    gone = [
        RuleUpdate(at, delete=rule.id)
        for rule in old
        if after.get(rule.id) != rule and rule.id not in promoted
    ]
    come = [
        RuleUpdate(at, rule=rule) for rule in new if before.get(rule.id) != rule and rule.id not in promoted
    ]
    return promotions + gone + come


def check_readable(update: RuleUpdate, schema: pa.Schema, columns: Collection[str], id: str) -> None:
    """Check that a rule to be added to a running stream reads only columns that the rules get."""
    rule = update.rule
    if rule is None:
        return
    check_not_id(rule, id)
    (checked,) = check_rules([rule], schema)
    for name in checked.columns:
        if name not in columns:
            raise RuleError(
                f"rule {rule.id!r}: a rule that comes while the stream runs cannot read the column {name!r} "
                f"of type {schema.field(name).type}; "
                "restart the stream with the rule, or derive a plain column from it before"
            )
