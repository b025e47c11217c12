"""Counting: the tuples of a block join the values, groups and sums that are kept of what arrived."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..groups import Groups
from ..hashing import U8, U64, mix64
from ..jit import apart, entry, i64, inline
from ..panes import cell_add
from ..refs import prefetch, ref
from ..table import NONE, table_bucket, table_first
from ..truth import Acceptances, is_accepted
from ..values import Column, arena_take, is_value, mark, value_keep, value_new, value_release
from .evidence import Parameters, group_trust
from .groups import (
    add_cell,
    begin_again,
    cell_find,
    cell_new,
    forget_truth,
    group_find,
    group_hash,
    group_new,
    group_with_hash,
    other_side,
)
from .layout import Layout, is_key
from .likeness import Texts, likeness
from .store import CARRY, HALVINGS, N_TUPLES, REVERSE_TOP, SIDE, SWEEP, TOP, Counted, Store
from .votes import add_vote, begin_votes

NOT_OUTVOTED, OUTVOTED, NOT_COMPARED = 0, 1, 2

_AHEAD = 16  # tuples whose groups are looked for before they are counted


class Tuples(NamedTuple):
    """Tuples as the state reads them, and what becomes of them while they are counted."""

    values: NDArray[np.int32]  #: by attribute and tuple; NONE for a null
    may_apply: NDArray[np.bool_]  #: by rule and tuple: whether condition and patterns let the rule apply
    fixed: NDArray[
        np.int32
    ]  #: by attribute and tuple: the constant that decides the cell, NONE if there is none
    source: NDArray[np.int32]  #: by tuple: the number of its source; empty if there are none
    cell: NDArray[
        np.int32
    ]  #: by rule and tuple: the cell that it was counted in, NONE if the rule does not apply
    outvoted: NDArray[np.uint8]  #: by rule and tuple: OUTVOTED, NOT_OUTVOTED, or NOT_COMPARED
    violated: NDArray[np.bool_]  #: by rule and tuple: whether the tuple violates it


class Ahead(NamedTuple):
    """What is known of the next few tuples before they are counted."""

    hash: U64  #: by rule and tuple: of its group
    group: NDArray[np.int32]  #: by rule and tuple: NONE if it is not there yet


def new_ahead(n_rules: int) -> Ahead:
    """Return room for a look ahead."""
    return Ahead(np.zeros((n_rules, _AHEAD), np.uint64), np.zeros((n_rules, _AHEAD), np.int32))


# ------------------------------------------------------------------------------------------ values


@entry
def number_values(
    store: Store,
    column: Column,
    attribute: int,
    is_text: bool,
    first: int,
    last: int,
    ids: NDArray[np.int32],
    new: NDArray[np.int32],
    marks: bool,
) -> int:
    """Write the number of each value of a column; return how many are new, whose numbers are in `new`.

    The texts of new values are still missing if the column has codes. A value that is marked survives slides
    that come before its tuple is counted.
    """
    store = ref(store)
    column = ref(column)
    n_new = i64(0)
    values = store.values
    for i in range(first, last):
        if not column.valid[i]:
            ids[i] = NONE
            continue
        v = i64(table_first(values.table, column.lo[i]))
        while v != NONE and not is_value(values, v, column, i):
            v = i64(values.records[v]["next"])
        is_new = v == NONE
        if is_new:
            v = value_new(values, column, i)
            new[n_new] = v
            n_new += 1
        if is_new or store.occurrences[v]["attribute"] == NONE:
            values.records[v]["refs"] += 1
            occurrence = store.occurrences[v]
            occurrence["attribute"] = attribute
            occurrence["pane"] = 0
            occurrence["count"] = 0
            occurrence["older"] = NONE
            occurrence["total"][0] = 0
            occurrence["total"][1] = 0
            occurrence["swept"] = store.state[SWEEP]
            occurrence["text"] = values.records[v]["offset"]
            length = values.records[v]["length"]
            occurrence["text_length"] = length if is_text else -1 - length
        if marks:
            mark(values, v)
        ids[i] = v
    return n_new


@entry
def write_texts(store: Store, which: NDArray[np.int32], n: int, data: U8, offsets: NDArray[np.int64]) -> None:
    """Keep the texts of values that have codes; they are given back with the value."""
    store = ref(store)
    values = store.values
    for i in range(n):
        v = which[i]
        length = offsets[i + 1] - offsets[i]
        at = arena_take(values, length)
        for b in range(length):
            values.arena[at + b] = data[offsets[i] + b]
        values.records[v]["offset"] = at
        values.records[v]["length"] = length
        store.occurrences[v]["text"] = at
        store.occurrences[v]["text_length"] = length


@inline
def halve_reputation(store: Store, v: int) -> None:
    """Bring the reputations of a value up to date."""
    occurrence = store.occurrences[v]
    times = store.state[HALVINGS] - occurrence["halved"]
    if times > 0:
        occurrence["halved"] = store.state[HALVINGS]
        for slot in range(store.reputation.shape[1]):
            for k in range(2):
                store.reputation[v, slot, k] = store.reputation[v, slot, k] >> min(times, 31)


@inline
def _count_value(store: Store, layout: Layout, a: int, v: int, pane: int, start: int) -> None:
    occurrence = store.occurrences[v]
    cell_add(Counted(store.occurrences, store.panes, store.pane_pool), v, pane, start)
    side = store.state[SIDE]
    total = occurrence["total"][side] + 1
    occurrence["total"][side] = total
    store.sums.occurrences[side, a] += 1
    if total == 1:
        store.sums.once[side, a] += 1
        # It may have left the horizon since the last sweep, and its reputation with it.
        occurrence["halved"] = store.state[HALVINGS]
        for slot in range(store.reputation.shape[1]):
            store.reputation[v, slot, 0] = 0
            store.reputation[v, slot, 1] = 0
    elif total == 2:
        store.sums.once[side, a] -= 1
        halve_reputation(store, v)
        running = store.running
        for k in range(layout.on_first[a], layout.on_first[a + 1]):
            r = layout.on[k]
            out = store.reputation[v, layout.slot[r], 0]
            seen = store.reputation[v, layout.slot[r], 1]
            running.once_out[r] = max(0, running.once_out[r] - out)
            running.once_seen[r] = max(0, running.once_seen[r] - seen)
    if store.state[CARRY] and occurrence["swept"] == store.state[SWEEP]:
        other = other_side(store)
        total = occurrence["total"][other] + 1
        occurrence["total"][other] = total
        store.sums.occurrences[other, a] += 1
        if total == 1:
            store.sums.once[other, a] += 1
        elif total == 2:
            store.sums.once[other, a] -= 1


@inline
def _is_sampled(position: int) -> bool:
    """Return whether the values of a tuple are compared with others: a fourth of all, in no regular order.

    In a stream that repeats itself every few tuples, every fourth one might always have the same value.
    """
    return mix64(np.uint64(position + 1)) % np.uint64(4) == np.uint64(0)


@apart
def _compare_with_last(store: Store, texts: Texts, a: int, v: int) -> None:
    """Note how alike two values are that follow each other."""
    running = store.running
    last = running.last[a]
    if last != NONE:
        running.any_like[a, likeness(store, texts, last, v)] += 1
        value_release(store.values, last)
    running.last[a] = v
    store.values.records[v]["refs"] += 1


# ------------------------------------------------------------------------------------------ tuples


@entry
def count_tuples(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    texts: Texts,
    tuples: Tuples,
    first: int,
    last: int,
    position: int,
    pane: int,
    window_start: int,
    start: int,
    left: NDArray[np.int32],
    ahead: Ahead,
    accepted: Acceptances,
) -> None:
    """Count the tuples `first` to `last`, all of one pane.

    Args:
        store: What was counted before.
        layout: The rules.
        parameters: Those of the last refresh.
        texts: Room for comparisons.
        tuples: The tuples.
        first: The first one.
        last: The one after the last.
        position: The position of tuple 0 in the stream.
        pane: Their pane.
        window_start: The first pane of the window: what violations are found in.
        start: The first pane of the horizon: what is counted.
        left: Room for the left values of a group.
        ahead: Room to look ahead.
        accepted: Receives a row for each change that is accepted.
    """
    count_block(
        ref(store),
        ref(layout),
        ref(parameters),
        ref(texts),
        ref(tuples),
        first,
        last,
        position,
        pane,
        window_start,
        start,
        left,
        ref(ahead),
        ref(accepted),
    )


@apart
def count_block(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    texts: Texts,
    tuples: Tuples,
    first: int,
    last: int,
    position: int,
    pane: int,
    window_start: int,
    start: int,
    left: NDArray[np.int32],
    ahead: Ahead,
    accepted: Acceptances,
) -> None:
    """Do what `count_tuples` does, for compiled callers."""
    n_attributes = tuples.values.shape[0]
    n_rules = tuples.may_apply.shape[0]
    for begin in range(first, last, _AHEAD):
        end = min(begin + _AHEAD, last)
        _look_ahead(store, layout, tuples, begin, end, left, ahead)
        for i in range(begin, end):
            for a in range(n_attributes):
                v = i64(tuples.values[a, i])
                if v != NONE:
                    _count_value(store, layout, a, v, pane, start)
                    if _is_sampled(position + i):
                        _compare_with_last(store, texts, a, v)
            for r in range(n_rules):
                known = i64(ahead.group[r, i - begin])
                _count_in_group(
                    store,
                    layout,
                    parameters,
                    texts,
                    tuples,
                    i,
                    r,
                    pane,
                    window_start,
                    start,
                    left,
                    known,
                    accepted,
                )
            _count_keys(store, layout, tuples, i)
            store.state[N_TUPLES] += 1


@inline
def _count_keys(store: Store, layout: Layout, tuples: Tuples, i: int) -> None:
    """Count the keys of a tuple, and where another key would explain what their rules have against them."""
    running = store.running
    side = store.state[SIDE]
    for r in range(layout.rhs.size):
        if layout.is_user[r] and tuples.outvoted[r, i] != NOT_COMPARED:
            running.compared[r] += 1
            if tuples.outvoted[r, i] == OUTVOTED:
                x = tuples.cell[r, i]
                count = store.cells[x]["total"][side]
                v = tuples.values[layout.rhs[r], i]
                running.foreign[r] += store.occurrences[v]["total"][side] - count >= count
                for j in range(layout.n_lhs[r]):
                    running.explained[r, j] += _is_explained(store, layout, tuples, i, i64(r), i64(j))
    for a in range(layout.is_movable.size):
        if not is_key(layout, a):
            continue
        is_compared = False
        explains = True
        for k in range(layout.left_first[a], layout.left_first[a + 1]):
            r = layout.left[k]
            if layout.is_user[r] and tuples.outvoted[r, i] != NOT_COMPARED:
                is_compared = True
                explains = (
                    explains
                    and tuples.outvoted[r, i] == OUTVOTED
                    and _is_explained(store, layout, tuples, i, i64(r), i64(layout.left_at[k]))
                )
        if is_compared:
            running.key_compared[a] += 1
            running.key_explains[a] += explains


@inline
def _is_explained(store: Store, layout: Layout, tuples: Tuples, i: int, r: int, place: int) -> bool:
    """Return whether another left value at a place explains a right cell that a rule outvotes.

    No rule without that key outvotes the cell, too. And of all other left values at the place the one that
    has the value most often has it at least as often, and more often than other values.
    """
    key = layout.lhs[r, place]
    right = layout.rhs[r]
    for k in range(layout.on_first[right], layout.on_first[right + 1]):
        other = layout.on[k]
        if layout.is_user[other] and tuples.outvoted[other, i] == OUTVOTED:
            has_key = False
            for j in range(layout.n_lhs[other]):
                has_key = has_key or layout.lhs[other, j] == key
            if not has_key:
                return False
    x = i64(tuples.cell[r, i])
    side = store.state[SIDE]
    top = store.reverses[store.links[x, place]["reverse"]]["top"]
    best = top[side * REVERSE_TOP]
    if best == x:
        best = top[side * REVERSE_TOP + 1]
    if best == NONE or store.cells[best]["total"][side] < store.cells[x]["total"][side]:
        return False
    return bool(store.groups[store.cells[best]["group"]]["top"][side * TOP] == best)


@apart
def _look_ahead(
    store: Store, layout: Layout, tuples: Tuples, first: int, last: int, left: NDArray[np.int32], ahead: Ahead
) -> None:
    """Find the groups of some tuples.

    What a tuple touches lies anywhere in memory, and one place leads to the next: bucket, group, cell and
    reverse group. The processor waits for each. It waits for those of many tuples at once if all are asked
    for before the first one is needed.
    """
    n_rules = tuples.may_apply.shape[0]
    for i in range(first, last):
        k = i - first
        for a in range(tuples.values.shape[0]):
            v = i64(tuples.values[a, i])
            if v != NONE:
                prefetch(store.occurrences, v, 0)
                prefetch(store.reputation, v, 0)
        for r in range(n_rules):
            ahead.group[r, k] = NONE
            if _read_left(layout, tuples, i, r, left):
                hash = group_hash(layout, r, left)
                ahead.hash[r, k] = hash
                prefetch(store.group_table.heads, table_bucket(store.group_table, hash), 0)
    for i in range(first, last):
        for r in range(n_rules):
            if _read_left(layout, tuples, i, r, left):
                g = i64(table_first(store.group_table, ahead.hash[r, i - first]))
                if g != NONE:
                    prefetch(store.groups, g, 0)
                    prefetch(store.groups, g, 64)
                    prefetch(store.groups, g, 128)
                    prefetch(store.left, g, 0)
    for i in range(first, last):
        for r in range(n_rules):
            if _read_left(layout, tuples, i, r, left):
                g = group_with_hash(store, layout, r, left, ahead.hash[r, i - first])
                ahead.group[r, i - first] = g
                if g != NONE:
                    x = i64(store.groups[g]["recent_cell"])
                    if x != NONE:
                        prefetch(store.cells, x, 0)
                        prefetch(store.links, x, 0)
    for i in range(first, last):
        for r in range(n_rules):
            g = i64(ahead.group[r, i - first])
            if g != NONE:
                x = i64(store.groups[g]["recent_cell"])
                if x != NONE:
                    for j in range(layout.n_lhs[r]):
                        prefetch(store.reverses, i64(store.links[x, j]["reverse"]), 0)


@inline
def _read_left(layout: Layout, tuples: Tuples, i: int, r: int, left: NDArray[np.int32]) -> bool:
    """Write the left values of a tuple; return whether the rule applies."""
    if not tuples.may_apply[r, i]:
        return False
    for j in range(layout.n_lhs[r]):
        left[j] = tuples.values[layout.lhs[r, j], i]
        if left[j] == NONE:
            return False
    return True


@inline
def _count_in_group(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    texts: Texts,
    tuples: Tuples,
    i: int,
    r: int,
    pane: int,
    window_start: int,
    start: int,
    left: NDArray[np.int32],
    g: int,
    accepted: Acceptances,
) -> None:
    """Count the right cell of a tuple in a group: the one that is known, or else the one that it finds."""
    tuples.cell[r, i] = NONE
    tuples.outvoted[r, i] = NOT_COMPARED
    tuples.violated[r, i] = False
    if not _read_left(layout, tuples, i, r, left):
        return
    a = layout.rhs[r]
    v = i64(tuples.values[a, i])
    if g == NONE:  # another tuple may have begun it since
        g = group_find(store, layout, r, left)
    if v == NONE:
        tuples.violated[r, i] = layout.fills[r] and g != NONE and store.groups[g]["last_pane"] >= window_start
        store.running.violations[r] += tuples.violated[r, i]
        return
    if g == NONE:
        g = group_new(store, layout, r, left)
    elif store.groups[g]["n"][store.state[SIDE]] == 0:
        _revive(store, g)
    accept_after = layout.accept_after[r]
    if accept_after > 0 and is_accepted(_groups(store), store.values, g, v, accept_after):
        x = _accept(store, layout, tuples, i, r, g, v, pane, start, accept_after, accepted)
    else:
        x = i64(store.groups[g]["recent_cell"])
        if x == NONE or store.cells[x]["value"] != v:
            x = cell_find(store, g, v)
            if x == NONE:
                x = cell_new(store, layout, g, v, pane)
            store.groups[g]["recent_cell"] = x
        tuples.violated[r, i] = _detect(store, g, v, pane, window_start)
        store.running.violations[r] += tuples.violated[r, i]
        add_cell(store, layout, g, x, pane, start)
        if tuples.source.size and layout.is_user[r]:
            add_vote(store, x, i64(tuples.source[i]), pane, start, r)
    tuples.cell[r, i] = x
    side = store.state[SIDE]
    group = store.groups[g]
    if group["n"][side] < 2:
        return
    best = group["top"][side * 5]
    most = store.cells[best]["total"][side]
    out = store.cells[x]["total"][side] < most
    tuples.outvoted[r, i] = out
    halve_reputation(store, v)
    slot = layout.slot[r]
    store.reputation[v, slot, 0] += out
    store.reputation[v, slot, 1] += 1
    if store.occurrences[v]["total"][side] == 1:
        store.running.once_out[r] += out
        store.running.once_seen[r] += 1
    if layout.is_user[r]:
        if out and most >= 2:
            _note_wrong(store, texts, a, v, i64(store.cells[best]["value"]))
        return
    trust = group_trust(store, layout, parameters, r, g)
    n = group["n"][side]
    if group["trust"] < 0.0:
        store.running.trust_n[r] += 2
        store.running.trust_sum[r] += 2.0 * trust
    else:
        store.running.trust_n[r] += 1
        store.running.trust_sum[r] += n * trust - (n - 1) * group["trust"]
    group["trust"] = trust


@apart
def _note_wrong(store: Store, texts: Texts, a: int, v: int, mode: int) -> None:
    """Note how alike an outvoted value and the one that outvotes it are, and how alike any two would be."""
    running = store.running
    running.wrong_like[a, likeness(store, texts, v, mode)] += 1
    sum = 0.0
    for k in range(running.wrong_like.shape[1]):
        sum += running.any_like[a, k]
    for k in range(running.wrong_like.shape[1]):
        running.expected_like[a, k] += running.any_like[a, k] / sum


@inline
def _detect(store: Store, g: int, v: int, pane: int, window_start: int) -> bool:
    """Return whether a cell violates its group: another value is in the window. Then note the cell."""
    group = store.groups[g]
    if group["last"] != v:
        group["other_pane"] = group["last_pane"]
        group["last"] = v
    group["last_pane"] = pane
    return group["other_pane"] >= window_start


@apart
def _revive(store: Store, g: int) -> None:
    """Let a group whose cells have all left the horizon begin anew."""
    forget_truth(store, g)
    group = store.groups[g]
    group["last"] = NONE
    group["last_pane"] = -1
    group["other_pane"] = -1
    group["trust"] = -1.0
    group["born"] = store.state[N_TUPLES]


@inline
def _groups(store: Store) -> Groups:
    return Groups(store.groups, store.group_table, store.group_pool)


@apart
def _accept(
    store: Store,
    layout: Layout,
    tuples: Tuples,
    i: int,
    r: int,
    g: int,
    v: int,
    pane: int,
    start: int,
    accept_after: int,
    accepted: Acceptances,
) -> int:
    """Let a group begin again with the value that is its new truth; return its cell."""
    group = store.groups[g]
    row = accepted.n[0]
    accepted.n[0] = row + 1
    accepted.tuple[row] = i
    accepted.column[row] = r
    accepted.old[row] = group["held"]
    accepted.new[row] = v
    accepted.group[row] = g
    forget_truth(store, g)
    x = begin_again(store, layout, g, v, accept_after, pane)
    value_keep(store.values, v)
    group["held"] = v
    group["seen"] = accept_after
    group["recent_cell"] = x
    group["last"] = v
    group["last_pane"] = pane
    group["other_pane"] = -1
    if tuples.source.size and layout.is_user[r]:
        begin_votes(store, x, i64(tuples.source[i]), accept_after, pane, start)
    return x
