"""End-to-end latency of tuples that arrive at the paper's rate."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import pyarrow as pa

from ..laboratory import PAPER_MS, Laboratory
from ..measures import Latency, cdf
from ..result import Claim, Figure, Mark, Panel, Result, Series, to_table
from ..spark_run import SAMPLE_EVERY
from ..steady_run import paper_run
from ..watch import describe_others, summary


def run(lab: Laboratory) -> Result:
    """Clean tuples as they arrive."""
    done = paper_run(lab)
    found = Latency.of(done.all_ms)
    at, share = cdf(done.all_ms)
    began = done.measured[0].started
    usage = [one for one in done.usage if one.at >= began] or done.usage
    seconds = [batch.ended - began for batch in done.measured]
    rates = [
        batch.tuples / max(1e-3, batch.ended - before.ended)
        for before, batch in itertools.pairwise(done.measured)
    ]
    profile = lab.profile
    claims = [
        Claim(
            "paper",
            "a mean latency of 316 to 364 ms at 15,000 tuples/s",
            f"{found.mean_ms:.0f} ms at {profile.rate:,} tuples/s (median {found.median_ms:.0f}, 99 % "
            f"below {found.p99_ms:.0f}, longest {found.max_ms:.0f})",
            found.mean_ms <= PAPER_MS["basic"],
        ),
        Claim(
            "goal",
            "99 % of tuples within a second",
            f"99 % within {found.p99_ms:.0f} ms",
            found.p99_ms <= 1000,
        ),
    ]
    panels = [
        Panel(
            "Latency, cumulative",
            "latency (ms)",
            "share of tuples",
            [Series("sparkbleach", at, share)],
            [Mark("x", ms, f"paper, RW-{name}: mean {ms} ms") for name, ms in PAPER_MS.items()],
            percent_y=True,
            x_min=0,
        ),
        Panel(
            "Latency over time",
            "seconds",
            "mean latency of a micro-batch (ms)",
            [Series("sparkbleach", seconds, done.mean_ms)],
        ),
        Panel(
            "Throughput over time",
            "seconds",
            "tuples per second",
            [Series("cleaned", seconds[1:], rates)],
            [Mark("y", profile.rate, f"arriving: {profile.rate:,} tuples/s")],
        ),
    ]
    caption = "The distribution of latencies beside the means that the paper reports, and the course of time."
    return Result(
        title="Latency",
        question=(
            "A tuple arrives. How long until it is clean and has left? Here: from its arrival to the end "
            "of the micro-batch that wrote it, waiting for the micro-batch before included."
        ),
        method=(
            f"{lab.stream_name}; rules r0 to r5, 10 % dirt, {lab.window_name}; {profile.rate:,} tuples/s on "
            f"Spark ({lab.spark().sparkContext.master}), after a backlog of {profile.backlog:,} tuples and "
            f"{profile.warm_up} micro-batches of warm-up. One tuple in {SAMPLE_EVERY} is a sample: "
            f"{found.samples:,} samples in {len(done.measured)} micro-batches. The paper's figures are from "
            "18 machines; its three ways to coordinate repair workers have no counterpart in one lane, "
            f"which needs no coordination: 0 messages. {describe_others(usage)}"
        ),
        claims=claims,
        figures=[Figure("latency", caption, panels)],
        tables={
            "samples": pa.table({"latency_ms": done.all_ms}),
            "micro-batches": to_table(
                done.measured, "tuples", "seconds", second=seconds, mean_latency_ms=done.mean_ms
            ),
            "summary": [{**asdict(found), **summary(usage)}],
        },
        shown=["summary"],
    )
