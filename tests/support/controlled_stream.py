"""A stream of files that come one by one, cleaned by rules that change while it runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sparkbleach import RuleController, Writer, clean, read_control, report
from tests.support.streams import DDL, RULES, WINDOW, tuples

N_FILES, FILE_TUPLES = 6, 150
DEADLINE_SECONDS = 300
TABLE = tuples(N_FILES * FILE_TUPLES, seed=11)


class ControlledStream:
    """A stream of files that come one by one, cleaned by rules from a directory."""

    def __init__(self, spark: SparkSession, here: Path, **spread: Any) -> None:
        self.spark = spark
        self.here = here
        self.spread = spread  #: options that say how the work is spread
        self.n_files = 0
        self.controller = RuleController(str(here / "rules"), by="an engineer")
        (here / "in").mkdir()

    def cleaned(self, rules: list[Any] = RULES) -> DataFrame:
        """Return the clean stream."""
        source = self.spark.readStream.schema(DDL).parquet(str(self.here / "in"))
        control = read_control(self.spark, self.controller.log)
        # Files come when they come, and what `bayes` decides depends on where micro-batches end.
        return clean(
            source,
            rules,
            id="id",
            order_by="id",
            window=WINDOW,
            control=control,
            repair="class",
            **self.spread,
        )

    @contextmanager
    def running(self, rules: list[Any] = RULES) -> Iterator[StreamingQuery]:
        """Run the query, and stop it in whatever it is doing."""
        writer = Writer(str(self.here / "out"), audit=str(self.here / "audit"), control=self.controller.log)
        query = (
            self.cleaned(rules)
            .writeStream.foreachBatch(writer)
            .option("checkpointLocation", str(self.here / "checkpoint"))
            .start()
        )
        try:
            yield query
        finally:
            query.stop()

    def send(self) -> None:
        """Let the next file arrive."""
        staged = self.here / "staged"
        pq.write_table(TABLE.slice(self.n_files * FILE_TUPLES, FILE_TUPLES), staged)
        os.replace(staged, self.here / "in" / f"{self.n_files:04}.parquet")
        self.n_files += 1

    def wait(self, query: StreamingQuery, n_rows: int, n_outcomes: int) -> None:
        """Wait until this number of rows and outcomes is there."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.n_rows() < n_rows or len(self.controller.log.outcomes()) < n_outcomes:
            assert query.exception() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def n_rows(self) -> int:
        """Return how many rows are there, while files may be replaced."""
        try:
            return len(self.rows())
        except FileNotFoundError:
            return 0

    def reported_updates(self, query: StreamingQuery, n: int) -> list[str]:
        """Return the first lines on rule updates that the query reports, when there are n of them."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        lines: list[str] = []
        while len(lines) < n:
            assert time.monotonic() < deadline
            reports = [report(progress) or {} for progress in query.recentProgress]
            lines = [line for one in reports for line in one.get("updates", [])]
            time.sleep(0.05)
        return lines

    def write_record(self, name: str, text: str) -> None:
        """Write a control record as a script might."""
        (self.here / "staged").write_text(text)
        os.replace(self.here / "staged", Path(self.controller.log.target) / name)

    def rows(self) -> list[dict[str, Any]]:
        """Return what was written, by id."""
        return sorted(self._read("out"), key=lambda row: row["id"])

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit in the order of the stream."""
        order = {name: n for n, name in enumerate(TABLE.schema.names)}
        return sorted(
            self._read("audit"),
            key=lambda row: (row["position"], order[row["attribute"]], not row["applied"]),
        )

    def _read(self, name: str) -> list[dict[str, Any]]:
        files = sorted((self.here / name).glob("part-*.parquet"))
        return [row for path in files for row in pq.read_table(path, partitioning=None).to_pylist()]

    def applied(self) -> list[dict[str, Any]]:
        """Return what took effect, withdrawn rules included, at the positions that the outcomes have."""
        return [
            {**outcome.update, "at": outcome.position}
            for outcome in self.controller.log.outcomes()
            if outcome.kind in ("applied", "withdrawn") and outcome.update
        ]


def same_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows whose times compare whatever the zone they are in."""
    return [{**row, "at": row["at"] and row["at"].timestamp()} for row in rows]
