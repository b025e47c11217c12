"""From the kernel's decisions on the most probable reading to new cells and the reasons for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..kernel.bayes.scores import FROM_ATTRIBUTE, FROM_NEW_VALUES, FROM_REPUTATION, FROM_SOURCE
from ..kernel.bayes.state import Decided
from ..kernel.table import NONE
from ..kernel.values import Values
from .audit import TERM, RepairedColumn, candidate_lists, probable_reasons, rule_lists
from .encode import decode, plain, render
from .model import Model

_ERROR_FROM = {
    FROM_ATTRIBUTE: "the attribute",
    FROM_REPUTATION: "this value",
    FROM_NEW_VALUES: "values that occur once",
    FROM_SOURCE: "the source",
}


def read_column(
    model: Model,
    schema: pa.Schema,
    values: Values,
    attribute: str,
    decided: Decided,
    which: NDArray[np.int64],
    position: int,
    version: int,
    *,
    applied: bool,
) -> RepairedColumn:
    """Turn some decisions on an attribute into new cells and the reasons for them.

    The batch begins at the position.
    """
    which = which[np.argsort(decided.tuple[which], kind="stable")]
    type = schema.field(attribute).type
    rows = decided.tuple[which].astype(np.int64)
    why = probable_reasons(
        rule_lists(decided.reasons.rules[which], [one.id for one in model.rules]),
        _candidates(model, schema, values, type, decided, which),
        1.0 / (1.0 + np.exp(-decided.gain[which])),
        np.count_nonzero(decided.reasons.rules[which], axis=1),
        decided.step[which],
        decided.reasons.error_rate[which],
        _error_from(decided, which),
    )
    new = decode(values, decided.value[which], type)
    return RepairedColumn(attribute, version, applied, rows, rows + position, new, why)


def _candidates(
    model: Model,
    schema: pa.Schema,
    values: Values,
    type: pa.DataType,
    decided: Decided,
    which: NDArray[np.int64],
) -> pa.Array:
    reasons = decided.reasons
    given = reasons.value[which] != NONE
    is_recurrence = reasons.alike_class[which][given] == NONE
    alike = reasons.alike[which][given]
    terms = _terms(model, schema, values, decided, which, given)
    return candidate_lists(
        np.count_nonzero(given, axis=1),
        [
            decode(values, reasons.value[which][given], type),
            pa.array(reasons.support[which][given]),
            pa.array(reasons.score[which][given]),
            pa.array(reasons.error[which][given]),
            pa.array(np.where(is_recurrence, 0.0, alike)),
            pa.array(np.where(is_recurrence, alike, 0.0)),
            pa.array(reasons.common[which][given]),
            terms,
        ],
    )


def _terms(
    model: Model,
    schema: pa.Schema,
    values: Values,
    decided: Decided,
    which: NDArray[np.int64],
    given: NDArray[np.bool_],
) -> pa.Array:
    """Return for each candidate what rules add to its score."""
    reasons = decided.reasons
    rule = reasons.rule[which][given]
    has_term = rule != NONE
    rules = rule[has_term]
    keys = _keys(model, schema, values, rules, decided.keys[which][given][has_term])
    fields = [
        pa.DictionaryArray.from_arrays(rules, pa.array([one.id for one in model.rules])).cast(pa.string()),
        keys,
        pa.array(reasons.in_group[which][given][has_term]),
        pa.array(reasons.of_group[which][given][has_term]),
        pa.array(reasons.trust[which][given][has_term]),
        pa.array(reasons.lift[which][given][has_term]),
    ]
    lengths = np.count_nonzero(has_term, axis=1)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(fields, fields=list(TERM)))


def _keys(
    model: Model, schema: pa.Schema, values: Values, rules: NDArray[np.int32], left: NDArray[np.int32]
) -> pa.Array:
    """Return the keys of groups as texts such as `zipcode=75001, street=Rue A`."""
    found = []
    places = []
    for r in np.unique(rules):
        at = np.flatnonzero(rules == r)
        lhs = model.rules[r].lhs
        parts = []
        for j, name in enumerate(lhs):
            cells = decode(values, np.ascontiguousarray(left[at, j]), schema.field(name).type)
            texts = pc.binary_join_element_wise(pa.scalar(f"{name}="), render(cells.dictionary), "")
            parts.append(texts.take(cells.indices))
        found.append(parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ", "))
        places.append(at)
    if not found:
        return pa.array([], pa.string())
    order = np.argsort(np.concatenate(places))
    return pa.concat_arrays([plain(one) for one in found]).cast(pa.string()).take(pa.array(order))


def _error_from(decided: Decided, which: NDArray[np.int64]) -> pa.Array:
    """Return what the error rates of the observed cells are computed from, as text."""
    kind, out, seen = decided.reasons.error_from[which].T
    is_null = decided.reasons.error_rate[which] < 0.0
    texts = pa.array([_ERROR_FROM[k] for k in range(len(_ERROR_FROM))])
    named = texts.take(pa.array(np.where(is_null, 0, kind)))
    counted = pc.binary_join_element_wise(
        named,
        pa.scalar(": outvoted "),
        pa.array(out).cast(pa.string()),
        pa.scalar(" of "),
        pa.array(seen).cast(pa.string()),
        "",
    )
    has_counts = np.isin(kind, [FROM_REPUTATION, FROM_NEW_VALUES]) & (seen > 0)
    text = pc.if_else(pa.array(has_counts), counted, named)
    return pc.if_else(pa.array(is_null), pa.scalar(None, pa.string()), text)
