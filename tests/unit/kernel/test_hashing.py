"""Hashes of cells and group keys."""

from __future__ import annotations

import itertools
import struct

import mmh3
import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from sparkbleach.engine.encode import encode
from sparkbleach.kernel.hashing import U64, add_to_group_keys, hash_bytes_column, hash_codes_column


def hashes(cells: list[bytes], before: bytes = b"") -> list[tuple[int, int]]:
    """Return the hashes of byte strings that lie in memory one after the other."""
    data = np.frombuffer(before + b"".join(cells), np.uint8)
    offsets = np.cumsum([len(before), *(len(cell) for cell in cells)], dtype=np.int64)
    lo = np.empty(len(cells), np.uint64)
    hi = np.empty(len(cells), np.uint64)
    hash_bytes_column(data, offsets, lo, hi)
    return list(zip(lo.tolist(), hi.tolist(), strict=True))


def keys(cells: list[tuple[str, ...]], serial: int) -> list[tuple[int, int]]:
    """Return the group keys of LHS values for the rule with this serial number."""
    lo: U64 = np.empty(len(cells), np.uint64)
    hi: U64 = np.empty(len(cells), np.uint64)
    columns = [encode(pa.array(column)) for column in zip(*cells, strict=True)]
    for at, column in enumerate(columns):
        add_to_group_keys(lo, hi, column.lo, column.hi, serial, at, len(columns))
    return list(zip(lo.tolist(), hi.tolist(), strict=True))


@given(st.lists(st.binary(max_size=70), max_size=8), st.binary(max_size=17))
@example([b"", b"\0", b"a" * 15, b"a" * 16, b"a" * 17, b"\xff" * 31], b"")
def test_bytes_equal_mmh3(cells: list[bytes], before: bytes) -> None:
    """The hash of bytes is MurmurHash3 x64 128, wherever they lie."""
    assert hashes(cells, before) == [mmh3.hash64(cell, 0, True, signed=False) for cell in cells]


def test_every_length_and_place() -> None:
    """Every length up to four blocks gives the public hash at every distance from the start of memory."""
    data = bytes(range(7, 107))
    for before in range(17):
        cells = [data[:length] for length in range(65)]
        expected = [mmh3.hash64(cell, 0, True, signed=False) for cell in cells]
        assert [hashes([cell], b"x" * before)[0] for cell in cells] == expected


@given(st.lists(st.integers(0, 2**64 - 1), max_size=10))
def test_codes_equal_mmh3(codes: list[int]) -> None:
    """The hash of a 64-bit code is that of its eight bytes, least significant first."""
    lo = np.empty(len(codes), np.uint64)
    hi = np.empty(len(codes), np.uint64)
    hash_codes_column(np.array(codes, np.uint64), lo, hi)
    expected = [mmh3.hash64(struct.pack("<Q", code), 0, True, signed=False) for code in codes]
    assert list(zip(lo.tolist(), hi.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), min_size=1, max_size=20, unique=True))
@example([("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("c", "ab"), ("bc", "a")])
def test_group_keys_differ_between_values(cells: list[tuple[str, str]]) -> None:
    """LHS values differ in their key even if they read the same one after the other, or are swapped."""
    assert len(set(keys(list(cells), serial=0))) == len(cells)


@given(st.text(max_size=5), st.text(max_size=5))
def test_group_keys_differ_between_rules(a: str, b: str) -> None:
    """Two rules never share a group, even with the same LHS attributes and values."""
    of_rules = [keys([(a, b)], serial)[0] for serial in range(6)]
    assert len(set(of_rules)) == 6


def test_group_keys_differ_between_numbers_of_attributes() -> None:
    """The key of one attribute is not the beginning of the key of two."""
    words = ["", "a", "b", "ab"]
    all_values = [tuple(value) for n in (1, 2, 3) for value in itertools.product(words, repeat=n)]
    assert len({keys([value], serial=3)[0] for value in all_values}) == len(all_values)


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), min_size=1, max_size=10))
def test_group_keys_depend_on_the_value_only(cells: list[tuple[str, str]]) -> None:
    """A key does not depend on what else is in the batch."""
    assert keys(list(cells), 7) == [keys([cell], 7)[0] for cell in cells]


def test_group_keys_are_spread() -> None:
    """Consecutive numbers fall evenly into buckets, by the low bits of their keys."""
    column = encode(pa.array(np.arange(64_000)))
    lo = np.empty(64_000, np.uint64)
    hi = np.empty(64_000, np.uint64)
    add_to_group_keys(lo, hi, column.lo, column.hi, 5, 0, 1)
    buckets = np.bincount((lo % np.uint64(64)).astype(np.int64), minlength=64)
    assert buckets.min() > 850
    assert buckets.max() < 1150
    assert np.unique(lo).size == np.unique(hi).size == 64_000
