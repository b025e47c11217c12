"""The sink: clean rows, audit and quarantine as files, outcomes of rule updates in their log, each once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...config import check_choice
from ...control.outcome import Outcome
from ...control.rule_log import RuleLog, open_log
from ...errors import ConfigError, SparkbleachError
from ...testing import reach
from ..clean import audit as audit_of
from ..hadoop import FileSystem
from ..plan import CONTROL, QUARANTINE, REPAIRS
from ..sink import check_columns
from .csv_text import record_of
from .formats import FORMATS, WRITE_OPTIONS
from .quarantine import TEXT_FORMAT, unreadable_column
from .record_text import MEMBERS, RECORD, may_be_repaired, with_changes

_STAGING = "_staging"
_PARQUET_TIMES = "spark.sql.parquet.outputTimestampType"
#: Spark numbers the rows of a partition in the lower bits of their ids
_ROWS_OF_PARTITION = (1 << 33) - 1


class Writer:
    """Writes micro-batches to directories; give it to `foreachBatch`.

    A row that was read from a text file by the command, and is written in the same format, leaves with the
    text of its record: only the cells that rules changed are put into it.

    A batch that is written again after a crash replaces what its first attempt left, so that each row is
    there once. The names of the files, such as `part-000012-0003.parquet`, begin with the number of the
    batch: a directory belongs to one checkpoint.

    Attributes:
        rows: How many clean rows this writer has written.
        repairs: How many cells were changed, as far as the rows have the column `_repairs`.
        quarantined: How many rows it has quarantined.
        outcomes: What became of rule updates.

    Args:
        output: The directory for clean rows.
        format: Their format: `csv` (with a header), `json` or `parquet`.
        audit: The directory for the audit; None for no audit.
        quarantine: The directory for quarantined rows: their columns, or `_record`, the text of the record,
            and `_quarantine`, the reason; needed if
            `clean(…, quarantine=True)` made the rows.
        control: The rule log, or what `open_log` opens it by; needed if `clean(…, control=…)` made the rows.
        audit_format: The format of the audit, `json` or `parquet`; if not given, parquet with parquet, json
            otherwise (an audit row is nested, which CSV cannot hold).

    Raises:
        ConfigError: If a format is unknown.
    """

    def __init__(
        self,
        output: str,
        format: str = "parquet",
        audit: str | None = None,
        quarantine: str | None = None,
        audit_format: str | None = None,
        control: str | RuleLog | None = None,
    ) -> None:
        self.output = output
        self.format = check_choice("format", format, FORMATS)
        self.audit = audit
        self.quarantine = quarantine
        default = "parquet" if format == "parquet" else "json"
        self.audit_format = check_choice("audit_format", audit_format or default, FORMATS[1:])
        self.rows = 0
        self.repairs = 0
        self.quarantined = 0
        self.control = open_log(control) if isinstance(control, str) else control
        self.outcomes: list[Outcome] = []

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch."""
        if QUARANTINE in batch.columns and self.quarantine is None:
            raise ConfigError(
                f"Writer: the rows have the column {QUARANTINE}, but no directory for quarantined rows; "
                "give quarantine=…"
            )
        check_columns("Writer", batch, self.audit, self.control)
        batch = batch.persist()
        try:
            self._write(batch, batch_id)
        finally:
            batch.unpersist()
        reach("writer.end")

    def places(self) -> list[tuple[str, str]]:
        """Return what was written where, as far as anything was."""
        places = [("output", f"{self.output} ({self.format})")]
        if self.audit and self.repairs:
            places.append(("audit", self.audit))
        if self.quarantine and self.quarantined:
            places.append(("quarantine", self.quarantine))
        return places

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        nothing = F.lit(None).cast("string")
        quarantined = (F.col(QUARANTINE) if QUARANTINE in batch.columns else nothing).isNotNull()
        outcome = F.col(CONTROL) if CONTROL in batch.columns else nothing
        repairs = F.col(REPAIRS) if REPAIRS in batch.columns else F.array()
        applied = F.filter(repairs, lambda repair: repair["applied"]) if REPAIRS in batch.columns else repairs
        is_clean = ~quarantined & outcome.isNull()
        counted = batch.agg(
            F.count_if(is_clean).alias("clean"),
            F.count_if(quarantined).alias("quarantined"),
            F.collect_list(outcome).alias("outcomes"),
            F.coalesce(F.sum(F.when(~quarantined, F.size(applied))), F.lit(0)).alias("repairs"),
            F.coalesce(F.sum(F.when(~quarantined, F.size(repairs))), F.lit(0)).alias("audit"),
        ).first()
        if counted is None:
            raise SparkbleachError("Writer: Spark has not counted the rows of a micro-batch; run it again")
        has_text = RECORD in batch.columns
        if QUARANTINE in batch.columns:
            rows = batch.where(quarantined).drop(REPAIRS, CONTROL)
            if has_text:
                rows = rows.select(QUARANTINE, _readable(F.col(RECORD)).alias(RECORD))
            self._publish(rows.coalesce(1), self.quarantine, self.format, batch_id, counted["quarantined"])
        if self.audit is not None:
            rows = audit_of(batch).coalesce(1)
            self._publish(rows, self.audit, self.audit_format, batch_id, counted["audit"])
        rows, format = batch.where(is_clean), self.format
        if self._keeps_text(batch):
            rows, format = self._lines(rows), "text"
        else:
            rows = rows.drop(*_hidden(batch))
        self._publish(rows, self.output, format, batch_id, counted["clean"])
        if self.control is not None:
            outcomes = sorted(map(Outcome.from_json, counted["outcomes"]), key=lambda outcome: outcome.order)
            self.control.record(batch_id, outcomes)
            self.outcomes += outcomes
        self.rows += counted["clean"]
        self.quarantined += counted["quarantined"]
        self.repairs += counted["repairs"]

    def _keeps_text(self, batch: DataFrame) -> bool:
        """Return whether rows leave with the text that they came with, in this format."""
        if RECORD not in batch.columns:
            return False
        notes, hidden = batch.schema[RECORD].metadata, _hidden(batch)
        names = [name for name in batch.columns if name not in hidden]
        return notes.get(TEXT_FORMAT) == self.format and notes.get(MEMBERS) == names

    def _lines(self, rows: DataFrame) -> DataFrame:
        """Return the texts of clean rows; that of a CSV file begins with the header."""
        members = rows.schema[RECORD].metadata[MEMBERS]
        repaired = may_be_repaired(rows)
        text = with_changes(rows, F.col(RECORD), self.format, members, _hidden(rows), repaired)
        line = text.cast("string")
        if self.format == "csv":
            in_partition = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROWS_OF_PARTITION))
            header = F.lit(record_of(members) + "\n")
            line = F.when(in_partition == 0, F.concat(header, line)).otherwise(line)
        return rows.select(line.alias("value"))

    def _publish(
        self, rows: DataFrame, directory: str | None, format: str, batch_id: int, n_rows: int
    ) -> None:
        """Have a directory hold exactly these rows of a batch."""
        if directory is None:
            return
        file_system = FileSystem(rows.sparkSession, directory)
        directory = directory.rstrip("/")
        staging = f"{directory}/{_STAGING}"
        prefix = f"part-{batch_id:06}-"
        if n_rows:
            options = {**WRITE_OPTIONS.get(format, {}), "maxRecordsPerFile": 0}
            writer = rows.write.format(format).options(**options).mode("overwrite")
            with _microseconds(rows.sparkSession):
                writer.save(f"{staging}/batch-{batch_id}")
        for left in file_system.children(directory, f"{prefix}*"):  # by an earlier attempt
            file_system.delete(left.path)
        if n_rows == 0:
            return
        parts = file_system.children(f"{staging}/batch-{batch_id}", "part-*")
        ending = self.format if format == "text" else format
        for number, part in enumerate(part for part in parts if part.size):
            target = f"{directory}/{prefix}{number:04}.{ending}"
            if not file_system.rename(part.path, target):
                raise SparkbleachError(
                    f"{target}: cannot move {part.path} there; check permissions and free space"
                )
        file_system.delete(staging)
        reach("writer.publish")


@contextmanager
def _microseconds(session: SparkSession) -> Iterator[None]:
    """Let Spark write times to Parquet as microseconds; in its own way, INT96, few others read all years."""
    before = session.conf.get(_PARQUET_TIMES, None)
    session.conf.set(_PARQUET_TIMES, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_PARQUET_TIMES)
        else:
            session.conf.set(_PARQUET_TIMES, before)


def _hidden(batch: DataFrame) -> list[str]:
    """Return the columns that are no data."""
    names = [REPAIRS, QUARANTINE, CONTROL, RECORD]
    return [*names, unreadable_column(batch.sparkSession)] if QUARANTINE in batch.columns else names


def _readable(text: Column) -> Column:
    """Return the text of a record; of one that is not valid UTF-8, each byte as a character."""
    string = text.cast("string")
    return F.when(F.is_valid_utf8(string), string).otherwise(F.decode(text, "ISO-8859-1"))
