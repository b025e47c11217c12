"""From repairs to new cells and the audit, which has one row for each repair and says why it is made.

Repairs that shadow rules would make are in the audit, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernel.clean import CONSTANT_BROKEN, NO_CONSTANT, Cells
from ..kernel.repair import Repairs
from ..kernel.table import NONE
from ..kernel.values import Values
from ..rules.active import ActiveRule
from .apply import Constants
from .encode import decode, from_canonical, plain, render, take

#: what a rule adds to the score of a candidate: its group has the right value `count` of `of` times
TERM = pa.struct(
    [
        pa.field("rule", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("of", pa.int64(), nullable=False),
        pa.field("trust", pa.float64(), nullable=False),
        pa.field("lift", pa.float64(), nullable=False),
    ]
)
#: a value with its count
CANDIDATE = pa.struct(
    [pa.field("value", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
)
#: with `repair: bayes` also the terms that its score is the sum of
SCORED_CANDIDATE = pa.struct(
    [
        pa.field("value", pa.string()),  # null: another key, whichever it is
        pa.field("count", pa.int64(), nullable=False),
        pa.field("score", pa.float64()),
        pa.field("error", pa.float64()),
        pa.field("likeness", pa.float64()),
        pa.field("recurrence", pa.float64()),
        pa.field("background", pa.float64()),
        pa.field("rules", pa.list_(TERM)),
    ]
)
#: the fields of a candidate as reasons have them: its score, the sum of the others, is added up for the audit
_REASON_FIELDS = [field for field in SCORED_CANDIDATE if field.name != "score"]
#: with `repair: bayes`: the order of a tuple's repairs, how often such a cell is wrong, and who says so
SEARCH_FIELDS = (
    pa.field("step", pa.int64()),
    pa.field("error_rate", pa.float64()),
    pa.field("error_from", pa.string()),
)

_DECIDED_BY = pa.array(["count", "constant", "probability"])
_BY_PROBABILITY = 2
_WHY = ("rules", "candidates", "confidence", "groups", "decided_by", "overruled")


def audit_schema(id_type: pa.DataType, repair: str) -> pa.Schema:
    """Return the schema of audit batches; values are rendered as text, whatever their attribute's type."""
    is_searched = repair == "bayes"
    return pa.schema(
        [
            pa.field("id", id_type),
            pa.field("position", pa.int64(), nullable=False),
            pa.field("attribute", pa.string(), nullable=False),
            pa.field("old_value", pa.string()),
            # null: the key is wrong, and the right one unknown
            pa.field("new_value", pa.string(), nullable=is_searched),
            pa.field("rules", pa.list_(pa.string()), nullable=False),
            pa.field("candidates", pa.list_(SCORED_CANDIDATE if is_searched else CANDIDATE), nullable=False),
            pa.field("confidence", pa.float64(), nullable=False),
            pa.field("groups", pa.int64(), nullable=False),
            pa.field("decided_by", pa.string(), nullable=False),
            pa.field("overruled", pa.list_(pa.string()), nullable=False),
            *(SEARCH_FIELDS if is_searched else ()),
            pa.field("version", pa.int64(), nullable=False),
            pa.field("applied", pa.bool_(), nullable=False),
        ]
    )


@dataclass(frozen=True, slots=True)
class RepairedColumn:
    """The repairs of one attribute in a batch."""

    attribute: str  #: which
    version: int  #: the version of the rule set
    applied: bool  #: whether the cells change; otherwise these are repairs that shadow rules would make
    rows: NDArray[np.int64]  #: the tuples whose cell changed, by their place in the batch
    positions: NDArray[np.int64]  #: their positions in the stream
    new: pa.Array  #: the new cells; with a dictionary, mostly
    #: the reasons: columns of the audit, but candidates in the attribute's type, and with dictionaries where
    #: values repeat
    why: pa.RecordBatch

    def select(self, which: NDArray[np.intp], rows: NDArray[np.int64]) -> RepairedColumn:
        """Return some of the repairs, as those of other places in a batch."""
        return RepairedColumn(
            self.attribute,
            self.version,
            self.applied,
            rows,
            self.positions[which],
            take(self.new, which),
            take_rows(self.why, which),
        )


