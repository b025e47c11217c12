"""Where experiments are made: how large they are, the streams, the Spark session, the progress."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..config import Window
from ..rules.rule import Rule
from . import tpcds
from .sales import RULES, SalesStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
OpenSpark = Callable[[str | None], "AbstractContextManager[SparkSession]"]

SALES_RULES = tuple(Rule.parse(text, id=id) for id, text in RULES.items())
#: r0 to r5, with which the paper's stream begins
SIX_RULES = SALES_RULES[:6]
#: the rate that the paper reaches, in tuples per second
PAPER_RATE = 15_000
#: and its mean latencies, by how repair workers are coordinated
PAPER_MS = {"basic": 364, "dr": 323, "ir": 316}


@dataclass(frozen=True, slots=True)
class Profile:
    """How large experiments are.

    Attributes:
        scale_factor: Of TPC-DS; None for the generated stream.
        tuples: How many tuples of the stream are used; all if None.
        window: The window for accuracies, in tuples; it slides by half of that.
        burst_window: The window in which a burst happens.
        bin_tuples: How long a stretch is over which a dirty ratio is taken.
        rate: Tuples per second where they arrive at a steady rate.
        backlog: How many of them are there at the beginning.
        warm_up: How many micro-batches are not measured.
        micro_batches: How many are, at least, where latency is measured.
        throughput_tuples: Tuples per micro-batch where throughput is measured.
        throughput_batches: How many such micro-batches there are.
        windows_s: Windows of the baseline, in seconds at the rate of the paper.
        timed_windows_s: Those whose processing is timed on Spark.
        rules: How many rules there are, where that is what changes.
        dirt: How probable errors are, where that is what changes.
        windows: How large windows are, where that is what changes.
        scaling_tuples: How long streams are where something changes.
        coordination_tuples: How long the stream is where the paper's workers run in this process.
        coordination_rate: Tuples per second where they run on Spark.
        coordination_warm_up: How many micro-batches are not measured there.
        coordination_batches: How many are, at least.
        cores: How many cores Spark has, where that is what changes.
    """

    scale_factor: float | None
    tuples: int | None
    window: int
    burst_window: int
    bin_tuples: int
    rate: int
    backlog: int
    warm_up: int
    micro_batches: int
    throughput_tuples: int
    throughput_batches: int
    windows_s: tuple[float, ...]
    timed_windows_s: tuple[float, ...]
    rules: tuple[int, ...]
    dirt: tuple[float, ...]
    windows: tuple[int, ...]
    scaling_tuples: int
    coordination_tuples: int
    coordination_rate: int
    coordination_warm_up: int
    coordination_batches: int
    cores: tuple[int, ...]


def _cores() -> tuple[int, ...]:
    found = os.cpu_count() or 1
    return tuple(sorted({1, *(2**n for n in range(10) if 2**n <= found), found}))


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
        scaling_tuples=4_000,
        coordination_tuples=1_000,
        coordination_rate=500,
        coordination_warm_up=1,
        coordination_batches=2,
        cores=(1,),
    ),
    "small": Profile(
        scale_factor=1,
        tuples=1_500_000,
        window=500_000,
        burst_window=200_000,
        bin_tuples=25_000,
        rate=PAPER_RATE,
        backlog=500_000,
        warm_up=100,
        micro_batches=150,
        throughput_tuples=200_000,
        throughput_batches=20,
        windows_s=(1, 2, 5, 10, 20, 30, 40),
        timed_windows_s=(1, 5, 20, 40),
        rules=(1, 2, 4, 8, 16, 32, 64),
        dirt=(0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
        windows=(10_000, 20_000, 50_000, 100_000, 200_000, 500_000),
        scaling_tuples=500_000,
        coordination_tuples=10_000,
        coordination_rate=500,
        coordination_warm_up=2,
        coordination_batches=5,
        cores=_cores(),
    ),
    "full": Profile(
        scale_factor=1,
        tuples=None,
        window=1_000_000,
        burst_window=400_000,
        bin_tuples=25_000,
        rate=PAPER_RATE,
        backlog=1_000_000,
        warm_up=250,
        micro_batches=400,
        throughput_tuples=500_000,
        throughput_batches=20,
        windows_s=(1, 2, 5, 10, 20, 30, 40, 60, 90),
        timed_windows_s=(1, 5, 20, 60),
        rules=(1, 2, 4, 8, 16, 32, 64),
        dirt=(0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
        windows=(10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000),
        scaling_tuples=1_000_000,
        coordination_tuples=40_000,
        coordination_rate=500,
        coordination_warm_up=10,
        coordination_batches=30,
        cores=_cores(),
    ),
}


class Laboratory:
    """What experiments share; a `with` block ends it.

    Args:
        profile: How large they are.
        open_spark: Gives a session on a master.
        seed: Of all random numbers.
    """

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

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

    @property
    def stream_name(self) -> str:
        """What the stream is, for people."""
        factor = self.profile.scale_factor
        name = "a generated stream like TPC-DS" if factor is None else f"TPC-DS at scale factor {factor:g}"
        return f"{name}, {self.truth.num_rows:,} tuples"

    @property
    def window(self) -> Window:
        """The window for accuracies."""
        return Window.tuples(self.profile.window, slide=self.profile.window // 2)

    @property
    def window_name(self) -> str:
        """The same, for people."""
        return f"windows of {self.window.size:,} tuples that slide by {self.window.slide:,}"

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what several experiments need, made by the first of them."""
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    @cached_property
    def _here(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sparkbleach-bench-")))

    def directory(self) -> Path:
        """Return a new directory for something that is not kept."""
        self._directories += 1
        path = self._here / str(self._directories)
        path.mkdir()
        return path

    def spark(self, master: str | None = None) -> SparkSession:
        """Return the session on a master, or on the default one; another one ends before."""
        if self._spark is None or master != self._master:
            self._sessions.close()
            self._sessions = self._stack.enter_context(ExitStack())
            self._spark = self._sessions.enter_context(self._open_spark(master))
            self._master = master
        return self._spark

    @contextmanager
    def progress(self, title: str, total: int | None) -> Iterator[Callable[[int], object]]:
        """Show how something is getting on, on a terminal; give a function that is told of each step."""
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
    """Return where and when something is measured: machine, versions, profile."""
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
