"""The report of a micro-batch: how lanes write it, and how it is read from the progress of a query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from ..engine.engine import Engine
from .rule_updates import ACCEPTED_SHOWN, Events

#: under this name a query's progress has the report
OBSERVATION = "sparkbleach"


def write_report(engine: Engine, n_tuples: int, events: Events) -> str:
    """Return the report of a lane after a micro-batch as text."""
    report = {
        **engine.report(),
        "tuples": n_tuples,
        "updates": events.update_lines(),
        "withdrawn": events.withdrawn,
        "accepted": events.accepted,
        "n_accepted": events.n_accepted,
    }
    if engine.share is not None:
        report["lanes"] = engine.share.placement.to_lists()
    return json.dumps(report)


def report_columns(n_lanes: int) -> list[Column]:
    """Return what is observed of the rows that lanes send: the report of each lane."""
    report = F.col("report")
    if n_lanes == 1:
        return [F.max(report).alias("report")]
    return [F.max(F.when(F.col("lane") == lane, report)).alias(f"report_{lane}") for lane in range(n_lanes)]


def read_reports(observed: Mapping[str, str | None]) -> dict[str, Any] | None:
    """Return the reports that were observed of all lanes as one: what each has counted is added up."""
    reports = [json.loads(text) for text in observed.values() if text]
    if not reports:
        return None
    first: dict[str, Any] = reports[0]
    withdrawn = [line for report in reports for line in report.pop("withdrawn", ())]
    if withdrawn:
        first["updates"] = [*first["updates"], *withdrawn]
    _add_accepted(first, reports)
    if len(reports) == 1:
        return first
    for name in ("super_cells", "nbytes"):
        first[name] = sum(report[name] for report in reports)
    for name in ("violations", "repairs"):
        first[name] = {rule: sum(report[name][rule] for report in reports) for rule in first[name]}
    return first


def _add_accepted(first: dict[str, Any], reports: Sequence[dict[str, Any]]) -> None:
    """Let the updates of one report include the changes that all lanes have accepted."""
    lines = [line for report in reports for line in report.pop("accepted", ())][:ACCEPTED_SHOWN]
    n_accepted = sum(report.get("n_accepted", 0) for report in reports)
    if not n_accepted:
        return
    first["n_accepted"] = n_accepted
    first["updates"] = [*first["updates"], *lines]
    if n_accepted > len(lines):
        first["updates"].append(f"accepted: {n_accepted - len(lines):,} more changes")


def report(progress: Mapping[str, Any], observation: str = OBSERVATION) -> dict[str, Any] | None:
    """Return what the lane reports in the progress of a query.

    That is: the position and the version of the rule set, how many tuples the micro-batch had, violations and
    repairs by rule, what became of rule updates, which rules were withdrawn and which changes were accepted.
    Of several lanes: all together, and which has which attributes. With `repair="bayes"`, which needs a
    single lane, also `rule_quality` and `sources`: see `Engine.report`.

    Args:
        progress: An element of `query.recentProgress`, or `query.lastProgress`.
        observation: The name that was given to `clean`.

    Returns:
        None if the micro-batch had no rows.
    """
    observed = (progress["observedMetrics"] or {}).get(observation) or {}
    return read_reports(observed if isinstance(observed, Mapping) else observed.asDict())


def new_progress(query: StreamingQuery, last_batch: int) -> list[StreamingQueryProgress]:
    """Return the progress of batches after the last known one (-1 for none); cheap if it is a single one."""
    newest = query.lastProgress
    if newest is None or newest.batchId <= last_batch:
        return []
    if newest.batchId == last_batch + 1:
        return [newest]
    return [batch for batch in query.recentProgress if batch.batchId > last_batch]
