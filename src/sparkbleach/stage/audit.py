"""The audit: one row for each changed cell, which says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernel.repair import Repairs
from ..kernel.table import NONE
from ..kernel.values import Values
from .apply import Constants, LiveRule
from .encode import decode, render, take

CANDIDATE = pa.struct(
    [pa.field("value", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
)


def audit_schema(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of audit batches; values are rendered as text, whatever their attribute's type."""
    return pa.schema(
        [
            pa.field("id", id_type),
            pa.field("position", pa.int64(), nullable=False),
            pa.field("attribute", pa.string(), nullable=False),
            pa.field("old_value", pa.string()),
            pa.field("new_value", pa.string(), nullable=False),
            pa.field("rules", pa.list_(pa.string()), nullable=False),
            pa.field("candidates", pa.list_(CANDIDATE), nullable=False),
            pa.field("confidence", pa.float64(), nullable=False),
            pa.field("groups", pa.int64(), nullable=False),
            pa.field("decided_by", pa.string(), nullable=False),
            pa.field("overruled", pa.list_(pa.string()), nullable=False),
            pa.field("version", pa.int64(), nullable=False),
        ]
    )


@dataclass(frozen=True, slots=True)
class RepairedColumn:
    """The repairs of one attribute in a batch.

    Attributes:
        attribute: Which.
        rows: The tuples whose cell changed, ascending.
        new: The new cells.
        audit: The columns of the audit that only this attribute's state can tell, by name.
    """

    attribute: str
    rows: NDArray[np.int32]
    new: pa.Array
    audit: dict[str, pa.Array]


def repaired_column(
    array: pa.Array,
    attribute: str,
    rules: Sequence[LiveRule | None],
    values: Values,
    repairs: Repairs,
    n_repairs: int,
    constants: Constants | None,
) -> RepairedColumn:
    """Turn the kernel's repairs of an attribute into new cells and the reasons for them."""
    rows = repairs.tuple[:n_repairs]
    best = repairs.values[:n_repairs, 0]
    by_constant = np.zeros(n_repairs, np.bool_)
    if constants is not None:
        by_constant = constants.winner[rows] >= 0
    new = decode(values, best[~by_constant], array.type)
    confidence = np.ones(n_repairs)
    np.divide(repairs.counts[:n_repairs, 0], repairs.total[:n_repairs], out=confidence, where=~by_constant)
    overruled: list[list[str]] = []
    if constants is not None and by_constant.any():
        winners = [constants.scalars[constants.winner[row]] for row in rows[by_constant]]
        decided = np.cumsum(by_constant) - 1 + len(new)
        counted = np.cumsum(~by_constant) - 1
        new = pa.concat_arrays([new, *(pa.repeat(scalar, 1) for scalar in winners)])
        new = take(new, np.where(by_constant, decided, counted))
        overruled = [
            constants.overruled(row) if constant else []
            for row, constant in zip(rows, by_constant, strict=True)
        ]
    candidates = repairs.values[:n_repairs]
    given = candidates != NONE
    audit = {
        "old_value": render(take(array, rows)),
        "new_value": render(new),
        "rules": _rule_lists(repairs.violated[:n_repairs], rules),
        "candidates": pa.ListArray.from_arrays(
            _offsets(given.sum(axis=1)),
            pa.StructArray.from_arrays(
                [
                    render(decode(values, candidates[given], array.type)),
                    pa.array(repairs.counts[:n_repairs][given]),
                ],
                fields=list(CANDIDATE),
            ),
        ),
        "confidence": pa.array(confidence),
        "groups": pa.array(repairs.groups[:n_repairs]),
        "decided_by": pa.array(np.array(["count", "constant"])[by_constant.astype(np.intp)], pa.string()),
        "overruled": pa.array(overruled or [[]] * n_repairs, pa.list_(pa.string())),
    }
    return RepairedColumn(attribute, rows, new, audit)


def audit_batch(
    repaired: Sequence[RepairedColumn], ids: pa.Array | None, position: int, version: int, schema: pa.Schema
) -> pa.RecordBatch:
    """Return the audit of a batch: by position, then by attribute in the order of the schema.

    Args:
        repaired: The attributes with repairs, in the order of the schema.
        ids: The ids of the batch's tuples; None if positions are the ids.
        position: The position of the batch's first tuple.
        version: The version of the rule set.
        schema: The audit's schema.
    """
    if not repaired:
        return pa.RecordBatch.from_pylist([], schema)
    rows = np.concatenate([column.rows for column in repaired])
    order = pa.array(np.argsort(rows, kind="stable"))
    sorted_rows = np.sort(rows, kind="stable")
    positions = pa.array(sorted_rows.astype(np.int64) + position)
    which = np.repeat(np.arange(len(repaired), dtype=np.int32), [column.rows.size for column in repaired])
    names = pa.array([column.attribute for column in repaired])
    columns = {
        "id": positions if ids is None else take(ids, sorted_rows),
        "position": positions,
        "attribute": names.take(pa.array(which)).take(order),
        "version": pa.repeat(pa.scalar(version, pa.int64()), rows.size),
    }
    for name in schema.names:
        if name not in columns:
            columns[name] = pa.concat_arrays([column.audit[name] for column in repaired]).take(order)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _offsets(lengths: NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _rule_lists(violated: NDArray[np.bool_], rules: Sequence[LiveRule | None]) -> pa.Array:
    """Return for each row the ids of the rules it violates, earlier rules first."""
    live = sorted(((j, rule) for j, rule in enumerate(rules) if rule), key=lambda item: item[1].serial)
    in_order = violated[:, [j for j, _ in live]]
    _, which = np.nonzero(in_order)
    ids = pa.array([rule.id for _, rule in live], pa.string())
    return pa.ListArray.from_arrays(
        _offsets(in_order.sum(axis=1)), ids.take(pa.array(which.astype(np.int32)))
    )
