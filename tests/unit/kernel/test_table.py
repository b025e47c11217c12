"""The linear-hash table and the pool, against a set and a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach.kernel.table import (
    BUCKETS_MIN,
    NONE,
    UNLINKED,
    Pool,
    Records,
    Table,
    clear_table,
    grow,
    new_pool,
    new_table,
    pool_give,
    pool_live,
    pool_take,
    pool_used,
    table_buckets,
    table_first,
    table_insert,
    table_items,
    table_remove,
)

F = TypeVar("F", bound=Callable[..., Any])
RECORD = np.dtype([("hash", np.uint64), ("next", np.int32)], align=True)


def compiled(function: F) -> F:
    """Compile a driver of kernel functions, which cannot be called from Python themselves."""
    return cast(F, numba.njit(function))


@compiled
def _insert(table: Table, records: Records, i: int) -> None:
    table_insert(table, records, i)


@compiled
def _remove(table: Table, records: Records, i: int) -> None:
    table_remove(table, records, i)


@compiled
def _first(table: Table, hash: int) -> int:
    return np.int64(table_first(table, hash))  # type: ignore[return-value, arg-type]


@compiled
def _take(pool: Pool, records: Records) -> int:
    return np.int64(pool_take(pool, records))  # type: ignore[return-value]


@compiled
def _give(pool: Pool, records: Records, i: int) -> None:
    pool_give(pool, records, i)


class Pair:
    """A table with a pool, and a dictionary of what must be in them: slot to hash."""

    def __init__(self) -> None:
        self.records = np.zeros(0, RECORD)
        self.table = new_table()
        self.pool = new_pool()
        self.model: dict[int, int] = {}

    def add(self, hash: int) -> None:
        """Put a record with this hash in, in a slot of the pool."""
        grow(self.records, pool_used(self.pool) + 1)
        grow(self.table.heads, table_items(self.table) + 2)
        i = int(_take(self.pool, self.records))
        assert i not in self.model
        assert self.records[i]["next"] == UNLINKED
        self.records[i]["hash"] = hash
        _insert(self.table, self.records, np.int64(i))  # type: ignore[arg-type]
        self.model[i] = hash

    def remove(self, which: int) -> None:
        """Take one of the records out, and give its slot back."""
        if self.model:
            i = sorted(self.model)[which % len(self.model)]
            _remove(self.table, self.records, np.int64(i))  # type: ignore[arg-type]
            assert self.records[i]["next"] == UNLINKED
            _give(self.pool, self.records, np.int64(i))  # type: ignore[arg-type]
            del self.model[i]

    def clear(self) -> None:
        """Empty the table; give all slots back."""
        clear_table(self.table)
        for i in self.model:
            _give(self.pool, self.records, np.int64(i))  # type: ignore[arg-type]
        self.model.clear()

    def chain(self, hash: int) -> list[int]:
        """Return the chain that records with this hash are in."""
        found = []
        i = int(_first(self.table, np.uint64(hash)))  # type: ignore[arg-type]
        while i != NONE:
            found.append(i)
            i = int(self.records[i]["next"])
        return found

    def check(self) -> None:
        """Assert that table and pool hold what the model holds."""
        assert table_items(self.table) == len(self.model)
        assert pool_live(self.pool) == len(self.model)
        assert pool_used(self.pool) >= len(self.model)
        assert all(i < pool_used(self.pool) for i in self.model)
        for hash in set(self.model.values()):
            chain = self.chain(hash)
            assert len(chain) == len(set(chain))
            assert set(chain) <= set(self.model)
            same = {i for i in chain if self.records[i]["hash"] == hash}
            assert same == {i for i, h in self.model.items() if h == hash}
        in_buckets = [i for b in range(table_buckets(self.table)) for i in self.bucket(b)]
        assert sorted(in_buckets) == sorted(self.model)

    def bucket(self, bucket: int) -> list[int]:
        """Return the records of a bucket."""
        found = []
        i = int(self.table.heads[bucket])
        while i != NONE:
            found.append(i)
            i = int(self.records[i]["next"])
        return found


HASHES = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 5),  # equal ones
    st.integers(0, 300),
    st.integers(0, 2**20 - 1).map(lambda n: n << 44),  # equal in their low bits
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(HASHES, min_size=1, max_size=60)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 2**20), min_size=1, max_size=60)),
        st.tuples(st.just("clear"), st.just([0])),
    ),
    max_size=12,
)


@given(STEPS)
def test_table_and_pool_equal_a_dictionary(steps: list[tuple[str, list[int]]]) -> None:
    """Whatever is put in, taken out and cleared, what is in is found, and nothing else."""
    pair = Pair()
    for kind, numbers in steps:
        for number in numbers:
            if kind == "add":
                pair.add(number)
            elif kind == "remove":
                pair.remove(number)
            else:
                pair.clear()
        pair.check()


def test_chains_stay_short() -> None:
    """The table grows by a bucket for each item beyond the first few: chains do not lengthen."""
    pair = Pair()
    rng = np.random.default_rng(0)
    for n, hash in enumerate(rng.integers(0, 2**64, 3_000, np.uint64), start=1):
        pair.add(int(hash))
        assert table_buckets(pair.table) == max(BUCKETS_MIN, n)
    pair.check()
    lengths = [len(pair.bucket(b)) for b in range(table_buckets(pair.table))]
    assert max(lengths) < 15


def test_cleared_table_is_as_new() -> None:
    """A table that was cleared has the first few buckets, all empty, and grows again."""
    pair = Pair()
    for round_number in range(3):
        for hash in range(500):
            pair.add(hash * 7919 + round_number)
        pair.check()
        pair.clear()
        assert table_buckets(pair.table) == BUCKETS_MIN
        assert table_items(pair.table) == 0
        pair.check()


@given(st.lists(st.one_of(st.none(), st.integers(0, 1000)), max_size=200))
def test_pool_hands_out_free_slots(steps: list[int | None]) -> None:
    """A slot in use is never handed out again; a slot that was given back is, before a new one."""
    pool = new_pool()
    records = np.zeros(256, RECORD)
    live: list[int] = []
    most = 0
    for step in steps:
        if step is None:
            slot = int(_take(pool, records))
            assert slot not in live
            live.append(slot)
            most = max(most, len(live))
        elif live:
            _give(pool, records, np.int64(live.pop(step % len(live))))  # type: ignore[arg-type]
        assert pool_live(pool) == len(live)
        assert pool_used(pool) == most


def test_grow() -> None:
    """An array grows in place, keeps what it has, and is zero beyond; it never shrinks."""
    array = np.zeros((0, 2), np.int64)
    same = array
    grow(array, 1)
    assert array.shape[0] >= 1
    array[:] = 5
    before = array.shape[0]
    grow(array, before)
    assert array.shape[0] == before
    grow(array, before + 1)
    assert array.shape[0] > before
    assert (array[:before] == 5).all()
    assert (array[before:] == 0).all()
    assert same is array
