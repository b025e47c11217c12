"""From the kernel's decisions on the most probable reading to new cells and the reasons for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..kernel.bayes.found import Found
from ..kernel.bayes.scores import FROM_ATTRIBUTE, FROM_NEW_VALUES, FROM_REPUTATION, FROM_SOURCE
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
    found: Found,
    which: NDArray[np.int64],
    position: int,
    version: int,
    *,
    applied: bool,
) -> RepairedColumn:
    """Turn some decisions on an attribute into new cells and the reasons for them.

    The batch begins at the position.
    """
    cells = found.cells
    which = which[np.argsort(cells.tuple[which], kind="stable")]
    type = schema.field(attribute).type
    rows = cells.tuple[which].astype(np.int64)
    rules = cells.rules[which]
    why = probable_reasons(
        rule_lists(rules, [one.id for one in model.rules]),
        _candidates(model, schema, values, type, found, which),
        1.0 / (1.0 + np.exp(-cells.gain[which])),
        np.count_nonzero(rules, axis=1),
        cells.step[which],
        cells.error_rate[which],
        _error_from(found, which),
    )
    new = decode(values, cells.value[which], type)
    return RepairedColumn(attribute, version, applied, rows, rows + position, new, why)


def _candidates(
    model: Model, schema: pa.Schema, values: Values, type: pa.DataType, found: Found, which: NDArray[np.int64]
) -> pa.Array:
    lengths = found.cells.n[which]
    at = _ranges(found.cells.first[which], lengths)
    candidates = found.candidates
    is_recurrence = candidates.alike_class[at] == NONE
    alike = candidates.alike[at]
    return candidate_lists(
        lengths,
        [
            decode(values, candidates.value[at], type),
            pa.array(candidates.support[at]),
            pa.array(candidates.error[at]),
            pa.array(np.where(is_recurrence, 0.0, alike)),
            pa.array(np.where(is_recurrence, alike, 0.0)),
            pa.array(candidates.common[at]),
            _terms(model, schema, values, found, at),
        ],
    )


def _ranges(first: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each first one on, as many as its length says, all one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if ends.size else 0) + np.repeat(first - ends + lengths, lengths)


def _terms(
    model: Model, schema: pa.Schema, values: Values, found: Found, which: NDArray[np.int64]
) -> pa.Array:
    """Return for each of some candidates what rules add to its score."""
    terms = found.terms
    lengths = found.candidates.n[which]
    at = _ranges(found.candidates.first[which], lengths)
    rules = terms.rule[at]
    fields = [
        pa.DictionaryArray.from_arrays(rules, pa.array([one.id for one in model.rules], pa.string())),
        _keys(model, schema, values, rules, terms.key[at]),
        pa.array(terms.in_group[at]),
        pa.array(terms.of_group[at]),
        pa.array(terms.trust[at]),
        pa.array(terms.lift[at]),
    ]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    names = [field.name for field in TERM]
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(fields, names=names))


def _keys(
    model: Model, schema: pa.Schema, values: Values, rules: NDArray[np.int32], left: NDArray[np.int32]
) -> pa.DictionaryArray:
    """Return the keys of groups as texts such as `zipcode=75001, street=Rue A`, those of a rule once each."""
    index = np.empty(rules.size, np.int32)
    texts = [pa.array([], pa.string())]
    n = 0
    for r in np.unique(rules):
        at = np.flatnonzero(rules == r)
        parts = []
        for j, name in enumerate(model.rules[r].lhs):
            cells = decode(values, np.ascontiguousarray(left[at, j]), schema.field(name).type)
            named = pc.binary_join_element_wise(pa.scalar(f"{name}="), render(cells.dictionary), "")
            parts.append(pa.DictionaryArray.from_arrays(cells.indices, named))
        keys = parts[0]
        if len(parts) > 1:
            keys = pc.binary_join_element_wise(*(plain(part) for part in parts), ", ").dictionary_encode()
        index[at] = keys.indices.to_numpy() + n
        texts.append(keys.dictionary.cast(pa.string()))
        n += len(keys.dictionary)
    return pa.DictionaryArray.from_arrays(pa.array(index), pa.concat_arrays(texts))


def _error_from(found: Found, which: NDArray[np.int64]) -> pa.DictionaryArray:
    """Return what the error rates of the observed cells are computed from, each text once."""
    kind, out, seen = found.cells.error_from[which].T
    outs, seens = pa.array(out).dictionary_encode(), pa.array(seen).dictionary_encode()
    n_kinds, n_seens = len(_ERROR_FROM), max(1, len(seens.dictionary))
    pairs = outs.indices.to_numpy().astype(np.int64) * n_seens + seens.indices.to_numpy()
    is_null = found.cells.error_rate[which] < 0.0
    codes = pa.array(pairs * n_kinds + np.where(is_null, 0, kind), mask=is_null).dictionary_encode()
    pair, kind = np.divmod(codes.dictionary.to_numpy(), n_kinds)
    out = outs.dictionary.to_numpy()[pair // n_seens]
    seen = seens.dictionary.to_numpy()[pair % n_seens]
    named = pa.array([_ERROR_FROM[k] for k in range(n_kinds)]).take(pa.array(kind))
    counted = pc.binary_join_element_wise(
        named,
        pa.scalar(": outvoted "),
        pa.array(out).cast(pa.string()),
        pa.scalar(" of "),
        pa.array(seen).cast(pa.string()),
        "",
    )
    has_counts = np.isin(kind, [FROM_REPUTATION, FROM_NEW_VALUES]) & (seen > 0)
    return pa.DictionaryArray.from_arrays(codes.indices, pc.if_else(pa.array(has_counts), counted, named))
