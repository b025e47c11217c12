"""The stages of the paper's topology as one chain of transformations."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ...paper.stages import AGGREGATOR, Stages, declare_stages
from ..lanes import spread_keys
from ..plan import Plan
from ..rows import LaneRow, row_schema
from .aggregator import AggregatorOperator
from .router import router_function
from .rows import KEY, Row
from .sequencer import SequencerOperator
from .worker import WorkerOperator


def chain(blobs: DataFrame, plan: Plan, partitions: int) -> DataFrame:
    """Return what a lane would make of blobs and control records.

    The stages without state run in as many tasks as there are `partitions`.
    """
    stages = plan_stages(plan)
    sequencer = SequencerOperator(plan, stages)
    rows = blobs.groupBy("lane").transformWithStateInPandas(sequencer, row_schema(Row), "append", "none")
    for name, stage in stages.items():
        operator = stateful_operator(plan, stages, name)
        if operator is None:
            # Also into a single partition: what one router must see together may come from several workers.
            spread = rows.repartitionById(partitions, F.col("worker") % partitions)
            rows = spread.mapInArrow(router_function(plan, stages, name), row_schema(Row))
        else:
            # A row that only passes may be for a worker of a later stage that has more of them.
            keys = F.array(*map(F.lit, spread_keys(stage.workers)))
            grouped = rows.withColumn(KEY, F.get(keys, F.col("worker") % stage.workers)).groupBy(KEY)
            schema = row_schema(LaneRow if name == AGGREGATOR else Row)
            rows = grouped.transformWithStateInPandas(operator, schema, "append", "none")
    return rows


def plan_stages(plan: Plan) -> Stages:
    """Return the stages that a plan with the paper's topology asks for."""
    assert plan.paper is not None  # noqa: S101 -- whoever calls has looked
    return declare_stages(plan.paper, plan.options)


def stateful_operator(plan: Plan, stages: Stages, name: str) -> StatefulProcessor | None:
    """Return a stage as a stateful operator; None for a router or the coordinator."""
    if name == AGGREGATOR:
        return AggregatorOperator(plan, stages)
    return WorkerOperator(stages, name, plan.limits) if stages[name].has_state else None
