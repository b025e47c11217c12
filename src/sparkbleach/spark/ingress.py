"""Ingress: rows in, blobs out. Stateless and parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..testing import reach
from .blob import pack
from .files.quarantine import reasons
from .garbage import collect_garbage
from .limits import Limits
from .plan import QUARANTINE, ROW, Plan
from .rows import IngressRow, rows_to_batch

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def ingress(plan: Plan, columns: Sequence[str]) -> ArrowFunction:
    """Return the function that packs the rows of a partition, for each lane what it reads.

    The first lane also takes along what no lane reads. The columns of rows get these names.
    """
    rest = [name for name in plan.schema.names if name not in plan.cells]
    fields = {field.name: field for field in plan.schema}

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        typed = (_typed(batch.rename_columns(list(columns)), fields) for batch in batches)
        for sequence, rows in enumerate(_gather(typed, plan.limits)):
            cells, quarantined = _quarantine_rows(rows, plan) if plan.quarantine else (rows, None)
            packed: dict[tuple[str, ...], pa.Buffer] = {}  # lanes may get the same
            for lane, key in enumerate(plan.keys):
                names = plan.cells_for(lane)
                if names not in packed:
                    packed[names] = pack([batch.select(names) for batch in cells], small=True)
                along = rest if lane == 0 else []
                sent = IngressRow(
                    key,
                    partition,
                    sequence,
                    packed[names],
                    pack([batch.select(along) for batch in rows], small=False) if along else None,
                    pack([quarantined], small=False) if quarantined and lane == 0 else None,
                )
                yield rows_to_batch([sent])
        collect_garbage(plan.limits)

    return run


def control_rows(control: DataFrame, keys: Sequence[int]) -> DataFrame:
    """Return control records as rows beside those of `ingress`: each goes to all lanes."""
    lane = F.lit(keys[0]) if len(keys) == 1 else F.explode(F.array(*map(F.lit, keys)))
    given = {"lane": lane, "number": F.col("number"), "control": F.col("value")}
    given |= {name: F.lit(0) for name in ("partition", "sequence")}
    null = F.lit(None).cast("binary")
    return control.select(*(given.get(name, null).alias(name) for name in IngressRow._fields))


def _typed(batch: pa.RecordBatch, fields: dict[str, pa.Field]) -> pa.RecordBatch:
    """Return a batch in the types of the plan: times come in the time zone of the session."""
    reach("ingress.read")
    schema = pa.schema([fields.get(field.name, field) for field in batch.schema])
    return batch if batch.schema.types == schema.types else batch.cast(schema)


def _gather(batches: Iterable[pa.RecordBatch], limits: Limits) -> Iterator[list[pa.RecordBatch]]:
    """Put Arrow batches together until they have the size of a blob."""
    rows: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        rows.append(batch)
        n_rows, n_bytes = sum(part.num_rows for part in rows), sum(part.nbytes for part in rows)
        if n_rows >= limits.blob_rows_max or n_bytes >= limits.blob_bytes_max:
            yield rows
            rows = []
    if rows:
        yield rows


def _quarantine_rows(
    rows: list[pa.RecordBatch], plan: Plan
) -> tuple[list[pa.RecordBatch], pa.RecordBatch | None]:
    """Return rows with nulls in place of quarantined ones, and the quarantined rows with their reasons.

    A quarantined row keeps its place in the stream, so that it has a position; no rule applies to its nulls.
    """
    batch = pa.concat_batches(rows)
    apart = pc.is_null(batch.column(plan.id))
    if plan.unreadable:
        apart = pc.or_(apart, pc.is_valid(batch.column(plan.unreadable)))
    if not pc.any(apart).as_py():
        return rows, None
    quarantined = batch.filter(apart).select(plan.schema.names)
    quarantined = quarantined.append_column(QUARANTINE, reasons(quarantined, plan))
    quarantined = quarantined.append_column(ROW, pc.indices_nonzero(apart))
    columns = [
        batch.column(name)
        if name in plan.order_by
        else pc.if_else(apart, pa.scalar(None, batch.column(name).type), batch.column(name))
        for name in plan.cells
    ]
    return [pa.RecordBatch.from_arrays(columns, names=list(plan.cells))], quarantined