def repaired_column(
    type: pa.DataType,
    attribute: str,
    rules: Sequence[ActiveRule],
    values: Values,
    repairs: Repairs,
    n_repairs: int,
    constants: Constants | None,
    position: int,
    version: int,
    *,
    applied: bool,
) -> RepairedColumn:
    """Turn the kernel's first `n_repairs` repairs of an attribute into new cells and the reasons for them.

    The rules are by kernel column, and the batch begins at the position.
    """
    rows = repairs.tuple[:n_repairs].astype(np.int64)
    best = repairs.values[:n_repairs, 0]
    by_constant = np.zeros(n_repairs, np.bool_)
    if constants is not None:
        by_constant = constants.rule[rows] >= 0
    new = decode(values, best[~by_constant], type)
    confidence = np.ones(n_repairs)
    np.divide(repairs.counts[:n_repairs, 0], repairs.total[:n_repairs], out=confidence, where=~by_constant)
    new, overruled = _with_constants(new, constants, rows, by_constant, rules)
    candidates = repairs.values[:n_repairs]
    given = candidates != NONE
    counted_values = decode(values, candidates[given], type)
    why = _reasons(
        rule_lists(repairs.violated[:n_repairs], [active.id for active in rules]),
        _candidates(given.sum(axis=1), counted_values, pa.array(repairs.counts[:n_repairs][given])),
        confidence,
        repairs.groups[:n_repairs],
        by_constant,
        overruled,
    )
    return RepairedColumn(attribute, version, applied, rows, rows + position, new, why)


def decided_column(
    type: pa.DataType,
    attribute: str,
    rules: Sequence[ActiveRule],
    cells: Cells | None,
    constants: Constants | None,
    decisions: pa.RecordBatch,
    positions: NDArray[np.int64],
    version: int,
) -> tuple[RepairedColumn | None, NDArray[np.bool_]]:
    """Return the repairs that decisions on an attribute make, and by tuple and rule whether it is violated.

    Earlier rules come first. The cells are as they came; None if no rule has a constant. The decisions, by
    position, are about tuples of the batch only, whose positions ascend.
    """
    n = positions.size
    constant = np.full(n, NO_CONSTANT, np.uint8) if cells is None else cells.constant
    decided = np.searchsorted(positions, decisions.column("position").to_numpy())
    violated = np.zeros((n, len(rules)), np.bool_)
    serials = decisions.column("violated")
    which_rule = np.searchsorted([active.serial for active in rules], serials.flatten().to_numpy())
    violated[np.repeat(decided, np.diff(serials.offsets.to_numpy())), which_rule] = True
    if cells is not None and cells.broken.size:
        violated |= cells.broken.T
    changed = np.zeros(n, np.bool_)
    changed[decided] = decisions.column("changed").to_numpy(zero_copy_only=False)
    changed &= constant == NO_CONSTANT
    rows = np.flatnonzero(changed | (constant == CONSTANT_BROKEN))
    if not rows.size:
        return None, violated
    by_constant = ~changed[rows]
    at = np.full(n, -1)
    at[decided] = np.arange(decided.size)
    counted = at[rows] >= 0
    given = take_rows(decisions, at[rows[counted]])
    lengths, groups, total = np.zeros((3, rows.size), np.int64)
    lengths[counted] = np.diff(given.column("values").offsets.to_numpy())
    groups[counted] = given.column("groups").to_numpy()
    total[counted] = given.column("total").to_numpy()
    values = from_canonical(given.column("values").flatten(), type)
    counts = given.column("counts").flatten()
    best = (np.cumsum(lengths) - lengths)[~by_constant]
    confidence = np.ones(rows.size)
    confidence[~by_constant] = counts.to_numpy()[best] / total[~by_constant]
    new, overruled = _with_constants(take(values, best), constants, rows, by_constant, rules)
    why = _reasons(
        rule_lists(violated[rows], [active.id for active in rules]),
        _candidates(lengths, values, counts),
        confidence,
        groups,
        by_constant,
        overruled,
    )
    return RepairedColumn(attribute, version, True, rows, positions[rows], new, why), violated


