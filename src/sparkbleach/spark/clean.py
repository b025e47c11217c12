"""Ingress, one lane or several or the paper's workers, egress, as transformations of a DataFrame."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from ..config import DEFAULT_WINDOW, Window, check_choice, check_repair, check_window, check_windowing
from ..engine.audit import audit_schema
from ..engine.check import check_stream
from ..engine.placement import Placement
from ..errors import ConfigError, RuleError
from ..paper.sequencer import Sequencer
from ..paper.topology import PaperTopology
from ..rules.active import ActiveRules
from ..rules.check import CheckedRule, columns_read, is_plain, warn_of_twins
from ..rules.rule import RuleLike
from ..rules.update import RuleUpdate, sort_updates
from .compat import arrow_schema, spark_type
from .egress import egress
from .files.quarantine import unreadable_column
from .ingress import control_rows, ingress
from .lane import Lane, static_lane
from .lanes import Lanes, cells_by_lane, placement_of
from .limits import DEFAULT_LIMITS, Limits
from .paper.chain import chain
from .plan import CONTROL, ORDER, QUARANTINE, REPAIRS, Plan
from .report import OBSERVATION, report_columns
from .rows import IngressRow, LaneRow, row_schema
from .settings import check_session

OrderBy = str | Column | Sequence[str | Column]

TOPOLOGIES = ("fused", "paper")

logger = logging.getLogger(__name__)


def clean(
    df: DataFrame,
    rules: Iterable[RuleLike],
    *,
    id: str,
    order_by: OrderBy | None = None,
    window: Window | None = DEFAULT_WINDOW,
    windowing: str = "bleach",
    repair: str = "class",
    rule_updates: Iterable[RuleUpdate | Mapping[str, Any]] = (),
    control: DataFrame | None = None,
    audit: bool = True,
    quarantine: bool = False,
    egress_partitions: int | None = None,
    lanes: Lanes = 1,
    observation: str | Observation = OBSERVATION,
    limits: Limits = DEFAULT_LIMITS,
    topology: str | PaperTopology = "fused",
) -> DataFrame:
    """Return the same rows, cleaned by the rules.

    Args:
        df: A streaming or a static DataFrame.
        rules: The rules: objects, texts, or mappings as in a file of rules.
        id: The column with each row's unique id.
        order_by: What says in which order the rows of a micro-batch (or of a static DataFrame) come: columns,
            or their names; the order of the source if not given.
        window: The window that bounds the state; None keeps everything.
        windowing: `bleach` (counts are cumulative while a group has violations) or `basic`.
        repair: `class` (over the whole subgraph) or `vote` (over the tuple's own groups).
        rule_updates: Rules that are added, deleted or promoted before the tuple at a position.
        control: Rule updates that come while the stream runs: a streaming DataFrame such as `read_control`
            returns, with the text columns `number`, by which records of a micro-batch are ordered, and
            `value`, the update as JSON. They take effect before the first tuple of their micro-batch. What
            became of them leaves in rows whose column `_control` is not null (and all others are).
        audit: Whether to add the column `_repairs`: what was changed in the row, and why.
        quarantine: Whether to set rows aside that have no id or could not be parsed: they are not cleaned,
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

    Raises:
        RuleError: If a rule or a rule update is wrong or does not fit the schema.
        ConfigError: If another option, or a setting of the session, is wrong.
    """
    paper = _paper_topology(df, topology)
    _check_control(df, control)
    schema = arrow_schema(df.schema)
    updates = sort_updates(rule_updates)
    check_window(window)
    check_windowing(windowing)
    check_repair(repair)
    active = check_stream(schema, rules, id)
    first = active.rules
    checked, n_rules = _check_rules(active, updates, paper=paper is not None, warn=True)
    placement = placement_of(lanes, n_rules, schema)
    check_session(df, None if paper else len(placement.lanes))
    if len(placement.lanes) > 1:
        if paper:
            raise ConfigError(
                "lanes: they are for the fused topology; leave them out, or leave out topology='paper'"
            )
        logger.info("lanes: %s", placement)
    read = columns_read(checked, schema) or [id]
    plain = [name for name in schema.names if control is not None and is_plain(schema.field(name).type)]
    cells = [name for name in schema.names if name in read or name in plain]
    order, hidden = _order(df, order_by, apart=cells if quarantine else ())
    cells += [name for name in order if name not in cells]
    unreadable = unreadable_column(df.sparkSession) if quarantine else None
    plan = Plan(
        schema=schema,
        id=id,
        rules=first,
        updates=updates,
        order_by=order,
        cells=tuple(cells),
        window=window,
        windowing=windowing,
        repair=repair,
        audit=audit,
        quarantine=quarantine,
        control=control is not None,
        unreadable=unreadable if unreadable in df.columns else None,
        limits=limits,
        paper=paper,
        placement=placement,
        lane_cells=cells_by_lane(placement, checked, cells, (*plain, *order)),
    )
    output_schema = _output_schema(df.schema, plan)
    if hidden:
        df = df.select("*", *hidden)
    if plan.order_by and not df.isStreaming:
        # Spark sorts, so that the lane gets blobs one after the other and need not hold them all.
        df = df.orderBy(*map(_quoted, plan.order_by)).select(*map(_quoted, schema.names))
        cells = [name for name in cells if name in schema.names]
        plan = replace(
            plan, order_by=(), cells=tuple(cells), lane_cells=cells_by_lane(placement, checked, cells, ())
        )
    blobs = df.mapInArrow(ingress(plan), row_schema(IngressRow))
    if control is not None:
        blobs = blobs.union(control_rows(control, plan.keys))
    n_partitions = egress_partitions or df.sparkSession.sparkContext.defaultParallelism
    if paper:
        cleaned = chain(blobs, plan, n_partitions)
    elif df.isStreaming:
        grouped = blobs.groupBy("lane")
        cleaned = grouped.transformWithStateInPandas(Lane(plan), row_schema(LaneRow), "append", "none")
    else:
        in_turn = blobs.repartition(plan.n_lanes, "lane").sortWithinPartitions("partition", "sequence")
        cleaned = in_turn.mapInArrow(static_lane(plan), row_schema(LaneRow))
    cleaned = cleaned.observe(observation, *report_columns(plan.n_lanes))
    if n_partitions > 1 or plan.n_lanes > 1:
        cleaned = cleaned.repartitionById(n_partitions, F.col("number") % n_partitions)
    return cleaned.mapInArrow(egress(plan), output_schema)


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


def _paper_topology(df: DataFrame, topology: str | PaperTopology) -> PaperTopology | None:
    """Return the paper's topology; None for the fused one."""
    if isinstance(topology, str):
        if check_choice("topology", topology, TOPOLOGIES) == "fused":
            return None
        topology = PaperTopology()
    if not isinstance(topology, PaperTopology):
        raise ConfigError(
            f"topology: must be 'fused', 'paper' or a PaperTopology, not {type(topology).__name__}"
        )
    if not df.isStreaming:
        raise ConfigError(
            "topology: 'paper' is for streaming DataFrames; clean a static one with topology='fused', "
            "which gives the same rows"
        )
    return topology


def placed(
    df: DataFrame,
    rules: Iterable[RuleLike],
    *,
    rule_updates: Iterable[RuleUpdate | Mapping[str, Any]] = (),
    lanes: Lanes = 1,
) -> Placement:
    """Return which lane has which attributes if `clean` is called like this."""
    schema = arrow_schema(df.schema)
    _, n_rules = _check_rules(check_stream(schema, rules), sort_updates(rule_updates))
    return placement_of(lanes, n_rules, schema)


def _check_control(df: DataFrame, control: DataFrame | None) -> None:
    if control is None:
        return
    if not (df.isStreaming and control.isStreaming):
        raise ConfigError(
            "control: rules can change only while a stream runs, so both DataFrames have to be streaming; "
            "give rule_updates instead"
        )
    if [(field.name, field.dataType) for field in control.schema] != [
        (name, StringType()) for name in ("number", "value")
    ]:
        raise ConfigError(
            f"control: its columns are {control.schema.simpleString()}; "
            "select number and value, both as strings, or give what the stream of a rule log returns"
        )


def _check_rules(
    active: ActiveRules, updates: Sequence[RuleUpdate], *, paper: bool = False, warn: bool = False
) -> tuple[list[CheckedRule], Counter[str]]:
    """Apply all updates to the rules; return those active at any time, and by attribute how many at the most.

    With `warn`, rules that say the same thing are warned of, at the line that calls the caller.
    """
    apply: Callable[[RuleUpdate], object] = Sequencer(active).change_rules if paper else active.apply
    checked = {one.serial: one.checked for one in active}
    if warn:
        warn_of_twins(checked.values(), stacklevel=4)
    n_rules = Counter(rule.rhs for rule in active.rules)
    for update in updates:
        try:
            apply(update)
        except RuleError as error:
            raise RuleError(f"{update.place}: {error}") from error
        checked |= {one.serial: one.checked for one in active}
        if warn and update.rule is not None:
            warn_of_twins((one.checked for one in active), {update.id}, stacklevel=4)
        n_rules |= Counter(rule.rhs for rule in active.rules)
    return list(checked.values()), n_rules


def _order(
    df: DataFrame, order_by: OrderBy | None, apart: Sequence[str]
) -> tuple[tuple[str, ...], list[Column]]:
    """Return the names of the columns to order by, and those columns that have to be added for it.

    The columns `apart` may not be ordered by themselves: they are added a second time.
    """
    if order_by is None:
        return (), []
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
            column = F.col(_quoted(column))
        names.append(ORDER.format(len(hidden)))
        hidden.append(column.alias(names[-1]))
    return tuple(names), hidden


def _quoted(name: str) -> str:
    """Return the name of a column such that Spark takes it as it is, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def _output_schema(schema: StructType, plan: Plan) -> StructType:
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in schema]
    if plan.audit:
        repair = [
            StructField(
                field.name,
                schema[plan.id].dataType if field.name == "id" else spark_type(field.type),
                field.nullable,
            )
            for field in audit_schema(pa.int64())
        ]
        fields.append(StructField(REPAIRS, ArrayType(StructType(repair))))
    if plan.quarantine:
        fields.append(StructField(QUARANTINE, StringType()))
    if plan.control:
        fields.append(StructField(CONTROL, StringType()))
    return StructType(fields)
