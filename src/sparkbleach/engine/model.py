"""What `repair: bayes` looks at: the attributes that rules mention, and the rules in use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..rules.active import ActiveRule
from ..rules.check import is_plain
from ..rules.short_form import format_short_form


@dataclass(frozen=True, slots=True)
class ModelRule:
    """A rule in use."""

    lhs: tuple[str, ...]
    rhs: str
    active: ActiveRule | None  #: the user's rule; None for an implied one

    @property
    def id(self) -> str:
        """Its name in the audit."""
        return self.active.id if self.active else f"{format_short_form(self.lhs, self.rhs, None)} (implied)"


@dataclass(frozen=True, slots=True)
class Model:
    """Attributes, in the order of the schema, and rules: the user's, then implied ones."""

    attributes: tuple[str, ...]
    rules: tuple[ModelRule, ...]

    def number_of(self, attribute: str) -> int:
        """Return the number of an attribute."""
        return self.attributes.index(attribute)

    def restricted(self, attributes: Collection[str]) -> Model:
        """Return the model of some whole components: those of the attributes."""
        return Model(
            tuple(name for name in self.attributes if name in attributes),
            tuple(one for one in self.rules if one.rhs in attributes),
        )


NO_MODEL = Model((), ())


def make_model(
    schema: pa.Schema, id: str | None, trust: str | None, rules: Sequence[ActiveRule], *, implied: bool
) -> Model:
    """Return the model for the user's rules, and for those that they imply if asked."""
    used = [ModelRule(active.rule.lhs, active.rule.rhs, active) for active in rules]
    mentioned = {name for one in used for name in (*one.lhs, one.rhs)}
    if implied:
        conditions = {name for active in rules for name in active.checked.columns}
        free = [
            field.name
            for field in schema
            if field.name not in mentioned | conditions | {id, trust} and is_plain(field.type)
        ]
        unconditional = [
            one.lhs
            for one, active in zip(list(used), rules, strict=True)
            if active.rule.when is None and not active.rule.tableau
        ]
        used += [ModelRule(lhs, name, None) for lhs in dict.fromkeys(unconditional) for name in free]
    mentioned = {name for one in used for name in (*one.lhs, one.rhs)}
    return Model(tuple(name for name in schema.names if name in mentioned), tuple(used))