def _reasons(
    rules: pa.Array,
    candidates: pa.Array,
    confidence: NDArray[np.float64],
    groups: NDArray[np.int64],
    by_constant: NDArray[np.bool_],
    overruled: pa.Array,
) -> pa.RecordBatch:
    """Return the columns of the audit that give the reasons for repairs."""
    decided_by = pa.DictionaryArray.from_arrays(by_constant.astype(np.int8), _DECIDED_BY)
    columns = [rules, candidates, pa.array(confidence), pa.array(groups), decided_by, overruled]
    return pa.RecordBatch.from_arrays(columns, names=list(_WHY))


def probable_reasons(
    rules: pa.Array,
    candidates: pa.Array,
    confidence: NDArray[np.float64],
    groups: NDArray[np.intp],
    step: NDArray[np.int32],
    error_rate: NDArray[np.float64],
    error_from: pa.Array,
) -> pa.RecordBatch:
    """Return the columns of the audit that give the reasons for the most probable reading."""
    n = confidence.size
    searched = {
        "step": pa.array(step.astype(np.int64)),
        "error_rate": pa.array(error_rate, mask=error_rate < 0.0),
        "error_from": error_from,
    }
    overruled = pa.ListArray.from_arrays(_offsets(np.zeros(n, np.int64)), pa.array([], pa.string()))
    decided_by = pa.DictionaryArray.from_arrays(np.full(n, _BY_PROBABILITY, np.int8), _DECIDED_BY)
    columns = [rules, candidates, pa.array(confidence), pa.array(groups), decided_by, overruled]
    return pa.RecordBatch.from_arrays([*columns, *searched.values()], names=[*_WHY, *searched])


def _candidates(lengths: NDArray[np.int64], values: pa.Array, counts: pa.Array) -> pa.Array:
    """Return lists of candidates with their counts, each list of the given length."""
    return candidate_lists(lengths, [values, counts])


def candidate_lists(lengths: NDArray[np.int64], fields: Sequence[pa.Array]) -> pa.Array:
    """Return lists of candidates, each of the given length, from the fields of all of them."""
    names = [field.name for field in _REASON_FIELDS][: len(fields)]
    return pa.ListArray.from_arrays(_offsets(lengths), pa.StructArray.from_arrays(fields, names=names))


def replace_cells(batch: pa.RecordBatch, repaired: Sequence[RepairedColumn]) -> pa.RecordBatch:
    """Return a batch with repaired cells in place of the old ones, as far as repairs are made.

    It is the batch that the repairs are of: all of its tuples, and at least the repaired columns.
    """
    columns = batch.columns
    for column in repaired:
        if not column.applied:
            continue
        at = batch.schema.get_field_index(column.attribute)
        columns[at] = _replaced(columns[at], column)
    schema = pa.schema(
        [
            field.with_type(array.type) if pa.types.is_dictionary(field.type) else field
            for field, array in zip(batch.schema, columns, strict=True)
        ],
        batch.schema.metadata,
    )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _replaced(old: pa.Array, column: RepairedColumn) -> pa.Array:
    """Return a column with its new cells; if both have dictionaries, so has the result."""
    n, rows, new = len(old), column.rows, column.new
    if not pa.types.is_dictionary(old.type) or not pa.types.is_dictionary(new.type):
        which = np.arange(n)
        which[rows] = n + np.arange(rows.size)
        return take(pa.concat_arrays([plain(old), plain(new)]), which)
    null = old.indices.is_null().to_numpy(zero_copy_only=False)
    index = old.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    null[rows] = False
    index[rows] = new.indices.to_numpy() + len(old.dictionary)
    dictionary = pa.concat_arrays([old.dictionary, new.dictionary])
    return pa.DictionaryArray.from_arrays(pa.array(index, mask=null), dictionary)


