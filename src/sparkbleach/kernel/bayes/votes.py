"""Sources: who said what, how often each is right, and who copies whom."""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..hashing import mix64
from ..jit import apart, entry, i64, inline
from ..panes import add_cells, cell_add
from ..refs import ref
from ..table import (
    NONE,
    Pool,
    Records,
    Table,
    grow,
    new_pool,
    new_table,
    pool_take,
    pool_used,
    table_first,
    table_insert,
    table_items,
)
from ..values import value_less
from .gamma import as_term
from .groups import other_side
from .layout import Layout
from .store import CARRY, SIDE, SWEEP, Counted, Store

UNKNOWN_ACCURACY = 0.8
_COPIES_MIN = 10
_COPIES_SHARE = 0.95

#: how often two sources gave the same right sides for the same left side
PAIR = np.dtype(
    [
        ("hash", np.uint64),  # of the two, the smaller number first
        ("same", np.int64),
        ("shared", np.int64),
        ("next", np.int32),
        ("a", np.int32),
        ("b", np.int32),
    ],
    align=True,
)

#: the last row of a source for a left side
ROW = np.dtype(
    [
        ("hash", np.uint64),  # of the left side and its values
        ("pane", np.int64),
        ("next", np.int32),
        ("source", np.int32),
        ("side", np.int32),  # which left side; NONE if the slot is free
    ],
    align=True,
)


class Sources(NamedTuple):
    """What is known of sources; all empty if no column names them."""

    accuracy: NDArray[np.float64]  #: by source; one entry for a source that was never met is always there
    pairs: Records
    pair_table: Table
    pair_pool: Pool
    rows: Records
    row_table: Table
    row_pool: Pool
    row_left: NDArray[np.int32]  #: by row and place: the left values
    row_right: NDArray[np.int32]  #: by row and place: the values on the right sides of its rules
    sides: NDArray[
        np.int64
    ]  #: by left side: the rule that comes first with it; the others follow in `members`
    members: NDArray[np.int64]  #: by left side and place: an attribute on the right; NONE beyond the last


def new_sources(
    n_places: int, members: NDArray[np.int64], sides: NDArray[np.int64], *, in_use: bool
) -> Sources:
    """Return sources of which nothing is known."""
    return Sources(
        np.full(1 if in_use else 0, UNKNOWN_ACCURACY),
        np.zeros(0, PAIR),
        new_table(),
        new_pool(),
        np.zeros(0, ROW),
        new_table(),
        new_pool(),
        np.zeros((0, n_places), np.int32),
        np.zeros((0, members.shape[1]), np.int32),
        sides,
        members,
    )


def reserve_sources(sources: Sources, n_tuples: int) -> None:
    """Make room for what `n_tuples` more tuples can need, all sources being numbered."""
    n = n_tuples * sources.sides.size
    grow(sources.rows, pool_used(sources.row_pool) + n)
    grow(sources.row_left, sources.rows.shape[0])
    grow(sources.row_right, sources.rows.shape[0])
    grow(sources.row_table.heads, table_items(sources.row_table) + n + 1)
    known = sources.accuracy.size
    pairs = min(n * known, known * known)
    grow(sources.pairs, pool_used(sources.pair_pool) + pairs)
    grow(sources.pair_table.heads, table_items(sources.pair_table) + pairs + 1)


# ------------------------------------------------------------------------------------------ votes


@inline
def _vote_find(store: Store, x: int, source: int) -> int:
    hash = mix64(np.uint64(x) << np.uint64(32) | np.uint64(source))
    vote = i64(table_first(store.vote_table, hash))
    while vote != NONE:
        if store.votes[vote]["hash"] == hash:
            return vote
        vote = i64(store.votes[vote]["next"])
    return NONE


@inline
def has_vote(store: Store, x: int, source: int) -> bool:
    """Return whether a source has voted for the value of a cell."""
    vote = _vote_find(store, x, source)
    return vote != NONE and store.votes[vote]["total"][store.state[SIDE]] > 0


