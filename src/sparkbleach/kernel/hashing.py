"""128-bit hashes: of cells, and of the keys of cell groups.

MurmurHash3 x64 128 (Austin Appleby, public domain), because its 128 bits are well mixed for short keys and
its test vectors are public. A group's key is the same hash over the hashes of its LHS cells, seeded with
the serial number of its rule, so two rules never share a group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .jit import entry, inline

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_M5 = np.uint64(5)
_N1 = np.uint64(0x52DCE729)
_N2 = np.uint64(0x38495AB5)
_F1 = np.uint64(0xFF51AFD7ED558CCD)
_F2 = np.uint64(0xC4CEB9FE1A85EC53)
_S8 = np.uint64(8)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S33 = np.uint64(33)
_S37 = np.uint64(37)
_ZERO = np.uint64(0)


@inline
def mix64(h: np.uint64) -> np.uint64:
    """Return a 64-bit number whose every bit depends on every bit of `h` (a bijection)."""
    h ^= h >> _S33
    h *= _F1
    h ^= h >> _S33
    h *= _F2
    h ^= h >> _S33
    return h


@inline
def _round(h1: np.uint64, h2: np.uint64, k1: np.uint64, k2: np.uint64) -> tuple[np.uint64, np.uint64]:
    k1 *= _C1
    k1 = (k1 << _S31) | (k1 >> _S33)
    k1 *= _C2
    h1 ^= k1
    h1 = (h1 << _S27) | (h1 >> _S37)
    h1 = (h1 + h2) * _M5 + _N1
    k2 *= _C2
    k2 = (k2 << _S33) | (k2 >> _S31)
    k2 *= _C1
    h2 ^= k2
    h2 = (h2 << _S31) | (h2 >> _S33)
    h2 = (h2 + h1) * _M5 + _N2
    return h1, h2


@inline
def _finish(h1: np.uint64, h2: np.uint64, length: np.uint64) -> tuple[np.uint64, np.uint64]:
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    h1 = mix64(h1)
    h2 = mix64(h2)
    h1 += h2
    h2 += h1
    return h1, h2


@inline
def _tail(k1: np.uint64, k2: np.uint64) -> tuple[np.uint64, np.uint64]:
    k2 *= _C2
    k2 = (k2 << _S33) | (k2 >> _S31)
    k2 *= _C1
    k1 *= _C1
    k1 = (k1 << _S31) | (k1 >> _S33)
    k1 *= _C2
    return k1, k2


@inline
def load64(data: U8, at: int) -> np.uint64:
    """Return the eight bytes at `at` as a little-endian number (compiles to one load)."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + 1]) << np.uint64(8)
        | np.uint64(data[at + 2]) << np.uint64(16)
        | np.uint64(data[at + 3]) << np.uint64(24)
        | np.uint64(data[at + 4]) << np.uint64(32)
        | np.uint64(data[at + 5]) << np.uint64(40)
        | np.uint64(data[at + 6]) << np.uint64(48)
        | np.uint64(data[at + 7]) << np.uint64(56)
    )


@inline
def _load_part(data: U8, at: int, n: int) -> np.uint64:
    """Return the `n` < 8 bytes at `at` as a little-endian number."""
    if n == 0:
        return _ZERO
    if at + n >= 8:  # one load that ends where they end, less what comes before
        return load64(data, at + n - 8) >> np.uint64(8 * (8 - n))
    k = _ZERO
    for i in range(n - 1, -1, -1):
        k = (k << _S8) | np.uint64(data[at + i])
    return k


@inline
def hash_bytes(data: U8, at: int, length: int) -> tuple[np.uint64, np.uint64]:
    """Return the 128-bit hash of `length` bytes at `at`."""
    h1 = _ZERO
    h2 = _ZERO
    end = at + length
    while at + 16 <= end:
        h1, h2 = _round(h1, h2, load64(data, at), load64(data, at + 8))
        at += 16
    left = end - at
    if left > 0:
        if left >= 8:
            k1 = load64(data, at)
            k2 = _load_part(data, at + 8, left - 8)
        else:
            k1 = _load_part(data, at, left)
            k2 = _ZERO
        k1, k2 = _tail(k1, k2)
        h1 ^= k1
        h2 ^= k2
    return _finish(h1, h2, np.uint64(length))


@entry
def hash_bytes_column(data: U8, offsets: NDArray[np.int64], lo: U64, hi: U64) -> None:
    """Hash every cell of a column of variable length into `lo` and `hi`."""
    for i in range(lo.size):
        lo[i], hi[i] = hash_bytes(data, offsets[i], offsets[i + 1] - offsets[i])


@entry
def hash_codes_column(codes: U64, lo: U64, hi: U64) -> None:
    """Hash every cell of a column of 64-bit codes into `lo` and `hi`."""
    for i in range(lo.size):
        k1, _ = _tail(codes[i], _ZERO)
        lo[i], hi[i] = _finish(k1, _ZERO, np.uint64(8))


@entry
def add_to_group_keys(
    lo: U64, hi: U64, cell_lo: U64, cell_hi: U64, serial: int, at: int, n_attributes: int
) -> None:
    """Take LHS attribute `at` of `n_attributes` into the group keys of a rule.

    Args:
        lo: Low halves of the keys.
        hi: High halves.
        cell_lo: Low halves of the hashes of the attribute's cells.
        cell_hi: High halves.
        serial: The serial number of the rule, with which its keys begin.
        at: Which attribute; they must be taken in order.
        n_attributes: How many there are; with the last one the keys are ready.
    """
    seed_lo = mix64(np.uint64(2 * serial + 1))
    seed_hi = mix64(np.uint64(2 * serial + 2))
    if n_attributes == 1:  # the hash of the cell is mixed well already
        for i in range(lo.size):
            lo[i] = cell_lo[i] ^ seed_lo
            hi[i] = cell_hi[i] ^ seed_hi
        return
    length = np.uint64(16 * n_attributes)
    for i in range(lo.size):
        h1 = lo[i] if at else seed_lo
        h2 = hi[i] if at else seed_hi
        h1, h2 = _round(h1, h2, cell_lo[i], cell_hi[i])
        if at == n_attributes - 1:
            h1, h2 = _finish(h1, h2, length)
        lo[i] = h1
        hi[i] = h2
