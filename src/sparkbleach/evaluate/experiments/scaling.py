"""Scaling: with rules, with dirt, with the window, with cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...config import Window
from ...rules.rule import Rule
from ..dirt import paper_errors
from ..engine_run import EngineRun, run_engine
from ..laboratory import DIRT, PAPER_RATE, Laboratory
from ..ratios import ratio_panel, remaining_dirt
from ..result import Claim, Figure, Mark, Panel, Result, Series, dots
from ..sales import SALES_RULES, SIX_RULES
from ..spark_run import tuples_per_s
from ..spoil import Spoilt, spoil
from ..watch import Usage, describe_others
from .throughput import run_backlog, write_backlog

_IN_PROCESS = "Run in this process, in two threads: what the engine itself costs, without Spark."


def run_rules(lab: Laboratory) -> Result:
    """Clean a stream with more and more rules."""
    counts = lab.profile.rules
    truth = lab.truth.slice(0, lab.profile.scaling_tuples)
    wide, rules = _widened(truth, max(counts))
    dirty = spoil(wide, paper_errors(rules, DIRT), lab.seed).dirty
    window = _window(truth.num_rows // 2)
    rows = []
    with lab.progress("cleaning", truth.num_rows * len(counts)) as advance:
        for n in counts:
            read = sorted({name for rule in rules[:n] for name in (*rule.lhs, rule.rhs)})
            done = run_engine(dirty.select(read), rules[:n], window, advance=advance)
            rows.append(
                {
                    "rules": n,
                    "tuples_per_s": done.tuples_per_s,
                    "cpu_ns_per_tuple_and_rule": 1e9 * done.cpu_seconds / truth.num_rows / n,
                    "state_bytes": done.reports[-1]["nbytes"],
                }
            )
    one, many = (row["cpu_ns_per_tuple_and_rule"] for row in (rows[0], rows[-1]))
    claim = Claim(
        "goal",
        "the cost of a rule does not grow with their number",
        f"{one:.0f} ns per tuple with one rule, {many:.0f} ns per tuple and rule with {counts[-1]}",
        many <= one,
    )
    marks = [Mark("y", PAPER_RATE, "paper, 6 rules: 15 K tuples/s")]
    costs = [dots(rows, "rules", "cpu_ns_per_tuple_and_rule", "engine")]
    panels = [
        _throughput(dots(rows, "rules", "tuples_per_s", "engine"), "rules", marks, log_x=True, log_y=True),
        Panel("Cost of a rule", "rules", "ns of CPU per tuple and rule", costs, log_x=True),
    ]
    caption = "Throughput of the engine, and CPU time per tuple and rule, over the number of rules."
    return Result(
        title="Scaling with rules",
        question="How does the cost of a tuple grow with the number of rules?",
        method=(
            f"{truth.num_rows:,} tuples of {lab.stream_name}; r0 to r7, and the same rules over copies of "
            f"the right-hand columns that are dirtied by themselves; 10 % dirt, windows of {window.size:,} "
            f"tuples. {_IN_PROCESS}"
        ),
        claims=[claim],
        figures=[Figure("rules", caption, panels)],
        tables={"rules": rows},
    )


def run_dirt(lab: Laboratory) -> Result:
    """Clean streams that are more and more dirty."""
    shares = lab.profile.dirt
    truth = lab.truth.slice(0, lab.profile.scaling_tuples)
    window = _window(truth.num_rows)
    rows = []
    with lab.progress("cleaning", truth.num_rows * len(shares)) as advance:
        for p in shares:
            spoilt = spoil(truth, paper_errors(SIX_RULES, p), lab.seed)
            done = run_engine(spoilt.dirty, SIX_RULES, window, advance=advance)
            after = _second_half(spoilt, done)
            repairs = sum(done.reports[-1]["repairs"].values())
            rows.append({"dirt": p, "tuples_per_s": done.tuples_per_s, "repairs": repairs, **after})
    claims = [
        Claim(
            "goal",
            "what is clean is left alone: without dirt nothing is repaired",
            f"{row['repairs']:,} repairs at 0 %",
            row["repairs"] == 0 and all(row[rule.id] == 0 for rule in SIX_RULES),
        )
        for row in rows
        if row["dirt"] == 0
    ]
    panels = [
        ratio_panel(
            "Dirty ratio, second half of the stream",
            "dirt on the way in (%)",
            [dots(rows, "dirt", rule.id, x_unit=0.01) for rule in SIX_RULES],
        ),
        _throughput(dots(rows, "dirt", "tuples_per_s", "engine", x_unit=0.01), "dirt on the way in (%)"),
    ]
    caption = "What is left of the dirt, and the engine's throughput, over the dirt."
    return Result(
        title="Scaling with dirt",
        question="How much dirt can there be, and what does it cost?",
        method=(
            f"{truth.num_rows:,} tuples of {lab.stream_name}; rules r0 to r5; p from {min(shares):.0%} to "
            f"{max(shares):.0%}, for right-hand cells and for missing left-hand cells; a window that holds "
            f"all. Dirty ratios over the second half. {_IN_PROCESS}"
        ),
        claims=claims,
        figures=[Figure("dirt", caption, panels)],
        tables={"dirt": rows},
    )


def run_windows(lab: Laboratory) -> Result:
    """Clean a stream with larger and larger windows."""
    truth = lab.truth
    sizes = [size for size in lab.profile.windows if size <= truth.num_rows]
    spoilt = lab.spoilt()
    rows = []
    with lab.progress("cleaning", truth.num_rows * len(sizes)) as advance:
        for size in sizes:
            done = run_engine(spoilt.dirty, SIX_RULES, _window(size), advance=advance)
            after = _second_half(spoilt, done)
            state = max(report["nbytes"] for report in done.reports)
            rows.append({"window": size, "tuples_per_s": done.tuples_per_s, "state_bytes": state, **after})
    window_growth = rows[-1]["window"] / rows[0]["window"]
    state_growth = rows[-1]["state_bytes"] / rows[0]["state_bytes"]
    claim = Claim(
        "goal",
        "the state grows more slowly than the window",
        f"{window_growth:.0f} times the window, {state_growth:.1f} times the state",
        state_growth < window_growth,
    )
    states = [dots(rows, "window", "state_bytes", "largest", y_unit=1e6)]
    panels = [
        ratio_panel(
            "Dirty ratio, second half of the stream",
            "window (tuples)",
            [dots(rows, "window", rule.id) for rule in SIX_RULES],
            [Mark("y", 0.005, "paper: at most 0.5 %")],
            log_x=True,
        ),
        Panel("State of the engine", "window (tuples)", "MB", states, log_x=True),
        _throughput(dots(rows, "window", "tuples_per_s", "engine"), "window (tuples)", log_x=True),
    ]
    return Result(
        title="Scaling with the window",
        question="A larger window knows more and needs more memory. How much of both?",
        method=(
            f"{lab.stream_name}; rules r0 to r5, 10 % dirt; windows that slide by half their size. Dirty "
            f"ratios over the second half. {_IN_PROCESS}"
        ),
        claims=[claim],
        figures=[Figure("windows", "Dirty ratio, state and throughput over the size of the window.", panels)],
        tables={"windows": rows},
    )


def run_cores(lab: Laboratory) -> Result:
    """Clean the same backlog with more and more cores."""
    profile = lab.profile
    directory = write_backlog(lab)
    rows: list[dict[str, Any]] = []
    usage: list[Usage] = []
    for cores in profile.cores:
        spark = lab.spark(f"local[{cores}]")
        done = run_backlog(lab, spark, directory)
        usage += done.usage
        master = spark.sparkContext.master
        rows.append({"cores": cores, "master": master, "tuples_per_s": tuples_per_s(done.warm)})
    rates = [row["tuples_per_s"] for row in rows]
    claim = Claim(
        "goal",
        f"more than the paper's {PAPER_RATE:,} tuples/s, on one core",
        f"{rates[0]:,.0f} tuples/s with local[{profile.cores[0]}]",
        rates[0] >= PAPER_RATE,
    )
    marks = [Mark("y", PAPER_RATE, "paper, 72 cores: 15 K tuples/s")]
    panels = [_throughput(Series("sparkbleach", profile.cores, rates, "bars"), "cores", marks)]
    return Result(
        title="Scaling with cores",
        question="What do more cores bring?",
        method=(
            f"{done.batches[-1].end:,} tuples, over and over {lab.stream_name}; rules r0 to r5, 10 % dirt; "
            f"{profile.throughput_tuples:,} tuples a micro-batch, on Spark with local[n]. The lane is one "
            "task; what brings rows to it and takes them away is spread over all cores. The Python workers "
            "are processes of their own, so that local[1] may keep more than one core busy. "
            f"{describe_others(usage)}"
        ),
        claims=[claim],
        figures=[Figure("cores", "Throughput over the number of cores that Spark has.", panels)],
        tables={"cores": rows},
    )


def _throughput(series: Series, x_label: str, marks: Sequence[Mark] = (), **logarithmic: bool) -> Panel:
    return Panel("Throughput", x_label, "tuples per second", [series], marks, **logarithmic)


def _window(size: int) -> Window:
    return Window.tuples(size // 2 * 2, slide=size // 2)


def _second_half(spoilt: Spoilt, done: EngineRun) -> dict[str, float]:
    """Return the dirty ratio of r0 to r5 over the second half of a stream."""
    half = done.cleaned.num_rows // 2
    return remaining_dirt(spoilt, done.cleaned.slice(half), half)


def _widened(truth: pa.Table, n_rules: int) -> tuple[pa.Table, Sequence[Rule]]:
    """Return a table with copies of its right-hand columns, and `n_rules` rules over them."""
    rules: list[Rule] = []
    copy = 0
    while len(rules) < n_rules:
        for rule in SALES_RULES:
            rhs = rule.rhs if copy == 0 else f"{rule.rhs}_{copy}"
            if rhs not in truth.column_names:
                truth = truth.append_column(rhs, truth.column(rule.rhs))
            rules.append(Rule(id=f"{rule.id}_{copy}", lhs=rule.lhs, rhs=rhs))
        copy += 1
    return truth, rules[:n_rules]