@apart
def _vote_of(store: Store, x: int, source: int, pane: int) -> int:
    vote = _vote_find(store, x, source)
    if vote == NONE:
        vote = pool_take(store.vote_pool, store.votes)
        record = store.votes[vote]
        record["hash"] = mix64(np.uint64(x) << np.uint64(32) | np.uint64(source))
        record["pane"] = pane
        record["count"] = 0
        record["older"] = NONE
        record["total"][0] = 0
        record["total"][1] = 0
        record["source"] = source
        record["cell"] = x
        record["next_vote"] = store.cells[x]["first_vote"]
        store.cells[x]["first_vote"] = vote
        table_insert(store.vote_table, store.votes, vote)
    return vote


@apart
def add_vote(store: Store, x: int, source: int, pane: int, start: int, r: int) -> None:
    """Count a vote of a source for the value of a cell; note whether it repeats what it said before."""
    side = store.state[SIDE]
    g = i64(store.cells[x]["group"])
    favourite = NONE
    most = i64(0)
    y = i64(store.groups[g]["first_cell"])
    while y != NONE:
        vote = _vote_find(store, y, source)
        if vote != NONE:
            count = i64(store.votes[vote]["total"][side])
            if count > most or (
                0 < count == most
                and value_less(store.values, store.cells[y]["value"], store.cells[favourite]["value"])
            ):
                favourite = y
                most = count
        y = i64(store.cells[y]["next_cell"])
    if favourite != NONE:
        store.running.trust_n[r] += 1
        store.running.trust_sum[r] += 1.0 if favourite == x else 0.0
    vote = _vote_of(store, x, source, pane)
    cell_add(Counted(store.votes, store.panes, store.pane_pool), vote, pane, start)
    store.votes[vote]["total"][side] += 1
    if store.state[CARRY] and store.groups[g]["swept"] == store.state[SWEEP]:
        store.votes[vote]["total"][other_side(store)] += 1


@apart
def begin_votes(store: Store, x: int, source: int, count: int, pane: int, start: int) -> None:  # noqa: ARG001
    """Let a cell that begins at a count have it by the votes of one source."""
    vote = _vote_of(store, x, source, pane)
    add_cells(Counted(store.votes, store.panes, store.pane_pool), vote, pane, count)
    for side in range(2):
        if store.cells[x]["total"][side] > 0:
            store.votes[vote]["total"][side] += count


@inline
def _pair_hash(s: int, t: int) -> np.uint64:
    return mix64(np.uint64(min(s, t)) << np.uint64(32) | np.uint64(max(s, t)))


@inline
def _pair_find(sources: Sources, s: int, t: int) -> int:
    hash = _pair_hash(s, t)
    pair = i64(table_first(sources.pair_table, hash))
    while pair != NONE:
        if sources.pairs[pair]["hash"] == hash:
            return pair
        pair = i64(sources.pairs[pair]["next"])
    return NONE


@inline
def are_copies(sources: Sources, s: int, t: int) -> bool:
    """Return whether two sources nearly always say the same."""
    pair = _pair_find(sources, s, t)
    if pair == NONE:
        return False
    shared = sources.pairs[pair]["shared"]
    return shared >= _COPIES_MIN and sources.pairs[pair]["same"] >= _COPIES_SHARE * shared


def find_copies(sources: Sources) -> NDArray[np.int32]:
    """Return the pairs of sources that nearly always say the same, those with most in common first."""
    pairs = sources.pairs[: pool_used(sources.pair_pool)]
    is_copy = (pairs["shared"] >= _COPIES_MIN) & (pairs["same"] >= _COPIES_SHARE * pairs["shared"])
    found = pairs[is_copy]
    found = found[np.lexsort((found["b"], found["a"], -found["shared"]))]
    return np.column_stack((found["a"], found["b"]))


def count_votes(store: Store, n_sources: int) -> NDArray[np.int64]:
    """Return by source how many votes of it count."""
    votes = store.votes[: pool_used(store.vote_pool)]
    votes = votes[votes["cell"] != NONE]
    counted = np.zeros(n_sources, np.int64)
    np.add.at(counted, votes["source"], votes["total"][:, store.state[SIDE]])
    return counted


