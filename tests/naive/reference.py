"""The semantics, as slowly and as plainly as they can be written.

Dictionaries and loops over everything, straight from docs/semantics.md; nothing of the package is imported.
Each step below carries the words of the page that it implements. Whatever the kernel does must equal what
this does.
"""

from __future__ import annotations

import copy
import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Tuple = Mapping[str, Any]
#: (which incarnation of a rule, LHS value, how many groups with this key were retired before)
Group = tuple[int, tuple[Any, ...], int]
Key = tuple[frozenset[Group], Any]  # a super cell: the set of groups, the value


def canonical(value: Any) -> Any:
    """Return what identifies and orders a value: -0.0 is 0.0, any NaN is one value above all others."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


@dataclass(frozen=True)
class NaiveRule:
    """`X -> A` with a condition, a treatment of nulls, and a pattern tableau (None is its wildcard).

    The last three are for `repair: bayes` only; there, an `accept_after` of None is that of all rules.
    """

    id: str
    lhs: tuple[str, ...]
    rhs: str
    when: Callable[[Tuple], bool | None] = lambda _: True
    fill: bool = False
    tableau: tuple[tuple[Any, ...], ...] = ()
    shadow: bool = False
    certain: bool = False
    accept_after: int | Literal["never"] | None = None
    reads: frozenset[str] = frozenset()  # the columns of the condition


@dataclass
class SuperCell:
    """The cells with one value that lie in exactly one set of groups: counts, no tuple ids."""

    window: Counter[int] = field(default_factory=Counter)  # pane -> cells
    newest: int = 0  # the pane of its newest cell
    cumulative: int | None = None  # only while in the graph

    @property
    def window_count(self) -> int:
        """Its cells in the window."""
        return sum(self.window.values())


@dataclass
class Belief:
    """What a group holds to be true."""

    held: Any
    seen: int = 1
    challenger: Any = None
    lead: int = 0

    def see(self, value: Any, h: int) -> bool:
        """Take a cell's value in; return whether a change is accepted."""
        if value == self.held:
            self.seen = min(30_000, self.seen + 1)
            self.lead = max(0, self.lead - 3)
        elif self.lead == 0 or value == self.challenger:
            self.challenger = value
            self.lead += 1
            if self.lead >= h:
                if self.seen >= h and self.lead < h + 2 * max(0, (self.seen // (8 * h)).bit_length() - 1):
                    return False
                if self.seen >= h:
                    return True
                self.held, self.seen, self.lead = value, self.lead, 0
        else:
            self.lead -= 1
        return False


@dataclass(frozen=True)
class NaiveAcceptance:
    """One accepted change."""

    rule: str
    key: tuple[Any, ...]
    attribute: str
    old: Any
    new: Any
    position: int


@dataclass(frozen=True)
class NaiveRepair:
    """One changed cell and why."""

    position: int
    attribute: str
    old: Any
    new: Any
    rules: tuple[str, ...]
    candidates: tuple[tuple[Any, int], ...]
    confidence: float
    groups: int
    decided_by: str
    overruled: tuple[str, ...]
    version: int
    applied: bool


class NaiveAttribute:
    """History and violation graph of one RHS attribute."""

    def __init__(self, windowing: str, repair: str) -> None:
        self.windowing = windowing
        self.repair = repair
        self.super_cells: dict[Key, SuperCell] = {}
        self.graph: set[Group] = set()
        self.beliefs: dict[Group, Belief] = {}
        #: how many groups with a key were retired
        self.retirements: Counter[tuple[int, tuple[Any, ...]]] = Counter()
        self.retired: set[Group] = set()

    def count(self, cell: SuperCell) -> int:
        """Basic: window counts; Bleach: cumulative counts."""
        return cell.window_count if self.windowing == "basic" else (cell.cumulative or 0)

    def slide(self, first_pane: int, first_remembered: int | None) -> None:
        """Steps 1 to 4 of a slide."""
        for cell in self.super_cells.values():
            for pane in [p for p in cell.window if p < first_pane]:
                del cell.window[pane]
        if self.windowing == "basic":
            first_remembered = first_pane
        if first_remembered is not None:
            self.super_cells = {k: c for k, c in self.super_cells.items() if c.newest >= first_remembered}
        alive = {g for (groups, _), cell in self.super_cells.items() if cell.window_count for g in groups}
        everything = {g for groups, _ in self.super_cells for g in groups} | self.graph | set(self.beliefs)
        self.remove_groups(everything - (alive - self.retired))
        self.retired.clear()

    def remove_groups(self, removed: set[Group]) -> None:
        """Steps 3 and 4: from the history and from the graph."""
        self.graph -= removed
        self.beliefs = {g: belief for g, belief in self.beliefs.items() if g not in removed}
        kept: dict[Key, SuperCell] = {}
        for (groups, value), cell in self.super_cells.items():
            left = groups - removed
            if not left:
                continue
            same = kept.setdefault((left, value), SuperCell())
            same.window.update(cell.window)
            same.newest = max(same.newest, cell.newest)
            if left & self.graph:
                same.cumulative = (same.cumulative or 0) + (cell.cumulative or 0)
        self.super_cells = {
            key: cell for key, cell in kept.items() if cell.window_count or cell.cumulative is not None
        }

    def values_in_window(self, group: Group) -> set[Any]:
        """Return the values of the group's cells in the window."""
        return {v for (groups, v), cell in self.super_cells.items() if group in groups and cell.window_count}

    def enter_graph(self, group: Group) -> None:
        """Let each super cell that was not yet in the graph start at its window count."""
        if group in self.graph:
            return
        for (groups, _), cell in self.super_cells.items():
            if group in groups and not groups & self.graph:
                cell.cumulative = cell.window_count
        self.graph.add(group)

    def group(self, incarnation: int, lhs: tuple[Any, ...]) -> Group:
        """Return the group with a key that is not retired."""
        return (incarnation, lhs, self.retirements[incarnation, lhs])

    def see(self, group: Group, value: Any, h: int) -> bool:
        """Let a group see the value of its next cell; return whether a change is accepted."""
        if group in self.beliefs:
            return self.beliefs[group].see(value, h)
        self.beliefs[group] = Belief(value)
        return False

    def accept(self, group: Group, value: Any, h: int, *, at_once: bool) -> tuple[Group, Any]:
        """Retire a group; return the one that begins under its key, and what the old one held."""
        old = self.beliefs.pop(group).held
        self.retirements[group[:2]] += 1
        new = self.group(*group[:2])
        self.beliefs[new] = Belief(value, h)
        if at_once:
            self.remove_groups({group})
        else:
            self.retired.add(group)
            if self.repair == "vote":  # it leaves the graph at once
                self.graph.discard(group)
                self.remove_groups(set())
        return new, old

    def join(self, groups: frozenset[Group], value: Any, pane: int, n: int = 1) -> None:
        """Let a cell, or one that counts as n, join its super cell."""
        cell = self.super_cells.setdefault((groups, value), SuperCell())
        cell.window[pane] += n
        cell.newest = pane
        if groups & self.graph:
            cell.cumulative = (cell.cumulative or 0) + n

    def subgraph(self, groups: set[Group]) -> set[Group]:
        """The connected components that hold these groups."""
        found = set(groups)
        while True:
            grown = set(found)
            for (members, _), cell in self.super_cells.items():
                if self.count(cell) > 0 and members & found:
                    grown |= members & self.graph
            if grown == found:
                return found
            found = grown

    def candidates(self, groups: set[Group]) -> tuple[Counter[Any], int]:
        """Count each candidate value, each super cell once; and how many groups that took."""
        counted = self.subgraph(groups) if self.repair == "class" else groups
        counts: Counter[Any] = Counter()
        for (members, value), cell in self.super_cells.items():
            if members & counted and self.count(cell) > 0:
                counts[value] += self.count(cell)
        return counts, len(counted)


class Reference:
    """A cleaner of one stream, tuple by tuple."""

    def __init__(
        self,
        attributes: Iterable[str],
        rules: Iterable[NaiveRule],
        window: tuple[int, int] | tuple[int, int, str] | None,
        windowing: str = "bleach",
        repair: str = "class",
        remember: int | None = None,
        accept_after: int | None = None,
    ) -> None:
        self.attribute_order = list(attributes)
        self.window = window
        self.remember = remember
        self.accept_after = accept_after
        #: in stream order
        self.accepted: list[NaiveAcceptance] = []
        self.windowing = windowing
        self.repair = repair
        self.position = 0
        self.pane = 0
        #: the number of the pane that the first time in the column of the window is in
        self.first_pane: int | None = None
        self.version = 1
        self.incarnations = 0
        self.rules: dict[str, tuple[int, NaiveRule]] = {}
        self.states: dict[str, NaiveAttribute] = {}
        #: by attribute with a shadow rule: the state in which its live and shadow rules are all in force
        self.shadow_states: dict[str, NaiveAttribute] = {}
        self.violations: Counter[str] = Counter()
        for rule in rules:
            self._add(rule)

    def _add(self, rule: NaiveRule) -> None:
        assert rule.id not in self.rules
        self.rules[rule.id] = (self.incarnations, rule)
        self.incarnations += 1
        if not rule.shadow:
            self.states.setdefault(rule.rhs, NaiveAttribute(self.windowing, self.repair))
        elif rule.rhs not in self.shadow_states:
            # It begins as a copy of the live state, in which the new rule has no groups.
            live = self.states.get(rule.rhs, NaiveAttribute(self.windowing, self.repair))
            self.shadow_states[rule.rhs] = copy.deepcopy(live)

    def add_rule(self, rule: NaiveRule) -> None:
        """New groups start empty; tuples already seen never join them."""
        self._add(rule)
        self.version += 1

    def delete_rule(self, id: str) -> None:
        """All groups of the rule are removed exactly as in steps 3 and 4 of a slide, in both states."""
        incarnation, rule = self.rules.pop(id)
        for states in (self.states, self.shadow_states):
            if rule.rhs in states:
                self._remove_groups_of(states[rule.rhs], incarnation)
        self._drop_idle_states(rule.rhs)
        self.version += 1

    def promote_rule(self, id: str) -> None:
        """The live state becomes a copy of the shadow state without the other shadow rules."""
        incarnation, rule = self.rules[id]
        assert rule.shadow
        self.rules[id] = (incarnation, replace(rule, shadow=False))
        state = copy.deepcopy(self.shadow_states[rule.rhs])
        for other, another in self.rules.values():
            if another.rhs == rule.rhs and another.shadow:
                self._remove_groups_of(state, other)
        self.states[rule.rhs] = state
        self._drop_idle_states(rule.rhs)
        self.version += 1

    def _remove_groups_of(self, state: NaiveAttribute, incarnation: int) -> None:
        known = {g for groups, _ in state.super_cells for g in groups} | state.graph | set(state.beliefs)
        state.remove_groups({g for g in known if g[0] == incarnation})

    def _drop_idle_states(self, attribute: str) -> None:
        rules = [rule for _, rule in self.rules.values() if rule.rhs == attribute]
        if not any(rule.shadow for rule in rules):
            self.shadow_states.pop(attribute, None)
        if all(rule.shadow for rule in rules):
            self.states.pop(attribute, None)

    def process(self, t: Tuple) -> tuple[dict[str, Any], list[NaiveRepair]]:
        """Clean one tuple."""
        position, self.position = self.position, self.position + 1
        pane = self.pane_of(t, position)
        if self.window and pane > self.pane:
            size, slide = self.window[:2]
            remembered = None if self.remember is None else pane - self.remember // slide + 1
            for state in (*self.states.values(), *self.shadow_states.values()):
                state.slide(pane - size // slide + 1, remembered)
        self.pane = pane
        clean = dict(t)
        repairs = []
        for attribute in self.attribute_order:
            if attribute in self.states:
                repair = self._clean_cell(t, attribute, pane, position, shadow=False)
                if repair is not None:
                    clean[attribute] = repair.new
                    repairs.append(repair)
            if attribute in self.shadow_states:
                repair = self._clean_cell(t, attribute, pane, position, shadow=True)
                # Reported if the tuple violates a shadow rule; it changes nothing.
                if repair is not None and any(self.rules[id][1].shadow for id in repair.rules):
                    repairs.append(repair)
        return clean, repairs

    def pane_of(self, t: Tuple, position: int) -> int:
        """By position; or by time, the greatest of this tuple's and those before, from the first one on."""
        if self.window is None:
            return 0
        slide = self.window[1]
        if len(self.window) == 2:
            return position // slide
        time = t[self.window[2]]
        if time is None:
            return self.pane
        if not isinstance(time, dt.datetime):
            time = dt.datetime.combine(time, dt.time())
        number = (time.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=slide)
        if self.first_pane is None:
            self.first_pane = number
        return max(self.pane, number - self.first_pane)

    def _clean_cell(
        self, t: Tuple, attribute: str, pane: int, position: int, *, shadow: bool
    ) -> NaiveRepair | None:
        """Decide on a cell in one of its attribute's two states."""
        state = (self.shadow_states if shadow else self.states)[attribute]
        own = canonical(t[attribute])
        groups: dict[str, Group] = {}
        constants: list[tuple[str, Any]] = []
        for incarnation, rule in self.rules.values():
            if rule.shadow and not shadow:
                continue
            if rule.rhs != attribute or any(t[x] is None for x in rule.lhs) or rule.when(t) is not True:
                continue
            if own is None and not rule.fill:
                continue
            lhs = tuple(canonical(t[x]) for x in rule.lhs)
            matching = [
                row
                for row in rule.tableau
                if all(p is None or canonical(p) == x for p, x in zip(row[:-1], lhs, strict=True))
            ]
            if not rule.tableau or any(row[-1] is None for row in matching):
                groups[rule.id] = state.group(incarnation, lhs)
            constants += [(rule.id, row[-1]) for row in matching if row[-1] is not None]

        # Before detection: does a group accept the value as its new truth?
        n_cells = 1
        h = self.accept_after
        if own is not None and h is not None:
            for id, group in groups.items():
                if state.see(group, own, h):
                    groups[id], old = state.accept(group, own, h, at_once=self.window is None)
                    n_cells = h
                    if not shadow:
                        key = tuple(t[x] for x in self.rules[id][1].lhs)
                        self.accepted.append(NaiveAcceptance(id, key, attribute, old, own, position))

        # Detect: look at each group before the tuple is added.
        violated = []
        for id, group in groups.items():
            values = state.values_in_window(group)
            if (own is None and values) or (own is not None and values - {own}):
                violated.append(id)
        if own is not None and groups:
            state.join(frozenset(groups.values()), own, pane, n_cells)
        for id in violated:
            state.enter_graph(groups[id])

        broken = {id for id, constant in constants if canonical(constant) != own}
        rules = [id for id in self.rules if id in violated or id in broken]
        self.violations.update(id for id in rules if self.rules[id][1].shadow == shadow)
        if not rules:
            return None

        ranked: list[tuple[Any, int]] = []
        total = n_groups = 0
        if violated:
            mine = {groups[id] for id in violated} if own is None else set(groups.values()) & state.graph
            counts, n_groups = state.candidates(mine)
            total = sum(counts.values())
            ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))

        overruled: tuple[str, ...] = ()
        if constants:
            new = canonical(constants[0][1])
            decided_by, confidence = "constant", 1.0
            losers = {id for id, constant in constants if canonical(constant) != new}
            overruled = tuple(id for id in self.rules if id in losers)
        else:
            best = ranked[0][1]
            new = own if own is not None and dict(ranked).get(own) == best else ranked[0][0]
            decided_by, confidence = "count", best / total
        if new == own:
            return None
        return NaiveRepair(
            position=position,
            attribute=attribute,
            old=t[attribute],
            new=new,
            rules=tuple(rules),
            candidates=tuple(ranked[:5]),
            confidence=confidence,
            groups=n_groups,
            decided_by=decided_by,
            overruled=overruled,
            version=self.version,
            applied=not shadow,
        )
