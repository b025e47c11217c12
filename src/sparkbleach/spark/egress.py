"""Egress: blobs in, clean rows out. Stateless and parallel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from ..engine.audit import audit_batch, audit_schema, in_schema_order, replace_cells
from ..engine.encode import plain_columns
from ..errors import SparkbleachError
from ..testing import reach
from .blob import unpack
from .garbage import collect_garbage
from .ingress import ArrowFunction
from .plan import CONTROL, QUARANTINE, REPAIRS, Plan
from .repairs import unpack_repairs
from .rows import LaneRow, rows_from_batch


def egress(plan: Plan) -> ArrowFunction:
    """Return the function that unpacks blobs and puts the repairs in.

    It gets the rows of all lanes for a blob.
    """
    id_type = plan.schema.field(plan.id).type
    repairs_type = pa.list_(pa.struct(list(audit_schema(id_type, plan.options.repair))))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: dict[int, list[LaneRow]] = {}  # by number of the blob: what lanes have sent so far
        for row in (row for batch in batches for row in rows_from_batch(LaneRow, batch)):
            if row.report is not None:  # it is in the progress of the query
                continue
            if row.control is not None:
                yield _outcome_row(plan, repairs_type, row.control)
                continue
            rows = waiting.setdefault(row.number, [])
            rows.append(row)
            if len(rows) < plan.n_lanes:
                continue
            del waiting[row.number]
            clean = _clean_rows(plan, repairs_type, rows)
            quarantined = [one.quarantined for one in rows if one.quarantined is not None]
            if not quarantined:
                yield clean
            else:
                put_apart = unpack(quarantined[0])
                last = put_apart.num_columns - 1  # the numbers of the rows
                yield clean.take(_other_rows(clean.num_rows, put_apart.column(last)))
                yield _quarantined_rows(plan, repairs_type, put_apart.remove_column(last))
        for number, rows in waiting.items():
            raise SparkbleachError(
                f"egress: blob {number} came from {len(rows)} of {plan.n_lanes} lanes; "
                "start the query again, and report it if that does not help"
            )
        collect_garbage(plan.limits)

    return run


def _clean_rows(plan: Plan, repairs_type: pa.DataType, rows: list[LaneRow]) -> pa.RecordBatch:
    """Return the clean rows of a blob, from what all lanes have sent of it."""
    reach("egress.write")
    batch = _side_by_side([unpack(row.cells) for row in rows if row.cells is not None])
    n = batch.num_rows
    repaired = [column for row in rows if row.repairs for column in unpack_repairs(row.repairs)]
    if plan.n_lanes > 1:
        repaired = in_schema_order(repaired, plan.schema.names)
    columns = dict(_columns(plain_columns(replace_cells(batch, repaired))))
    for row in rows:
        if row.rest is not None:
            columns.update(_columns(plain_columns(unpack(row.rest))))
    names = list(plan.schema.names)
    if plan.audit:
        names.append(REPAIRS)
        schema = audit_schema(plan.schema.field(plan.id).type, plan.options.repair)
        of_row, audit = audit_batch(repaired, batch, columns[plan.id], schema)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=n))]).astype(np.int32)
        structs = pa.StructArray.from_arrays(audit.columns, fields=list(schema))
        columns[REPAIRS] = pa.ListArray.from_arrays(pa.array(offsets), structs, repairs_type)
    for name in _notes(plan):
        names.append(name)
        columns[name] = pa.nulls(n, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _side_by_side(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the columns of batches of the same rows; some have the same ones."""
    if len(batches) == 1:
        return batches[0]
    columns = {name: column for batch in batches for name, column in _columns(batch)}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _other_rows(n: int, rows: pa.Array) -> pa.Array:
    """Return which rows there are beside these."""
    kept = np.ones(n, bool)
    kept[rows.to_numpy(zero_copy_only=False)] = False
    return pa.array(np.flatnonzero(kept))


def _quarantined_rows(plan: Plan, repairs_type: pa.DataType, quarantined: pa.RecordBatch) -> pa.RecordBatch:
    return _without_repairs(plan, repairs_type, dict(_columns(plain_columns(quarantined))))


def _outcome_row(plan: Plan, repairs_type: pa.DataType, outcome: str) -> pa.RecordBatch:
    columns = {name: pa.nulls(1, plan.schema.field(name).type) for name in plan.schema.names}
    return _without_repairs(plan, repairs_type, {**columns, CONTROL: pa.array([outcome])})


def _without_repairs(plan: Plan, repairs_type: pa.DataType, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return rows that were not cleaned in the schema of the output; notes that they lack are null."""
    n = len(columns[plan.id])
    names = [*plan.schema.names, *([REPAIRS] if plan.audit else []), *_notes(plan)]
    columns = {**dict.fromkeys(_notes(plan), pa.nulls(n, pa.string())), **columns}
    if plan.audit:
        offsets = pa.array(np.zeros(n + 1, np.int32))
        nothing = pa.array([], repairs_type.value_type)
        columns[REPAIRS] = pa.ListArray.from_arrays(offsets, nothing, repairs_type)
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _notes(plan: Plan) -> list[str]:
    """Return the columns at the end that are null in clean rows."""
    return [name for name, given in ((QUARANTINE, plan.quarantine), (CONTROL, plan.control)) if given]


def _columns(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    return zip(batch.schema.names, batch.columns, strict=True)