@inline
def _n_copies(store: Store, sources: Sources, x: int, vote: int) -> int:
    """Return how many copies of a vote's source vote for the same value."""
    side = store.state[SIDE]
    n = i64(0)
    other = i64(store.cells[x]["first_vote"])
    while other != NONE:
        if (
            other != vote
            and store.votes[other]["total"][side] > 0
            and are_copies(sources, i64(store.votes[vote]["source"]), i64(store.votes[other]["source"]))
        ):
            n += 1
        other = i64(store.votes[other]["next_vote"])
    return n


@apart
def vote_score(store: Store, sources: Sources, x: int, k: int, without: int) -> tuple[float, bool]:
    """Return the score of a cell by its votes, less one of a source, and whether it has any vote."""
    side = store.state[SIDE]
    score = 0.0
    any_vote = False
    vote = i64(store.cells[x]["first_vote"])
    while vote != NONE:
        source = i64(store.votes[vote]["source"])
        count = i64(store.votes[vote]["total"][side]) - (source == without)
        if count > 0:
            any_vote = True
            accuracy = source_accuracy(sources, source)
            share = 1.0 / (1.0 + _n_copies(store, sources, x, vote))
            score += as_term(count * share * log(accuracy * (k - 1) / (1.0 - accuracy)))
        vote = i64(store.votes[vote]["next_vote"])
    return score, any_vote


@inline
def source_accuracy(sources: Sources, source: int) -> float:
    """Return how often a source is right."""
    return sources.accuracy[source] if source < sources.accuracy.size else UNKNOWN_ACCURACY


# ------------------------------------------------------------------------------------------ copies


@entry
def note_row(
    sources: Sources,
    layout: Layout,
    values: NDArray[np.int32],
    source: NDArray[np.int32],
    first: int,
    last: int,
    pane: int,
    start: int,
) -> None:
    """Compare each tuple with the last row of every other source for the same left side."""
    sources = ref(sources)
    layout = ref(layout)
    for i in range(first, last):
        for side in range(sources.sides.size):
            _note_row(sources, layout, values, i64(source[i]), i, side, pane, start)


@apart
def _note_row(
    sources: Sources,
    layout: Layout,
    values: NDArray[np.int32],
    source: int,
    i: int,
    side: int,
    pane: int,
    start: int,
) -> None:
    r = sources.sides[side]
    hash = mix64(np.uint64(side + 1))
    for j in range(layout.n_lhs[r]):
        v = values[layout.lhs[r, j], i]
        if v == NONE:
            return
        hash = mix64(hash + np.uint64(v + 1) * np.uint64(0x9E3779B97F4A7C15))
    own = NONE
    row = i64(table_first(sources.row_table, hash))
    while row != NONE:
        record = sources.rows[row]
        is_same_key = record["hash"] == hash and record["side"] == side and record["pane"] >= start
        for j in range(layout.n_lhs[r]):
            is_same_key = is_same_key and sources.row_left[row, j] == values[layout.lhs[r, j], i]
        if is_same_key:
            if record["source"] == source:
                own = row
            else:
                same = True
                for k in range(sources.members.shape[1]):
                    a = sources.members[side, k]
                    if a != NONE:
                        same = same and sources.row_right[row, k] == values[a, i]
                _note_pair(sources, source, i64(record["source"]), same)
        row = i64(record["next"])
    if own == NONE:
        own = pool_take(sources.row_pool, sources.rows)
        record = sources.rows[own]
        record["hash"] = hash
        record["source"] = source
        record["side"] = side
        for j in range(layout.n_lhs[r]):
            sources.row_left[own, j] = values[layout.lhs[r, j], i]
        table_insert(sources.row_table, sources.rows, own)
    sources.rows[own]["pane"] = pane
    for k in range(sources.members.shape[1]):
        a = sources.members[side, k]
        if a != NONE:
            sources.row_right[own, k] = values[a, i]


@apart
def _note_pair(sources: Sources, s: int, t: int, same: bool) -> None:
    pair = _pair_find(sources, s, t)
    if pair == NONE:
        pair = pool_take(sources.pair_pool, sources.pairs)
        record = sources.pairs[pair]
        record["hash"] = _pair_hash(s, t)
        record["same"] = 0
        record["shared"] = 0
        record["a"] = min(s, t)
        record["b"] = max(s, t)
        table_insert(sources.pair_table, sources.pairs, pair)
    sources.pairs[pair]["shared"] += 1
    sources.pairs[pair]["same"] += same


