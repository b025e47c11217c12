"""Bleach against the micro-batch baseline, over window sizes: accuracy and latency."""

from __future__ import annotations

import pyarrow as pa

from ..baseline import clean_windows, window_cleaner
from ..engine_run import run_engine
from ..laboratory import PAPER_RATE, Laboratory
from ..measures import Latency
from ..ratios import percent, ratio_panel, remaining_dirt
from ..result import Claim, Figure, Mark, Panel, Result, Series
from ..sales import SIX_RULES
from ..spark_run import Arrival, run_files, run_steady
from ..spoil import Spoilt
from ..steady_run import paper_run
from ..streams import read_files, write_files, write_steady

_GOAL = 50
_SHOWN = ("r0", "r1", "r2", "r5")


def run(lab: Laboratory) -> Result:
    """Clean the second half of a stream with both; ask which window the baseline needs."""
    spoilt = lab.spoilt()
    half = lab.truth.num_rows // 2
    with lab.progress("cleaning with Bleach", lab.truth.num_rows) as advance:
        done = run_engine(spoilt.dirty, SIX_RULES, lab.window, advance=advance)
    bleach = remaining_dirt(spoilt, done.cleaned.slice(half), half)
    windows = {
        seconds: found
        for seconds in lab.profile.windows_s
        if (found := _baseline_ratios(lab, spoilt, half, int(seconds * PAPER_RATE))) is not None
    }
    latency_ms = Latency.of(paper_run(lab).all_ms).mean_ms
    processing = _processing_s(lab, spoilt.dirty)
    latencies = {seconds: (seconds / 2 + _estimate(processing, seconds)) * 1000 for seconds in windows}
    measured_s = lab.profile.timed_windows_s[0]
    measured_ms = _measured_ms(lab, spoilt.dirty, measured_s)
    needs = {rule.id: _needed(windows, rule.id, bleach[rule.id]) for rule in SIX_RULES}
    xs = list(windows)
    panels = [
        ratio_panel(
            "Accuracy",
            "window of the baseline (s)",
            [Series(f"baseline, {id}", xs, [windows[x][id] for x in xs], "dots") for id in _SHOWN],
            [Mark("y", bleach[id], f"Bleach, {id}: {percent(bleach[id])}") for id in ("r0", "r2", "r5")],
            log_x=True,
        ),
        Panel(
            "Latency",
            "window of the baseline (s)",
            "mean latency (ms)",
            [Series("baseline", xs, [latencies[x] for x in xs], "dots")],
            [Mark("y", latency_ms, f"Bleach: {latency_ms:.0f} ms")],
            log_x=True,
            log_y=True,
        ),
    ]
    caption = "Dirty ratio and latency of the micro-batch baseline over its window; dashed: Bleach."
    return Result(
        title="Bleach against a micro-batch cleaner",
        question=(
            "Without state across micro-batches, a cleaner can wait: collect the tuples of some seconds, "
            "clean them as a batch, go on. The longer it waits, the more it knows. How long must it wait "
            "to be as accurate as Bleach, which decides at once?"
        ),
        method=(
            f"The second half of {lab.stream_name}; rules r0 to r5, 10 % dirt. Bleach with "
            f"{lab.window_name}; the baseline with windows of some seconds at {PAPER_RATE:,} tuples/s, "
            "equivalence classes per window, nothing kept across windows. Accuracies in this process, over "
            "whole windows. A tuple waits half a window on average, then for the window to be processed, "
            f"which is timed on Spark; the windows of {measured_s:g} s were also measured from end to end: "
            f"{measured_ms:,.0f} ms, where that sum says {latencies.get(measured_s, float('nan')):,.0f} ms. "
            "The baseline sees later tuples of its window, Bleach never does: where a group's tuples come "
            "close together (r2, r5: the lines of a ticket), waiting a second is enough to know more than "
            "Bleach can."
        ),
        claims=_claims(needs, bleach, latencies, latency_ms, max(xs)),
        figures=[Figure("baseline", caption, panels)],
        tables={
            "windows": [{"window_s": x, "mean_latency_ms": latencies[x], **windows[x]} for x in windows],
            "bleach": [{"mean_latency_ms": latency_ms, **bleach}],
            "needed": [
                {
                    "rule": id,
                    "bleach_dirty": bleach[id],
                    "baseline_window_s": need,
                    "times_our_latency": None if need is None else latencies[need] / latency_ms,
                }
                for id, need in needs.items()
            ],
        },
    )


