"""Slides without a long stop: the side after the next slide is counted little by little.

In the first half of a pane the clearing goes over all groups and values, some with each block, and gives back
what the slide before has left without a count, so that new cells find room. In the second half the sweep
goes over all groups, reverse groups, values and rows of sources. Of each it counts what will be left after
the slide, on the other side of the counts. What arrives meanwhile is counted on both sides. The slide
exchanges the sides. clock.py says how far all of it is.

Values are numbered ahead of a few slides: one that is marked is of a tuple that is still to be counted, or
has just been, and stays.
"""

from __future__ import annotations

from ..jit import apart, i64, inline
from ..panes import forget_panes_before, window_count
from ..table import NONE, pool_give, table_remove
from ..values import is_marked, value_release
from .evidence import live_key_error, live_trust
from .gamma import log_factorial
from .groups import (
    cell_free,
    change_level,
    give_to_sums,
    group_free,
    other_side,
    raise_in_group,
    rank_reverse,
)
from .layout import Layout, is_key
from .store import SIDE, SWEEP, TOP, Counted, Store
from .votes import Sources


@apart
def clear_groups(store: Store, first: int, last: int, start: int) -> None:
    """Give back the cells without a count in the slots `first` to `last`, and groups without a cell.

    Args:
        store: The counts.
        first: The first slot.
        last: The slot after the last one.
        start: The first pane of the horizon.
    """
    side = store.state[SIDE]
    counted = Counted(store.cells, store.panes, store.pane_pool)
    for g in range(first, last):
        if store.groups[g]["rule"] == NONE:
            continue
        x = i64(store.groups[g]["first_cell"])
        while x != NONE:
            following = i64(store.cells[x]["next_cell"])
            if store.cells[x]["total"][side] == 0:
                cell_free(store, x)
            else:
                forget_panes_before(counted, x, start)
            x = following
        if store.groups[g]["n_cells"] == 0:
            group_free(store, i64(g))


@apart
def clear_values(store: Store, first: int, last: int, start: int) -> None:
    """Give back the values in the slots `first` to `last` that do not occur any more."""
    side = store.state[SIDE]
    counted = Counted(store.occurrences, store.panes, store.pane_pool)
    for v in range(first, last):
        if store.occurrences[v]["attribute"] == NONE:
            continue
        forget_panes_before(counted, i64(v), start)
        if store.occurrences[v]["total"][side] == 0 and not is_marked(store.values, v):
            store.occurrences[v]["attribute"] = NONE
            value_release(store.values, i64(v))


@apart
def count_level_room(store: Store, first: int, last: int) -> int:
    """Return how many levels the groups in some slots can need."""
    n = i64(0)
    for g in range(first, last):
        if store.groups[g]["rule"] != NONE and store.groups[g]["has_levels"]:
            n += store.groups[g]["n_cells"]
    return n


@apart
def sweep_groups(store: Store, first: int, last: int, start: int, next_start: int) -> None:
    """Count the groups in the slots `first` to `last` as they are after the slide.

    Args:
        store: The counts.
        first: The first slot.
        last: The slot after the last one.
        start: The first pane of the horizon.
        next_start: The first pane after the slide.
    """
    for g in range(first, last):
        if store.groups[g]["rule"] != NONE and store.groups[g]["swept"] != store.state[SWEEP]:
            _sweep_group(store, i64(g), start, next_start)


@apart
def _sweep_group(store: Store, g: int, start: int, next_start: int) -> None:
    side = store.state[SIDE]
    other = other_side(store)
    group = store.groups[g]
    group["swept"] = store.state[SWEEP]
    group["n"][other] = 0
    group["n_values"][other] = 0
    group["contradicts"][other] = 0
    group["log_factorials"][other] = 0
    for k in range(TOP):
        group["top"][other * TOP + k] = NONE
    counted = Counted(store.cells, store.panes, store.pane_pool)
    x = i64(group["first_cell"])
    while x != NONE:
        following = i64(store.cells[x]["next_cell"])
        if store.cells[x]["total"][side] == 0:
            cell_free(store, x)
        else:
            forget_panes_before(counted, x, start)
            if group["has_levels"]:
                change_level(store, g, i64(store.cells[x]["total"][other]), other, i64(-1))
            total = window_count(counted, x, next_start)
            store.cells[x]["total"][other] = total
            if store.cells[x]["first_vote"] != NONE:
                _sweep_votes(store, x, start, next_start)
            if total > 0:
                group["n"][other] += total
                group["n_values"][other] += 1
                group["log_factorials"][other] += log_factorial(total)
                if group["has_levels"]:
                    change_level(store, g, total, other, i64(1))
                raise_in_group(store, g, x, other)
        x = following
    if group["n_cells"] == 0:
        group_free(store, g)
    else:
        give_to_sums(store, g, other)


