"""Make clean tuples dirty, and keep a log of every change."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import ConfigError
from ..rules.condition import Condition
from ..rules.condition_evaluator import ConditionEvaluator
from ..rules.condition_syntax import ConditionError
from .dirt import OF_TUPLES, Error, Kind

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

LOG_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),  # in the dirty stream
        ("origin", pa.int64()),  # in the clean stream
        ("attribute", pa.string()),  # null: the tuple itself
        ("kind", pa.string()),
        ("old", pa.string()),
        ("new", pa.string()),
    ]
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Spoilt:
    """A dirty stream, and the truth beside it, tuple by tuple."""

    dirty: pa.Table  #: the tuples as they arrive
    truth: pa.Table  #: the true tuples, in the same order
    errors: tuple[Error, ...]  #: the error processes
    #: by attribute: the number of the process that has changed a cell, from 1 on; 0 if none has
    hits: dict[str, NDArray[np.int8]]
    origin: Rows  #: by tuple: the position in the clean stream
    moved: NDArray[np.int8]  #: by tuple: the number of the process that has delayed or doubled it, from 1 on

    def log(self) -> pa.Table:
        """Return the change log: a row for each changed cell and each delayed or doubled tuple."""
        kinds = pa.array(["", *(str(error.kind) for error in self.errors)])
        parts = [_log_part(self, np.flatnonzero(self.moved), self.moved, None, kinds)]
        for attribute, hits in self.hits.items():
            parts.append(_log_part(self, np.flatnonzero(hits), hits, attribute, kinds))
        return pa.concat_tables(parts).sort_by([("position", "ascending"), ("attribute", "ascending")])


def _log_part(
    spoilt: Spoilt, rows: Rows, hits: NDArray[np.int8], attribute: str | None, kinds: pa.Array
) -> pa.Table:
    nothing = pa.nulls(rows.size, pa.string())

    def cells(table: pa.Table) -> pa.Array:
        if attribute is None:
            return nothing
        return table.column(attribute).take(pa.array(rows)).combine_chunks().cast(pa.string())

    return pa.Table.from_arrays(
        [
            pa.array(rows),
            pa.array(spoilt.origin[rows]),
            nothing if attribute is None else pa.repeat(attribute, rows.size),
            kinds.take(pa.array(hits[rows])),
            cells(spoilt.truth),
            cells(spoilt.dirty),
        ],
        schema=LOG_SCHEMA,
    )


def spoil(truth: pa.Table, errors: Sequence[Error], seed: int = 0, first: int = 0) -> Spoilt:
    """Put errors into clean tuples.

    A cell is changed at most once: a later process skips it. Null cells stay. Cells are changed before
    tuples are doubled and delayed. The same seed gives the same dirt. The first of these tuples has the
    position `first` in the stream.
    """
    check_errors(errors, truth.schema)
    truth = truth.combine_chunks()
    random = np.random.default_rng([seed, first])
    columns = {name: _plain(truth.column(name)) for name in truth.column_names}
    hits: dict[str, NDArray[np.int8]] = {}
    for number, error in enumerate(errors, 1):
        if error.kind in OF_TUPLES:
            continue
        may = _allowed(error, truth, first)
        constant = error.kind is Kind.systematic
        drawn = random.random(truth.num_rows) < error.p
        for name in _targets(error):
            if not error.together and error.kind is not Kind.swap_attributes:
                drawn = random.random(truth.num_rows) < error.p
            untouched = hits.setdefault(name, np.zeros(truth.num_rows, np.int8)) == 0
            rows = np.flatnonzero(may & drawn & untouched & _valid(columns[name]))
            if error.kind is Kind.swap_attributes:
                _swap_attributes(columns, hits, error.attributes, rows, number)
            else:
                shift = np.random.default_rng([seed, zlib.crc32(name.encode())])
                changed, cells = _new_cells(
                    error, columns[name], truth.column(name), rows, shift if constant else random
                )
                columns[name] = _put(columns[name], changed, cells)
                hits[name][changed] = number
    dirty = pa.table(columns, schema=truth.schema)
    rows, moved = _order(errors, truth, random, first)
    if moved is None:
        unmoved = np.zeros(truth.num_rows, np.int8)
        return Spoilt(dirty, truth, tuple(errors), hits, rows + first, unmoved)
    order = pa.array(rows)
    hits = {name: found[rows] for name, found in hits.items()}
    return Spoilt(dirty.take(order), truth.take(order), tuple(errors), hits, rows + first, moved)


def check_errors(errors: Sequence[Error], schema: pa.Schema) -> None:
    """Check that error processes fit a schema."""
    for error in errors:
        for name in error.attributes:
            place = f"error {error.kind}: attribute {name!r}"
            if schema.names.count(name) != 1:
                raise ConfigError(f"{place} is not a column; choose from {', '.join(schema.names)}")
            if error.kind is Kind.typo and not _is_text(schema.field(name).type):
                raise ConfigError(f"{place} is {schema.field(name).type}, not text; use domain or missing")
        if error.kind is Kind.swap_attributes:
            one, other = (schema.field(name).type for name in error.attributes)
            if one != other:
                raise ConfigError(f"error {error.kind}: {one} and {other} do not mix; name two of one type")
        if error.where is not None:
            try:
                Condition.compile(error.where, schema)
            except ConditionError as problem:
                raise ConfigError(f"error {error.kind}, where: {problem}") from problem


def _targets(error: Error) -> tuple[str, ...]:
    return error.attributes[:1] if error.kind is Kind.swap_attributes else error.attributes


def _allowed(error: Error, truth: pa.Table, first: int) -> Mask:
    """Return the tuples at which a process may happen, as a mask."""
    position = np.arange(truth.num_rows) + first
    may = np.ones(truth.num_rows, bool)
    if error.burst is not None:
        may &= (position >= error.burst[0]) & (position < error.burst[1])
    if error.period is not None:
        may &= position % error.period[0] < error.period[1]
    if error.where is not None and truth.num_rows:
        conditions = ConditionEvaluator(truth.schema, [Condition.compile(error.where, truth.schema)])
        may &= np.concatenate([conditions.evaluate(batch)[0] for batch in truth.to_batches()])
    return may


def _new_cells(
    error: Error, cells: pa.Array, true: pa.ChunkedArray, rows: Rows, random: np.random.Generator
) -> tuple[Rows, pa.Array]:
    """Return which of these rows change, and their new cells; all of them differ from the old ones."""
    if error.kind is Kind.missing:
        return rows, pa.nulls(rows.size, cells.type)
    if error.kind is Kind.typo:
        old = cells.take(pa.array(rows)).to_pylist()
        return rows, pa.array([_typo(text, random) for text in old], cells.type)
    if error.kind is Kind.swap_tuples:
        return _swap_tuples(cells, rows, random)
    domain = pc.unique(_plain(true)).drop_null()
    if len(domain) < 2:
        return rows[:0], cells.slice(0, 0)
    codes = pc.index_in(cells.take(pa.array(rows)), domain).to_numpy(zero_copy_only=False)
    constant = error.kind is Kind.systematic
    shift = random.integers(1, len(domain), 1 if constant else rows.size)
    return rows, domain.take(pa.array((codes + shift) % len(domain)))


def _swap_tuples(cells: pa.Array, rows: Rows, random: np.random.Generator) -> tuple[Rows, pa.Array]:
    pairs = random.permutation(rows)[: rows.size // 2 * 2].reshape(-1, 2)
    one, other = (cells.take(pa.array(pairs[:, side])) for side in (0, 1))
    pairs = pairs[pc.not_equal(one, other).to_numpy(zero_copy_only=False)]
    changed, source = pairs.ravel(), pairs[:, ::-1].ravel()
    return changed, cells.take(pa.array(source))


def _swap_attributes(
    columns: dict[str, pa.Array],
    hits: dict[str, NDArray[np.int8]],
    names: Sequence[str],
    rows: Rows,
    number: int,
) -> None:
    one, other = (columns[name] for name in names)
    others = hits.setdefault(names[1], np.zeros(len(other), np.int8))
    rows = rows[_valid(other)[rows] & (others[rows] == 0)]
    left, right = one.take(pa.array(rows)), other.take(pa.array(rows))
    differ = pc.not_equal(left, right)
    rows = rows[differ.to_numpy(zero_copy_only=False)]
    columns[names[0]] = _put(one, rows, right.filter(differ))
    columns[names[1]] = _put(other, rows, left.filter(differ))
    hits[names[0]][rows] = number
    others[rows] = number


def _typo(text: str, random: np.random.Generator) -> str:
    """Return a text with one typing mistake."""
    if not text:
        return _LETTERS[int(random.integers(0, 26))]
    at = int(random.integers(0, len(text)))
    before, letter, after = text[:at], text[at], text[at + 1 :]
    way = int(random.integers(0, 4))
    if way == 0 and len(text) > 1:
        return before + after
    if way == 1 and after and after[0] != letter:
        return before + after[0] + letter + after[1:]
    if way == 2:
        new = _LETTERS[int(random.integers(0, 26))]
        return before + (new if new != letter else new.upper()) + after
    return before + letter + letter + after


def _order(
    errors: Sequence[Error], truth: pa.Table, random: np.random.Generator, first: int
) -> tuple[Rows, NDArray[np.int8] | None]:
    """Return the clean tuples in the order of arrival, and which of them were doubled or delayed."""
    n = truth.num_rows
    rows = np.arange(n)
    if not any(error.kind in OF_TUPLES for error in errors):
        return rows, None
    due = rows.astype(float)
    moved = np.zeros(n, np.int8)
    for number, error in enumerate(errors, 1):
        if error.kind not in OF_TUPLES:
            continue
        hit = np.flatnonzero(_allowed(error, truth, first) & (random.random(n) < error.p))
        late = hit + random.integers(1, error.lag + 1, hit.size) + 0.5
        if error.kind is Kind.delay:
            due[hit], moved[hit] = late, number
        else:
            rows, due = np.concatenate([rows, hit]), np.concatenate([due, late])
            moved = np.concatenate([moved, np.full(hit.size, number, np.int8)])
    order = np.argsort(due, kind="stable")
    return rows[order], moved[order]


def _put(cells: pa.Array, rows: Rows, new: pa.Array) -> pa.Array:
    if not rows.size:
        return cells
    source = np.arange(len(cells))
    source[rows] = len(cells) + np.arange(rows.size)
    return pa.chunked_array([cells, new], cells.type).combine_chunks().take(pa.array(source))


def _plain(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _valid(cells: pa.Array) -> Mask:
    valid: Mask = cells.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))
