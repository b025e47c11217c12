"""Wrong keys: how many right cells are overwritten with those of another key."""

from __future__ import annotations

from ...config import OptionValues
from ..dirt import Error, Kind
from ..engine_run import BAYES, run_engine
from ..laboratory import Laboratory
from ..measures import differ
from ..orders import ORDER_RULES, orders
from ..ratios import percent
from ..result import Claim, Figure, Panel, Result, Series
from ..spoil import spoil

_WRONG_KEYS = 0.02
_FACTOR = 10
_PER_KEY = 50
_CASES: dict[str, OptionValues] = {"class": {"repair": "class"}, "vote": {"repair": "vote"}, "bayes": BAYES}


def run(lab: Laboratory) -> Result:
    """Clean orders in which some keys are wrong and nothing else is."""
    n_keys = lab.profile.drift_keys
    n = n_keys * _PER_KEY
    truth = orders(n, n_keys, lab.seed)
    lhs = tuple(name for rule in ORDER_RULES for name in rule.lhs)
    spoilt = spoil(truth, [Error(Kind.domain, _WRONG_KEYS, lhs)], lab.seed)
    rows = []
    shares: dict[str, list[float]] = {}
    with lab.progress("cleaning", n * len(_CASES)) as advance:
        for repair, options in _CASES.items():
            done = run_engine(spoilt.dirty, ORDER_RULES, None, advance=advance, **options)
            overwritten = [
                int(differ(done.cleaned.column(rule.rhs), truth.column(rule.rhs)).sum())
                for rule in ORDER_RULES
            ]
            shares[repair] = [cells / n for cells in overwritten]
            rows += [
                {
                    "repair": repair,
                    "rule": str(rule),
                    "right_cells": n,
                    "overwritten": cells,
                    "share": cells / n,
                }
                for rule, cells in zip(ORDER_RULES, overwritten, strict=True)
            ]
    mean = {repair: sum(found) / len(found) for repair, found in shares.items()}
    names = [str(rule) for rule in ORDER_RULES]
    panel = Panel(
        "Right cells that are overwritten",
        "rule",
        "overwritten",
        [Series(repair, names, found, "bars") for repair, found in shares.items()],
        log_y=True,
        percent_y=True,
        y_floor=1e-6,
    )
    by_rule = ", ".join(
        f"{rule.rhs} {percent(shares['bayes'][i])} for {percent(shares['class'][i])}"
        for i, rule in enumerate(ORDER_RULES)
    )
    return Result(
        title="Wrong keys",
        question=(
            "A wrong key puts a tuple into the group of another key, where its cells are outvoted: right "
            "cells are overwritten. Where an attribute has a single rule, `class` and `vote` cannot see that "
            "the key is wrong. `bayes` weighs a wrong left side against a wrong right side. Does it help?"
        ),
        method=(
            f"{n:,} generated orders, {n_keys:,} keys of each kind, no window; customer -> email, zip -> "
            f"city, sku -> category; {_WRONG_KEYS:.0%} of the keys are those of others, and nothing else is "
            "wrong. `class` and `vote` by the paper's letter, `bayes` with its defaults. Run in this process."
        ),
        claims=[
            Claim(
                "goal",
                "bayes overwrites at most a tenth of the right cells that class does",
                f"{percent(mean['bayes'])} for {percent(mean['class'])} (vote: {percent(mean['vote'])}); "
                + by_rule,
                mean["bayes"] * _FACTOR <= mean["class"],
            )
        ],
        figures=[Figure("keys", "Right cells overwritten because the key of their tuple is wrong.", [panel])],
        tables={"overwritten": rows},
    )
