"""The ways to distribute cleaning over tasks, each run on Spark over the same stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..config import Window
from ..paper.topology import COORDINATIONS, PaperTopology
from ..spark.clean import clean
from ..spark.settings import PARTITIONS
from .sales import SIX_RULES
from .spark_run import Arrival, SteadyRun, run_files, run_steady, tuples_per_s
from .watch import size_bytes

#: the number of lanes where there are several, of detect workers, and of repair workers
WORKERS = 2


@dataclass(frozen=True)
class Way:
    """A topology: its name, the number of tasks that its workers run in, and its options for `clean`."""

    name: str
    tasks: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def clean(self, df: DataFrame, window: Window, **options: Any) -> DataFrame:
        """Return a stream of sales, cleaned by r0 to r5."""
        return clean(df, SIX_RULES, id="id", window=window, **self.options, **options)


def paper_way(coordination: str) -> Way:
    """Return the paper's topology with a mechanism of coordination."""
    topology = PaperTopology(WORKERS, WORKERS, coordination)
    return Way(f"paper, {coordination}", WORKERS, {"topology": topology})


WAYS = (
    Way("fused, 1 lane", 1),
    Way(f"fused, {WORKERS} lanes", WORKERS, {"lanes": WORKERS}),
    *map(paper_way, COORDINATIONS),
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What it took to clean all files of a source."""

    tuples_per_s: float  #: the throughput without the first micro-batches
    messages: int  #: how many messages repair workers and coordinator sent
    super_cells: int  #: how many all lanes or repair workers hold together, at the end
    state_bytes: int  #: the size of the state stores in the checkpoint, at the end


def clean_backlog(
    spark: SparkSession, way: Way, source: DataFrame, window: Window, checkpoint: Path, warm_up: int
) -> Backlog:
    """Clean all files of a source; the first `warm_up` micro-batches do not count for the throughput."""
    with _tasks(spark, way.tasks):
        batches = run_files(way.clean(source, window), checkpoint).batches
    report = batches[-1].report or {}
    return Backlog(
        tuples_per_s=tuples_per_s(batches[warm_up:]),
        messages=report.get("coordination_messages", 0),
        super_cells=report["super_cells"],
        state_bytes=size_bytes(checkpoint / "state"),
    )


def clean_arriving(
    spark: SparkSession,
    way: Way,
    path: Path,
    window: Window,
    arrival: Arrival,
    checkpoint: Path,
    advance: Callable[[int], object] = lambda _: None,
) -> SteadyRun:
    """Clean tuples that arrive at a steady rate: see `run_steady`."""
    with _tasks(spark, way.tasks):
        return run_steady(
            spark, path, arrival, lambda df: way.clean(df, window, egress_partitions=1), checkpoint, advance
        )


@contextmanager
def _tasks(spark: SparkSession, tasks: int) -> Iterator[None]:
    """Set the number of tasks for the workers of a query that starts in the `with` block."""
    before = str(spark.conf.get(PARTITIONS))
    spark.conf.set(PARTITIONS, tasks)
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, before)
