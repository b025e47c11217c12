"""The rules of a state as numbers: which attributes each one reads, and which rules an attribute has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import inline
from ..table import NONE

I64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NumberedRule:
    """A rule in use, over attributes by their number."""

    serial: int  #: its number among all rules ever in use
    lhs: tuple[int, ...]  #: the attributes on the left
    rhs: int  #: the attribute on the right
    is_implied: bool = False  #: whether it follows from the user's rules, and is none of them
    is_certain: bool = False  #: whether it is never doubted
    fills: bool = False  #: whether it fills nulls
    accept_after: int = 0  #: how often a value is confirmed before it is the new truth; 0 for never


class Layout(NamedTuple):
    """Rules and attributes as arrays. Rules are in their order, attributes in that of the schema."""

    serial: I64  #: by rule: its number among all rules ever in use
    lhs: I64  #: by rule and place: an attribute; NONE beyond the last
    n_lhs: I64  #: by rule
    rhs: I64  #: by rule
    slot: I64  #: by rule: its place among the rules on its attribute
    is_user: Bools  #: by rule: False for implied ones
    is_certain: Bools  #: by rule
    fills: Bools  #: by rule
    accept_after: I64  #: by rule; 0 for never
    on_first: I64  #: by attribute, and one more: where in `on` its rules begin
    on: I64  #: the rules on an attribute
    left_first: I64  #: by attribute, and one more: where in `left` its rules begin
    left: I64  #: the rules with an attribute on the left
    left_at: I64  #: and at which place
    component_first: I64  #: by component, and one more: where in `component` its rules begin
    component: I64  #: the rules of a component
    members_first: I64  #: by component, and one more: where in `members` its attributes begin
    members: I64  #: the attributes of a component
    is_movable: Bools  #: by attribute: False for the source and the id
    is_user_rhs: Bools  #: by attribute: whether a user's rule has it on the right


@inline
def is_key(layout: Layout, a: int) -> bool:
    """Return whether an attribute stands on left sides only."""
    return bool(layout.on_first[a] == layout.on_first[a + 1])


def make_layout(rules: Sequence[NumberedRule], is_movable: Sequence[bool]) -> Layout:
    """Return the arrays for some rules; `is_movable` has an entry for each attribute."""
    n_attributes = len(is_movable)
    longest = max((len(rule.lhs) for rule in rules), default=1)
    lhs = np.full((len(rules), longest), NONE, np.int64)
    on: list[list[int]] = [[] for _ in range(n_attributes)]
    left: list[list[tuple[int, int]]] = [[] for _ in range(n_attributes)]
    slot = np.zeros(len(rules), np.int64)
    for r, rule in enumerate(rules):
        lhs[r, : len(rule.lhs)] = rule.lhs
        slot[r] = len(on[rule.rhs])
        on[rule.rhs].append(r)
        for at, attribute in enumerate(rule.lhs):
            left[attribute].append((r, at))
    user_rhs = {rule.rhs for rule in rules if not rule.is_implied}
    components = find_components(rules, n_attributes)
    members = [sorted({a for r in each for a in (*rules[r].lhs, rules[r].rhs)}) for each in components]
    return Layout(
        np.array([rule.serial for rule in rules], np.int64),
        lhs,
        np.array([len(rule.lhs) for rule in rules], np.int64),
        np.array([rule.rhs for rule in rules], np.int64),
        slot,
        np.array([not rule.is_implied for rule in rules], np.bool_),
        np.array([rule.is_certain for rule in rules], np.bool_),
        np.array([rule.fills for rule in rules], np.bool_),
        np.array([rule.accept_after for rule in rules], np.int64),
        np.cumsum([0, *map(len, on)]).astype(np.int64),
        np.array([r for rs in on for r in rs], np.int64),
        np.cumsum([0, *map(len, left)]).astype(np.int64),
        np.array([r for rs in left for r, _ in rs], np.int64),
        np.array([at for rs in left for _, at in rs], np.int64),
        np.cumsum([0, *map(len, components)]).astype(np.int64),
        np.array([r for component in components for r in component], np.int64),
        np.cumsum([0, *map(len, members)]).astype(np.int64),
        np.array([a for attributes in members for a in attributes], np.int64),
        np.array(is_movable, np.bool_),
        np.array([a in user_rhs for a in range(n_attributes)], np.bool_),
    )


def find_components(rules: Sequence[NumberedRule], n_attributes: int) -> list[list[int]]:
    """Return the rules that share an attribute, directly or through others, together; each in their order."""
    leader = list(range(n_attributes))

    def lead(a: int) -> int:
        while leader[a] != a:
            a = leader[a]
        return a

    for rule in rules:
        for a in rule.lhs:
            leader[lead(a)] = lead(rule.rhs)
    found: dict[int, list[int]] = {}
    for r, rule in enumerate(rules):
        found.setdefault(lead(rule.rhs), []).append(r)
    return list(found.values())
