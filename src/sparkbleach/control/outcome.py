"""Outcomes: what became of rule updates, withdrawn rules, accepted changes (in spark/rule_updates.py)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import SparkbleachError
from ..rules.update import RuleUpdate


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule update became, with which rules a stream began, or a rule withdrawn, or a change accepted.

    Attributes:
        index: Its place among the outcomes of its micro-batch.
        kind: `applied`, `refused`, or `started`: a stream begins, or goes on with other rules or columns. Or
            `withdrawn`: the condition of a rule needs more than it may use, so the stream has deleted the
            rule; one of several lanes lets it apply to no tuple, and it stays among `rules`. Or `accepted`: a
            cell group has another truth; then there are no rules, schema and columns.
        position: The position of the next tuple of the stream; of an accepted change: of its tuple.
        version: The version of the rule set afterwards.
        rules: All rules that are active afterwards, as dictionaries.
        schema: The schema of the stream as text: Arrow's serialised form in base 64.
        columns: The columns that a rule may read.
        id: The id column, which no rule may change.
        number: The number of the control record; None for rules that came another way.
        update: The update, as a dictionary; None if the record could not be read, or for `started`.
        reason: Why it was refused, or what the condition of a withdrawn rule does.
        by: Who published it.
        published: When it was published.
        accepted: The accepted change, as a dictionary.
        text: The withdrawn rule, or the accepted change, in words.
    """

    index: int
    kind: str
    position: int
    version: int
    rules: list[dict[str, Any]]
    schema: str
    columns: list[str]
    id: str
    number: str | None = None
    update: dict[str, Any] | None = None
    reason: str | None = None
    by: str | None = None
    published: str | None = None
    accepted: dict[str, Any] | None = None
    text: str | None = None

    @property
    def order(self) -> tuple[int, bool, int]:
        """What sorts the outcomes of a micro-batch, from all lanes, as they came about."""
        return self.position, self.kind == "accepted", self.index

    @classmethod
    def from_json(cls, text: str, place: str = "rule log") -> Outcome:
        """Return the outcome that `to_json` wrote; the place is where the text is, for an error.

        Raises:
            SparkbleachError: If it is damaged.
        """
        try:
            return cls(**_saved(text))
        except (ValueError, TypeError) as error:
            raise SparkbleachError(
                f"{place}: this outcome is damaged; restore it from a copy, or delete it, "
                "and the history goes without it"
            ) from error

    def to_json(self) -> str:
        """Return the outcome as a line of JSON."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        if self.kind in ("accepted", "withdrawn"):
            return self.text or self.kind
        if self.kind == "started":
            n_rules = f"{len(self.rules)} {'rule' if len(self.rules) == 1 else 'rules'}"
            return f"started with {n_rules} at position {self.position:,}, version {self.version}"
        what = str(RuleUpdate.from_dict(self.update)) if self.update else f"record {self.number}"
        if self.kind == "refused":
            return f"refused: {what}: {self.reason}"
        return f"applied: {what}; active from position {self.position:,} on, version {self.version}"


def _saved(text: str) -> Any:
    """Return what was saved, with ? for each half of a character: once these were let pass."""
    saved = json.loads(text)
    if r"\ud" in text:
        saved = json.loads(json.dumps(saved, ensure_ascii=False).encode(errors="replace"))
    return saved
