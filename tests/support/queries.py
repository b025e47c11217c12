"""Streaming queries over files, and the rows that they give."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

Rows = list[dict[str, Any]]


def by_id(rows: list[Any]) -> tuple[Rows, Rows]:
    """Return collected rows by id, and their audit in the order of the stream."""
    dicts = sorted((row.asDict(recursive=True) for row in rows), key=lambda row: row["id"])
    audit = [repair for row in dicts for repair in row.pop("_repairs")]
    for row in dicts:
        row["at"] = row["at"] and row["at"].astimezone(dt.UTC)
    return dicts, sorted(audit, key=lambda repair: repair["position"])


def run_query(
    cleaned: DataFrame, checkpoint: Path, collected: list[Any] | None = None, *, now: bool = True
) -> list[Any]:
    """Run a query over all that is there; return the rows."""
    rows = [] if collected is None else collected

    def collect(batch: DataFrame, batch_id: int) -> None:
        rows.extend(batch.collect())

    writer = cleaned.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=now).start() if now else writer.start()
    query.awaitTermination()
    return rows
