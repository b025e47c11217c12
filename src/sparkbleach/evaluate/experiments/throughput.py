"""How many tuples per second Spark cleans, and what that costs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from ...spark.clean import clean
from ..laboratory import PAPER_RATE, Laboratory
from ..result import Claim, Figure, Mark, Panel, Result, Series, to_table
from ..sales import SIX_RULES
from ..spark_run import SparkRun, run_files, tuples_per_s
from ..streams import read_files, repeated, write_files
from ..watch import describe_others, summary

#: each micro-batch has several files, so that tasks read them at the same time
_FILES_PER_BATCH = 4


def write_backlog(lab: Laboratory) -> Path:
    """Write the dirty stream, repeated to the length for a throughput, as files; return their directory."""
    profile = lab.profile
    stream = repeated(lab.spoilt().dirty, profile.throughput_batches * profile.throughput_tuples)
    here = lab.directory() / "in"
    write_files(stream, here, profile.throughput_tuples // _FILES_PER_BATCH)
    return here


def run_backlog(lab: Laboratory, spark: SparkSession, directory: Path) -> SparkRun:
    """Clean the files of a directory with r0 to r5 as fast as possible."""
    source = read_files(spark, directory, lab.truth.schema, _FILES_PER_BATCH)
    cleaned = clean(source, SIX_RULES, id="id", window=lab.window)
    title = f"cleaning on Spark, {spark.sparkContext.master}"
    n_tuples = lab.profile.throughput_batches * lab.profile.throughput_tuples
    with lab.progress(title, n_tuples) as advance:
        return run_files(cleaned, lab.directory() / "checkpoint", advance)


def run(lab: Laboratory) -> Result:
    """Clean a backlog as fast as possible."""
    profile = lab.profile
    done = run_backlog(lab, lab.spark(), write_backlog(lab))
    n_tuples = done.batches[-1].end
    rate = tuples_per_s(done.warm)
    began = done.batches[0].started
    usage = [one for one in done.usage if one.at >= done.warm[0].started] or done.usage
    seconds = [batch.ended - began for batch in done.batches]
    rates = [batch.tuples / batch.seconds for batch in done.batches]
    state_bytes = [(batch.report or {}).get("nbytes", 0) for batch in done.batches]
    at = [one.at - began for one in done.usage]
    others = [one.others for one in done.usage]
    used = to_table(done.usage, "cores", "memory_mb", second=at, cores_of_others=others)
    time = "seconds since the first micro-batch"
    claim = Claim(
        "paper",
        f"{PAPER_RATE:,} tuples/s on 18 machines of 4 cores",
        f"{rate:,.0f} tuples/s on {lab.spark().sparkContext.defaultParallelism} cores of one machine",
        rate >= PAPER_RATE,
    )
    speed = [Series("sparkbleach", seconds, rates, "dots")]
    cores = [
        Series("sparkbleach and Spark", at, used["cores"].to_numpy()),
        Series("other programs", at, others),
    ]
    memory = [
        Series("all processes", at, used["memory_mb"].to_numpy()),
        Series("the engine's state", seconds, [size / 1e6 for size in state_bytes]),
    ]
    marks = [Mark("y", PAPER_RATE, "paper: 15 K tuples/s")]
    panels = [
        Panel("Throughput over time", time, "tuples per second", speed, marks, x_min=0),
        Panel("CPU", time, "busy cores", cores),
        Panel("Memory", time, "MB", memory),
    ]
    caption = "Tuples per second by micro-batch, and what all processes use meanwhile."
    return Result(
        title="Throughput",
        question="A backlog is waiting. How many tuples per second are cleaned?",
        method=(
            f"{n_tuples:,} tuples, over and over {lab.stream_name}; rules r0 to r5, 10 % dirt, "
            f"{lab.window_name}; {profile.throughput_tuples:,} tuples a micro-batch, from Parquet files to a "
            f"no-op sink, on Spark ({lab.spark().sparkContext.master}). The first third of the "
            "micro-batches is not counted: the JVM compiles. Memory is that of all processes, the JVM's "
            f"heap included. {describe_others(usage)}"
        ),
        claims=[claim],
        figures=[Figure("throughput", caption, panels)],
        tables={
            "micro-batches": to_table(
                done.batches, "tuples", second=seconds, tuples_per_s=rates, state_bytes=state_bytes
            ),
            "usage": used,
            "summary": [{"tuples_per_s": rate, **summary(usage)}],
        },
        shown=["summary"],
    )
