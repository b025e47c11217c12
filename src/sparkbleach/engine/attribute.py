"""What cleans attributes: the rules of an attribute, by kernel column, and the state that they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import Options
from ..errors import SnapshotError
from ..kernel.attribute import Attribute, HingedAttribute, SoloAttribute
from ..kernel.clean import Cells
from ..kernel.clock import TIMED, PaneWindow
from ..kernel.graph import Mode
from ..kernel.repair import Repairs
from ..rules.active import ActiveRule, ActiveRules
from .acceptance import AcceptedColumn, accepted_column
from .apply import Constants
from .audit import RepairedColumn, repaired_column
from .encode import check_values
from .snapshot import SavedAttribute


class CleanedBatches(NamedTuple):
    """What became of the cells of an attribute in some batches."""

    repaired: list[RepairedColumn | None]  #: by batch
    by_rule: dict[str, int]  #: how many repairs each rule is answerable for
    accepted: list[AcceptedColumn | None]  #: by batch; none for shadow rules


class AttributeCleaner:
    """Cleans one RHS attribute by its rules.

    An attribute with shadow rules has two of these, each with a state of its own: one with the live rules
    only, and one with the live and the shadow rules.
    """

    def __init__(
        self,
        name: str,
        type: pa.DataType,
        state: Attribute,
        rules: Sequence[ActiveRule],
        accept_after: int | None,
        *,
        applied: bool,
    ) -> None:
        self.name = name
        self.type = type
        self.state = state  #: what its rules have seen
        self.rules = list(rules)  #: by column of the state: in the order of their serial numbers
        self.applied = applied  #: whether repairs are made; if not, shadow rules would make them
        self._accept_after = accept_after
        self._set_thresholds()

    def _set_thresholds(self) -> None:
        self.state.accept_after = np.array([self._threshold(active) for active in self.rules], np.int64)

    def _threshold(self, active: ActiveRule) -> int:
        return active.rule.accept_after_or(self._accept_after) or 0

    def __iter__(self) -> Iterator[ActiveRule]:
        return iter(self.rules)

    def add(self, active: ActiveRule) -> None:
        """Add a rule, with no groups."""
        self.rules.append(active)
        self.state = self.state.with_column()
        self.state.accept_after[-1] = self._threshold(active)

    def delete(self, id: str) -> bool:
        """Remove a rule and all its groups; return whether there are others. If not, nothing is left."""
        column = [active.id for active in self.rules].index(id)
        del self.rules[column]
        self.state = self.state.without_column(column)
        if self.rules:
            self._set_thresholds()
        return bool(self.rules)

    def replace(self, active: ActiveRule) -> None:
        """Put a rule in the place of the one with its serial number; the groups stay."""
        self.rules = [active if old.serial == active.serial else old for old in self.rules]

    def copy(self, *, applied: bool) -> AttributeCleaner:
        """Return the same rules with a state of their own that is the same."""
        return AttributeCleaner(
            self.name, self.type, self.state.copy(), self.rules, self._accept_after, applied=applied
        )

    def violations(self) -> Iterator[tuple[ActiveRule, int]]:
        """Yield each rule and how many tuples have violated it."""
        for active, n in zip(self.rules, self.state.violations, strict=True):
            yield active, int(n)

    def clean(
        self,
        batches: Sequence[tuple[Cells, Constants | None]],
        panes: Sequence[NDArray[np.int64] | None],
        position: int,
        version: int,
    ) -> CleanedBatches:
        """Clean batches of cells from a position on; with a time window, their tuples are in these panes.

        A rule is answerable for the repairs of cells that violate it. Where repairs are not made, the
        shadow rules alone are, and a cell that violates none of them is left out; so are accepted changes.
        """
        answerable = [
            (j, active) for j, active in enumerate(self.rules) if self.applied or active.rule.is_shadow
        ]
        by_rule = {active.id: 0 for _, active in answerable}
        found: list[RepairedColumn | None] = []
        accepted: list[AcceptedColumn | None] = []
        for (cells, constants), in_panes in zip(batches, panes, strict=True):
            repairs, n_repairs, acceptances = self.state.process(cells, position, in_panes)
            if self.applied:
                thresholds = self.state.accept_after.tolist()
                accepted.append(
                    accepted_column(self.type, self.rules, self.state.values, acceptances, thresholds)
                )
            else:
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
        return CleanedBatches(found, by_rule, accepted)


class AttributeCleaners:
    """One cleaner for each RHS attribute with live rules, and another one for each with shadow rules."""

    def __init__(self, options: Options) -> None:
        self._accept_after = options.accept_after
        self._mode = Mode(basic=options.windowing == "basic", vote=options.repair == "vote")
        self._window = PaneWindow(0, 1, 0)
        window = options.window
        if window:
            slide = window.slide if window.column is None else TIMED
            self._window = PaneWindow(slide, window.size // window.slide, options.remember_panes or 0)
        self.live: dict[str, AttributeCleaner] = {}  #: by RHS attribute: with its live rules
        self.shadow: dict[str, AttributeCleaner] = {}  #: likewise, with its live and shadow rules

    def __iter__(self) -> Iterator[AttributeCleaner]:
        yield from self.live.values()
        yield from self.shadow.values()

    def add(self, active: ActiveRule, type: pa.DataType, pane: int) -> None:
        """Let a rule begin, with no groups, on an attribute of a type; the newest tuple is in the pane."""
        attribute = active.rule.rhs
        if active.rule.is_shadow and attribute not in self.shadow and attribute in self.live:
            self.shadow[attribute] = self.live[attribute].copy(applied=False)
        sides = [self.shadow] if active.rule.is_shadow else [self.live, self.shadow]
        for side in sides:
            if attribute in side:
                side[attribute].add(active)
            elif side is sides[0]:
                state = SoloAttribute(self._mode, self._window, pane)
                side[attribute] = AttributeCleaner(
                    attribute, type, state, [active], self._accept_after, applied=side is self.live
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
        """Let a rule that was a shadow rule before repair, with all that it has seen."""
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

    def check_saved(self, saved: Iterable[SavedAttribute], rules: ActiveRules) -> None:
        """Check that these are the states of some rules, by their names alone."""
        by_attribute = rules.by_attribute.items()
        live = [(name, True) for name, on in by_attribute if not all(one.rule.is_shadow for one in on)]
        shadow = [(name, False) for name, on in by_attribute if any(one.rule.is_shadow for one in on)]
        if sorted((one.name, one.applied) for one in saved) != sorted(live + shadow):
            raise SnapshotError(
                "snapshot: its states are not those of the attributes that its rules are about; "
                "use an earlier one"
            )

    def load(self, saved: SavedAttribute, rules: ActiveRules, pane: int) -> AttributeCleaner:
        """Return the cleaner of an attribute, as it was saved when the newest tuple was in the pane."""
        name = saved.name
        columns = [one for one in rules.by_attribute[name] if not (saved.applied and one.rule.is_shadow)]
        type = rules.schema.field(name).type
        kind = SoloAttribute if len(columns) == 1 else HingedAttribute
        state = kind(self._mode, self._window, pane)
        try:
            state.load(saved.arrays, len(columns))
            check_values(state.values, np.flatnonzero(state.values.records["refs"]), type)
        except ValueError as error:
            raise SnapshotError(
                f"snapshot: state of attribute {name!r}: {error}; use an earlier one"
            ) from None
        return AttributeCleaner(name, type, state, columns, self._accept_after, applied=saved.applied)

    def put(self, cleaner: AttributeCleaner) -> None:
        """Put the cleaner of an attribute in place."""
        side = self.live if cleaner.applied else self.shadow
        side[cleaner.name] = cleaner

    def save(self, states: Iterable[list[NDArray[Any]]]) -> list[SavedAttribute]:
        """Return all attributes with what their states have saved."""
        return [
            SavedAttribute(cleaner.name, cleaner.applied, arrays)
            for cleaner, arrays in zip(self, states, strict=True)
        ]


def _with_violation_of(repairs: Repairs, n_repairs: int, columns: list[int]) -> Repairs:
    """Return the repairs of cells that violate a rule in one of these columns."""
    violated = repairs.violated[:n_repairs, columns].any(axis=1)
    return Repairs._make(array[:n_repairs][violated] for array in repairs)
