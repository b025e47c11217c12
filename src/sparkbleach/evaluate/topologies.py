"""The ways to spread cleaning over tasks, each run on Spark over the same stream."""

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
from .laboratory import SIX_RULES
from .spark_run import run_files
from .steady_run import SteadyRun, measure_steady
from .watch import size_bytes

#: how many lanes there are where there are several; how many detect workers, and how many repair workers
WORKERS = 2


@dataclass(frozen=True)
class Way:
    """A topology with its options.

    Attributes:
        name: For people.
        tasks: In how many tasks its workers run.
        options: For `clean`.
    """

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
    """What it took to clean files that were there.

    Attributes:
        tuples_per_s: Without the first micro-batches.
        messages: Between repair workers and coordinator.
        super_cells: In all lanes or repair workers together, at the end.
        state_bytes: What the state stores have in the checkpoint, at the end.
    """

    tuples_per_s: float
    messages: int
    super_cells: int
    state_bytes: int


def clean_backlog(
    spark: SparkSession, way: Way, source: DataFrame, window: Window, checkpoint: Path, warm_up: int
) -> Backlog:
    """Clean all files of a source.

    Args:
        spark: The session.
        way: How.
        source: The files.
        window: The window.
        checkpoint: Where the query may have its checkpoint.
        warm_up: How many micro-batches do not count for the throughput.
    """
    with _tasks(spark, way.tasks):
        batches = run_files(way.clean(source, window), checkpoint).batches
    warm = batches[warm_up:]
    report = batches[-1].report or {}
    return Backlog(
        tuples_per_s=sum(batch.tuples for batch in warm) / sum(batch.seconds for batch in warm),
        messages=report.get("coordination_messages", 0),
        super_cells=report["super_cells"],
        state_bytes=size_bytes(checkpoint / "state"),
    )


def clean_arriving(
    spark: SparkSession,
    way: Way,
    path: Path,
    window: Window,
    checkpoint: Path,
    *,
    rate: int,
    backlog: int,
    warm_up: int,
    n_batches: int,
    n_tuples: int = 0,
    advance: Callable[[int], object] = lambda _: None,
) -> SteadyRun:
    """Clean tuples that arrive at a steady rate: see `measure_steady`."""
    with _tasks(spark, way.tasks):
        return measure_steady(
            spark,
            path,
            lambda df: way.clean(df, window, egress_partitions=1),
            checkpoint,
            rate=rate,
            backlog=backlog,
            n_tuples=n_tuples,
            warm_up=warm_up,
            n_batches=n_batches,
            advance=advance,
        )


@contextmanager
def _tasks(spark: SparkSession, tasks: int) -> Iterator[None]:
    """Have the workers of a query that is started meanwhile run in so many tasks."""
    before = str(spark.conf.get(PARTITIONS))
    spark.conf.set(PARTITIONS, tasks)
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, before)
