"""Dirty ratios and scores as series, panels, tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..rules.rule import Rule
from .measures import dirty_ratios, ratio
from .result import Mark, Panel, Series
from .sales import SIX_RULES
from .spoil import Spoilt

#: a smaller ratio is drawn as this one, because zero has no place on a logarithmic axis
_FLOOR = 1e-5
POSITION = "position in the stream (tuples)"


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


def ratio_panel(
    title: str, x_label: str, series: Sequence[Series], marks: Sequence[Mark] = (), *, log_x: bool = False
) -> Panel:
    """Return a panel of dirty ratios, on a logarithmic axis in percent."""
    return Panel(
        title, x_label, "dirty tuples", series, marks, log_x=log_x, log_y=True, percent_y=True, y_floor=_FLOOR
    )


def score_panel(title: str, x_label: str, scores: Mapping[str, tuple[float, float, float]]) -> Panel:
    """Return a panel of precision, recall and F1, as bars by name."""
    series = [
        Series(what, list(scores), [score[i] for score in scores.values()], "bars")
        for i, what in enumerate(("precision", "recall", "F1"))
    ]
    return Panel(title, x_label, "score", series, y_max=1.05)


def remaining_dirt(spoilt: Spoilt, cleaned: pa.Table, first: int) -> dict[str, float]:
    """Return the dirty ratio of r0 to r5 over tuples that were cleaned, which begin at a position."""
    n = cleaned.num_rows
    ratios = dirty_ratios(spoilt.truth.slice(first, n), spoilt.dirty.slice(first, n), cleaned, SIX_RULES, n)
    return {rule.id: ratio(ratios, rule.id).after for rule in SIX_RULES}


def percent(share: float) -> str:
    """Return a share in percent, with three decimals below one percent."""
    return f"{share:.3%}" if share < 0.01 else f"{share:.1%}"


def ratio_table(ratios: pa.Table, rules: Sequence[Rule], first: int = 0) -> pa.Table:
    """Return the dirty ratios by rule, on the way in and on the way out, from a position on."""
    found = [ratio(ratios, rule.id, first) for rule in rules]
    return pa.table(
        {
            "rule": [rule.id for rule in rules],
            "dependency": [str(rule) for rule in rules],
            "dirty_in": [one.before for one in found],
            "dirty_out": [one.after for one in found],
            "dirty_out_of_all_tuples": [one.after_all for one in found],
        }
    )
