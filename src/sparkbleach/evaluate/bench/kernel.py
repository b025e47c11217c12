"""Measure the kernel on one core: `python -m sparkbleach.evaluate.bench.kernel`.

A stream like the paper's, 10 % dirty, windows of 2 M tuples that slide by 1 M. Three runs:

1. throughput: rules r0 to r5, batches of 50,000 tuples, encoding and hashing included;
2. pauses: all eight rules, calls of 1,000 tuples; the longest call counts;
3. the engine: rules r0 to r5, from Arrow batch to clean batch and audit.

Each run has a process of its own. The first is made three times and the fastest counts, because what
disturbs a run only ever makes it slower; all three are told. Generating the stream is not measured.
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

from sparkbleach import Engine, Rule, Window
from sparkbleach.evaluate.sales import RULES, SCHEMA

from ...engine.apply import BatchColumns, apply_rules
from .stream import dirty_batches

WINDOW = Window.tuples(2_000_000, slide=1_000_000)
GOAL_TUPLES_PER_S = 1_000_000
GOAL_PAUSE_MS = 20.0
MEMORY_SLACK = 1.10  # "flat": after the second window the state grows by no more than this


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


def new_engine(n_rules: int) -> Engine:
    """Return an engine with the first rules of the paper."""
    rules = [Rule.parse(text, id=id) for id, text in list(RULES.items())[:n_rules]]
    return Engine(SCHEMA, rules, id="id", window=WINDOW)


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


def run(
    call: Callable[[Engine, pa.RecordBatch], float],
    n_rules: int,
    n_tuples: int,
    batch_tuples: int,
    title: str,
) -> Run:
    """Send the stream through an engine, call by call, in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, call, n_rules, n_tuples, batch_tuples, title).result()


def _run(
    call: Callable[[Engine, pa.RecordBatch], float],
    n_rules: int,
    n_tuples: int,
    batch_tuples: int,
    title: str,
) -> Run:
    compile_kernel()
    engine = new_engine(n_rules)
    result = Run()
    gc.collect()
    gc.freeze()
    gc.disable()
    made = 0
    try:
        for block in dirty_batches(n_tuples, 50_000, seed=7):
            made += block.num_rows
            for first in range(0, block.num_rows, batch_tuples):
                batch = block.slice(first, batch_tuples)
                began = time.perf_counter()
                result.encode_s += call(engine, batch)
                result.calls_s.append(time.perf_counter() - began)
            if made % (WINDOW.size // 2) == 0:
                result.state_bytes.append(engine.nbytes)
            _progress(title, made, n_tuples)
    finally:
        gc.enable()
        gc.unfreeze()
    result.n_tuples = n_tuples
    result.super_cells = engine.super_cells
    result.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def _progress(title: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(
            f"\r{title}: {done / 1e6:.1f} of {total / 1e6:.1f} M tuples" + "\n" * (done == total)
        )


def compile_kernel() -> float:
    """Let every path compile before anything is measured; return the seconds that took."""
    began = time.perf_counter()
    engine = Engine(
        SCHEMA,
        [Rule.parse(text, id=id) for id, text in RULES.items()],
        window=Window.tuples(2000, slide=1000),
    )
    for batch in dirty_batches(8_000, 1_000, seed=1):
        engine.process(batch)
    return time.perf_counter() - began


def told(met: bool) -> str:
    """Return whether a goal was met, for people."""
    return "reached" if met else "MISSED"


def main() -> None:
    """Run the benchmark and print what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tuples", type=int, default=6_000_000, help="length of each run (default 6 M)")
    n_tuples: int = parser.parse_args().tuples

    print(f"kernel ready after {compile_kernel():.1f} s (compiled once, then read from the cache)")

    runs = [run(kernel_call, 6, n_tuples, 50_000, "throughput") for _ in range(3)]
    fast = max(runs, key=lambda one: one.tuples_per_s)
    ns = 1e9 / fast.tuples_per_s
    print(f"\nthroughput, r0-r5, batches of 50,000, {n_tuples / 1e6:.0f} M tuples")
    print(f"  tuples/s                {fast.tuples_per_s:12,.0f}   goal {GOAL_TUPLES_PER_S:,}: ", end="")
    print(told(fast.tuples_per_s >= GOAL_TUPLES_PER_S))
    print(f"  all three runs          {'  '.join(f'{one.tuples_per_s:,.0f}' for one in runs)}")
    print(f"  ns per tuple            {ns:12.0f}   ", end="")
    print(f"of that encoding and hashing {fast.encode_s / n_tuples * 1e9:.0f}")
    print(f"  ns per tuple and rule   {ns / 6:12.0f}")
    print(f"  super cells             {fast.super_cells:12,}")
    bytes_per_cell = fast.state_bytes[-1] / fast.super_cells
    print(f"  bytes per super cell    {bytes_per_cell:12.0f}   groups, values and graphs included")
    after_two = fast.state_bytes[3:]
    growth = max(after_two) / after_two[0] if after_two else float("nan")
    print(f"  state each million      {'  '.join(f'{size / 1e6:.0f}' for size in fast.state_bytes)} MB")
    print(f"  growth after window 2   {growth:12.2f} x goal {MEMORY_SLACK:.2f} x: ", end="")
    print(told(growth <= MEMORY_SLACK))

    paced = run(kernel_call, 8, n_tuples, 1_000, "pauses")
    calls_ms = np.array(paced.calls_s) * 1e3
    print(f"\npauses, r0-r7, calls of 1,000, {n_tuples / 1e6:.0f} M tuples")
    print(f"  longest call            {calls_ms.max():12.1f} ms goal {GOAL_PAUSE_MS:.0f} ms: ", end="")
    print(told(bool(calls_ms.max() < GOAL_PAUSE_MS)))
    print(f"  99.9 % of calls below   {np.percentile(calls_ms, 99.9):12.1f} ms")
    print(f"  median call             {np.median(calls_ms):12.1f} ms")
    slides = np.arange(WINDOW.slide // 1_000, calls_ms.size, WINDOW.slide // 1_000)
    if slides.size:
        print(f"  calls in which it slid  {calls_ms[slides].max():12.1f} ms at the most")
    print(f"  tuples/s                {paced.tuples_per_s:12,.0f}")

    whole = run(engine_call, 6, n_tuples // 3, 50_000, "engine")
    print(f"\nEngine.process, clean batch and audit, r0-r5, batches of 50,000, {n_tuples / 3e6:.0f} M tuples")
    print(f"  tuples/s                {whole.tuples_per_s:12,.0f}")
    print(f"  peak memory             {whole.peak_mb:12.0f} MB")


if __name__ == "__main__":
    main()
