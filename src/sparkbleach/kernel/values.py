"""The value dictionary of an attribute: every value once, as long as a super cell has it or a group names it.

A value is a number for the rest of the kernel. Values of fixed width (numbers, booleans, dates, times) are
order-preserving 64-bit codes; all others are bytes whose byte order is the order of the type, kept in an
arena of recycled slots, with their first eight bytes as the code so that most comparisons end there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .hashing import U8, U64
from .jit import entry, i64, inline, jit
from .refs import ref
from .table import (
    NONE,
    Pool,
    Records,
    Table,
    grow,
    new_pool,
    new_table,
    pool_give,
    pool_take,
    pool_used,
    table_first,
    table_insert,
    table_items,
    table_remove,
)

VALUE = np.dtype(
    [
        ("hash", np.uint64),  # low half of the 128-bit hash
        ("hash_hi", np.uint64),  # high half
        ("code", np.int64),  # orders values; equal codes of bytes need a look at the bytes
        ("offset", np.int64),  # into the arena, bytes only
        ("length", np.int32),  # in bytes, NONE for fixed width
        ("next", np.int32),  # in the table, the pool or the pending list
        ("refs", np.int32),  # super cells with this value, and groups that name it
    ],
    align=True,
)

_GRAIN = 16  # bytes; slots of the arena are multiples of it up to _EXACT, then powers of two
_EXACT = 1024
_CLASSES = _EXACT // _GRAIN + 1 + 32
_ARENA_USED, _PENDING = 0, 1
MARK = 2  #: of the state: the mark of the computation that is on


class Column(NamedTuple):
    """One attribute of a batch as the kernel reads it."""

    valid: NDArray[np.bool_]  #: False where the cell is null
    lo: U64  #: low half of each cell's 128-bit hash
    hi: U64  #: high half
    codes: NDArray[np.int64]  #: order-preserving codes; empty for bytes
    data: U8  #: the bytes of all cells; empty for codes
    offsets: NDArray[np.int64]  #: value j is data[offsets[j]:offsets[j+1]]; empty for codes
    value_index: NDArray[np.int64]  #: cell i has value value_index[i]; empty if it has value i, and for codes


class Values(NamedTuple):
    """The value dictionary."""

    records: Records  #: VALUE
    table: Table
    pool: Pool
    arena: U8
    arena_free: NDArray[np.int64]  #: first free slot per size class
    state: NDArray[np.int64]  #: arena bytes ever used, head of the values to recycle after this call, mark
    scratch_count: NDArray[np.int64]  #: per value: a count, for a computation over values
    scratch_stamp: NDArray[np.int64]  #: per value: the mark of the last computation that marked it
    scratch_list: NDArray[np.int32]  #: the values that this computation saw


def new_values() -> Values:
    """Return an empty dictionary."""
    return Values(
        np.zeros(0, VALUE),
        new_table(),
        new_pool(),
        np.zeros(0, np.uint8),
        np.full(_CLASSES, NONE, np.int64),
        np.array([0, NONE, 0], np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int32),
    )


def reserve_values(values: Values, n_values: int, n_bytes: int) -> None:
    """Make room for `n_values` more values with `n_bytes` bytes between them, 0 if they are codes only."""
    slots = pool_used(values.pool) + n_values
    grow(values.records, slots)
    grow(values.scratch_count, slots)
    grow(values.scratch_stamp, slots)
    grow(values.scratch_list, slots)
    grow(values.table.heads, table_items(values.table) + n_values + 1)
    if n_bytes:
        # A slot is less than twice what is in it, or a grain more. One grain on top lets load64 overrun.
        grow(values.arena, int(values.state[_ARENA_USED]) + 2 * n_bytes + _GRAIN * (n_values + 1))


@jit
def _size_class(length: int) -> tuple[int, int]:
    if length <= _EXACT:
        size = (max(length, 1) + _GRAIN - 1) // _GRAIN
        return size, size * _GRAIN
    step = 0
    size = _EXACT
    while size < length:
        size *= 2
        step += 1
    return _EXACT // _GRAIN + step, size


@jit
def _arena_read(arena: U8, at: int) -> int:
    n = i64(0)
    for i in range(7, -1, -1):
        n = (n << 8) | i64(arena[at + i])
    return n


@jit
def _arena_write(arena: U8, at: int, n: int) -> None:
    for i in range(8):
        arena[at + i] = np.uint8((n >> (8 * i)) & 255)


@jit
def arena_take(values: Values, length: int) -> int:
    """Return where in the arena there is room for a number of bytes."""
    size_class, size = _size_class(length)
    at = values.arena_free[size_class]
    if at == NONE:
        at = values.state[_ARENA_USED]
        values.state[_ARENA_USED] = at + size
    else:
        values.arena_free[size_class] = _arena_read(values.arena, at)
    return at


@jit
def _prefix(data: U8, at: int, length: int) -> int:
    """Return the first eight bytes as a signed number in byte order."""
    code = np.uint64(0)
    for i in range(8):
        code = code << np.uint64(8)
        if i < length:
            code |= np.uint64(data[at + i])
    # Flipping the top bit makes the order of unsigned numbers that of signed ones.
    return i64(i64(code >> np.uint64(1)) - (1 << 62)) * 2 + i64(code & np.uint64(1))


@inline
def is_value(values: Values, v: int, column: Column, i: int) -> bool:
    """Return whether value `v` is the one in row `i`."""
    record = values.records[v]
    return record["hash"] == column.lo[i] and record["hash_hi"] == column.hi[i]


@inline
def value_of(values: Values, column: Column, i: int) -> int:
    """Return the number of the value in row `i`, which must not be null; add it if it is new."""
    v = i64(table_first(values.table, column.lo[i]))
    while v != NONE:
        if is_value(values, v, column, i):
            return v
        v = i64(values.records[v]["next"])
    return value_new(values, column, i)


@jit
def value_new(values: Values, column: Column, i: int) -> int:
    """Return the number of a new value, the one in row `i`."""
    records = values.records
    v = pool_take(values.pool, records)
    records[v]["hash"] = column.lo[i]
    records[v]["hash_hi"] = column.hi[i]
    records[v]["refs"] = 0
    if column.codes.size:
        records[v]["code"] = column.codes[i]
        records[v]["length"] = NONE
    else:
        j = column.value_index[i] if column.value_index.size else i
        source = column.offsets[j]
        length = column.offsets[j + 1] - source
        at = arena_take(values, length)
        for b in range(length):
            values.arena[at + b] = column.data[source + b]
        records[v]["code"] = _prefix(column.data, source, length)
        records[v]["offset"] = at
        records[v]["length"] = length
    table_insert(values.table, records, v)
    return v


@jit
def value_copy(values: Values, other: Values, v: int) -> int:
    """Return the number of a new value: that of another dictionary, with as many references."""
    records = values.records
    w = pool_take(values.pool, records)
    theirs = other.records[v]
    records[w]["hash"] = theirs["hash"]
    records[w]["hash_hi"] = theirs["hash_hi"]
    records[w]["code"] = theirs["code"]
    records[w]["length"] = theirs["length"]
    records[w]["refs"] = theirs["refs"]
    if theirs["length"] != NONE:
        at = arena_take(values, i64(theirs["length"]))
        for b in range(theirs["length"]):
            values.arena[at + b] = other.arena[theirs["offset"] + b]
        records[w]["offset"] = at
    table_insert(values.table, records, w)
    return w


@jit
def value_less(values: Values, a: int, b: int) -> bool:
    """Return whether value `a` comes before value `b` in the order of the type."""
    records = values.records
    if records[a]["code"] != records[b]["code"]:
        return records[a]["code"] < records[b]["code"]
    arena = values.arena
    at_a = records[a]["offset"]
    at_b = records[b]["offset"]
    n_a = records[a]["length"]
    n_b = records[b]["length"]
    for i in range(min(n_a, n_b)):
        if arena[at_a + i] != arena[at_b + i]:
            return arena[at_a + i] < arena[at_b + i]
    return n_a < n_b


@inline
def begin_marks(values: Values) -> None:
    """Begin a computation: no value is marked."""
    values.state[MARK] += 1


@inline
def mark(values: Values, v: int) -> None:
    """Mark a value for this computation."""
    values.scratch_stamp[v] = values.state[MARK]


@inline
def is_marked(values: Values, v: int) -> bool:
    """Return whether this computation has marked a value."""
    return values.scratch_stamp[v] == values.state[MARK]


@inline
def value_keep(values: Values, v: int) -> None:
    """Keep a value for one more super cell or group."""
    values.records[v]["refs"] += 1


@jit
def value_release(values: Values, v: int) -> None:
    """Let go of a value for one super cell or group; with the last one it goes to the pending list.

    Repairs of this call may still name it, so its slot is used again only in the next call.
    """
    records = values.records
    records[v]["refs"] -= 1
    if records[v]["refs"] == 0:
        table_remove(values.table, records, v)
        records[v]["next"] = values.state[_PENDING]
        values.state[_PENDING] = v


@entry
def recycle_values(values: Values) -> None:
    """Free the slots of the values that the last call let go of."""
    values = ref(values)
    records = values.records
    v = values.state[_PENDING]
    values.state[_PENDING] = NONE
    while v != NONE:
        following = i64(records[v]["next"])
        if records[v]["length"] != NONE:
            size_class, _ = _size_class(records[v]["length"])
            _arena_write(values.arena, records[v]["offset"], values.arena_free[size_class])
            values.arena_free[size_class] = records[v]["offset"]
        pool_give(values.pool, records, v)
        v = following


def slot_sizes(lengths: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return how many bytes the slots of some lengths have."""
    grains = (np.maximum(lengths, 1).astype(np.int64) + _GRAIN - 1) // _GRAIN * _GRAIN
    large = grains > _EXACT
    grains[large] = 1 << np.ceil(np.log2(grains[large])).astype(np.int64)
    return grains


