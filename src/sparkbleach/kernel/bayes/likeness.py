"""How alike two values are: the class of their edit distance.

Myers' bit-parallel algorithm: the first 64 characters of one text are the bits of a word, and each character
of the other takes a few operations on words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..hashing import U8, U64, mix64
from ..jit import apart, i64, inline
from .store import Store

CHARACTERS = 64
UNLIKE, EQUAL = 0, 5
N_CLASSES = 6

_SLOTS = 256  # characters share a slot if they are equal modulo this number
_KNOWN = 4096  # pairs whose class is kept; a power of two


class Texts(NamedTuple):
    """Room for two texts, and the places of each character of the first."""

    a: NDArray[np.int64]  #: code points
    b: NDArray[np.int64]
    places: U64  #: by slot: a bit for each place of a character in `a`; all zero between two calls
    known: U64  #: pairs of values that were compared lately, at the place of their hash; 0 for none
    classes: NDArray[np.int64]  #: and their classes


def new_texts() -> Texts:
    """Return room for a comparison."""
    return Texts(
        np.zeros(CHARACTERS, np.int64),
        np.zeros(CHARACTERS, np.int64),
        np.zeros(_SLOTS, np.uint64),
        np.zeros(_KNOWN, np.uint64),
        np.zeros(_KNOWN, np.int64),
    )


def forget_pairs(texts: Texts) -> None:
    """Forget all classes: the numbers of values may be used again."""
    texts.known[:] = 0


@inline
def _decode(arena: U8, at: int, length: int, text: NDArray[np.int64]) -> int:
    """Write the first characters of UTF-8 bytes, or bytes if the length is -1 - n; return how many."""
    n = i64(0)
    if length < 0:
        for i in range(min(-1 - length, CHARACTERS)):
            text[i] = arena[at + i]
            n += 1
        return n
    end = at + length
    while at < end and n < CHARACTERS:
        byte = i64(arena[at])
        at += 1
        if byte < 0x80:
            text[n] = byte
            n += 1
            continue
        more = 0
        if byte >= 0xF0:
            byte &= 0x07
            more = 3
        elif byte >= 0xE0:
            byte &= 0x0F
            more = 2
        elif byte >= 0xC0:
            byte &= 0x1F
            more = 1
        for _ in range(more):
            if at < end:
                byte = (byte << 6) | (i64(arena[at]) & 0x3F)
                at += 1
        text[n] = byte
        n += 1
    return n


@inline
def likeness(store: Store, texts: Texts, v: int, w: int) -> int:
    """Return the class of two values: 5 equal, 4 one edit, 3 two edits or nearly alike, … 0 unlike."""
    if v == w:
        return i64(EQUAL)
    pair = np.uint64(v + 1) << np.uint64(32) | np.uint64(w)
    place = i64(mix64(pair) & np.uint64(_KNOWN - 1))
    if texts.known[place] != pair:
        texts.known[place] = pair
        texts.classes[place] = _likeness(store, texts, v, w)
    return texts.classes[place]


@apart
def _likeness(store: Store, texts: Texts, v: int, w: int) -> int:
    a = store.occurrences[v]
    b = store.occurrences[w]
    n_a = _decode(store.values.arena, a["text"], a["text_length"], texts.a)
    n_b = _decode(store.values.arena, b["text"], b["text_length"], texts.b)
    distance = _distance(texts, n_a, n_b)
    if distance <= 1:
        return 4
    similarity = 1.0 - distance / max(n_a, n_b)
    if distance == 2 or similarity >= 0.85:
        return 3
    if similarity >= 0.6:
        return 2
    if similarity >= 0.3:
        return 1
    return UNLIKE


@inline
def _distance(texts: Texts, n_a: int, n_b: int) -> int:
    """Return the edit distance of the texts `a` and `b`."""
    if n_a == 0 or n_b == 0:
        return max(n_a, n_b)
    one = np.uint64(1)
    a, b, places = texts.a, texts.b, texts.places
    is_exact = True  # no two characters share a slot
    for i in range(n_a):
        is_exact = is_exact and a[i] < _SLOTS
        places[a[i] & (_SLOTS - 1)] |= one << np.uint64(i)
    last = one << np.uint64(n_a - 1)
    plus = ~np.uint64(0)
    minus = np.uint64(0)
    distance = n_a
    for j in range(n_b):
        equal = places[b[j] & (_SLOTS - 1)]
        if not is_exact or b[j] >= _SLOTS:
            found = np.uint64(0)
            for i in range(n_a):
                if a[i] == b[j]:
                    found |= one << np.uint64(i)
            equal &= found
        vertical = equal | minus
        equal |= ((equal & plus) + plus) ^ plus
        up = minus | ~(equal | plus)
        down = plus & equal
        if up & last:
            distance += 1
        if down & last:
            distance -= 1
        up = (up << one) | one
        down <<= one
        plus = down | ~(vertical | up)
        minus = up & vertical
    for i in range(n_a):
        places[a[i] & (_SLOTS - 1)] = np.uint64(0)
    return distance
