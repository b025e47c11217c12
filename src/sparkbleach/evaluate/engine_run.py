"""Clean a stream in this process: enough to measure accuracy, without the time that Spark takes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import pyarrow as pa

from ..config import DEFAULT_REMEMBER, OptionValues, Window
from ..engine.engine import Engine
from ..rules.rule import RuleLike
from ..rules.update import RuleUpdate, sort_updates

_BATCH_TUPLES = 50_000
#: as the paper has it: no change is accepted, and counts are kept for ever
BY_THE_LETTER: OptionValues = {"accept_after": None, "remember": None}
#: what a user gets by asking for `bayes` and nothing else
BAYES: OptionValues = {"repair": "bayes", "accept_after": 10, "remember": DEFAULT_REMEMBER}


@dataclass(frozen=True)
class EngineRun:
    """The result of a run."""

    cleaned: pa.Table  #: the clean stream
    seconds: float  #: how long the engine took, from Arrow batches to clean batches and their audit
    cpu_seconds: float  #: the CPU time of all threads in these seconds
    reports: list[dict[str, Any]]  #: the engine's report after each batch

    @property
    def tuples_per_s(self) -> float:
        """The throughput."""
        return float(self.cleaned.num_rows / self.seconds)


def run_engine(
    dirty: pa.Table,
    rules: Iterable[RuleLike],
    window: Window | None,
    /,
    *,
    rule_updates: Iterable[RuleUpdate | Mapping[str, Any]] = (),
    threads: int = 2,
    batch_tuples: int = _BATCH_TUPLES,
    advance: Callable[[int], object] = lambda _: None,
    **options: Unpack[OptionValues],
) -> EngineRun:
    """Send a stream through an engine; `advance` gets the length of each batch.

    What options do not say is `class` by the paper's letter.
    """
    values: OptionValues = {"repair": "class", **BY_THE_LETTER, **options, "window": window}
    engine = Engine(dirty.schema, rules, threads=threads, **values)
    updates = sort_updates(rule_updates)
    cuts = {*range(0, dirty.num_rows, batch_tuples), dirty.num_rows, *(update.at for update in updates)}
    parts: list[pa.RecordBatch] = []
    reports: list[dict[str, Any]] = []
    seconds = cpu_seconds = 0.0
    try:
        for first, end in itertools.pairwise(sorted(cut for cut in cuts if cut <= dirty.num_rows)):
            for update in updates:
                if update.at == first:
                    engine.apply(update)
            (batch,) = dirty.slice(first, end - first).combine_chunks().to_batches()
            began, cpu_began = time.perf_counter(), time.process_time()
            clean, _ = engine.process(batch)
            seconds += time.perf_counter() - began
            cpu_seconds += time.process_time() - cpu_began
            parts.append(clean)
            reports.append(engine.report())
            advance(batch.num_rows)
    finally:
        engine.close()
    return EngineRun(pa.Table.from_batches(parts, dirty.schema), seconds, cpu_seconds, reports)
