"""The entry point: options are checked, a plan is made, and ingress, lanes and egress are put together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from ..config import OptionValues
from ..engine.audit import audit_schema
from ..engine.check import check_stream, check_trust
from ..engine.panes import check_time_column
from ..errors import ConfigError
from ..paper.topology import PaperTopology
from ..rules.check import columns_read, is_plain
from ..rules.rule import RuleLike
from ..rules.update import RuleUpdate, sort_updates
from .check import check_control, check_names, check_rules, choose_options, paper_topology
from .compat import arrow_schema, spark_type
from .egress import egress
from .files.exact import only_exact
from .files.quarantine import unreadable_column
from .ingress import control_rows, ingress
from .lane import Lane, static_lane
from .lanes import Lanes, cells_by_lane, choose_placement
from .limits import DEFAULT_LIMITS, Limits
from .paper.chain import chain
from .plan import CONTROL, QUARANTINE, REPAIRS, Plan, fresh, quoted
from .report import OBSERVATION, report_columns
from .rows import IngressRow, LaneRow, row_schema
from .settings import check_session

OrderBy = str | Column | Sequence[str | Column]

logger = logging.getLogger(__name__)


def clean(
    df: DataFrame,
    rules: Iterable[RuleLike],
    *,
    id: str,
    order_by: OrderBy | None = None,
    rule_updates: Iterable[RuleUpdate | Mapping[str, Any]] = (),
    control: DataFrame | None = None,
    audit: bool = True,
    quarantine: bool = False,
    egress_partitions: int | None = None,
    lanes: Lanes = 1,
    observation: str | Observation = OBSERVATION,
    limits: Limits = DEFAULT_LIMITS,
    topology: str | PaperTopology = "fused",
    **options: Unpack[OptionValues],
) -> DataFrame:
    """Return the same rows, cleaned by the rules.

    Args:
        df: A streaming or a static DataFrame.
        rules: The rules: objects, texts, or mappings as in a file of rules.
        id: The column with each row's unique id.
        order_by: The columns, or their names, that order the rows of a micro-batch or of a static DataFrame;
            the order of the source if not given.
        rule_updates: Rules that are added, deleted or promoted before the tuple at a position.
        control: Rule updates that come while the stream runs: a streaming DataFrame such as `read_control`
            returns, with the text columns `number`, by which records of a micro-batch are ordered, and
            `value`, the update as JSON. They take effect before the first tuple of their micro-batch. What
            became of them leaves in rows whose column `_control` is not null (and all others are).
        audit: Whether to add the column `_repairs`: what was changed in the row, and why.
        quarantine: Whether to quarantine rows that have no id or could not be parsed. They are not cleaned,
            and the column `_quarantine` says why (null in all other rows).
        egress_partitions: In how many partitions clean rows leave; as many as the session's default
            parallelism if not given; 1 leaves them in the lane's task, which is best for small micro-batches.
        lanes: In how many tasks with state of their own the attributes are cleaned; they are placed by load.
            Or the attributes of each lane, such as `[["city"], ["rate", "day"]]`; one that several lanes
            have is split by hash, which takes a single rule.
        observation: Under which name a query's progress has the lane's report.
        limits: How much is done at once.
        topology: `fused` (one lane has all rules and all state), or `paper` or a `PaperTopology` (detect
            workers and repair workers share the state; for streaming DataFrames).

    Keyword Args:
        window: The window that bounds the state; None keeps everything.
        windowing: `basic` (only what is in the window counts) or `bleach` (older counts do, too: with `bayes`
            all that are remembered, else those of groups that had violations).
        repair: `bayes` (the most probable reading of the tuple; it takes a single lane and the fused
            topology), `class` (the most frequent value of the whole subgraph), or `vote` (of the tuple's own
            groups).
        accept_after: A value that leads over the one that its group holds by this many is accepted as the new
            truth; None: never. The paper's topology accepts none.
        remember: For how many tuples Bleach windowing keeps a count: a multiple of the window's slide, and at
            least its size; 4 windows if not given; None: for ever, as the paper's topology does.
        look_ahead: With `bayes`: how many rows are counted before the first of them is decided; fewer at the
            end of a batch, so that no row waits for a later one.
        confidence: With `bayes`: the probability from which a cell is changed, from 0.5 to below 1.
        trust: With `bayes`: the column that names each row's source; how often each is right, and who copies
            whom, is estimated.
        implied: With `bayes`: whether to use rules `X -> A` for attributes A that no rule mentions, where the
            data bear them out.
        left: With `bayes`: what to do with a cell that stands on left-hand sides only and seems wrong: `flag`
            it in the audit, or `repair` it.

    Raises:
        RuleError: If a rule or a rule update is wrong or does not fit the schema.
        ConfigError: If another option, or a setting of the session, is wrong.
    """
    paper = paper_topology(df, topology)
    check_control(df, control)
    check_names(df)
    schema = arrow_schema(df.schema)
    updates = sort_updates(rule_updates)
    active = check_stream(schema, rules, id)
    first_rules = active.rules
    all_rules, n_rules = check_rules(active, updates, paper=paper is not None, warn=True)
    placement = choose_placement(lanes, n_rules, schema)
    chosen = choose_options(options, n_lanes=len(placement.lanes), topology=paper)
    check_trust(chosen, schema, [one.rule for one in all_rules])
    check_time_column(chosen.window, schema)
    check_session(df, None if paper else len(placement.lanes))
    if len(placement.lanes) > 1:
        logger.info("lanes: %s", placement)
    clock = [chosen.window.column] if chosen.window and chosen.window.column else []
    sources = [chosen.trust] if chosen.trust else []
    read = [*(columns_read(all_rules, schema) or [id]), *sources, *clock]
    any_plain = control is not None or chosen.implied  # later rules, and implied ones, may read any
    plain = [name for name in schema.names if any_plain and is_plain(schema.field(name).type)]
    cells = [name for name in schema.names if name in read or name in plain]
    unreadable = unreadable_column(df.sparkSession) if quarantine else None
    df = only_exact(df, {*cells, id}, unreadable)
    ordered, order = _add_order(df, order_by, apart=cells if quarantine else ())
    cells += [name for name in order if name not in cells]
    plan = Plan(
        schema=arrow_schema(df.schema),
        id=id,
        rules=first_rules,
        updates=updates,
        order_by=order,
        cells=tuple(cells),
        options=chosen,
        audit=audit,
        quarantine=quarantine,
        control=control is not None,
        unreadable=unreadable if unreadable in df.columns else None,
        limits=limits,
        paper=paper,
        placement=placement,
        lane_cells=cells_by_lane(placement, all_rules, cells, (*plain, *order, *clock)),
    )
    n_partitions = egress_partitions or df.sparkSession.sparkContext.defaultParallelism
    decided = _decide(ordered, plan, control, n_partitions)
    decided = decided.observe(observation, *report_columns(plan.n_lanes))
    if n_partitions > 1 or plan.n_lanes > 1:
        decided = decided.repartitionById(n_partitions, F.col("number") % n_partitions)
    return decided.mapInArrow(egress(plan), _output_schema(df.schema, plan))


def audit(cleaned: DataFrame) -> DataFrame:
    """Return the audit of a cleaned DataFrame: one row for each changed cell.

    Raises:
        ConfigError: If the DataFrame has no column `_repairs`.
    """
    if REPAIRS not in cleaned.columns:
        raise ConfigError(
            f"audit: the DataFrame has no column {REPAIRS}; give what clean(…, audit=True) returned"
        )
    return cleaned.select(F.explode(REPAIRS).alias(REPAIRS)).select(f"{REPAIRS}.*")


def _add_order(
    df: DataFrame, order_by: OrderBy | None, apart: Sequence[str]
) -> tuple[DataFrame, tuple[str, ...]]:
    """Return rows with all columns that lanes order them by, and the names of these columns.

    Of a static DataFrame Spark orders the rows, so that a lane gets blobs one after the other and need not
    hold them all: no column is left to order by.

    The columns `apart` are those that quarantined rows lose: they are added a second time.
    """
    if order_by is None:
        return df, ()
    given = [order_by] if isinstance(order_by, str | Column) else list(order_by)
    names: list[str] = []
    hidden: list[Column] = []
    for column in given:
        if isinstance(column, str):
            if df.columns.count(column) != 1:
                raise ConfigError(
                    f"order_by: the DataFrame has no single column {column!r}; "
                    f"choose one of {', '.join(df.columns)}"
                )
            if column not in apart:
                names.append(column)
                continue
            column = F.col(quoted(column))
        names.append(fresh(f"_order_{len(hidden)}", df.columns))
        hidden.append(column.alias(names[-1]))
    with_order = df.select("*", *hidden) if hidden else df
    if df.isStreaming or not names:
        return with_order, tuple(names)
    return with_order.orderBy(*map(quoted, names)).select(*map(quoted, df.columns)), ()


def _decide(df: DataFrame, plan: Plan, control: DataFrame | None, n_partitions: int) -> DataFrame:
    """Return the rows that lanes, or the paper's aggregator, send: blobs with repairs."""
    # PySpark finds no column whose name has a dot or a backtick.
    numbered = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
    blobs = numbered.mapInArrow(ingress(plan, df.columns), row_schema(IngressRow))
    if control is not None:
        blobs = blobs.union(control_rows(control, plan.keys))
    if plan.paper:
        return chain(blobs, plan, n_partitions)
    if df.isStreaming:
        grouped = blobs.groupBy("lane")
        return grouped.transformWithStateInPandas(Lane(plan), row_schema(LaneRow), "append", "none")
    in_turn = blobs.repartition(plan.n_lanes, "lane").sortWithinPartitions("partition", "sequence")
    return in_turn.mapInArrow(static_lane(plan), row_schema(LaneRow))


def _output_schema(schema: StructType, plan: Plan) -> StructType:
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in schema]
    if plan.audit:
        repair = [
            StructField(
                field.name,
                schema[plan.id].dataType if field.name == "id" else spark_type(field.type),
                field.nullable,
            )
            for field in audit_schema(pa.int64(), plan.options.repair)
        ]
        fields.append(StructField(REPAIRS, ArrayType(StructType(repair))))
    if plan.quarantine:
        fields.append(StructField(QUARANTINE, StringType()))
    if plan.control:
        fields.append(StructField(CONTROL, StringType()))
    return StructType(fields)
