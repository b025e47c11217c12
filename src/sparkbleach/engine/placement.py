"""Which lane cleans which attributes.

Attributes are independent of each other, so each can have a lane of its own, with all rules that share it.
The groups of an attribute with a single rule are independent, too: it can be split over lanes, by hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import RuleError
from ..rules.rule import Rule

#: what a tuple costs an attribute with a single rule is 1; one with several pays this for each of them
_COST_OF_SHARED_RULE = 2.0
#: what a tuple costs each lane of an attribute that is split, whoever has its group: it is read and hashed
_COST_OF_HASH = 0.1


@dataclass(frozen=True, slots=True)
class Placement:
    """Which lane has which attributes; one that several lanes have is split over them."""

    lanes: tuple[tuple[str, ...], ...]  #: by lane: the names of its attributes, in their order

    @classmethod
    def of(cls, lanes_of: Mapping[str, Sequence[int]], n_lanes: int) -> Placement:
        """Return the placement that has each attribute on the given lanes."""
        names = sorted(lanes_of)
        return cls(tuple(tuple(name for name in names if lane in lanes_of[name]) for lane in range(n_lanes)))

    @classmethod
    def from_lists(cls, lanes: Iterable[Iterable[str]]) -> Placement:
        """Return a placement from what `to_lists` returned, or what a user wrote."""
        return cls(tuple(tuple(sorted(set(names))) for names in lanes))

    def to_lists(self) -> list[list[str]]:
        """Return the attributes of each lane."""
        return [list(names) for names in self.lanes]

    @property
    def attributes(self) -> set[str]:
        """All attributes that have a place."""
        return {name for names in self.lanes for name in names}

    def lanes_of(self, attribute: str) -> list[int]:
        """Return the lanes that have an attribute."""
        return [lane for lane, names in enumerate(self.lanes) if attribute in names]

    def is_split(self, attribute: str) -> bool:
        """Return whether several lanes have an attribute."""
        return len(self.lanes_of(attribute)) > 1

    def with_attributes(self, n_rules: Mapping[str, int]) -> Placement:
        """Return a placement that also has other attributes, heavy ones first on the least loaded lane."""
        place = {name: self.lanes_of(name) for name in self.attributes}
        loads = self.loads(n_rules)
        for name in sorted(n_rules.keys() - place.keys(), key=lambda name: (-_cost(n_rules[name]), name)):
            lane = min(range(len(loads)), key=lambda lane: (loads[lane], lane))
            place[name] = [lane]
            loads[lane] += _cost(n_rules[name])
        return Placement.of(place, len(self.lanes))

    def changed(self, other: Placement, kept: set[str]) -> Placement:
        """Return a placement with attributes where another one has them, but for those to be kept."""
        place = {
            name: (self if name in kept or name not in other.attributes else other).lanes_of(name)
            for name in self.attributes | other.attributes
        }
        return Placement.of(place, len(self.lanes))

    def loads(self, n_rules: Mapping[str, int]) -> list[float]:
        """Return what a tuple costs each lane."""
        loads = [0.0] * len(self.lanes)
        for name in n_rules:
            lanes = self.lanes_of(name)
            for lane in lanes:
                part = _COST_OF_HASH if len(lanes) > 1 else 0.0
                loads[lane] += _cost(n_rules[name]) / len(lanes) + part
        return loads

    def __str__(self) -> str:
        lanes = [
            ", ".join(f"{name} (split)" if self.is_split(name) else name for name in names)
            for names in self.lanes
        ]
        return "; ".join(f"lane {lane}: {names or 'nothing'}" for lane, names in enumerate(lanes))


ONE_LANE = Placement(((),))


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the work that one lane does."""

    placement: Placement  #: what all lanes do
    lane: int  #: which one it is

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of which this lane has cells."""
        return self.placement.lanes[self.lane]

    def with_rule(self, rule: Rule, active: Sequence[Rule]) -> Share:
        """Return the share once a rule joins active ones: on its attribute's lane, or the least loaded."""
        n_rules = Counter(one.rhs for one in active)
        if self.placement.is_split(rule.rhs) and n_rules[rule.rhs]:
            (other,) = (one.id for one in active if one.rhs == rule.rhs)
            raise RuleError(
                f"rule {rule.id!r}: {rule.rhs!r} is split over lanes by its rule {other!r}, and several "
                f"rules need all of its state in one lane; delete {other!r} before, or begin with "
                f"a new checkpoint and {rule.rhs!r} on one lane"
            )
        n_rules[rule.rhs] += 1
        return replace(self, placement=self.placement.with_attributes(n_rules))

    def own(self, attribute: str, key_hi: NDArray[np.uint64]) -> NDArray[np.bool_] | None:
        """Return which groups of an attribute are this lane's, by the high halves of keys; None for all."""
        lanes = self.placement.lanes_of(attribute)
        if len(lanes) == 1:
            return None
        # By the highest bits: tables go by the lowest ones of the low half.
        part = ((key_hi >> np.uint64(32)) * np.uint64(len(lanes))) >> np.uint64(32)
        own: NDArray[np.bool_] = part == np.uint64(lanes.index(self.lane))
        return own


def place(n_rules: Mapping[str, int], n_lanes: int) -> Placement:
    """Return a placement under which the most loaded lane has as little to do as possible.

    As few attributes as that takes are split; `n_rules` has by attribute how many rules it has at the most.
    """
    single = sorted(name for name, n in n_rules.items() if n == 1)
    everywhere = range(n_lanes)
    choices = [
        Placement.of(dict.fromkeys(single[:n_split], everywhere), n_lanes).with_attributes(n_rules)
        for n_split in range(len(single) + 1 if n_lanes > 1 else 1)
    ]
    return min(choices, key=lambda choice: max(choice.loads(n_rules)))


def _cost(n_rules: int) -> float:
    return 1.0 if n_rules == 1 else n_rules * _COST_OF_SHARED_RULE
