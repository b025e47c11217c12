"""What cleans one attribute: the rules that share it, by kernel column, and the state that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..kernel.attribute import Attribute
from ..kernel.clean import Cells
from ..kernel.repair import Repairs
from ..rules.active import ActiveRule
from .apply import Constants
from .audit import RepairedColumn, repaired_column


class AttributeCleaner:
    """Cleans one RHS attribute by its rules.

    An attribute with shadow rules has two of these, each with a state of its own: one with the live rules
    only, and one with the live and the shadow rules.

    Args:
        name: The name of the attribute.
        type: Its type.
        state: What its rules have seen.
        rules: Its rules by column of the state, which is the order of their serial numbers.
        applied: Whether its repairs are made; otherwise they are what the shadow rules would repair.
    """

    def __init__(
        self,
        name: str,
        type: pa.DataType,
        state: Attribute,
        rules: Sequence[ActiveRule],
        *,
        applied: bool,
    ) -> None:
        self.name = name
        self.type = type
        self.state = state
        self.rules = list(rules)
        self.applied = applied

    def __iter__(self) -> Iterator[ActiveRule]:
        return iter(self.rules)

    def add(self, active: ActiveRule) -> None:
        """Add a rule, with no groups."""
        self.rules.append(active)
        self.state = self.state.with_column()

    def delete(self, id: str) -> bool:
        """Remove a rule and all its groups; return whether there are others. If not, nothing is left."""
        column = [active.id for active in self.rules].index(id)
        del self.rules[column]
        self.state = self.state.without_column(column)
        return bool(self.rules)

    def replace(self, active: ActiveRule) -> None:
        """Put a rule in the place of the one with its serial number; the groups stay."""
        self.rules = [active if old.serial == active.serial else old for old in self.rules]

    def copy(self, *, applied: bool) -> AttributeCleaner:
        """Return the same rules with a state of their own that is the same."""
        return AttributeCleaner(self.name, self.type, self.state.copy(), self.rules, applied=applied)

    def violations(self) -> Iterator[tuple[ActiveRule, int]]:
        """Yield each rule and how many tuples have violated it."""
        for active, n in zip(self.rules, self.state.violations, strict=True):
            yield active, int(n)

    def clean(
        self, batches: Sequence[tuple[Cells, Constants | None]], position: int, version: int
    ) -> tuple[list[RepairedColumn | None], dict[str, int]]:
        """Clean the cells of batches; return the repairs in each, and their number by rule.

        A rule is answerable for the repairs of cells that violate it. Where repairs are not made, the
        shadow rules alone are, and a cell that violates none of them is left out.

        Args:
            batches: The cells, as `apply_rules` returns them.
            position: Where the first batch begins in the stream.
            version: The version of the rule set.
        """
        answerable = [
            (j, active) for j, active in enumerate(self.rules) if self.applied or active.rule.is_shadow
        ]
        by_rule = {active.id: 0 for _, active in answerable}
        found: list[RepairedColumn | None] = []
        for cells, constants in batches:
            repairs, n_repairs = self.state.process(cells, position)
            if not self.applied:
                repairs = _with_violation_of(repairs, n_repairs, [j for j, _ in answerable])
                n_repairs = repairs.tuple.size
            column = None
            if n_repairs:
                column = repaired_column(
                    self.type,
                    self.name,
                    self.rules,
                    self.state.values,
                    repairs,
                    n_repairs,
                    constants,
                    position,
                    version,
                    applied=self.applied,
                )
                for j, active in answerable:
                    by_rule[active.id] += int(np.count_nonzero(repairs.violated[:n_repairs, j]))
            found.append(column)
            position += cells.constant.size
        return found, by_rule


def _with_violation_of(repairs: Repairs, n_repairs: int, columns: list[int]) -> Repairs:
    """Return the repairs of cells that violate a rule in one of these columns."""
    violated = repairs.violated[:n_repairs, columns].any(axis=1)
    return Repairs._make(array[:n_repairs][violated] for array in repairs)
