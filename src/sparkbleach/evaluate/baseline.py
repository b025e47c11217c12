"""The baseline: a micro-batch cleaner without state, as it is usually written on Spark.

The stream is cut into windows, a micro-batch each. A window is cleaned as a batch: the groups with more than
one value are in violation, groups that share a cell are an equivalence class, and every cell of a class gets
its most frequent value. Later tuples of a window help, earlier windows do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..rules.rule import Rule

Codes = NDArray[np.int64]

_NONE = -1
_THREADS = 2


def clean_windows(table: pa.Table, rules: Sequence[Rule], window_tuples: int) -> pa.Table:
    """Return a stream, cleaned window by window."""
    parts = [
        clean_window(table.slice(first, window_tuples), rules)
        for first in range(0, table.num_rows, window_tuples)
    ]
    return pa.concat_tables(parts) if parts else table


def clean_window(window: pa.Table, rules: Sequence[Rule]) -> pa.Table:
    """Return the tuples of a window, cleaned as a batch; rules have no conditions and no tableaux."""
    by_rhs: dict[str, list[Rule]] = {}
    for rule in rules:
        by_rhs.setdefault(rule.rhs, []).append(rule)
    with ThreadPoolExecutor(_THREADS) as pool:
        cleaned = pool.map(lambda rhs: _clean_attribute(window, rhs, by_rhs[rhs]), by_rhs)
        for name, column in zip(by_rhs, cleaned, strict=True):
            window = window.set_column(window.column_names.index(name), window.schema.field(name), column)
    return window


def window_cleaner(rules: Sequence[Rule]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `df.coalesce(1).mapInArrow` that cleans a micro-batch as one window."""

    def clean(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        window = list(batches)
        if window:
            yield from clean_window(pa.Table.from_batches(window), rules).to_batches()

    return clean


def _clean_attribute(window: pa.Table, rhs: str, rules: Sequence[Rule]) -> pa.ChunkedArray:
    column = window.column(rhs)
    cells, values = _codes_in_order(column)
    # The group of each tuple by rule; groups of all rules are numbered through.
    groups: list[Codes] = []
    n_groups = 0
    for rule in rules:
        group = _groups(window, rule.lhs)
        group = np.where((group == _NONE) | (cells == _NONE), _NONE, group + n_groups)
        n_groups = max(n_groups, int(group.max(initial=_NONE)) + 1)
        groups.append(group)
    if n_groups == 0:
        return column
    violated = np.zeros(n_groups, bool)
    for group in groups:
        rows = np.flatnonzero(group != _NONE)
        some = np.zeros(n_groups, np.int64)
        some[group[rows]] = cells[rows]
        violated[group[rows][cells[rows] != some[group[rows]]]] = True
    groups = [np.where((group != _NONE) & violated[group], group, _NONE) for group in groups]
    classes = _classes(groups, n_groups)
    rows = np.flatnonzero(classes != _NONE)
    if not rows.size:
        return column
    candidates, which, counts = np.unique(
        classes[rows] * len(values) + cells[rows], return_inverse=True, return_counts=True
    )
    of_class, value = np.divmod(candidates, len(values))
    best = np.zeros(n_groups, np.int64)
    np.maximum.at(best, of_class, counts)
    wins = counts == best[of_class]
    winner = np.full(n_groups, len(values))
    np.minimum.at(winner, of_class[wins], value[wins])
    repaired = rows[~wins[which]]  # a tie keeps the cell
    cells[repaired] = winner[classes[repaired]]
    return pa.chunked_array([values.take(pa.array(cells, mask=cells == _NONE))])


def _classes(groups: Sequence[Codes], n_groups: int) -> Codes:
    """Return the class of each tuple's cell: groups that share a cell are one."""
    label = np.arange(n_groups)
    first, second = _links(groups, n_groups)
    while not np.array_equal(label[first], label[second]):
        one, other = label[first], label[second]
        low = np.minimum(one, other)
        np.minimum.at(label, one, low)
        np.minimum.at(label, other, low)
        while not np.array_equal(label, label[label]):
            label = label[label]
    found = np.full(groups[0].size, _NONE)
    for group in groups:
        found = np.where(group == _NONE, found, label[group])
    return found


def _links(groups: Sequence[Codes], n_groups: int) -> tuple[Codes, Codes]:
    """Return the pairs of groups that share a cell."""
    pairs = [np.empty(0, np.int64)]
    for i, one in enumerate(groups):
        for other in groups[:i]:
            both = np.flatnonzero((one != _NONE) & (other != _NONE))
            pairs.append(np.unique(one[both] * n_groups + other[both]))
    first, second = np.divmod(np.concatenate(pairs), n_groups)
    return first, second


def _groups(window: pa.Table, lhs: Sequence[str]) -> Codes:
    group, _ = _codes(window.column(lhs[0]))
    for name in lhs[1:]:
        more, n_more = _codes(window.column(name))
        both = np.where((group == _NONE) | (more == _NONE), _NONE, group * n_more + more)
        group, _ = _codes(pa.chunked_array([pa.array(both, mask=both == _NONE)]))
    return group


def _codes(column: pa.ChunkedArray) -> tuple[Codes, int]:
    encoded = column.combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices, _NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, max(1, len(encoded.dictionary))


def _codes_in_order(column: pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """Return codes in the order of values, and the values."""
    encoded = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(order.size + 1, np.int64)
    rank[order] = np.arange(order.size)
    rank[_NONE] = _NONE  # null
    codes = pc.fill_null(encoded.indices, _NONE).to_numpy(zero_copy_only=False)
    return rank[codes], encoded.dictionary.take(pa.array(order))
