"""The experiments, by name and in the order of the report: those of the paper first."""

from __future__ import annotations

from collections.abc import Callable

from ..laboratory import Laboratory
from ..result import Result
from . import (
    accuracy,
    baseline,
    coordination,
    drift,
    dynamic,
    keys,
    kinds,
    latency,
    look_ahead,
    memory,
    scaling,
    tables,
    throughput,
    windowing,
)

EXPERIMENTS: dict[str, Callable[[Laboratory], Result]] = {
    "accuracy": accuracy.run,
    "windowing": windowing.run,
    "throughput": throughput.run,
    "latency": latency.run,
    "dynamic": dynamic.run,
    "baseline": baseline.run,
    "coordination": coordination.run,
    "kinds": kinds.run,
    "tables": tables.run,
    "look_ahead": look_ahead.run,
    "keys": keys.run,
    "drift": drift.run,
    "memory": memory.run,
    "rules": scaling.run_rules,
    "dirt": scaling.run_dirt,
    "windows": scaling.run_windows,
    "cores": scaling.run_cores,
}