def in_schema_order(repaired: Iterable[RepairedColumn], names: Sequence[str]) -> list[RepairedColumn]:
    """Return repairs by attribute, in the order of the schema; of each, those that are made first."""
    return sorted(repaired, key=lambda column: (names.index(column.attribute), not column.applied))


def audit_batch(
    repaired: Sequence[RepairedColumn], batch: pa.RecordBatch, ids: pa.Array | None, schema: pa.Schema
) -> tuple[NDArray[np.int64], pa.RecordBatch]:
    """Return the audit of a batch as it was before, and the row that each audit row is about, in order.

    The repairs are in schema order; without ids, positions are the ids.
    """
    if not repaired:
        return np.zeros(0, np.int64), pa.RecordBatch.from_pylist([], schema)
    rows = np.concatenate([column.rows for column in repaired])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    lengths = [column.rows.size for column in repaired]
    which = pa.array(np.repeat(np.arange(len(repaired)), lengths)[order])
    positions = pa.array(np.concatenate([column.positions for column in repaired])[order])
    cells = [_audit_cells(column, batch.column(column.attribute)) for column in repaired]
    columns = {name: take(pa.concat_arrays([part[name] for part in cells]), order) for name in cells[0]} | {
        "id": positions if ids is None else take(ids, rows),
        "position": positions,
        "attribute": pa.array([column.attribute for column in repaired]).take(which),
        "version": pa.array([column.version for column in repaired], pa.int64()).take(which),
        "applied": pa.array([column.applied for column in repaired]).take(which),
    }
    return rows, pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def take_rows(batch: pa.RecordBatch, which: NDArray[np.intp]) -> pa.RecordBatch:
    """Return some rows of a batch."""
    return pa.RecordBatch.from_arrays([take(column, which) for column in batch.columns], schema=batch.schema)


def _render(array: pa.Array) -> pa.Array:
    """Return values as text, each distinct one rendered once."""
    if pa.types.is_dictionary(array.type):
        return take(render(array.dictionary), array.indices)
    return render(array)


def _audit_cells(column: RepairedColumn, old: pa.Array) -> dict[str, pa.Array]:
    """Return the columns of the audit that are about the cells of an attribute."""
    candidates = column.why.column("candidates")
    given = dict(zip(candidates.type.value_type.names, candidates.values.flatten(), strict=True))
    if "rules" in given:
        given["score"] = _sums(given)
    given["value"] = _render(given["value"])
    fields = [field for field in SCORED_CANDIDATE if field.name in given]
    cells = [plain(given[field.name]).cast(field.type) for field in fields]
    return {
        "old_value": _render(take(old, column.rows)),
        "new_value": _render(column.new),
        **{
            name: plain(array)
            for name, array in zip(column.why.schema.names, column.why.columns, strict=True)
            if name != "candidates"
        },
        "candidates": pa.ListArray.from_arrays(
            candidates.offsets, pa.StructArray.from_arrays(cells, fields=fields)
        ),
    }


def _sums(terms: dict[str, pa.Array]) -> pa.Array:
    """Return the scores of candidates: the sum of all terms of each."""
    rules = terms["rules"]
    offsets = rules.offsets.to_numpy()
    lifts = rules.values.field("lift").to_numpy()[offsets[0] : offsets[-1]]
    of_candidate = np.repeat(np.arange(len(rules)), np.diff(offsets))
    score = np.bincount(of_candidate, lifts, minlength=len(rules)).astype(np.float64)
    for name in ("error", "likeness", "recurrence", "background"):
        score += terms[name].to_numpy()
    return pa.array(score)


