"""A truth that changes: customers move, and what was right becomes wrong."""

from __future__ import annotations

import numpy as np

from ...config import OptionValues
from ..dirt import Error, Kind
from ..engine_run import BAYES, run_engine
from ..laboratory import DIRT, Laboratory
from ..measures import differ
from ..orders import MOVERS_EVERY, ORDER_RULES, orders
from ..ratios import POSITION, percent
from ..result import Claim, Figure, Mark, Panel, Result, Series
from ..spoil import spoil

_GOAL = 0.1
_ACCEPT_AFTER = 10
#: how often a customer comes: half of it before the change
_PER_KEY = 250
_BINS = 25
_CASES: dict[str, OptionValues] = {
    "class, never": {"repair": "class"},
    f"class, accept after {_ACCEPT_AFTER}": {"repair": "class", "accept_after": _ACCEPT_AFTER},
    "bayes, never": {**BAYES, "accept_after": None},
    f"bayes, accept after {_ACCEPT_AFTER}": {**BAYES, "accept_after": _ACCEPT_AFTER},
}


def run(lab: Laboratory) -> Result:
    """Clean a stream in which every tenth customer moves half way; look at these customers."""
    n_keys = lab.profile.drift_keys
    n = n_keys * _PER_KEY
    change = n // 2
    truth = orders(n, n_keys, lab.seed, change_at=change).select(["customer", "email"])
    spoilt = spoil(truth, [Error(Kind.domain, DIRT, ("email",))], lab.seed)
    before = orders(n, n_keys, lab.seed).column("email")
    movers = np.flatnonzero(differ(before, truth.column("email")))  # all of them after the change
    arrived_right = ~differ(spoilt.dirty.column("email"), truth.column("email"))[movers]
    bins = (movers - change) * _BINS // (n - change)
    cells = np.bincount(bins, minlength=_BINS)
    rows, series, shares = [], [], {}
    with lab.progress("cleaning", n * len(_CASES)) as advance:
        for name, options in _CASES.items():
            done = run_engine(spoilt.dirty, ORDER_RULES[:1], None, advance=advance, **options)
            wrong = differ(done.cleaned.column("email"), truth.column("email"))
            of_movers = wrong[movers]
            shares[name] = float(of_movers[arrived_right].mean())
            rows.append(
                {
                    "repair": str(options["repair"]),
                    "accept_after": options.get("accept_after"),
                    "right_cells_of_movers": int(arrived_right.sum()),
                    "of_these_made_wrong": int(of_movers[arrived_right].sum()),
                    "share_made_wrong": shares[name],
                    "wrong_of_all_their_cells": float(of_movers.mean()),
                    "wrong_before_the_change": float(wrong[:change].mean()),
                }
            )
            over_time = np.bincount(bins, of_movers, _BINS) / np.maximum(cells, 1)
            at = change + np.arange(_BINS) * (n - change) // _BINS
            series.append(Series(name, at, over_time, "steps"))
    panel = Panel(
        "Customers who have moved, from the change on",
        POSITION,
        "wrong cells",
        series,
        [Mark("y", DIRT, "on the way in")],
        percent_y=True,
        y_max=1.05,
    )
    return Result(
        title="A truth that changes",
        question=(
            "A customer moves: from then on the old value is wrong, and all counts for it are stale. Counts "
            f"alone turn right cells wrong until the new value has outvoted the old one. With `accept_after: "
            f"{_ACCEPT_AFTER}` a value that a group meets ten times more often than others is the new truth. "
            "How many right cells are made wrong?"
        ),
        method=(
            f"{n:,} generated orders of {n_keys:,} customers, each some {_PER_KEY} times; customer -> email, "
            f"no window; every {MOVERS_EVERY}th one has another address from position {change:,} on; 10 % "
            "of the addresses are those of others, throughout. `class` by the paper's letter but for "
            "`accept_after`, `bayes` with its defaults but for it. Run in this process."
        ),
        claims=[
            Claim(
                "goal",
                f"from the change on, at most {_GOAL:.0%} of right cells of movers are made wrong ({name})",
                f"{percent(shares[name])} (never: {percent(shares[name.split(',')[0] + ', never'])})",
                shares[name] <= _GOAL,
            )
            for name, options in _CASES.items()
            if options.get("accept_after") is not None
        ],
        figures=[Figure("drift", "Wrong cells of customers who have moved, over time.", [panel])],
        tables={"movers": rows},
    )
