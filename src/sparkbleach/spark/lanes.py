"""Several lanes: which columns each of them gets, which keys they have in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from ..config import check_count
from ..engine.placement import Placement, place
from ..errors import ConfigError
from ..rules.check import CheckedRule
from .compat import spark_hash

Lanes = int | Sequence[Sequence[str]]


def choose_placement(lanes: Lanes, n_rules: Mapping[str, int], schema: pa.Schema) -> Placement:
    """Return the placement that a user has chosen, from how many rules each attribute has at the most.

    Attributes that are not listed in `lanes` are placed by load.
    """
    if isinstance(lanes, int):
        return place(n_rules, check_count("lanes", lanes))
    if not _are_lists(lanes):
        raise ConfigError(
            f"lanes: {lanes!r} must be a positive integer, or the attributes of each lane, "
            'such as [["city"], ["rate", "day"]]'
        )
    placement = Placement.from_lists(lanes)
    unknown = sorted(placement.attributes - set(schema.names))
    if unknown:
        raise ConfigError(
            f"lanes: the schema has no attribute {unknown[0]!r}; choose from {', '.join(schema.names)}"
        )
    for name, n in n_rules.items():
        if n > 1 and placement.is_split(name):
            raise ConfigError(
                f"lanes: {name!r} is on several lanes, but has {n} rules at a time, which need all of its "
                "state; give it to one lane, with a new checkpoint if there is one"
            )
    return placement.with_attributes(n_rules)


def _are_lists(lanes: Any) -> bool:
    """Return whether these are lists of names, at least one."""
    return (
        isinstance(lanes, list | tuple)
        and len(lanes) > 0
        and all(isinstance(names, list | tuple) for names in lanes)
        and all(isinstance(name, str) for names in lanes for name in names)
    )


def cells_by_lane(
    placement: Placement, rules: Sequence[CheckedRule], cells: Sequence[str], always: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    """Return which of the cells each lane gets, at least one; the first one gets what no rule reads, too.

    The rules are all that there are or will be; the columns `always` go to every lane.
    """
    wanted = [
        {name for checked in rules if checked.rule.rhs in names for name in checked.columns}.union(always)
        for names in placement.lanes
    ]
    wanted[0] |= set(cells).difference(*wanted)
    return tuple(tuple(name for name in cells if name in own) or (cells[0],) for own in wanted)


@cache
def spread_keys(n_lanes: int) -> tuple[int, ...]:
    """Return the keys of lanes, or of the workers of a stage, in a shuffle.

    With as many partitions as keys, each key has a partition of its own. The first one is
    always 0, so that a checkpoint of another number of lanes is noticed.
    """
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < n_lanes:
        keys.setdefault(spark_hash(key) % n_lanes, key)
        key += 1
    return tuple(sorted(keys.values()))
