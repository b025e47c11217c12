"""Topologies are measured on Spark; what they report is what the workers count in one process."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from sparkbleach import Window
from sparkbleach.evaluate.dirt import paper_errors
from sparkbleach.evaluate.sales import SIX_RULES
from sparkbleach.evaluate.spoil import spoil
from sparkbleach.evaluate.streams import read_files, write_files
from sparkbleach.evaluate.topologies import WAYS, WORKERS, clean_backlog, paper_way
from sparkbleach.paper.in_process import DistributedEngine
from sparkbleach.paper.stages import REPAIR
from sparkbleach.paper.topology import PaperTopology
from sparkbleach.spark.settings import PARTITIONS
from tests.support.sales import sales


def test_ways_have_names() -> None:
    """There are one lane, several, and the paper's workers with each mechanism."""
    assert [way.name for way in WAYS] == [
        "fused, 1 lane",
        "fused, 2 lanes",
        "paper, hinge",
        "paper, basic",
        "paper, dr",
        "paper, ir",
    ]


def test_a_backlog_is_cleaned(spark: SparkSession, tmp_path: Path) -> None:
    """Messages and super cells on Spark are those in one process, however the stream is cut."""
    window = Window.tuples(400, slide=200)
    dirty = spoil(sales(1_000), paper_errors(SIX_RULES, 0.2), 1).dirty
    write_files(dirty, tmp_path / "in", 500)
    source = read_files(spark, tmp_path / "in", dirty.schema)
    engine = DistributedEngine(
        dirty.schema, SIX_RULES, id="id", window=window, topology=PaperTopology(WORKERS, WORKERS, "dr")
    )
    for batch in dirty.combine_chunks().to_batches(max_chunksize=300):
        engine.process(batch)

    paper = clean_backlog(spark, paper_way("dr"), source, window, tmp_path / "paper", warm_up=1)
    assert paper.messages == engine.coordination_messages > 0
    assert paper.super_cells == sum(worker.n_super_cells for worker in engine.workers[REPAIR])
    assert paper.state_bytes > 10_000

    lanes = clean_backlog(spark, WAYS[1], source, window, tmp_path / "lanes", warm_up=1)
    assert lanes.messages == 0
    assert 0 < lanes.super_cells < paper.super_cells
    assert lanes.tuples_per_s > paper.tuples_per_s > 0
    assert spark.conf.get(PARTITIONS) == "1"
