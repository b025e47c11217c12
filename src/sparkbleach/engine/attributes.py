"""The cleaners of all attributes, and how rule updates change their states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from ..kernel.attribute import Attribute
from ..rules.active import ActiveRule, ActiveRules
from .attribute import AttributeCleaner


class AttributeCleaners:
    """One cleaner for each RHS attribute with live rules, and another one for each with shadow rules.

    Args:
        new_state: Makes the empty state of an attribute with one rule.

    Attributes:
        live: By RHS attribute that has a live rule: the cleaner with its live rules.
        shadow: By RHS attribute that has a shadow rule: the cleaner with its live and shadow rules.
    """

    def __init__(self, new_state: Callable[[], Attribute]) -> None:
        self._new_state = new_state
        self.live: dict[str, AttributeCleaner] = {}
        self.shadow: dict[str, AttributeCleaner] = {}

    def __iter__(self) -> Iterator[AttributeCleaner]:
        yield from self.live.values()
        yield from self.shadow.values()

    def add(self, active: ActiveRule, type: pa.DataType) -> None:
        """Let a rule begin, with no groups.

        Args:
            active: The rule.
            type: The type of its RHS attribute.
        """
        attribute = active.rule.rhs
        if active.rule.is_shadow and attribute not in self.shadow and attribute in self.live:
            self.shadow[attribute] = self.live[attribute].copy(applied=False)
        sides = [self.shadow] if active.rule.is_shadow else [self.live, self.shadow]
        for side in sides:
            if attribute in side:
                side[attribute].add(active)
            elif side is sides[0]:
                side[attribute] = AttributeCleaner(
                    attribute, type, self._new_state(), [active], applied=side is self.live
                )

    def delete(self, active: ActiveRule) -> None:
        """Remove a rule with all its groups."""
        attribute = active.rule.rhs
        for side in (self.live, self.shadow):
            cleaner = side.get(attribute)
            if cleaner and any(one.id == active.id for one in cleaner) and not cleaner.delete(active.id):
                del side[attribute]
        shadow = self.shadow.get(attribute)
        if shadow and not any(one.rule.is_shadow for one in shadow):
            del self.shadow[attribute]

    def promote(self, active: ActiveRule) -> None:
        """Let what was a shadow rule, and is a live one now, repair with all that it has seen."""
        attribute = active.rule.rhs
        shadow = self.shadow[attribute]
        shadow.replace(active)
        others = [other.id for other in shadow if other.rule.is_shadow]
        if others:
            self.live[attribute] = shadow.copy(applied=True)
            for other in others:
                self.live[attribute].delete(other)
        else:
            shadow.applied = True
            self.live[attribute] = self.shadow.pop(attribute)

    def replace_rules(self, rules: Iterable[ActiveRule]) -> None:
        """Put rules in the places of those with their serial numbers; the groups stay."""
        for active in rules:
            for cleaner in self:
                cleaner.replace(active)

    def load(self, rules: ActiveRules, name: str, state: Attribute, *, applied: bool) -> None:
        """Put a cleaner with a saved state in place.

        Args:
            rules: The active rules.
            name: The name of the attribute.
            state: Its state.
            applied: Whether it is the cleaner of the live rules.
        """
        columns = [one for one in rules.by_attribute[name] if not (applied and one.rule.is_shadow)]
        side = self.live if applied else self.shadow
        side[name] = AttributeCleaner(name, rules.schema.field(name).type, state, columns, applied=applied)