def _baseline_ratios(
    lab: Laboratory, spoilt: Spoilt, first: int, window_tuples: int
) -> dict[str, float] | None:
    """Return what the baseline leaves dirty, over all whole windows; None if there are none."""
    n = (lab.truth.num_rows - first) // window_tuples * window_tuples
    if n == 0:
        return None
    with lab.progress(f"cleaning in windows of {window_tuples:,} tuples", None):
        cleaned = clean_windows(spoilt.dirty.slice(first, n), SIX_RULES, window_tuples)
    return remaining_dirt(spoilt, cleaned, first)


def _processing_s(lab: Laboratory, stream: pa.Table) -> dict[float, float]:
    """Return how long Spark takes for a window of some seconds."""
    found = {}
    for seconds in lab.profile.timed_windows_s:
        here = lab.directory()
        size = int(seconds * PAPER_RATE)
        write_files(stream.slice(0, 4 * size), here / "in", size)
        source = read_files(lab.spark(), here / "in", stream.schema)
        cleaned = source.coalesce(1).mapInArrow(window_cleaner(SIX_RULES), source.schema)
        with lab.progress(f"timing windows of {seconds:g} s on Spark", stream.num_rows) as advance:
            batches = run_files(cleaned, here / "checkpoint", advance).batches
        found[seconds] = min(batch.seconds for batch in batches if batch.tuples >= min(size, stream.num_rows))
    return found


def _estimate(processing: dict[float, float], seconds: float) -> float:
    """Return the processing time of a window that was not timed, from the next one that was."""
    known = min(processing, key=lambda one: abs(one - seconds))
    return processing[known] * (seconds / known if seconds > known else 1)


def _measured_ms(lab: Laboratory, stream: pa.Table, seconds: float) -> float:
    """Return the mean latency with windows of some seconds, measured from end to end."""
    here = lab.directory()
    write_steady(stream, here / "stream.arrow")
    rate = lab.profile.rate
    done = run_steady(
        lab.spark(),
        here / "stream.arrow",
        Arrival(rate=rate, backlog=rate, warm_up=2, n_batches=4, trigger_s=seconds),
        lambda df: df.coalesce(1).mapInArrow(window_cleaner(SIX_RULES), df.schema),
        here / "checkpoint",
    )
    return float(done.all_ms.mean())


def _needed(windows: dict[float, dict[str, float]], rule: str, goal: float) -> float | None:
    """Return the shortest window from which on the baseline is as accurate; None if none is."""
    need = None
    for seconds in sorted(windows, reverse=True):
        if windows[seconds][rule] > goal:
            break
        need = seconds
    return need


def _claims(
    needs: dict[str, float | None],
    bleach: dict[str, float],
    latencies: dict[float, float],
    ours_ms: float,
    longest_s: float,
) -> list[Claim]:
    unreached = any(need is None for need in needs.values())
    worst_s = longest_s if unreached else max(need for need in needs.values() if need is not None)
    more = "more than " if unreached else ""
    times = latencies[worst_s] / ours_ms
    by_rule = ", ".join(
        f"{id} ({percent(bleach[id])}): " + (f"more than {longest_s:g} s" if need is None else f"{need:g} s")
        for id, need in needs.items()
    )
    return [
        Claim(
            "goal",
            f"for the same accuracy on every rule, the baseline needs at least {_GOAL} times our latency",
            f"{more}{times:.0f} times; windows it needs, by rule: {by_rule}",
            times >= _GOAL or (None if unreached else False),
        ),
        Claim(
            "paper",
            "the baseline needs windows of more than 120 s, a latency of more than a minute",
            f"windows of {more}{worst_s:g} s, a latency of {more}{latencies[worst_s] / 1000:.1f} s",
            worst_s >= 120 or (None if unreached else False),
        ),
    ]
