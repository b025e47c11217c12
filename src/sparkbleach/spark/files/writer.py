"""The sink: clean rows, audit and quarantine as files, outcomes of rule updates in their log, each once."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...config import check_choice
from ...control.outcome import Outcome
from ...control.rule_log import RuleLog, open_log
from ...errors import ConfigError, SparkbleachError
from ..clean import audit as audit_of
from ..hadoop import FileSystem
from ..plan import CONTROL, QUARANTINE, REPAIRS

FORMATS = ("csv", "json", "parquet")

#: how files are written so that reading them gives the same cells back
WRITE_OPTIONS: dict[str, dict[str, Any]] = {
    "csv": {
        "header": True,
        "escape": '"',  # a quote in a cell is doubled, as RFC 4180 has it
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
    },
    "json": {"ignoreNullFields": False},
    "parquet": {},
}

_STAGING = "_staging"


class Writer:
    """Writes micro-batches to directories; give it to `foreachBatch`.

    A batch that is written again after a crash replaces what its first attempt left, so that each row is
    there once. The names of the files, such as `part-000012-0003.parquet`, begin with the number of the
    batch: a directory belongs to one checkpoint.

    Attributes:
        rows: How many clean rows this writer has written.
        repairs: How many cells were changed, as far as the rows tell.
        quarantined: How many rows it has set aside.
        outcomes: What became of rule updates.

    Args:
        output: The directory for clean rows.
        format: Their format: `csv` (with a header), `json` or `parquet`.
        audit: The directory for the audit; None for no audit.
        quarantine: The directory for rows that were set aside, with the column `reason`; needed if
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
        """Write a micro-batch.

        Raises:
            ConfigError: If there are rows or columns that no directory was given for.
        """
        if QUARANTINE in batch.columns and self.quarantine is None:
            raise ConfigError(
                f"Writer: the rows have the column {QUARANTINE}, but no directory for rows set aside; "
                "give quarantine=…"
            )
        if self.audit is not None and REPAIRS not in batch.columns:
            raise ConfigError(
                f"Writer: the rows have no column {REPAIRS} to make an audit of; "
                "leave audit out, or call clean(…, audit=True)"
            )
        if CONTROL in batch.columns and self.control is None:
            raise ConfigError(
                f"Writer: the rows have the column {CONTROL}, but no log for what became of rule updates; "
                "give control=…"
            )
        batch = batch.persist()
        try:
            self._write(batch, batch_id)
        finally:
            batch.unpersist()

    def places(self) -> list[tuple[str, str]]:
        """Return what was written where, as far as anything was."""
        places = [("output", f"{self.output} ({self.format})")]
        if self.audit and self.repairs:
            places.append(("audit", self.audit))
        if self.quarantine and self.quarantined:
            places.append(("quarantine", self.quarantine))
        return places

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        aside = F.col(QUARANTINE).isNotNull() if QUARANTINE in batch.columns else F.lit(False)
        told = F.col(CONTROL) if CONTROL in batch.columns else F.lit(None).cast("string")
        repairs = F.size(F.filter(REPAIRS, _is_applied)) if REPAIRS in batch.columns else F.lit(0)
        rows = F.size(REPAIRS) if REPAIRS in batch.columns else F.lit(0)
        counted = batch.agg(
            F.count_if(~aside & told.isNull()).alias("clean"),
            F.collect_list(told).alias("outcomes"),
            F.count_if(aside).alias("aside"),
            F.coalesce(F.sum(F.when(~aside, repairs)), F.lit(0)).alias("repairs"),
            F.coalesce(F.sum(F.when(~aside, rows)), F.lit(0)).alias("audit"),
        ).first()
        if counted is None:
            raise SparkbleachError("Writer: Spark has not counted the rows of a micro-batch; run it again")
        corrupt = batch.sparkSession.conf.get("spark.sql.columnNameOfCorruptRecord") or ""
        hidden = [name for name in (REPAIRS, QUARANTINE, CONTROL) if name in batch.columns]
        if QUARANTINE in batch.columns:
            hidden.append(corrupt)
            rejected = batch.where(aside).drop(REPAIRS, CONTROL).withColumnRenamed(QUARANTINE, "reason")
            self._publish(rejected.coalesce(1), self.quarantine, self.format, batch_id, counted["aside"])
        if self.audit is not None:
            self._publish(
                audit_of(batch).coalesce(1), self.audit, self.audit_format, batch_id, counted["audit"]
            )
        clean = batch.where(~aside & told.isNull()).drop(*hidden)
        self._publish(clean, self.output, self.format, batch_id, counted["clean"])
        if self.control is not None:
            outcomes = sorted(map(Outcome.from_json, counted["outcomes"]), key=lambda outcome: outcome.index)
            self.control.record(batch_id, outcomes)
            self.outcomes += outcomes
        self.rows += counted["clean"]
        self.quarantined += counted["aside"]
        self.repairs += counted["repairs"]

    def _publish(
        self, rows: DataFrame, directory: str | None, format: str, batch_id: int, n_rows: int
    ) -> None:
        """Have a directory hold exactly these rows of a batch.

        Raises:
            SparkbleachError: If the file system does not move the files there.
        """
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


def _is_applied(repair: Column) -> Column:
    return repair["applied"]
