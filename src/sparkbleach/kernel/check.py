"""Whether saved arrays are a state: what compiled code follows without a look leads where it should.

Each number that names a place lies in its array, each record hangs in one list, and what is counted twice
agrees. Arrays that pass may be another state than the one that was saved, but a state they are. `check_solo`
and `check_store` (check_cells.py) and `check_bayes` (bayes/check.py) say what that means for each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .jit import entry, i64
from .panes import PANE_COUNT
from .saved import arrays_of
from .table import BUCKETS_MIN, NONE, UNLINKED, Pool, Records, Table
from .values import Values, arena_used, find_free_slots, slot_sizes

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: a count beyond this would soon be too large for 32 bits
COUNT_MAX = 2**31 - 2**27
_SUM_MAX = 2.0**62
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def require(what: str, holds: Any) -> None:
    """Raise ValueError if something does not hold, of all elements if it is an array."""
    if not np.all(holds):
        raise ValueError(what)


def check_shapes(template: Any, store: Any, used: Callable[[Any], Mapping[int, int]]) -> None:
    """Check that arrays are as long as their pools and tables say, and otherwise as in an empty store.

    Args:
        template: An empty store.
        store: The store that was saved.
        used: Returns by `id` of an array that grows how many rows of it are in use.
    """
    growing = used(template)
    grows = [id(array) in growing for array in arrays_of(template)]
    pairs = list(zip(arrays_of(template), arrays_of(store), strict=True))
    for may_grow, (empty, array) in zip(grows, pairs, strict=True):
        n = 1 if may_grow else 0
        require("an array has another shape", array.shape[n:] == empty.shape[n:])
    lengths = used(store)
    for may_grow, (_, array) in zip(grows, pairs, strict=True):
        require("an array has another length", not may_grow or array.shape[0] == lengths[id(array)])


def check_fields(what: str, records: Slots, bounds: Mapping[str, int], least: int = NONE) -> None:
    """Check numbers in records in use, by field: each is at least `least`, and less than its bound."""
    for field, bound in bounds.items():
        require(f"{what}: {field} is out of bounds", is_within(records[field], bound, least))


def is_within(numbers: NDArray[Any], bound: int, least: int = 0) -> bool:
    """Return whether all numbers are at least `least`, and less than a bound."""
    return not numbers.size or bool(least <= numbers.min() and numbers.max() < bound)


def check_counts(what: str, *counts: NDArray[Any]) -> None:
    """Check that no count is negative, and that their sum is no number that is too large."""
    for numbers in counts:
        sound = not numbers.size or (numbers.min() >= 0 and float(numbers.sum(dtype=np.float64)) < _SUM_MAX)
        require(f"{what}: a count is out of bounds", sound)


# ------------------------------------------------------------------------------------------ lists


@entry
def _follow(first: I32, following: I32, owner: I32) -> bool:
    for k in range(first.size):
        x = i64(first[k])
        while x != NONE:
            if x < 0 or x >= owner.size or owner[x] != NONE:
                return False
            owner[x] = k
            x = i64(following[x])
    return True


def owners(what: str, first: NDArray[Any], following: NDArray[Any]) -> I32:
    """Return by record the number of the list that it is in, NONE if it is in none.

    Args:
        what: What the records are.
        first: By list: its first record, NONE if it is empty.
        following: By record: the next one in its list.

    Raises:
        ValueError: If a list leads nowhere, or two lists, or one and itself, meet.
    """
    found = np.full(following.size, NONE, np.int32)
    is_sound = is_within(first, max(following.size, 1), NONE) and _follow(
        np.ascontiguousarray(first, np.int32), np.ascontiguousarray(following), found
    )
    require(f"{what}: a list does not end as it should", is_sound)
    return found


def check_back_links(what: str, first: NDArray[Any], following: I32, previous: I32, owner: I32) -> None:
    """Check that lists lead back as they lead forth; `owner` says which list a record is in."""
    ahead = np.flatnonzero((owner != NONE) & (following != NONE))
    require(f"{what}: a list does not lead back", previous[following[ahead]] == ahead)
    begins = first[first != NONE]
    require(f"{what}: a list does not lead back", previous[begins] == NONE)


class Slots:
    """Which slots of an array of records are in use, and what is in these.

    A field is taken out of the records once: to go through it is several times as fast then.

    Args:
        what: What the records are.
        records: The records.
        pool: Their pool.
        table: The table that they are in.
        pending: The first of those that are to be recycled.

    Raises:
        ValueError: If a slot is at a wrong place in the table, or both there and free; or if table and pool
            do not say how many there are.
    """

    def __init__(self, what: str, records: Records, pool: Pool, table: Table, pending: int = NONE) -> None:
        self._records = records
        self._every: dict[str, NDArray[Any]] = {}
        self._live: dict[str, NDArray[Any]] = {}
        n = table.heads.size
        free, used, live = pool.state
        ends = np.array([free, pending], np.int64)
        owner = owners(what, np.concatenate([table.heads, ends]), self.every("next"))
        self.n = records.shape[0]
        self.free: Mask = owner == n
        self.pending: Mask = owner == n + 1
        self.live: Mask = ~self.free
        self.linked: Mask = (owner >= 0) & (owner < n)
        #: the numbers of those in use; all of them most often
        self.which: slice | I64 = slice(None) if self.live.all() else np.flatnonzero(self.live)
        require(f"{what}: {live} records in use", used == self.n and live == np.count_nonzero(self.live))
        require(f"{what}: a table of another size", table.state[2] == np.count_nonzero(self.linked))
        at_place = _buckets(table, self.every("hash")) == owner
        require(f"{what}: a record is at a wrong place in its table", at_place | ~self.linked)

    def every(self, field: str) -> NDArray[Any]:
        """Return a field of all slots, free ones too."""
        if field not in self._every:
            self._every[field] = np.ascontiguousarray(self._records[field])
        return self._every[field]

    def __getitem__(self, field: str) -> NDArray[Any]:
        """Return a field of the slots in use."""
        if field not in self._live:
            self._live[field] = self.every(field)[self.which]
        return self._live[field]

    def check_linked(self, what: str) -> None:
        """Check that all that is in use is in the table, but for what is pending."""
        require(f"{what}: a record is not in its table", self.linked | self.free | self.pending)

    def check_unlinked(self, what: str) -> None:
        """Check that what is in use and not in the table is marked as such."""
        marked = self.every("next")[self.live & ~self.linked] == UNLINKED
        require(f"{what}: a record is not in its table", marked)


def _buckets(table: Table, hash: NDArray[np.uint64]) -> I64:
    level, buckets = int(table.state[0]), int(table.state[1])
    is_sound = BUCKETS_MIN <= level <= buckets < 2 * level and level & (level - 1) == 0
    require("a table has another number of buckets", is_sound)
    bucket: I64 = (hash & np.uint64(2 * level - 1)).view(np.int64)
    bucket -= level * (bucket >= buckets)
    return bucket


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return what `mix64` makes of each number, in its place."""
    for multiplier in (_M1, _M2):
        numbers ^= numbers >> np.uint64(33)
        numbers *= multiplier
    numbers ^= numbers >> np.uint64(33)
    return numbers


