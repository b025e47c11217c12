"""Measure the kernel on one core: `python -m sparkbleach.evaluate.bench.kernel`.

A stream like the paper's, 10 % dirty, windows of 2 M tuples that slide by 1 M. These runs:

1. throughput: rules r0 to r5, batches of 50,000 tuples, encoding and hashing included;
2. pauses: all eight rules, calls of 1,000 tuples; the longest call counts;
3. the engine: rules r0 to r5, from Arrow batch to clean batch and audit;
4. `bayes`: rules r0 to r5, batches of 50,000 tuples, encoding and hashing included, on one thread and on two;
   calls of 1,000 tuples; and the table hospital, again and again.

Each run has a process of its own. The first is made three times and the fastest counts, because a
disturbance only ever makes a run slower; all three are shown. Generating the stream is not measured.
`--tuples` shortens the runs; the figures then mean less. `--only` makes a part of them.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

from ...config import OptionValues, Window
from ...engine.apply import BatchColumns, apply_rules
from ...engine.engine import Engine
from ..sales import SALES_RULES, SCHEMA
from ..streams import dirty_batches, repeated
from ..tables import real_table
from .workbench import show

WINDOW = Window.tuples(2_000_000, slide=1_000_000)
GOAL_TUPLES_PER_S = 1_000_000
GOAL_PAUSE_MS = 20.0
#: of bayes, by the number of threads
GOAL_BAYES_TUPLES_PER_S = {1: 200_000, 2: 350_000}
GOAL_BAYES_PAUSE_MS = 40.0
GOAL_HOSPITAL_TUPLES_PER_S = 50_000
_BLOCK_TUPLES = 50_000
MEMORY_SLACK = 1.10  # "flat": after the second window the state grows by no more than this


@dataclass(frozen=True)
class Case:
    """What a run does: it sends a stream through an engine with some rules, in calls of some tuples."""

    title: str
    call: Callable[[Engine, pa.RecordBatch], float]
    n_rules: int
    n_tuples: int
    batch_tuples: int
    repair: str = "class"
    threads: int = 1
    #: whether the stream is the table hospital, again and again, with its own rules
    hospital: bool = False

    def engine(self) -> Engine:
        """Return the engine, which has seen nothing yet."""
        options: OptionValues = {"window": WINDOW, "repair": self.repair}
        if self.hospital:
            table = real_table("hospital")
            return Engine(table.dirty.schema, table.rules, threads=self.threads, **options)
        return Engine(SCHEMA, SALES_RULES[: self.n_rules], id="id", threads=self.threads, **options)

    def blocks(self) -> Iterator[pa.RecordBatch]:
        """Yield the stream in blocks of 50,000 tuples."""
        if not self.hospital:
            yield from dirty_batches(self.n_tuples, _BLOCK_TUPLES, seed=7)
            return
        block = repeated(real_table("hospital").dirty, _BLOCK_TUPLES).combine_chunks()
        for first in range(0, self.n_tuples, _BLOCK_TUPLES):
            (batch,) = block.slice(0, min(_BLOCK_TUPLES, self.n_tuples - first)).to_batches()
            yield batch


@dataclass
class Run:
    """What one run gave."""

    calls_s: list[float] = field(default_factory=list)
    #: by call the CPU time of all threads: other programs disturb it less
    cpu_s: list[float] = field(default_factory=list)
    encode_s: float = 0.0
    n_tuples: int = 0
    #: the size of the state in bytes, each half window
    state_bytes: list[int] = field(default_factory=list)
    super_cells: int = 0
    peak_mb: float = 0.0

    @property
    def tuples_per_s(self) -> float:
        """Tuples per second of measured time."""
        return self.n_tuples / sum(self.calls_s)

    @property
    def tuples_per_cpu_s(self) -> float:
        """Tuples per second of CPU time."""
        return self.n_tuples / sum(self.cpu_s)


def kernel_call(engine: Engine, batch: pa.RecordBatch) -> float:
    """Encode, hash, detect and repair a batch; return the seconds of encoding and hashing."""
    began = time.perf_counter()
    columns = BatchColumns(batch)
    ready = [(one, apply_rules(columns, one.name, one.rules, {})[0]) for one in engine._cleaners]
    encoded = time.perf_counter()
    for ruled, cells in ready:
        ruled.state.process(cells, engine.position)
    engine.position += batch.num_rows
    return encoded - began


def engine_call(engine: Engine, batch: pa.RecordBatch) -> float:
    """Clean a batch as a user does."""
    engine.process(batch)
    return 0.0


def decide_call(engine: Engine, batch: pa.RecordBatch) -> float:
    """Encode, hash, count and decide a batch; leave the clean batch and the audit out."""
    engine.decide(batch)
    return 0.0


def run(case: Case) -> Run:
    """Send the stream through an engine, call by call, in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, case).result()


