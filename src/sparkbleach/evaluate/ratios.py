"""Dirty ratios as series and sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..rules.rule import Rule
from .measures import ratio
from .result import Series

#: less than that is shown as that, on a logarithmic axis
FLOOR = 1e-5


def over_position(ratios: pa.Table, rule: str, label: str) -> Series:
    """Return the dirty ratio by a rule over the position in the stream; stretches without tuples are gaps."""
    part = ratios.filter(pc.equal(ratios["rule"], rule))
    n = part["applies"].to_numpy().astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        y = part["dirty_out"].to_numpy() / n
    return Series(label, part["first"].to_numpy(), y, "steps")


def by_rule(
    ratios: pa.Table, rules: Sequence[Rule], label: str, first: int = 0, end: int | None = None
) -> Series:
    """Return the dirty ratio of each rule over a part of the stream, as bars."""
    y = [ratio(ratios, rule.id, first, end).after for rule in rules]
    return Series(label, [rule.id for rule in rules], y, "bars")


def told(ratios: pa.Table, rules: Sequence[Rule], first: int = 0, end: int | None = None) -> str:
    """Return the dirty ratio of each rule, for people."""
    return ", ".join(f"{rule.id} {percent(ratio(ratios, rule.id, first, end).after)}" for rule in rules)


def percent(share: float) -> str:
    """Return a share in percent, with three decimals where that is little."""
    return f"{share:.3%}" if share < 0.01 else f"{share:.1%}"


def after(ratios: pa.Table, rules: Sequence[Rule], first: int = 0, end: int | None = None) -> pa.Table:
    """Return in and out ratios by rule over a part of the stream."""
    found = [ratio(ratios, rule.id, first, end) for rule in rules]
    return pa.table(
        {
            "rule": [rule.id for rule in rules],
            "dependency": [str(rule) for rule in rules],
            "dirty_in": [one.before for one in found],
            "dirty_out": [one.after for one in found],
            "dirty_out_of_all_tuples": [one.after_all for one in found],
        }
    )
