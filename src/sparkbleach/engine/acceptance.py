"""Accepted changes: a cell group that holds another value to be true from a tuple on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An accepted change; values are rendered as text, as in the audit.

    Attributes:
        rule: The rule whose group has changed.
        key: By LHS attribute: the value of the group.
        attribute: The RHS attribute.
        old: The value that was true.
        new: The value that is, from this tuple on.
        position: The position of the tuple that settled it.
        confirmations: The rule's threshold: the number of cells that the new value begins with.
    """

    rule: str
    key: dict[str, str | None]
    attribute: str
    old: str
    new: str
    position: int
    confirmations: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return asdict(self)

    def __str__(self) -> str:
        key = ", ".join(f"{name}={value}" for name, value in self.key.items())
        change = f"{self.attribute} {self.old} → {self.new}"
        return f"accepted: {key}, {change} after {self.confirmations} confirmations"
