"""The laboratory of the experiments: how large they are, the stream, the Spark session, the progress."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..config import Window
from ..rules.rule import Rule
from . import tpcds
from .dirt import paper_errors
from .sales import SIX_RULES, SalesStream
from .spoil import Spoilt, spoil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
OpenSpark = Callable[[str | None], "AbstractContextManager[SparkSession]"]

#: the rate that the paper reaches, in tuples per second
PAPER_RATE = 15_000
#: the mean latencies of the paper, by mechanism of coordination
PAPER_MS = {"basic": 364, "dr": 323, "ir": 316}
#: the probability of errors where it is not varied
DIRT = 0.1


def _cores() -> tuple[int, ...]:
    found = os.cpu_count() or 1
    return tuple(sorted({1, *(2**n for n in range(10) if 2**n <= found), found}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How large experiments are; the defaults are those of the profile `full`."""

    #: of TPC-DS; None for the generated stream
    scale_factor: float | None = 1
    #: how many tuples of the stream are used; all if None
    tuples: int | None = None
    #: the window for accuracies, in tuples, which slides by half its size, and the one for a burst
    window: int = 1_000_000
    burst_window: int = 400_000
    #: the length of a stretch over which a dirty ratio is taken
    bin_tuples: int = 25_000
    #: tuples per second at a steady rate, the backlog before them, and the micro-batches of warm-up
    rate: int = PAPER_RATE
    backlog: int = 1_000_000
    warm_up: int = 250
    #: how many micro-batches are measured, at least, for a latency
    micro_batches: int = 400
    #: tuples per micro-batch for a throughput, and the number of these micro-batches
    throughput_tuples: int = 500_000
    throughput_batches: int = 20
    #: the windows of the baseline, in seconds at the rate of the paper, and those that are timed on Spark
    windows_s: tuple[float, ...] = (1, 2, 5, 10, 20, 30, 40, 60, 90)
    timed_windows_s: tuple[float, ...] = (1, 5, 20, 60)
    #: the values of what is varied: the number of rules, the probability of errors, the window, the cores
    rules: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    dirt: tuple[float, ...] = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    windows: tuple[int, ...] = (10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
    cores: tuple[int, ...] = field(default_factory=_cores)
    #: the length of the stream where something is varied
    scaling_tuples: int = 1_000_000
    #: the length of the stream for the paper's workers in this process
    coordination_tuples: int = 40_000
    #: tuples per second for the paper's workers on Spark, and the micro-batches not measured and measured
    coordination_rate: int = 500
    coordination_warm_up: int = 10
    coordination_batches: int = 30
    #: how many customers there are where some move, or keys are wrong
    drift_keys: int = 5_000
    #: the window for the size of the state, in tuples; it slides by half its size
    memory_window: int = 100_000
    #: the length of the paper's stream where the look-ahead is varied
    look_ahead_tuples: int = 200_000


PROFILES = {
    "tiny": Profile(
        scale_factor=None,
        tuples=12_000,
        window=4_000,
        burst_window=2_000,
        bin_tuples=500,
        rate=2_000,
        backlog=2_000,
        warm_up=1,
        micro_batches=3,
        throughput_tuples=2_000,
        throughput_batches=4,
        windows_s=(0.05, 0.1, 0.2),
        timed_windows_s=(0.1,),
        rules=(1, 8, 16),
        dirt=(0.0, 0.2),
        windows=(2_000, 4_000),
        cores=(1,),
        scaling_tuples=4_000,
        coordination_tuples=1_000,
        coordination_warm_up=1,
        coordination_batches=2,
        drift_keys=100,
        memory_window=1_000,
        look_ahead_tuples=4_000,
    ),
    "small": Profile(
        tuples=1_500_000,
        window=500_000,
        burst_window=200_000,
        backlog=500_000,
        warm_up=100,
        micro_batches=150,
        throughput_tuples=200_000,
        windows_s=(1, 2, 5, 10, 20, 30, 40),
        timed_windows_s=(1, 5, 20, 40),
        dirt=(0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
        windows=(10_000, 20_000, 50_000, 100_000, 200_000, 500_000),
        scaling_tuples=500_000,
        coordination_tuples=10_000,
        coordination_warm_up=2,
        coordination_batches=5,
        drift_keys=2_000,
        memory_window=20_000,
        look_ahead_tuples=60_000,
    ),
    "full": Profile(),
}


class Laboratory:
    """What experiments share: the stream, the session, a directory; a context manager that ends them."""

    def __init__(self, profile: Profile, open_spark: OpenSpark, *, seed: int = 1) -> None:
        self.profile = profile
        self.seed = seed
        self._open_spark = open_spark
        self._stack = ExitStack()
        self._sessions = ExitStack()
        self._spark: SparkSession | None = None
        self._master: str | None = None
        self._console = Console(stderr=True)
        self._directories = 0
        self._made: dict[str, Any] = {}

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @cached_property
    def truth(self) -> pa.Table:
        """The clean stream."""
        profile = self.profile
        if profile.scale_factor is None:
            return pa.Table.from_batches([SalesStream(self.seed).batch(profile.tuples or 1_000_000)])
        if tpcds.cached(profile.scale_factor).exists():
            return tpcds.sales(profile.scale_factor, profile.tuples)
        with self.progress(f"generating TPC-DS, scale factor {profile.scale_factor:g}, once", None):
            return tpcds.sales(profile.scale_factor, profile.tuples)

    def spoilt(self, rules: Sequence[Rule] = SIX_RULES) -> Spoilt:
        """Return the stream with the paper's errors in the columns of some rules."""
        return spoil(self.truth, paper_errors(rules, DIRT), self.seed)

    @property
    def stream_name(self) -> str:
        """The name of the stream, for the report."""
        factor = self.profile.scale_factor
        name = "a generated stream like TPC-DS" if factor is None else f"TPC-DS at scale factor {factor:g}"
        return f"{name}, {self.truth.num_rows:,} tuples"

    @property
    def window(self) -> Window:
        """The window for accuracies."""
        return Window.tuples(self.profile.window, slide=self.profile.window // 2)

    @property
    def window_name(self) -> str:
        """The window for accuracies in words."""
        return f"windows of {self.window.size:,} tuples that slide by {self.window.slide:,}"

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return a value that several experiments need; the first of them makes it."""
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    @cached_property
    def _here(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sparkbleach-bench-")))

    def directory(self) -> Path:
        """Return a new temporary directory."""
        self._directories += 1
        path = self._here / str(self._directories)
        path.mkdir()
        return path

    def spark(self, master: str | None = None) -> SparkSession:
        """Return the session on a master, or on the default one; a session on another master ends."""
        if self._spark is None or master != self._master:
            self._sessions.close()
            self._sessions = self._stack.enter_context(ExitStack())
            self._spark = self._sessions.enter_context(self._open_spark(master))
            self._master = master
        return self._spark

    @contextmanager
    def progress(self, title: str, total: int | None) -> Iterator[Callable[[int], object]]:
        """Show a progress bar on a terminal; give the function that advances it."""
        if not self._console.is_terminal:
            yield lambda _: None
            return
        count = MofNCompleteColumn() if total else TextColumn("")
        with Progress(
            TextColumn("  {task.description}"),
            BarColumn(),
            count,
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        ) as shown:
            task = shown.add_task(title, total=total)
            yield lambda n: shown.advance(task, n)


def circumstances(profile: str) -> dict[str, Any]:
    """Return where and when experiments run: profile, date, machine, versions."""
    names = ("sparkbleach", "pyspark", "pyarrow", "numba", "numpy", "duckdb")
    return {
        "profile": profile,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB, {platform.system()}",
        "versions": ", ".join([f"Python {sys.version.split()[0]}", *(f"{n} {version(n)}" for n in names)]),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
