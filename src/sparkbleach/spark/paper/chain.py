"""The stages of the paper's topology, one after the other."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...paper.topology import PaperTopology
from ..ingress import ArrowFunction
from ..lane import LANE_SCHEMA
from ..lanes import spread_keys
from ..plan import Plan
from .aggregate import AggregatorOperator
from .route import coordinator, egress_router, ingress_router
from .rows import DETECT, KEY, LINK, REPAIR, ROW_SCHEMA
from .sequence import SequencerOperator
from .work import WorkerOperator


def chain(blobs: DataFrame, plan: Plan, topology: PaperTopology, partitions: int) -> DataFrame:
    """Return what a lane would make of blobs.

    Args:
        blobs: What the ingress and control records give.
        plan: The options of the cleaning.
        topology: How the work is spread.
        partitions: In how many tasks the stages without state run.
    """

    def routed(rows: DataFrame, stage: ArrowFunction) -> DataFrame:
        # Also into a single partition: what one router must see together may come from several workers.
        spread = rows.repartitionById(partitions, F.col("worker") % partitions)
        return spread.mapInArrow(stage, ROW_SCHEMA)

    def worked(rows: DataFrame, stage: str, workers: int) -> DataFrame:
        # A row that only passes may be for a worker of a later stage that has more of them.
        keys = F.array(*map(F.lit, spread_keys(workers)))
        operator = WorkerOperator(stage, workers, topology, plan.snapshot_bytes)
        grouped = rows.withColumn(KEY, F.get(keys, F.col("worker") % workers)).groupBy(KEY)
        return grouped.transformWithStateInPandas(operator, ROW_SCHEMA, "append", "none")

    sequencer = SequencerOperator(plan, topology)
    rows = blobs.groupBy("lane").transformWithStateInPandas(sequencer, ROW_SCHEMA, "append", "none")
    rows = routed(rows, ingress_router(plan, topology))
    rows = worked(rows, DETECT, topology.detect_workers)
    rows = routed(rows, egress_router(topology))
    if topology.link_workers:
        rows = worked(rows, LINK, topology.link_workers)
        rows = routed(rows, coordinator(topology))
    rows = worked(rows, REPAIR, topology.repair_workers)
    grouped = rows.withColumn(KEY, F.lit(0)).groupBy(KEY)
    return grouped.transformWithStateInPandas(AggregatorOperator(plan), LANE_SCHEMA, "append", "none")
