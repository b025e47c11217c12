"""How many tuples per second Spark cleans, and what that costs."""

from __future__ import annotations

import pyarrow as pa

from ...spark.clean import clean
from ..dirt import paper_errors
from ..laboratory import PAPER_RATE, SIX_RULES, Laboratory
from ..result import Claim, Figure, Mark, Panel, Result, Series
from ..spark_run import backlog, repeated, run_files, write_backlog
from ..spoil import spoil
from ..watch import summary, told_others

_WARM_UP_SHARE = 3  # one third: the JVM compiles


def run(lab: Laboratory) -> Result:
    """Clean a backlog as fast as possible."""
    profile = lab.profile
    dirty = spoil(lab.truth, paper_errors(SIX_RULES, 0.1), lab.seed).dirty
    stream = repeated(dirty, profile.throughput_batches * profile.throughput_tuples)
    here = lab.directory()
    write_backlog(stream, here / "in", profile.throughput_tuples)
    source = backlog(lab.spark(), here / "in", stream.schema)
    with lab.progress("cleaning on Spark", stream.num_rows) as advance:
        done = run_files(clean(source, SIX_RULES, id="id", window=lab.window), here / "checkpoint", advance)
    warm = done.batches[len(done.batches) // _WARM_UP_SHARE :]
    rate = sum(batch.tuples for batch in warm) / sum(batch.seconds for batch in warm)
    began = done.batches[0].started
    usage = [one for one in done.usage if one.at >= warm[0].started] or done.usage
    seconds = [batch.ended - began for batch in done.batches]
    rates = [batch.tuples / batch.seconds for batch in done.batches]
    return Result(
        title="Throughput",
        question="A backlog is waiting. How many tuples per second are cleaned?",
        method=(
            f"{stream.num_rows:,} tuples, over and over {lab.stream_name}; rules r0 to r5, 10 % dirt, "
            f"{lab.window_name}; {profile.throughput_tuples:,} tuples a micro-batch, from Parquet files to a "
            f"no-op sink, on Spark ({lab.spark().sparkContext.master}). The first third of the "
            "micro-batches is not counted: the JVM compiles. Memory is that of all processes, the JVM's "
            f"heap included. {told_others(usage)}"
        ),
        claims=[
            Claim(
                "paper",
                f"{PAPER_RATE:,} tuples/s on 18 machines of 4 cores",
                f"{rate:,.0f} tuples/s on {lab.spark().sparkContext.defaultParallelism} cores of one machine",
                rate >= PAPER_RATE,
            )
        ],
        figures=[
            Figure(
                "throughput",
                "Tuples per second by micro-batch, and what all processes use meanwhile.",
                [
                    Panel(
                        "Throughput over time",
                        "seconds since the first micro-batch",
                        "tuples per second",
                        [Series("sparkbleach", seconds, rates, "dots")],
                        [Mark("y", PAPER_RATE, "paper: 15 K tuples/s")],
                        x_min=0,
                    ),
                    Panel(
                        "CPU",
                        "seconds since the first micro-batch",
                        "busy cores",
                        [
                            Series(
                                "sparkbleach and Spark",
                                [u.at - began for u in done.usage],
                                [u.cores for u in done.usage],
                            ),
                            Series(
                                "other programs",
                                [u.at - began for u in done.usage],
                                [u.others for u in done.usage],
                            ),
                        ],
                    ),
                    Panel(
                        "Memory",
                        "seconds since the first micro-batch",
                        "MB",
                        [
                            Series(
                                "all processes",
                                [u.at - began for u in done.usage],
                                [u.memory_mb for u in done.usage],
                            ),
                            Series(
                                "the engine's state",
                                seconds,
                                [(batch.report or {}).get("nbytes", 0) / 1e6 for batch in done.batches],
                            ),
                        ],
                    ),
                ],
            )
        ],
        tables={
            "micro-batches": pa.table(
                {
                    "second": seconds,
                    "tuples": [batch.tuples for batch in done.batches],
                    "tuples_per_s": rates,
                    "state_bytes": [(batch.report or {}).get("nbytes", 0) for batch in done.batches],
                }
            ),
            "usage": pa.table(
                {
                    "second": [u.at - began for u in done.usage],
                    "cores": [u.cores for u in done.usage],
                    "cores_of_others": [u.others for u in done.usage],
                    "memory_mb": [u.memory_mb for u in done.usage],
                }
            ),
            "summary": pa.table(
                {
                    "tuples_per_s": [rate],
                    **summary(usage),
                }
            ),
        },
        shown=["summary"],
    )
