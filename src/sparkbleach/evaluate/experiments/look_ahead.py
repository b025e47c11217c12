"""The look-ahead of `bayes`: what waiting for more tuples brings, and what it costs."""

from __future__ import annotations

import pyarrow as pa

from ...config import OptionValues
from ...rules.rule import Rule
from ..engine_run import BAYES, run_engine
from ..laboratory import DIRT, Laboratory
from ..measures import score
from ..result import Claim, Figure, Panel, Result, Series
from ..sales import SIX_RULES
from ..tables import real_table

_LOOK_AHEADS = (1, 10, 100, 1_000, 10_000)
_DEFAULT = 1_000


def run(lab: Laboratory) -> Result:
    """Clean two tables and a part of the paper's stream with each look-ahead."""
    n = min(lab.profile.look_ahead_tuples, lab.truth.num_rows)
    spoilt = lab.spoilt()
    streams: dict[str, tuple[pa.Table, pa.Table, list[Rule]]] = {
        name: (table.truth, table.dirty, table.rules)
        for name in ("hospital", "flights")
        for table in [real_table(name)]
    }
    streams["sales"] = spoilt.truth.slice(0, n), spoilt.dirty.slice(0, n), list(SIX_RULES)
    rows = []
    with lab.progress("cleaning", len(_LOOK_AHEADS) * len(streams)) as advance:
        for name, (truth, dirty, rules) in streams.items():
            attributes = (
                list(dict.fromkeys(rule.rhs for rule in rules)) if name == "sales" else truth.column_names
            )
            run_engine(dirty.slice(0, 1_000), rules, None, **BAYES)  # compiles, which is not measured
            for look_ahead in _LOOK_AHEADS:
                options: OptionValues = {**BAYES, "look_ahead": look_ahead}
                done = run_engine(dirty, rules, None, **options)
                found = score(truth, dirty, done.cleaned, attributes)
                rows.append(
                    {
                        "stream": name,
                        "look_ahead": look_ahead,
                        **found.to_dict(),
                        "us_per_tuple": done.seconds / truth.num_rows * 1e6,
                    }
                )
                advance(1)
    by_stream = {name: [row for row in rows if row["stream"] == name] for name in streams}
    f1 = {(str(row["stream"]), int(row["look_ahead"])): float(row["f1"]) for row in rows}
    panels = [
        Panel("Accuracy", "look-ahead (tuples)", "F1", _series(by_stream, "f1"), log_x=True, y_max=1.05),
        Panel(
            "Time",
            "look-ahead (tuples)",
            "microseconds per tuple",
            _series(by_stream, "us_per_tuple"),
            log_x=True,
            log_y=True,
        ),
    ]
    return Result(
        title="How far to look ahead",
        question=(
            "`bayes` counts a block of tuples before it decides on them. With a look-ahead of 1 a tuple is "
            "decided by what came before it, as the paper does; with more, also by what came just after it. "
            "What does it bring, and what does it cost?"
        ),
        method=(
            f"hospital, flights, and the first {n:,} tuples of {lab.stream_name} with rules r0 to r5 and "
            f"{DIRT:.0%} dirt; `bayes` with its defaults but for the look-ahead, no window. A block ends "
            "with the table: for hospital 1,000 and 10,000 are the same. Run in this process."
        ),
        claims=[
            Claim(
                "goal",
                f"a look-ahead of {_DEFAULT:,} is more accurate than none ({name})",
                "F1 " + ", ".join(f"{f1[name, one]:.3f} ({one:,})" for one in _LOOK_AHEADS),
                f1[name, _DEFAULT] > f1[name, 1],
            )
            for name in streams
        ],
        figures=[Figure("look_ahead", "F1 and time by look-ahead.", panels)],
        tables={"look-ahead": rows},
    )


def _series(by_stream: dict[str, list[dict[str, object]]], what: str) -> list[Series]:
    return [
        Series(name, list(_LOOK_AHEADS), [float(str(row[what])) for row in rows], "dots")
        for name, rows in by_stream.items()
    ]
