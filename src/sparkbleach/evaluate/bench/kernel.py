"""Measure the kernel on one core: `python -m sparkbleach.evaluate.bench.kernel`.

A stream like the paper's, 10 % dirty, windows of 2 M tuples that slide by 1 M. Three runs:

1. throughput: rules r0 to r5, batches of 50,000 tuples, encoding and hashing included;
2. pauses: all eight rules, calls of 1,000 tuples; the longest call counts;
3. the engine: rules r0 to r5, from Arrow batch to clean batch and audit.

Each run has a process of its own. The first is made three times and the fastest counts, because a
disturbance only ever makes a run slower; all three are shown. Generating the stream is not measured.
`--tuples` shortens the runs; the figures then mean less.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

from ...config import Window
from ...engine.apply import BatchColumns, apply_rules
from ...engine.engine import Engine
from ..sales import SALES_RULES, SCHEMA
from ..streams import dirty_batches
from .workbench import show

WINDOW = Window.tuples(2_000_000, slide=1_000_000)
GOAL_TUPLES_PER_S = 1_000_000
GOAL_PAUSE_MS = 20.0
MEMORY_SLACK = 1.10  # "flat": after the second window the state grows by no more than this


@dataclass(frozen=True)
class Case:
    """What a run does: it sends a stream through an engine with some rules, in calls of some tuples."""

    title: str
    call: Callable[[Engine, pa.RecordBatch], float]
    n_rules: int
    n_tuples: int
    batch_tuples: int


@dataclass
class Run:
    """What one run gave."""

    calls_s: list[float] = field(default_factory=list)
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


def run(case: Case) -> Run:
    """Send the stream through an engine, call by call, in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, case).result()


def _run(case: Case) -> Run:
    compile_kernel()
    engine = Engine(SCHEMA, SALES_RULES[: case.n_rules], id="id", window=WINDOW)
    result = Run()
    gc.collect()
    gc.freeze()
    gc.disable()
    made = 0
    try:
        for block in dirty_batches(case.n_tuples, 50_000, seed=7):
            made += block.num_rows
            for first in range(0, block.num_rows, case.batch_tuples):
                batch = block.slice(first, case.batch_tuples)
                began = time.perf_counter()
                result.encode_s += case.call(engine, batch)
                result.calls_s.append(time.perf_counter() - began)
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


def compile_kernel() -> float:
    """Compile every path before anything is measured; return the seconds that it took."""
    began = time.perf_counter()
    engine = Engine(SCHEMA, SALES_RULES, window=Window.tuples(2000, slide=1000))
    for batch in dirty_batches(8_000, 1_000, seed=1):
        engine.process(batch)
    return time.perf_counter() - began


def main() -> None:
    """Run the benchmark and print what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tuples", type=int, default=6_000_000, help="length of each run (default 6 M)")
    n_tuples: int = parser.parse_args().tuples

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


if __name__ == "__main__":
    main()
