"""Scaling: with rules, with dirt, with the window, with cores."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...config import Window
from ...rules.rule import Rule
from ...spark.clean import clean
from ..dirt import paper_errors
from ..engine_run import EngineRun, run_engine
from ..laboratory import PAPER_RATE, SALES_RULES, SIX_RULES, Laboratory
from ..measures import dirty_ratios, ratio
from ..ratios import FLOOR
from ..result import Claim, Figure, Mark, Panel, Result, Series
from ..spark_run import backlog, repeated, run_files, write_backlog
from ..spoil import spoil
from ..watch import Usage, told_others

_DIRT = 0.1
_IN_PROCESS = "Run in this process, in two threads: what the engine itself costs, without Spark."


def run_rules(lab: Laboratory) -> Result:
    """Clean a stream with more and more rules."""
    counts = lab.profile.rules
    truth = lab.truth.slice(0, lab.profile.scaling_tuples)
    wide, rules = _widened(truth, max(counts))
    dirty = spoil(wide, paper_errors(rules, _DIRT), lab.seed).dirty
    window = _window(truth.num_rows // 2)
    runs: dict[int, EngineRun] = {}
    with lab.progress("cleaning", truth.num_rows * len(counts)) as advance:
        for n in counts:
            read = sorted({name for rule in rules[:n] for name in (*rule.lhs, rule.rhs)})
            runs[n] = run_engine(dirty.select(read), rules[:n], window, advance=advance)
    rates = [one.tuples_per_s for one in runs.values()]
    per_rule = [1e9 * one.cpu_seconds / truth.num_rows / n for n, one in runs.items()]
    return Result(
        title="Scaling with rules",
        question="How does the cost of a tuple grow with the number of rules?",
        method=(
            f"{truth.num_rows:,} tuples of {lab.stream_name}; r0 to r7, and the same rules over copies of "
            f"the right-hand columns that are dirtied by themselves; 10 % dirt, windows of {window.size:,} "
            f"tuples. {_IN_PROCESS}"
        ),
        claims=[
            Claim(
                "goal",
                "the cost of a rule does not grow with their number",
                f"{per_rule[0]:.0f} ns per tuple with one rule, {per_rule[-1]:.0f} ns per tuple and rule "
                f"with {counts[-1]}",
                per_rule[-1] <= per_rule[0],
            )
        ],
        figures=[
            Figure(
                "rules",
                "Throughput of the engine, and CPU time per tuple and rule, over the number of rules.",
                [
                    Panel(
                        "Throughput",
                        "rules",
                        "tuples per second",
                        [Series("engine", counts, rates, "dots")],
                        [Mark("y", PAPER_RATE, "paper, 6 rules: 15 K tuples/s")],
                        log_x=True,
                        log_y=True,
                    ),
                    Panel(
                        "Cost of a rule",
                        "rules",
                        "ns of CPU per tuple and rule",
                        [Series("engine", counts, per_rule, "dots")],
                        log_x=True,
                    ),
                ],
            )
        ],
        tables={
            "rules": pa.table(
                {
                    "rules": list(counts),
                    "tuples_per_s": rates,
                    "cpu_ns_per_tuple_and_rule": per_rule,
                    "state_bytes": [one.reports[-1]["nbytes"] for one in runs.values()],
                }
            )
        },
        shown=["rules"],
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
            after = _after(spoilt.truth, spoilt.dirty, done.cleaned, truth.num_rows // 2)
            repairs = sum(done.reports[-1]["repairs"].values())
            rows.append({"dirt": p, "tuples_per_s": done.tuples_per_s, "repairs": repairs, **after})
    return Result(
        title="Scaling with dirt",
        question="How much dirt can there be, and what does it cost?",
        method=(
            f"{truth.num_rows:,} tuples of {lab.stream_name}; rules r0 to r5; p from {min(shares):.0%} to "
            f"{max(shares):.0%}, for right-hand cells and for missing left-hand cells; a window that holds "
            f"all. Dirty ratios over the second half. {_IN_PROCESS}"
        ),
        claims=[
            Claim(
                "goal",
                "what is clean is left alone: without dirt nothing is repaired",
                f"{row['repairs']:,} repairs at 0 %",
                row["repairs"] == 0 and all(row[rule.id] == 0 for rule in SIX_RULES),
            )
            for row in rows
            if row["dirt"] == 0
        ],
        figures=[
            Figure(
                "dirt",
                "What is left of the dirt, and the engine's throughput, over the dirt.",
                [
                    Panel(
                        "Dirty ratio, second half of the stream",
                        "dirt on the way in (%)",
                        "dirty tuples",
                        [
                            Series(
                                rule.id,
                                [100 * row["dirt"] for row in rows],
                                [row[rule.id] for row in rows],
                                "dots",
                            )
                            for rule in SIX_RULES
                        ],
                        log_y=True,
                        percent_y=True,
                        y_floor=FLOOR,
                    ),
                    Panel(
                        "Throughput",
                        "dirt on the way in (%)",
                        "tuples per second",
                        [
                            Series(
                                "engine",
                                [100 * row["dirt"] for row in rows],
                                [row["tuples_per_s"] for row in rows],
                                "dots",
                            )
                        ],
                    ),
                ],
            )
        ],
        tables={"dirt": pa.Table.from_pylist(rows)},
        shown=["dirt"],
    )


def run_windows(lab: Laboratory) -> Result:
    """Clean a stream with larger and larger windows."""
    truth = lab.truth
    sizes = [size for size in lab.profile.windows if size <= truth.num_rows]
    spoilt = spoil(truth, paper_errors(SIX_RULES, _DIRT), lab.seed)
    rows = []
    with lab.progress("cleaning", truth.num_rows * len(sizes)) as advance:
        for size in sizes:
            done = run_engine(spoilt.dirty, SIX_RULES, _window(size), advance=advance)
            after = _after(spoilt.truth, spoilt.dirty, done.cleaned, truth.num_rows // 2)
            state = max(report["nbytes"] for report in done.reports)
            rows.append({"window": size, "tuples_per_s": done.tuples_per_s, "state_bytes": state, **after})
    x = [row["window"] for row in rows]
    return Result(
        title="Scaling with the window",
        question="A larger window knows more and needs more memory. How much of both?",
        method=(
            f"{lab.stream_name}; rules r0 to r5, 10 % dirt; windows that slide by half their size. Dirty "
            f"ratios over the second half. {_IN_PROCESS}"
        ),
        claims=[
            Claim(
                "goal",
                "the state grows more slowly than the window",
                f"{rows[-1]['window'] / rows[0]['window']:.0f} times the window, "
                f"{rows[-1]['state_bytes'] / rows[0]['state_bytes']:.1f} times the state",
                rows[-1]["state_bytes"] / rows[0]["state_bytes"] < rows[-1]["window"] / rows[0]["window"],
            )
        ],
        figures=[
            Figure(
                "windows",
                "Dirty ratio, state and throughput over the size of the window.",
                [
                    Panel(
                        "Dirty ratio, second half of the stream",
                        "window (tuples)",
                        "dirty tuples",
                        [Series(rule.id, x, [row[rule.id] for row in rows], "dots") for rule in SIX_RULES],
                        [Mark("y", 0.005, "paper: at most 0.5 %")],
                        log_x=True,
                        log_y=True,
                        percent_y=True,
                        y_floor=FLOOR,
                    ),
                    Panel(
                        "State of the engine",
                        "window (tuples)",
                        "MB",
                        [Series("largest", x, [row["state_bytes"] / 1e6 for row in rows], "dots")],
                        log_x=True,
                    ),
                    Panel(
                        "Throughput",
                        "window (tuples)",
                        "tuples per second",
                        [Series("engine", x, [row["tuples_per_s"] for row in rows], "dots")],
                        log_x=True,
                    ),
                ],
            )
        ],
        tables={"windows": pa.Table.from_pylist(rows)},
        shown=["windows"],
    )


def run_cores(lab: Laboratory) -> Result:
    """Clean the same backlog with more and more cores."""
    profile = lab.profile
    dirty = spoil(lab.truth, paper_errors(SIX_RULES, _DIRT), lab.seed).dirty
    stream = repeated(dirty, profile.throughput_batches * profile.throughput_tuples)
    here = lab.directory()
    write_backlog(stream, here / "in", profile.throughput_tuples)
    rates, masters = [], []
    usage: list[Usage] = []
    for cores in profile.cores:
        spark = lab.spark(f"local[{cores}]")
        masters.append(spark.sparkContext.master)
        source = backlog(spark, here / "in", stream.schema)
        cleaned = clean(source, SIX_RULES, id="id", window=lab.window)
        with lab.progress(f"cleaning on Spark, local[{cores}]", stream.num_rows) as advance:
            done = run_files(cleaned, here / f"checkpoint-{cores}", advance)
        usage += done.usage
        warm = done.batches[len(done.batches) // 3 :]
        rates.append(sum(batch.tuples for batch in warm) / sum(batch.seconds for batch in warm))
    return Result(
        title="Scaling with cores",
        question="What do more cores bring?",
        method=(
            f"{stream.num_rows:,} tuples, over and over {lab.stream_name}; rules r0 to r5, 10 % dirt; "
            f"{profile.throughput_tuples:,} tuples a micro-batch, on Spark with local[n]. The lane is one "
            "task; what brings rows to it and takes them away is spread over all cores. The Python workers "
            "are processes of their own, so that local[1] may keep more than one core busy. "
            f"{told_others(usage)}"
        ),
        claims=[
            Claim(
                "goal",
                f"more than the paper's {PAPER_RATE:,} tuples/s, on one core",
                f"{rates[0]:,.0f} tuples/s with local[{profile.cores[0]}]",
                rates[0] >= PAPER_RATE,
            )
        ],
        figures=[
            Figure(
                "cores",
                "Throughput over the number of cores that Spark has.",
                [
                    Panel(
                        "Throughput",
                        "cores",
                        "tuples per second",
                        [Series("sparkbleach", profile.cores, rates, "bars")],
                        [Mark("y", PAPER_RATE, "paper, 72 cores: 15 K tuples/s")],
                    )
                ],
            )
        ],
        tables={"cores": pa.table({"cores": list(profile.cores), "master": masters, "tuples_per_s": rates})},
        shown=["cores"],
    )


def _window(size: int) -> Window:
    return Window.tuples(size // 2 * 2, slide=size // 2)


def _after(truth: pa.Table, dirty: pa.Table, cleaned: pa.Table, first: int) -> dict[str, float]:
    ratios = dirty_ratios(
        truth.slice(first), dirty.slice(first), cleaned.slice(first), SIX_RULES, truth.num_rows
    )
    return {rule.id: ratio(ratios, rule.id).after for rule in SIX_RULES}


def _widened(truth: pa.Table, n_rules: int) -> tuple[pa.Table, Sequence[Rule]]:
    """Return a table with copies of its right-hand columns, and so many rules over them."""
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