def _run(case: Case) -> Run:
    compile_kernel(case.repair)
    engine = case.engine()
    result = Run()
    gc.collect()
    gc.freeze()
    gc.disable()
    made = 0
    try:
        for block in case.blocks():
            made += block.num_rows
            for first in range(0, block.num_rows, case.batch_tuples):
                batch = block.slice(first, case.batch_tuples)
                began, cpu_began = time.perf_counter(), time.process_time()
                result.encode_s += case.call(engine, batch)
                result.calls_s.append(time.perf_counter() - began)
                result.cpu_s.append(time.process_time() - cpu_began)
            if made % (WINDOW.size // 2) == 0:
                result.state_bytes.append(engine.nbytes)
            _progress(case.title, made, case.n_tuples)
    finally:
        gc.enable()
        gc.unfreeze()
    result.n_tuples = case.n_tuples
    result.super_cells = engine.super_cells
    result.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def _progress(title: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(
            f"\r{title}: {done / 1e6:.1f} of {total / 1e6:.1f} M tuples" + "\n" * (done == total)
        )


def compile_kernel(repair: str = "class") -> float:
    """Compile every path before anything is measured; return the seconds that it took."""
    began = time.perf_counter()
    engine = Engine(SCHEMA, SALES_RULES, window=Window.tuples(2000, slide=1000), repair=repair)
    for batch in dirty_batches(8_000, 1_000, seed=1):
        engine.process(batch)
    return time.perf_counter() - began


def main() -> None:
    """Run the benchmark and print what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tuples", type=int, default=6_000_000, help="length of each run (default 6 M)")
    parser.add_argument("--only", choices=("counting", "bayes"), help="a part of the runs (default both)")
    given = parser.parse_args()
    if given.only != "bayes":
        measure_counting(given.tuples)
    if given.only != "counting":
        measure_bayes(given.tuples // 3)


def measure_counting(n_tuples: int) -> None:
    """Measure `class`."""
    print(f"kernel ready after {compile_kernel():.1f} s (compiled once, then read from the cache)")

    runs = [run(Case("throughput", kernel_call, 6, n_tuples, 50_000)) for _ in range(3)]
    fast = max(runs, key=lambda one: one.tuples_per_s)
    rate, ns = fast.tuples_per_s, 1e9 / fast.tuples_per_s
    print(f"\nthroughput, r0-r5, batches of 50,000, {n_tuples / 1e6:.0f} M tuples")
    show("tuples/s", f"{rate:,.0f}", goal=f"{GOAL_TUPLES_PER_S:,}", reached=rate >= GOAL_TUPLES_PER_S)
    show("all three runs", "", "  ".join(f"{one.tuples_per_s:,.0f}" for one in runs))
    show("ns per tuple", f"{ns:.0f}", f"of that encoding and hashing {fast.encode_s / n_tuples * 1e9:.0f}")
    show("ns per tuple and rule", f"{ns / 6:.0f}")
    show("super cells", f"{fast.super_cells:,}")
    bytes_per_cell = fast.state_bytes[-1] / fast.super_cells
    show("bytes per super cell", f"{bytes_per_cell:.0f}", "groups, values and graphs included")
    after_two = fast.state_bytes[3:]
    growth = max(after_two) / after_two[0] if after_two else float("nan")
    show("state each million", "", "  ".join(f"{size / 1e6:.0f}" for size in fast.state_bytes) + " MB")
    show("growth after window 2", f"{growth:.2f}", goal=f"{MEMORY_SLACK:.2f}", reached=growth <= MEMORY_SLACK)

    paced = run(Case("pauses", kernel_call, 8, n_tuples, 1_000))
    calls_ms = np.array(paced.calls_s) * 1e3
    longest = float(calls_ms.max())
    print(f"\npauses, r0-r7, calls of 1,000, {n_tuples / 1e6:.0f} M tuples")
    show(
        "longest call", f"{longest:.1f}", "ms;", goal=f"{GOAL_PAUSE_MS:.0f}", reached=longest < GOAL_PAUSE_MS
    )
    show("99.9 % of calls below", f"{np.percentile(calls_ms, 99.9):.1f}", "ms")
    show("median call", f"{np.median(calls_ms):.1f}", "ms")
    slides = np.arange(WINDOW.slide // 1_000, calls_ms.size, WINDOW.slide // 1_000)
    if slides.size:
        show("longest call with a slide", f"{calls_ms[slides].max():.1f}", "ms")
    show("tuples/s", f"{paced.tuples_per_s:,.0f}")

    whole = run(Case("engine", engine_call, 6, n_tuples // 3, 50_000))
    print(f"\nEngine.process, clean batch and audit, r0-r5, batches of 50,000, {n_tuples / 3e6:.0f} M tuples")
    show("tuples/s", f"{whole.tuples_per_s:,.0f}")
    show("peak memory", f"{whole.peak_mb:.0f}", "MB")


def measure_bayes(n_tuples: int) -> None:
    """Measure `bayes`."""
    print(f"\nbayes ready after {compile_kernel('bayes'):.1f} s (compiled once, then read from the cache)")
    print(f"\nbayes, r0-r5, batches of 50,000, {n_tuples / 1e6:.1f} M tuples")
    for threads, goal in GOAL_BAYES_TUPLES_PER_S.items():
        found = run(Case("bayes", decide_call, 6, n_tuples, 50_000, "bayes", threads))
        rate = found.tuples_per_s
        show(f"tuples/s, threads: {threads}", f"{rate:,.0f}", goal=f"{goal:,}", reached=rate >= goal)
        show("tuples per CPU second", f"{found.tuples_per_cpu_s:,.0f}")
    show("super cells", f"{found.super_cells:,}")
    show("peak memory", f"{found.peak_mb:.0f}", "MB")
    whole = run(Case("engine", engine_call, 6, n_tuples // 2, 50_000, "bayes"))
    show("tuples/s with clean batch and audit", f"{whole.tuples_per_s:,.0f}", "one thread")

    paced = run(Case("pauses", decide_call, 6, n_tuples // 2, 1_000, "bayes"))
    calls_ms = np.array(paced.calls_s) * 1e3
    longest, goal_ms = float(calls_ms.max()), GOAL_BAYES_PAUSE_MS
    print(f"\nbayes, r0-r5, calls of 1,000, {n_tuples / 2e6:.1f} M tuples")
    show("longest call", f"{longest:.1f}", "ms;", goal=f"{goal_ms:.0f}", reached=longest < goal_ms)
    show("longest call in CPU time", f"{max(paced.cpu_s) * 1e3:.1f}", "ms")
    show("99.9 % of calls below", f"{np.percentile(calls_ms, 99.9):.1f}", "ms")
    show("median call", f"{np.median(calls_ms):.1f}", "ms")

    table = run(Case("hospital", decide_call, 0, n_tuples // 2, 50_000, "bayes", hospital=True))
    rate, goal = table.tuples_per_s, GOAL_HOSPITAL_TUPLES_PER_S
    print(f"\nbayes, hospital again and again, batches of 50,000, {n_tuples / 2e6:.1f} M tuples")
    show("tuples/s", f"{rate:,.0f}", goal=f"{goal:,}", reached=rate >= goal)
    show("tuples per CPU second", f"{table.tuples_per_cpu_s:,.0f}")


if __name__ == "__main__":
    main()