# ------------------------------------------------------------------------------------------ accuracy

_ROUNDS = 10


@entry
def estimate_accuracy(
    store: Store,
    sources: Sources,
    groups: NDArray[np.int64],
    posterior: NDArray[np.float64],
    weights: NDArray[np.float64],
    right: NDArray[np.float64],
    said: NDArray[np.float64],
) -> None:
    """Estimate how often each source is right: in turns with which values of some groups are.

    Args:
        store: The votes.
        sources: Receives the accuracy of each source that voted in one of the groups.
        groups: Some groups with votes.
        posterior: Room for a number for each of their cells.
        weights: Room for a number for each of their votes.
        right: Room for a number for each source.
        said: Likewise.
    """
    store = ref(store)
    sources = ref(sources)
    side = store.state[SIDE]
    at = i64(0)
    vote_at = i64(0)
    for k in range(groups.size):
        begin = at
        sum = 0.0
        x = i64(store.groups[groups[k]]["first_cell"])
        while x != NONE:
            posterior[at] = 0.0
            vote = i64(store.cells[x]["first_vote"])
            while vote != NONE:
                share = 1.0 / (1.0 + _n_copies(store, sources, x, vote))
                weights[vote_at] = as_term(store.votes[vote]["total"][side] * share)
                posterior[at] += weights[vote_at]
                vote_at += 1
                vote = i64(store.votes[vote]["next_vote"])
            sum += posterior[at]
            at += 1
            x = i64(store.cells[x]["next_cell"])
        for c in range(begin, at):
            posterior[c] /= sum
    for turn in range(_ROUNDS):
        _estimate_sources(store, sources, groups, posterior, right, said)
        if turn < _ROUNDS - 1:
            _estimate_values(store, sources, groups, posterior, weights)


@apart
def _estimate_sources(
    store: Store,
    sources: Sources,
    groups: NDArray[np.int64],
    posterior: NDArray[np.float64],
    right: NDArray[np.float64],
    said: NDArray[np.float64],
) -> None:
    side = store.state[SIDE]
    for s in range(right.size):
        right[s] = 0.0
        said[s] = 0.0
    at = i64(0)
    for k in range(groups.size):
        x = i64(store.groups[groups[k]]["first_cell"])
        while x != NONE:
            vote = i64(store.cells[x]["first_vote"])
            while vote != NONE:
                s = store.votes[vote]["source"]
                count = store.votes[vote]["total"][side]
                right[s] += as_term(count * posterior[at])
                said[s] += count
                vote = i64(store.votes[vote]["next_vote"])
            at += 1
            x = i64(store.cells[x]["next_cell"])
    for s in range(right.size):
        # A source that did not vote in these groups is an unknown one.
        sources.accuracy[s] = (right[s] + 4.0) / (said[s] + 5.0) if said[s] > 0.0 else UNKNOWN_ACCURACY


@apart
def _estimate_values(
    store: Store,
    sources: Sources,
    groups: NDArray[np.int64],
    posterior: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> None:
    side = store.state[SIDE]
    at = i64(0)
    vote_at = i64(0)
    for k in range(groups.size):
        group = store.groups[groups[k]]
        n_values = group["n_values"][side]
        begin = at
        top = -1e300
        x = i64(group["first_cell"])
        while x != NONE:
            score = 0.0
            vote = i64(store.cells[x]["first_vote"])
            while vote != NONE:
                q = sources.accuracy[store.votes[vote]["source"]]
                if n_values >= 2:
                    score += as_term(weights[vote_at] * (log(q / (1.0 - q)) + log(n_values - 1.0)))
                vote_at += 1
                vote = i64(store.votes[vote]["next_vote"])
            if n_values >= 2:
                posterior[at] = score if store.cells[x]["total"][side] > 0 else -1e300
                top = max(top, posterior[at])
            at += 1
            x = i64(store.cells[x]["next_cell"])
        if n_values >= 2:
            sum = 0.0
            for c in range(begin, at):
                posterior[c] = as_term(exp(posterior[c] - top)) if posterior[c] > -1e299 else 0.0
                sum += posterior[c]
            for c in range(begin, at):
                posterior[c] /= sum
