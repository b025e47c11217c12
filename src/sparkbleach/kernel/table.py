"""Hash tables and pools over arrays that grow, with no long stop anywhere.

A table is linear hashing with chains through the records themselves: each insertion splits at most one
bucket, so there is never a rehash of everything. A pool hands out slots of an array and takes them back.
Both work on any record type with the fields `hash` (tables) and `next`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import LimitError
from .jit import entry, i64, inline, jit

Records = NDArray[Any]

NONE: int = i64(-1)
UNLINKED: int = i64(-2)  # `next` of a record that is in use but in no table

BUCKETS_MIN = 64
_ROWS_MAX = 2**31 - 2
_LEVEL, _BUCKETS = 0, 1
#: of the state of a table: how many records it holds
TABLE_ITEMS = 2
#: of the state of a pool: slots ever used, slots in use
POOL_USED, POOL_LIVE = 1, 2
_FREE = 0


class Table(NamedTuple):
    """A hash table: chains of record numbers."""

    heads: NDArray[np.int32]  #: first record of each bucket, NONE if empty
    state: NDArray[np.int64]  #: buckets of the last full round, buckets, items


def new_table() -> Table:
    """Return an empty table."""
    table = Table(np.full(BUCKETS_MIN, NONE, np.int32), np.zeros(3, np.int64))
    clear_table(table)
    return table


@entry
def clear_table(table: Table) -> None:
    """Empty the table in constant time: buckets beyond the first few are made again by splitting."""
    for bucket in range(BUCKETS_MIN):
        table.heads[bucket] = NONE
    table.state[_LEVEL] = BUCKETS_MIN
    table.state[_BUCKETS] = BUCKETS_MIN
    table.state[TABLE_ITEMS] = 0


def table_items(table: Table) -> int:
    """Return how many records the table holds."""
    return int(table.state[TABLE_ITEMS])


def table_buckets(table: Table) -> int:
    """Return how many buckets the table has."""
    return int(table.state[_BUCKETS])


@inline
def table_bucket(table: Table, hash: np.uint64) -> int:
    """Return the bucket that a record with this hash would be in."""
    level = table.state[_LEVEL]
    bucket = i64(hash & np.uint64(2 * level - 1))
    if bucket >= table.state[_BUCKETS]:
        bucket -= level
    return bucket


@inline
def table_first(table: Table, hash: np.uint64) -> int:
    """Return the first record of the chain that a record with this hash would be in."""
    return table.heads[table_bucket(table, hash)]


@inline
def table_insert(table: Table, records: Records, i: int) -> None:
    """Put record `i` in. The caller has made sure that `heads` has room for one more bucket."""
    bucket = table_bucket(table, records[i]["hash"])
    records[i]["next"] = table.heads[bucket]
    table.heads[bucket] = i
    table.state[TABLE_ITEMS] += 1
    if table.state[TABLE_ITEMS] > table.state[_BUCKETS]:
        _split_one_bucket(table, records)


@jit
def _split_one_bucket(table: Table, records: Records) -> None:
    level = table.state[_LEVEL]
    new = table.state[_BUCKETS]
    old = new - level
    i = table.heads[old]
    stay = NONE
    move = NONE
    while i != NONE:
        following = records[i]["next"]
        if records[i]["hash"] & np.uint64(level):
            records[i]["next"] = move
            move = i
        else:
            records[i]["next"] = stay
            stay = i
        i = following
    table.heads[old] = stay
    table.heads[new] = move
    table.state[_BUCKETS] = new + 1
    if new + 1 == 2 * level:
        table.state[_LEVEL] = 2 * level


@jit
def table_remove(table: Table, records: Records, i: int) -> None:
    """Take record `i` out; it must be in."""
    bucket = table_bucket(table, records[i]["hash"])
    at = table.heads[bucket]
    if at == i:
        table.heads[bucket] = records[i]["next"]
    else:
        while records[at]["next"] != i:
            at = records[at]["next"]
        records[at]["next"] = records[i]["next"]
    records[i]["next"] = UNLINKED
    table.state[TABLE_ITEMS] -= 1


class Pool(NamedTuple):
    """Which slots of a record array are in use."""

    state: NDArray[np.int64]  #: first free slot, slots ever used, slots in use


def new_pool() -> Pool:
    """Return a pool with no slot in use."""
    return Pool(np.array([NONE, 0, 0], np.int64))


@inline
def pool_take(pool: Pool, records: Records) -> int:
    """Return a slot. The caller has made sure that there is one."""
    i = pool.state[_FREE]
    if i == NONE:
        i = pool.state[POOL_USED]
        pool.state[POOL_USED] = i + 1
    else:
        pool.state[_FREE] = records[i]["next"]
    pool.state[POOL_LIVE] += 1
    records[i]["next"] = UNLINKED
    return i


@inline
def pool_give(pool: Pool, records: Records, i: int) -> None:
    """Give a slot back."""
    records[i]["next"] = pool.state[_FREE]
    pool.state[_FREE] = i
    pool.state[POOL_LIVE] -= 1


def pool_used(pool: Pool) -> int:
    """Return how many slots were ever in use: all live ones lie below this number."""
    return int(pool.state[POOL_USED])


def pool_live(pool: Pool) -> int:
    """Return how many slots are in use."""
    return int(pool.state[POOL_LIVE])


def grow(array: NDArray[Any], rows: int) -> None:
    """Lengthen an array in place to at least `rows` rows; new rows are zero.

    In place, because a large block then moves by its page table and not by copying; by a small part at a
    time, because the new part is zeroed at once, and that would be a pause.

    Raises:
        LimitError: If there would be more rows than a 32-bit number can name.
    """
    have = array.shape[0]
    if rows > have:
        if rows > _ROWS_MAX and array.dtype != np.uint8:
            raise LimitError(
                f"the state would need {rows:,} records of one kind, and {_ROWS_MAX:,} is the limit; "
                "choose a smaller window, or basic windowing"
            )
        array.resize((max(rows, have + have // 32 + 256), *array.shape[1:]), refcheck=False)