def constant_column(
    attribute: str,
    rules: Sequence[ActiveRule],
    constants: Constants,
    rows: NDArray[np.int64],
    violated: NDArray[np.bool_],
    position: int,
    version: int,
    *,
    applied: bool,
) -> RepairedColumn:
    """Return the repairs of cells that constants decide, and which no group is asked about.

    It is for `repair: bayes`. `violated` has by row and rule whether the rule is violated; the batch begins
    at the position.
    """
    n = rows.size
    winners = constants.values(rows)
    *counts, terms = (pa.array([], field.type) for field in _REASON_FIELDS[1:])
    # as `read_column` makes them: the schema of the audit says later that none is null
    terms = terms.cast(pa.list_(pa.struct([(field.name, field.type) for field in TERM])))
    no_candidates = [winners[:0], *counts, terms]
    why = _reasons(
        rule_lists(violated, [active.id for active in rules]),
        candidate_lists(np.zeros(n, np.int64), no_candidates),
        np.ones(n),
        np.zeros(n, np.int64),
        np.ones(n, np.bool_),
        _overruled(constants, rows, rules),
    )
    for field in SEARCH_FIELDS:
        why = why.append_column(field, pa.nulls(n, field.type))
    return RepairedColumn(attribute, version, applied, rows, rows + position, winners, why)


def joined_columns(columns: Sequence[RepairedColumn]) -> RepairedColumn:
    """Return repairs of one attribute in one batch together, in the order of their rows."""
    if len(columns) == 1:
        return columns[0]
    first = columns[0]
    rows = np.concatenate([column.rows for column in columns])
    order = np.argsort(rows, kind="stable")
    why = [
        pa.concat_arrays([plain(column.why.column(name)) for column in columns])
        for name in first.why.schema.names
    ]
    return RepairedColumn(
        first.attribute,
        first.version,
        first.applied,
        rows[order],
        np.concatenate([column.positions for column in columns])[order],
        take(pa.concat_arrays([plain(column.new) for column in columns]), order),
        take_rows(pa.RecordBatch.from_arrays(why, names=first.why.schema.names), order),
    )


def _with_constants(
    counted: pa.Array,
    constants: Constants | None,
    rows: NDArray[np.int64],
    by_constant: NDArray[np.bool_],
    rules: Sequence[ActiveRule],
) -> tuple[pa.Array, pa.Array]:
    """Return all new cells, and for each the rules whose constants were overruled.

    The cells at these rows of the batch are decided by constants, or are among those that are counted.
    """
    if constants is None or not by_constant.any():
        empty = pa.array([], pa.string())
        return counted, pa.ListArray.from_arrays(_offsets(np.zeros(rows.size, np.int64)), empty)
    places = np.where(by_constant, np.cumsum(by_constant) - 1 + len(counted), np.cumsum(~by_constant) - 1)
    new = pa.concat_arrays([plain(counted), constants.values(rows[by_constant])])
    return take(new, places), _overruled(constants, rows, rules)


def _overruled(constants: Constants, rows: NDArray[np.int64], rules: Sequence[ActiveRule]) -> pa.Array:
    """Return for each row the rules, by kernel column, whose constants lost against a different one."""
    return plain(rule_lists(constants.overruled[:, rows].T, [active.id for active in rules]))


def _offsets(lengths: NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def rule_lists(has: NDArray[np.bool_], ids: Sequence[str]) -> pa.DictionaryArray:
    """Return for each row the ids of the rules that it has, earlier rules first; each such list once."""
    bits = np.ascontiguousarray(np.packbits(has, axis=1))
    keys = bits if bits.shape[1] == 1 else bits.view(f"V{bits.shape[1]}")
    _, first, which = np.unique(keys[:, 0], return_index=True, return_inverse=True)
    lists = [list(compress(ids, row)) for row in has[first]]
    return pa.DictionaryArray.from_arrays(which.astype(np.int32), pa.array(lists, pa.list_(pa.string())))