@entry
def find_free_slots(values: Values, found: NDArray[np.int64]) -> int:
    """Write the place and the size of each free slot of the arena; return how many there are, -1 if too many.

    The lists are not trusted: they may lead anywhere, or have no end.
    """
    n = i64(0)
    for size_class in range(values.arena_free.size):
        size = i64(size_class * _GRAIN)
        if size > _EXACT:
            size = i64(_EXACT) << (size_class - _EXACT // _GRAIN)
        at = values.arena_free[size_class]
        while at != NONE:
            if n == found.shape[0] or at < 0 or at > values.arena.size - size or size == 0:
                return i64(-1)
            found[n, 0] = at
            found[n, 1] = size
            n += 1
            at = _arena_read(values.arena, at)
    return n


@entry
def gather_codes(values: Values, which: NDArray[np.int32], codes: NDArray[np.int64]) -> None:
    """Write the codes of the given values."""
    for i in range(which.size):
        codes[i] = values.records[which[i]]["code"]


@entry
def gather_offsets(values: Values, which: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
    """Write where the bytes of each given value would begin and end, laid out one after the other."""
    offsets[0] = 0
    for i in range(which.size):
        offsets[i + 1] = offsets[i] + values.records[which[i]]["length"]


@entry
def gather_bytes(values: Values, which: NDArray[np.int32], offsets: NDArray[np.int64], data: U8) -> None:
    """Write the bytes of the given values one after the other."""
    for i in range(which.size):
        source = values.records[which[i]]["offset"]
        at = offsets[i]
        for b in range(offsets[i + 1] - at):
            data[at + b] = values.arena[source + b]


def arena_used(values: Values) -> int:
    """Return how many bytes of the arena were ever in use."""
    return int(values.state[_ARENA_USED])
