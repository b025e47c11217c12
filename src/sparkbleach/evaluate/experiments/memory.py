"""The size of the state over many windows."""

from __future__ import annotations

from typing import Any

from ...config import DEFAULT_REMEMBER, OptionValues, Window
from ..dirt import Error, Kind
from ..engine_run import BAYES, run_engine
from ..laboratory import DIRT, Laboratory
from ..orders import ORDER_RULES, orders
from ..result import Claim, Figure, Mark, Panel, Result, Series
from ..spoil import spoil

_WINDOWS = 20
_BATCHES = 10  # of a window: what a batch lets go of is used again in the next one
#: the default of `remember`, in windows, and for how many windows after them the state must be flat
_REMEMBERED = 4
_FLAT_FOR = 10
#: from then on there are as many freed places in tables as there ever are
_SETTLED = 7
_SLACK = 1.05
#: hot keys: the most frequent one in a hundred keys has a third of the tuples
_SKEW = 4.0
_CASES: dict[str, OptionValues] = {
    "class, forever": {"repair": "class", "remember": None},
    f"class, {DEFAULT_REMEMBER}": {"repair": "class", "remember": DEFAULT_REMEMBER},
    "bayes, forever": {**BAYES, "remember": None},
    f"bayes, {DEFAULT_REMEMBER}": {**BAYES, "remember": DEFAULT_REMEMBER},
}
_SIZES = {"super_cells": "super cells", "nbytes": "bytes"}


def run(lab: Laboratory) -> Result:
    """Clean a long stream with hot keys and typos; read the size of the state after each window."""
    size = lab.profile.memory_window
    n = size * _WINDOWS
    truth = orders(n, size // 4, lab.seed, skew=_SKEW)
    rhs = tuple(rule.rhs for rule in ORDER_RULES)
    dirty = spoil(truth, [Error(Kind.typo, DIRT, rhs)], lab.seed).dirty
    window = Window.tuples(size, slide=size // 2)
    found: dict[str, list[dict[str, Any]]] = {}
    with lab.progress("cleaning", n * len(_CASES)) as advance:
        for name, options in _CASES.items():
            batch_tuples = size // _BATCHES
            done = run_engine(
                dirty, ORDER_RULES, window, batch_tuples=batch_tuples, advance=advance, **options
            )
            found[name] = done.reports[_BATCHES - 1 :: _BATCHES]
    growth, settled = (
        {
            (name, what): _growth([report[what] for report in reports], after)
            for name, reports in found.items()
            for what in _SIZES
        }
        for after in (_REMEMBERED, _SETTLED)
    )
    panels = [
        Panel(
            f"State in {label}",
            "windows",
            label,
            [
                Series(name, list(range(1, _WINDOWS + 1)), [report[what] for report in reports], "dots")
                for name, reports in found.items()
            ],
            [Mark("x", _REMEMBERED, "as many windows as are remembered")],
        )
        for what, label in _SIZES.items()
    ]
    return Result(
        title="The size of the state over twenty windows",
        question=(
            "Bleach windowing keeps what it has counted of a group while the group has violations. A hot key "
            "always has some, and each typo is a new value of it: by the paper's letter these stay for ever. "
            f"`remember`, by default {DEFAULT_REMEMBER}, forgets a count that has not been seen for so long. "
            "Is the state then bounded?"
        ),
        method=(
            f"{n:,} generated orders, {size // 4:,} keys of each kind, some of them hot; customer -> email, "
            f"zip -> city, sku -> category; typos in 10 % of right-hand cells; windows of {size:,} tuples "
            f"that slide by half, in batches of a tenth of a window. "
            f"Growth: the largest size in {_FLAT_FOR} windows, divided by that before "
            "them. Run in this process."
        ),
        claims=[
            Claim(
                "goal",
                f"after {_REMEMBERED} windows the state grows by at most 5 % in {_FLAT_FOR} more ({name})",
                ", ".join(f"{label} {growth[name, what]:.3f} times" for what, label in _SIZES.items())
                + f"; after {_SETTLED} windows: "
                + ", ".join(f"{settled[name, what]:.3f}" for what in _SIZES)
                + " (forever: "
                + ", ".join(f"{growth[_forever(name), what]:.2f}" for what in _SIZES)
                + ")",
                all(growth[name, what] <= _SLACK for what in _SIZES),
            )
            for name in _CASES
            if DEFAULT_REMEMBER in name
        ],
        figures=[Figure("memory", "The size of the state after each window.", panels)],
        tables={
            "state": [
                {
                    "repair": str(_CASES[name]["repair"]),
                    "remember": str(_CASES[name]["remember"] or "forever"),
                    "window": number,
                    **{what: report[what] for what in _SIZES},
                }
                for name, reports in found.items()
                for number, report in enumerate(reports, 1)
            ]
        },
    )


def _growth(sizes: list[int], after: int) -> float:
    """Return how much the state grows after some windows."""
    return max(sizes[after : after + _FLAT_FOR]) / sizes[after - 1]


def _forever(name: str) -> str:
    return name.partition(",")[0] + ", forever"
