"""The sink: clean rows, audit and quarantine as files, outcomes of rule updates in their log, each once."""

from __future__ import annotations

from pyspark.sql import DataFrame
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
from .formats import FORMATS, WRITE_OPTIONS
from .quarantine import unreadable_column

_STAGING = "_staging"


class Writer:
    """Writes micro-batches to directories; give it to `foreachBatch`.

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
        quarantine: The directory for quarantined rows, with the column `reason`; needed if
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
        hidden = [REPAIRS, QUARANTINE, CONTROL]
        if QUARANTINE in batch.columns:
            hidden.append(unreadable_column(batch.sparkSession))
            rows = batch.where(quarantined).drop(REPAIRS, CONTROL).withColumnRenamed(QUARANTINE, "reason")
            self._publish(rows.coalesce(1), self.quarantine, self.format, batch_id, counted["quarantined"])
        if self.audit is not None:
            rows = audit_of(batch).coalesce(1)
            self._publish(rows, self.audit, self.audit_format, batch_id, counted["audit"])
        self._publish(
            batch.where(is_clean).drop(*hidden), self.output, self.format, batch_id, counted["clean"]
        )
        if self.control is not None:
            outcomes = sorted(map(Outcome.from_json, counted["outcomes"]), key=lambda outcome: outcome.order)
            self.control.record(batch_id, outcomes)
            self.outcomes += outcomes
        self.rows += counted["clean"]
        self.quarantined += counted["quarantined"]
        self.repairs += counted["repairs"]

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
            rows.write.format(format).options(**WRITE_OPTIONS[format]).mode("overwrite").save(
                f"{staging}/batch-{batch_id}"
            )
        for left in file_system.children(directory, f"{prefix}*"):  # by an earlier attempt
            file_system.delete(left.path)
        if n_rows == 0:
            return
        for number, part in enumerate(file_system.children(f"{staging}/batch-{batch_id}", "part-*")):
            target = f"{directory}/{prefix}{number:04}.{format}"
            if not file_system.rename(part.path, target):
                raise SparkbleachError(
                    f"{target}: cannot move {part.path} there; check permissions and free space"
                )
        file_system.delete(staging)
        reach("writer.publish")
