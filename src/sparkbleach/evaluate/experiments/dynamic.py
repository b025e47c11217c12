"""Rules that come and go while the stream runs: r5 is deleted, r6 and r7 are added."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from ..engine_run import run_engine
from ..laboratory import Laboratory
from ..measures import Latency, dirty_ratios
from ..ratios import POSITION, over_position, ratio_panel
from ..result import Claim, Figure, Mark, Panel, Result, Series, to_table
from ..sales import RULES, SALES_RULES, SIX_RULES
from ..spark_run import SteadyRun
from ..steady_run import clean_at_rate
from ..watch import describe_others

_SLACK = 1.25  # a mean that is larger by this factor counts as a change


def run(lab: Laboratory) -> Result:
    """Let rules change at a third and at two thirds of the stream."""
    n = lab.truth.num_rows
    updates = _updates(n // 3, n * 2 // 3)
    spoilt = lab.spoilt(SALES_RULES)
    with lab.progress("cleaning", n) as advance:
        engine = run_engine(spoilt.dirty, SIX_RULES, lab.window, rule_updates=updates, advance=advance)
    ratios = dirty_ratios(spoilt.truth, spoilt.dirty, engine.cleaned, SALES_RULES[4:], lab.profile.bin_tuples)

    # On Spark rules change at positions, so that each phase has its tuples on a slow machine, too.
    profile = lab.profile
    warm = profile.backlog + int(profile.rate * profile.warm_up * 0.3)
    third = max(profile.rate, int(profile.rate * profile.micro_batches * 0.1))
    changes = (warm + third, warm + 2 * third)
    done = clean_at_rate(
        lab, first=warm, n_tuples=warm + 3 * third, n_batches=3, rule_updates=_updates(*changes)
    )
    phases = _phases(done, *changes)
    means = {name: Latency.of(ms).mean_ms for name, ms in phases.items() if ms.size}
    rates = _rates(done)
    marks = [Mark("x", changes[0], "r5 deleted"), Mark("x", changes[1], "r6, r7 added")]
    claims = [
        Claim(
            "paper",
            "latency does not change when rules are deleted or added",
            "mean latency "
            + ", ".join(f"{name}: {ms:.0f} ms" for name, ms in means.items())
            + (" (two rules more are two rules more work)" if _grew(means) else ""),
            not _grew(means) if len(means) == 3 else None,
        ),
        Claim(
            "paper",
            "throughput does not change either",
            f"in all three phases what arrives is cleaned: {np.mean(rates[1]):,.0f} tuples/s on average",
            bool(np.mean(rates[1]) >= 0.95 * profile.rate) if len(rates[1]) else None,
        ),
    ]
    panels = [
        ratio_panel(
            "Dirty ratio over the stream",
            POSITION,
            [over_position(ratios, rule.id, rule.id) for rule in SALES_RULES[4:]],
            [Mark("x", n // 3, "r5 deleted"), Mark("x", n * 2 // 3, "r6, r7 added")],
        ),
        Panel(
            "Latency, on Spark",
            POSITION,
            "mean latency of a micro-batch (ms)",
            [Series("sparkbleach", [batch.end for batch in done.measured], done.mean_ms)],
            marks,
        ),
        Panel(
            "Throughput, on Spark",
            POSITION,
            "tuples per second",
            [Series("cleaned", *rates)],
            [*marks, Mark("y", profile.rate, f"arriving: {profile.rate:,} tuples/s")],
        ),
    ]
    caption = (
        "Dirty ratios by rule; before r6 and r7 are there, nothing repairs e-mail addresses. "
        "Latency and throughput as rules change."
    )
    return Result(
        title="Rules that change while the stream runs",
        question=(
            "Users change their minds: a rule is deleted, others are added, and the stream goes on. Does "
            "it stop? Does what is left of the rules go on to clean as before?"
        ),
        method=(
            f"{lab.stream_name}; r0 to r5 from the beginning, r5 (ticket to store) deleted at one third, r6 "
            "and r7 (ticket and customer to e-mail address) added at two thirds; 10 % dirt, "
            f"{lab.window_name}. Dirty ratios in this process; latency and throughput on Spark at "
            f"{profile.rate:,} tuples/s. {describe_others(done.usage)}"
        ),
        claims=claims,
        figures=[Figure("dynamic", caption, panels)],
        tables={
            "ratios": ratios,
            "phases": [
                {
                    "phase": name,
                    "mean_ms": mean_ms,
                    "p99_ms": Latency.of(phases[name]).p99_ms,
                    "samples": phases[name].size,
                }
                for name, mean_ms in means.items()
            ],
            "micro-batches": to_table(
                done.measured,
                "seconds",
                position=[batch.end for batch in done.measured],
                mean_latency_ms=done.mean_ms,
            ),
        },
        shown=["phases"],
    )


def _updates(delete_at: int, add_at: int) -> list[dict[str, object]]:
    return [
        {"at": delete_at, "op": "delete", "id": "r5"},
        {"at": add_at, "op": "add", "rule": f"r6: {RULES['r6']}"},
        {"at": add_at, "op": "add", "rule": f"r7: {RULES['r7']}"},
    ]


def _phases(done: SteadyRun, delete_at: int, add_at: int) -> dict[str, NDArray[np.float64]]:
    phases = {name: [np.empty(0)] for name in ("r0 to r5", "without r5", "with r6 and r7")}
    for batch, ms in zip(done.measured, done.latencies_ms, strict=True):
        phase = 0 if batch.end <= delete_at else 1 if batch.end <= add_at else 2
        list(phases.values())[phase].append(ms)
    return {name: np.concatenate(parts) for name, parts in phases.items()}


def _grew(means: dict[str, float]) -> bool:
    first = next(iter(means.values()), 0.0)
    return any(mean > first * _SLACK for mean in means.values())


def _rates(done: SteadyRun) -> tuple[list[int], list[float]]:
    """Return tuples per second by position, over ten micro-batches each."""
    step = max(1, min(10, len(done.measured) // 3))
    pairs = list(itertools.pairwise(done.measured[::step]))
    return (
        [later.end for _, later in pairs],
        [(later.end - one.end) / max(1e-3, later.ended - one.ended) for one, later in pairs],
    )
