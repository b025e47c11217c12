"""The rows of a pattern tableau that have constants for the same LHS attributes, found by these constants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .hashing import U64
from .jit import entry, i64
from .table import NONE, Pool, Records, Table, grow, new_pool, new_table, pool_take, table_first, table_insert

PATTERN_ROW = np.dtype(
    [
        ("hash", np.uint64),  # low half of the 128-bit key: the constants on the left
        ("hash_hi", np.uint64),  # high half
        ("number", np.int32),  # of the first row with this key
        ("next", np.int32),  # in the table
        ("contradicted", np.bool_),  # whether a later row with this key has another constant on the right
    ],
    align=True,
)


class PatternRows(NamedTuple):
    """The rows, those with the same constants on the left once."""

    records: Records  #: PATTERN_ROW
    table: Table
    pool: Pool


def new_pattern_rows(n: int) -> PatternRows:
    """Return a place for up to `n` rows."""
    rows = PatternRows(np.zeros(n, PATTERN_ROW), new_table(), new_pool())
    grow(rows.table.heads, n + 1)
    return rows


@entry
def add_pattern_rows(
    rows: PatternRows, numbers: NDArray[np.int32], lo: U64, hi: U64, right_lo: U64, right_hi: U64
) -> None:
    """Add rows in their order, by the hashes of their left sides; their right sides have hashes, too."""
    records = rows.records
    for i in range(numbers.size):
        at = i64(table_first(rows.table, lo[i]))
        while at != NONE and not (records[at]["hash"] == lo[i] and records[at]["hash_hi"] == hi[i]):
            at = i64(records[at]["next"])
        if at == NONE:
            at = pool_take(rows.pool, records)
            records[at]["hash"] = lo[i]
            records[at]["hash_hi"] = hi[i]
            records[at]["number"] = numbers[i]
            table_insert(rows.table, records, at)
        else:
            first = records[at]["number"]
            if right_lo[first] != right_lo[numbers[i]] or right_hi[first] != right_hi[numbers[i]]:
                records[at]["contradicted"] = True


@entry
def find_pattern_rows(
    rows: PatternRows, lo: U64, hi: U64, among: NDArray[np.bool_], found: NDArray[np.int32]
) -> None:
    """Write the record that each tuple matches, NONE if there is none; left sides are given by their hashes.

    Tuples that are not `among` those match none.
    """
    records = rows.records
    for i in range(lo.size):
        at = NONE
        if among[i]:
            at = i64(table_first(rows.table, lo[i]))
            while at != NONE and not (records[at]["hash"] == lo[i] and records[at]["hash_hi"] == hi[i]):
                at = i64(records[at]["next"])
        found[i] = at