def check_pair_hashes(what: str, hash: NDArray[np.uint64], a: NDArray[Any], b: NDArray[Any]) -> None:
    """Check the hashes of pairs of numbers, by which alone they are found."""
    pair = a.astype(np.uint64)
    pair <<= np.uint64(32)
    pair |= b.astype(np.uint64)
    require(f"{what}: a record has the hash of another one", mixed(pair) == hash)


# ------------------------------------------------------------------------------------------ values


def check_values(values: Values, *references: NDArray[Any]) -> Slots:
    """Check the value dictionary; return its slots.

    Args:
        values: The values.
        references: All that keep a value, by its number; NONE for none.
    """
    records = values.records
    slots = Slots("values", records, values.pool, values.table, int(values.state[1]))
    slots.check_linked("values")
    counted = np.zeros(slots.n + 1, np.int64)
    for named in references:
        require("values: one is named that is not there", is_within(named, slots.n, NONE))
        counted += np.bincount(named + 1, minlength=slots.n + 1)
    kept = slots.linked
    require(
        "values: one is named more or less often than it says", counted[1:][kept] == records["refs"][kept]
    )
    require("values: one that is kept is named by none", counted[1:][kept] > 0)
    require("values: one is named that is not kept", counted[1:][~kept] == 0)
    require("values: one that is not kept says that it is", records["refs"][~kept] == 0)
    _check_arena(values, kept | slots.pending)
    return slots


def _check_arena(values: Values, kept: Mask) -> None:
    """Check that the slots of the arena lie in it, and do not overlap; free ones are among them."""
    records, used = values.records, arena_used(values)
    length = records["length"][kept]
    require("values: a length is out of bounds", is_within(length, used + 1, NONE))
    is_bytes = length != NONE
    sizes = slot_sizes(length[is_bytes])
    offsets = records["offset"][kept][is_bytes]
    grain = int(slot_sizes(np.ones(1, np.int64))[0])
    free = np.empty((used // grain, 2), np.int64)
    n_free = find_free_slots(values, free)
    require("values: a list of free bytes does not end as it should", n_free >= 0)
    begins = np.concatenate([offsets, free[:n_free, 0]])
    require("values: bytes are out of bounds", is_within(begins, used) and not (begins % grain).any())
    ends = begins + np.concatenate([sizes, free[:n_free, 1]])
    require("values: bytes are out of bounds", ends <= used)
    if begins.size:
        n_grains = used // grain + 1
        depth = np.bincount(begins // grain, minlength=n_grains) - np.bincount(
            ends // grain, minlength=n_grains
        )
        require("values: bytes belong to two values", np.cumsum(depth).max() <= 1)


# ------------------------------------------------------------------------------------------ counts by pane


def check_panes(what: str, nodes: Records, pool: Pool, older: Sequence[NDArray[Any]]) -> list[I32]:
    """Check the counts of older panes.

    Args:
        what: Whose counts they are.
        nodes: PANE_COUNT.
        pool: Their pool.
        older: By kind of record and record: its first older count, NONE if there is none.

    Returns:
        By kind, and by node, the record whose count it is; NONE if it is of none of that kind.
    """
    assert nodes.dtype == PANE_COUNT  # noqa: S101
    check_counts(what, nodes["count"])
    ends = np.cumsum([0, *(one.size for one in older)])
    owner = owners(what, np.concatenate([*older, pool.state[:1]]), nodes["next"])
    n_free = np.count_nonzero(owner == ends[-1])
    _, used, live = pool.state
    require(f"{what}: {live} counts in use", live == used - n_free)
    return [np.where((owner >= begin) & (owner < end), owner - begin, NONE) for begin, end in pairwise(ends)]
