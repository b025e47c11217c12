"""Egress: blobs in, clean rows out. Stateless and parallel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from ..stage.audit import audit_batch, audit_schema, replace_cells
from ..stage.encode import plain_columns
from .blob import unpack
from .ingress import ArrowFunction
from .plan import QUARANTINE, REPAIRS, Plan
from .repairs import unpack_repairs
from .worker import settle


def egress(plan: Plan) -> ArrowFunction:
    """Return the function that unpacks blobs and puts the repairs in."""
    id_type = plan.schema.field(plan.id).type
    repairs_type = pa.list_(pa.struct(list(audit_schema(id_type))))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                cells, rest, aside, repairs = (
                    batch.column(name)[row].as_buffer() if batch.column(name)[row].is_valid else None
                    for name in ("cells", "rest", "aside", "repairs")
                )
                yield _clean_rows(plan, repairs_type, cells, rest, repairs)
                if aside is not None:
                    yield _aside_rows(plan, repairs_type, unpack(aside))
        settle()

    return run


def _clean_rows(
    plan: Plan,
    repairs_type: pa.DataType,
    cells: pa.Buffer,
    rest: pa.Buffer | None,
    message: pa.Buffer | None,
) -> pa.RecordBatch:
    batch = unpack(cells)
    n = batch.num_rows
    repaired = unpack_repairs(message)
    columns = dict(_columns(plain_columns(replace_cells(batch, repaired))))
    if rest is not None:
        columns.update(_columns(plain_columns(unpack(rest))))
    names = list(plan.schema.names)
    if plan.audit:
        names.append(REPAIRS)
        schema = audit_schema(plan.schema.field(plan.id).type)
        rows, audit = audit_batch(repaired, batch, columns[plan.id], schema)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int32)
        structs = pa.StructArray.from_arrays(audit.columns, fields=list(schema))
        columns[REPAIRS] = pa.ListArray.from_arrays(pa.array(offsets), structs, repairs_type)
    if plan.quarantine:
        names.append(QUARANTINE)
        columns[QUARANTINE] = pa.nulls(n, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _aside_rows(plan: Plan, repairs_type: pa.DataType, aside: pa.RecordBatch) -> pa.RecordBatch:
    n = aside.num_rows
    columns = dict(_columns(plain_columns(aside)))
    names = list(plan.schema.names)
    if plan.audit:
        names.append(REPAIRS)
        columns[REPAIRS] = pa.ListArray.from_arrays(
            pa.array(np.zeros(n + 1, np.int32)), pa.array([], repairs_type.value_type), repairs_type
        )
    names.append(QUARANTINE)
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _columns(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    return zip(batch.schema.names, batch.columns, strict=True)