@apart
def _sweep_votes(store: Store, x: int, start: int, next_start: int) -> None:
    side = store.state[SIDE]
    other = other_side(store)
    counted = Counted(store.votes, store.panes, store.pane_pool)
    before = NONE
    vote = i64(store.cells[x]["first_vote"])
    while vote != NONE:
        following = i64(store.votes[vote]["next_vote"])
        forget_panes_before(counted, vote, start)
        if store.votes[vote]["total"][side] == 0:
            if before == NONE:
                store.cells[x]["first_vote"] = following
            else:
                store.votes[before]["next_vote"] = following
            table_remove(store.vote_table, store.votes, vote)
            store.votes[vote]["cell"] = NONE
            pool_give(store.vote_pool, store.votes, vote)
        else:
            store.votes[vote]["total"][other] = window_count(counted, vote, next_start)
            before = vote
        vote = following


@apart
def sweep_reverses(store: Store, first: int, last: int) -> None:
    """Find the most frequent cells of reverse groups as they are after the slide; all groups are swept."""
    for b in range(first, last):
        if store.reverses[b]["rule"] != NONE and store.reverses[b]["swept"] != store.state[SWEEP]:
            store.reverses[b]["swept"] = store.state[SWEEP]
            rank_reverse(store, i64(b), other_side(store), NONE)


@apart
def sweep_values(store: Store, first: int, last: int, start: int, next_start: int) -> None:
    """Count values as they are after the slide; those outside of it are dropped."""
    side = store.state[SIDE]
    other = other_side(store)
    counted = Counted(store.occurrences, store.panes, store.pane_pool)
    for v in range(first, last):
        occurrence = store.occurrences[v]
        a = occurrence["attribute"]
        if a == NONE or occurrence["swept"] == store.state[SWEEP]:
            continue
        occurrence["swept"] = store.state[SWEEP]
        forget_panes_before(counted, i64(v), start)
        if occurrence["total"][side] == 0:
            occurrence["total"][other] = 0
            if not is_marked(store.values, v):
                occurrence["attribute"] = NONE
                value_release(store.values, i64(v))
            continue
        total = window_count(counted, i64(v), next_start)
        occurrence["total"][other] = total
        store.sums.occurrences[other, a] += total
        store.sums.once[other, a] += total == 1


@apart
def sweep_rows(sources: Sources, first: int, last: int, start: int) -> None:
    """Drop the rows of sources that the horizon has left."""
    for row in range(first, last):
        if sources.rows[row]["side"] != NONE and sources.rows[row]["pane"] < start:
            table_remove(sources.row_table, sources.rows, row)
            sources.rows[row]["side"] = NONE
            pool_give(sources.row_pool, sources.rows, i64(row))


@inline
def _settled_after(settled: float, live: float, times: int) -> float:
    """Return what moves slowly, over windows, after some more of them; negative before the first.

    One wrong time may end a billion windows: it goes no further than it moves.
    """
    for _ in range(times):
        before = settled
        settled = live if settled < 0.0 else settled + (live - settled) / 8.0
        if settled == before:
            break
    return settled


@apart
def halve(store: Store, layout: Layout, sources: Sources, times: int) -> None:
    """Halve all sums that only grow, so that what was long ago counts less; reputations follow when read."""
    shift = min(times, 62)
    running = store.running
    for a in range(layout.is_movable.size):
        if is_key(layout, a):
            error = live_key_error(store, layout, a)
            running.settled_error[a] = _settled_after(running.settled_error[a], error, times)
    for r in range(running.trust_n.size):
        # Trust moves slowly, over windows: a burst of errors does not discredit a rule.
        running.settled_trust[r] = _settled_after(running.settled_trust[r], live_trust(store, i64(r)), times)
        running.trust_sum[r] = running.trust_sum[r] * 0.5**shift
        running.trust_n[r] >>= shift
        running.once_out[r] >>= shift
        running.once_seen[r] >>= shift
        running.compared[r] >>= shift
        running.foreign[r] >>= shift
        for j in range(running.explained.shape[1]):
            running.explained[r, j] >>= shift
    for a in range(running.any_like.shape[0]):
        for k in range(running.wrong_like.shape[1]):
            running.wrong_like[a, k] >>= shift
            running.expected_like[a, k] = running.expected_like[a, k] * 0.5**shift
        for k in range(running.any_like.shape[1] - 1):
            running.any_like[a, k] = 1 + ((running.any_like[a, k] - 1) >> shift)
        running.any_like[a, running.any_like.shape[1] - 1] >>= shift
        running.key_compared[a] >>= shift
        running.key_explains[a] >>= shift
    for pair in range(sources.pairs.shape[0]):
        sources.pairs[pair]["same"] >>= shift
        sources.pairs[pair]["shared"] >>= shift
