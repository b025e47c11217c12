"""Groups and their cells: found, made, counted and given back."""

from __future__ import annotations

import numpy as np

from ..hashing import mix64
from ..jit import apart, i64, inline
from ..panes import add_cells, cell_add, forget_panes
from ..table import NONE, pool_give, pool_take, table_first, table_insert, table_remove
from ..values import value_less, value_release
from .gamma import log_factorial
from .layout import Layout
from .store import CARRY, N_TUPLES, REVERSE_TOP, SIDE, SWEEP, SWEEPING, TOP, Counted, Store

_DEAD = -1  # a pane
_LEVELS = np.uint64(1) << np.uint64(63)
_NEW_GROUP_TRUST = -1.0


@inline
def other_side(store: Store) -> int:
    """Return the side after the next slide."""
    return 1 - store.state[SIDE]


# ------------------------------------------------------------------------------------------ groups


@inline
def _left_hash(serial: int, first: int) -> np.uint64:
    return mix64(np.uint64(serial) << np.uint64(32) | np.uint64(first))


@inline
def _add_left(hash: np.uint64, value: int) -> np.uint64:
    return mix64(hash + np.uint64(value + 1) * np.uint64(0x9E3779B97F4A7C15))


@inline
def group_hash(layout: Layout, rule: int, left: np.ndarray) -> np.uint64:
    """Return the hash of the group of a rule with these left values."""
    hash = _left_hash(layout.serial[rule], left[0])
    for j in range(1, layout.n_lhs[rule]):
        hash = _add_left(hash, left[j])
    return hash


@inline
def group_find(store: Store, layout: Layout, rule: int, left: np.ndarray) -> int:
    """Return the group of a rule with these left values, NONE if there is none; it may be empty."""
    return group_with_hash(store, layout, rule, left, group_hash(layout, rule, left))


@inline
def group_with_hash(store: Store, layout: Layout, rule: int, left: np.ndarray, hash: np.uint64) -> int:
    """Return the group with these left values, whose hash is known."""
    g = i64(table_first(store.group_table, hash))
    while g != NONE:
        if store.groups[g]["hash"] == hash and store.groups[g]["rule"] == rule:
            same = True
            for j in range(layout.n_lhs[rule]):
                same = same and store.left[g, j] == left[j]
            if same:
                return g
        g = i64(store.groups[g]["next"])
    return NONE


@apart
def group_new(store: Store, layout: Layout, rule: int, left: np.ndarray) -> int:
    """Return a new group without cells."""
    n = layout.n_lhs[rule]
    g = pool_take(store.group_pool, store.groups)
    group = store.groups[g]
    group["hash"] = group_hash(layout, rule, left)
    group["rule"] = rule
    for j in range(store.left.shape[1]):
        store.left[g, j] = left[j] if j < n else NONE
    group["last_pane"] = _DEAD
    group["other_pane"] = _DEAD
    group["trust"] = _NEW_GROUP_TRUST
    group["born"] = store.state[N_TUPLES]
    group["swept"] = store.state[SWEEP]
    group["first_cell"] = NONE
    group["n_cells"] = 0
    group["recent_cell"] = NONE
    group["last"] = NONE
    group["held"] = NONE
    group["seen"] = 0
    group["challenger"] = NONE
    group["lead"] = 0
    group["has_levels"] = 0
    for side in range(2):
        group["log_factorials"][side] = 0
        group["n"][side] = 0
        group["n_values"][side] = 0
        group["contradicts"][side] = 0
    for k in range(2 * TOP):
        group["top"][k] = NONE
    table_insert(store.group_table, store.groups, g)
    return g


@apart
def forget_truth(store: Store, g: int) -> None:
    """Let a group hold no value, and none challenge it."""
    group = store.groups[g]
    if group["held"] != NONE:
        value_release(store.values, i64(group["held"]))
    if group["challenger"] != NONE:
        value_release(store.values, i64(group["challenger"]))
    group["held"] = NONE
    group["challenger"] = NONE
    group["seen"] = 0
    group["lead"] = 0


@apart
def group_free(store: Store, g: int) -> None:
    """Give back a group without cells."""
    forget_truth(store, g)
    table_remove(store.group_table, store.groups, g)
    store.groups[g]["rule"] = NONE
    pool_give(store.group_pool, store.groups, g)


# ------------------------------------------------------------------------------------------ cells


@inline
def _cell_hash(g: int, value: int) -> np.uint64:
    return mix64(np.uint64(g) << np.uint64(32) | np.uint64(value))


@inline
def cell_find(store: Store, g: int, value: int) -> int:
    """Return the cell of a group with a value, NONE if there is none; its count may be 0."""
    hash = _cell_hash(g, value)
    x = i64(table_first(store.cell_table, hash))
    while x != NONE:
        if store.cells[x]["hash"] == hash:  # the hash is a bijection of the two numbers
            return x
        x = i64(store.cells[x]["next"])
    return NONE


@apart
def cell_new(store: Store, layout: Layout, g: int, value: int, pane: int) -> int:
    """Return a new cell of a group, with a count of 0, that hangs in its reverse groups."""
    x = pool_take(store.cell_pool, store.cells)
    cell = store.cells[x]
    cell["hash"] = _cell_hash(g, value)
    cell["pane"] = pane
    cell["count"] = 0
    cell["older"] = NONE
    cell["total"][0] = 0
    cell["total"][1] = 0
    cell["value"] = value
    cell["group"] = g
    cell["first_vote"] = NONE
    group = store.groups[g]
    first = group["first_cell"]
    cell["prev_cell"] = NONE
    cell["next_cell"] = first
    if first != NONE:
        store.cells[first]["prev_cell"] = x
    group["first_cell"] = x
    group["n_cells"] += 1
    table_insert(store.cell_table, store.cells, x)
    rule = i64(group["rule"])
    for j in range(layout.n_lhs[rule]):
        _hang(store, layout, x, rule, g, j, value)
    if group["n_cells"] == TOP + 1 and not group["has_levels"]:
        group["has_levels"] = 1
        y = i64(group["first_cell"])
        while y != NONE:
            for side in range(2):
                change_level(store, g, i64(store.cells[y]["total"][side]), side, i64(1))
            y = i64(store.cells[y]["next_cell"])
    return x


@apart
def cell_free(store: Store, x: int) -> None:
    """Give back a cell, whatever its counts; its group's sums and best cells are the caller's matter."""
    cell = store.cells[x]
    g = i64(cell["group"])
    group = store.groups[g]
    if group["has_levels"]:
        for side in range(2):
            change_level(store, g, i64(cell["total"][side]), side, i64(-1))
    table_remove(store.cell_table, store.cells, x)
    before = cell["prev_cell"]
    after = cell["next_cell"]
    if before == NONE:
        group["first_cell"] = after
    else:
        store.cells[before]["next_cell"] = after
    if after != NONE:
        store.cells[after]["prev_cell"] = before
    group["n_cells"] -= 1
    if group["recent_cell"] == x:
        group["recent_cell"] = NONE
    for j in range(store.links.shape[1]):
        if store.left[g, j] != NONE:
            _unhang(store, x, j)
    votes_free(store, x)
    forget_panes(Counted(store.cells, store.panes, store.pane_pool), x)
    cell["group"] = NONE
    pool_give(store.cell_pool, store.cells, x)


@apart
def votes_free(store: Store, x: int) -> None:
    """Give back the votes of a cell."""
    vote = i64(store.cells[x]["first_vote"])
    store.cells[x]["first_vote"] = NONE
    while vote != NONE:
        following = i64(store.votes[vote]["next_vote"])
        table_remove(store.vote_table, store.votes, vote)
        forget_panes(Counted(store.votes, store.panes, store.pane_pool), vote)
        store.votes[vote]["cell"] = NONE
        pool_give(store.vote_pool, store.votes, vote)
        vote = following


# ------------------------------------------------------------------------------------------ reverse groups


@inline
def _reverse_hash(layout: Layout, rule: int, at: int, left: np.ndarray, value: int) -> np.uint64:
    hash = mix64(
        np.uint64(layout.serial[rule]) << np.uint64(40) | np.uint64(at) << np.uint64(32) | np.uint64(value)
    )
    for j in range(layout.n_lhs[rule]):
        if j != at:
            hash = _add_left(hash, left[j])
    return hash


@inline
def reverse_find(store: Store, layout: Layout, rule: int, at: int, left: np.ndarray, value: int) -> int:
    """Return the reverse group at a place of the left side, given the other left values and the right one."""
    hash = _reverse_hash(layout, rule, at, left, value)
    b = i64(table_first(store.reverse_table, hash))
    while b != NONE:
        reverse = store.reverses[b]
        if reverse["hash"] == hash and reverse["rule"] == rule and reverse["at"] == at:
            x = reverse["first_cell"]
            g = store.cells[x]["group"]
            same = store.cells[x]["value"] == value
            for j in range(layout.n_lhs[rule]):
                same = same and (j == at or store.left[g, j] == left[j])
            if same:
                return b
        b = i64(reverse["next"])
    return NONE


@apart
def _hang(store: Store, layout: Layout, x: int, rule: int, g: int, at: int, value: int) -> None:
    left = store.left[g]
    b = reverse_find(store, layout, rule, at, left, value)
    if b == NONE:
        b = pool_take(store.reverse_pool, store.reverses)
        reverse = store.reverses[b]
        reverse["hash"] = _reverse_hash(layout, rule, at, left, value)
        reverse["rule"] = rule
        reverse["at"] = at
        reverse["swept"] = store.state[SWEEP]
        reverse["first_cell"] = NONE
        reverse["n_cells"] = 0
        for k in range(2 * REVERSE_TOP):
            reverse["top"][k] = NONE
        table_insert(store.reverse_table, store.reverses, b)
    reverse = store.reverses[b]
    link = store.links[x, at]
    link["reverse"] = b
    first = reverse["first_cell"]
    link["prev"] = NONE
    link["next"] = first
    if first != NONE:
        store.links[first, at]["prev"] = x
    reverse["first_cell"] = x
    reverse["n_cells"] += 1


@apart
def _unhang(store: Store, x: int, at: int) -> None:
    link = store.links[x, at]
    b = i64(link["reverse"])
    reverse = store.reverses[b]
    before = link["prev"]
    after = link["next"]
    if before == NONE:
        reverse["first_cell"] = after
    else:
        store.links[before, at]["next"] = after
    if after != NONE:
        store.links[after, at]["prev"] = before
    reverse["n_cells"] -= 1
    if reverse["n_cells"] == 0:
        table_remove(store.reverse_table, store.reverses, b)
        reverse["rule"] = NONE
        pool_give(store.reverse_pool, store.reverses, b)


# ------------------------------------------------------------------------------------------ levels


@inline
def level_find(store: Store, g: int, count: int) -> int:
    """Return the level of a group with a count, NONE if no value has it."""
    hash = mix64(_LEVELS | np.uint64(g) << np.uint64(32) | np.uint64(count))
    level = i64(table_first(store.level_table, hash))
    while level != NONE:
        if store.levels[level]["hash"] == hash:
            return level
        level = i64(store.levels[level]["next"])
    return NONE


@apart
def change_level(store: Store, g: int, count: int, side: int, by: int) -> None:
    """Let one more or one less value of a group have a count on a side."""
    if count == 0:
        return
    level = level_find(store, g, count)
    if level == NONE:
        level = pool_take(store.level_pool, store.levels)
        store.levels[level]["hash"] = mix64(_LEVELS | np.uint64(g) << np.uint64(32) | np.uint64(count))
        store.levels[level]["n_values"][0] = 0
        store.levels[level]["n_values"][1] = 0
        table_insert(store.level_table, store.levels, level)
    n_values = store.levels[level]["n_values"]
    n_values[side] += by
    if n_values[0] == 0 and n_values[1] == 0:
        table_remove(store.level_table, store.levels, level)
        pool_give(store.level_pool, store.levels, level)


# ------------------------------------------------------------------------------------------ counts


@inline
def add_to_group(store: Store, layout: Layout, g: int, x: int, side: int) -> None:
    """Count one more cell on a side: the group's counts, its best cells and the sums of its rule follow."""
    group = store.groups[g]
    rule = i64(group["rule"])
    sums = store.sums
    base = side * TOP
    best = group["top"][base]
    most = i64(0)
    if best != NONE:
        most = i64(store.cells[best]["total"][side])
    count = i64(store.cells[x]["total"][side]) + 1
    store.cells[x]["total"][side] = count
    n = i64(group["n"][side]) + 1
    group["n"][side] = n
    if count == 1:
        group["n_values"][side] += 1
    else:
        group["log_factorials"][side] += log_factorial(count) - log_factorial(count - 1)
    if group["has_levels"]:
        change_level(store, g, count - 1, side, i64(-1))
        change_level(store, g, count, side, i64(1))
    if best != x:
        raise_in_group(store, g, x, side)
    now = i64(store.cells[group["top"][base]]["total"][side])
    if n == 2:
        sums.cells[side, rule] += 2
        sums.majority[side, rule] += now
        sums.groups[side, rule] += 1
    elif n > 2:
        sums.cells[side, rule] += 1
        sums.majority[side, rule] += now - most
    if n >= 5:
        sums.large[side, rule] += 5 if n == 5 else 1
        # One more of the most frequent value does not let the second one repeat: most often it is not asked.
        if n == 5 or best != x or group["contradicts"][side] > 0:
            contradicts = contradicting(store, g, side)
            sums.contradicting[side, rule] += contradicts - group["contradicts"][side]
            group["contradicts"][side] = contradicts
    for j in range(layout.n_lhs[rule]):
        b = store.links[x, j]["reverse"]
        if side == store.state[SIDE] or store.reverses[b]["swept"] == store.state[SWEEP]:
            raise_in_reverse(store, b, x, j, side)


@inline
def contradicting(store: Store, g: int, side: int) -> int:
    """Return the cells of a group whose second value repeats; 0 if it does not."""
    group = store.groups[g]
    second = group["top"][side * TOP + 1]
    if second == NONE:
        return i64(0)
    n = i64(group["n"][side])
    count = store.cells[second]["total"][side]
    return n if count >= 2 and count >= 0.2 * n else i64(0)


@inline
def add_cell(store: Store, layout: Layout, g: int, x: int, pane: int, start: int) -> None:
    """Count one more cell of a group in the newest pane, on each side that is kept."""
    cell_add(Counted(store.cells, store.panes, store.pane_pool), x, pane, start)
    add_to_group(store, layout, g, x, i64(store.state[SIDE]))
    if store.state[CARRY] and store.groups[g]["swept"] == store.state[SWEEP]:
        add_to_group(store, layout, g, x, other_side(store))


@apart
def take_from_sums(store: Store, g: int, side: int) -> None:
    """Take all that a group adds to the sums of its rule off them, and leave it empty on a side.

    Its cells keep their counts; the caller gives them back, or counts them anew.
    """
    group = store.groups[g]
    rule = i64(group["rule"])
    sums = store.sums
    n = i64(group["n"][side])
    if n >= 2:
        sums.cells[side, rule] -= n
        sums.majority[side, rule] -= store.cells[group["top"][side * TOP]]["total"][side]
        sums.groups[side, rule] -= 1
    if n >= 5:
        sums.large[side, rule] -= n
        sums.contradicting[side, rule] -= group["contradicts"][side]
    group["n"][side] = 0
    group["n_values"][side] = 0
    group["contradicts"][side] = 0
    group["log_factorials"][side] = 0
    for k in range(TOP):
        group["top"][side * TOP + k] = NONE


@apart
def give_to_sums(store: Store, g: int, side: int) -> None:
    """Add a group that was counted anew to the sums of its rule."""
    group = store.groups[g]
    rule = i64(group["rule"])
    sums = store.sums
    n = i64(group["n"][side])
    if n >= 2:
        sums.cells[side, rule] += n
        sums.majority[side, rule] += store.cells[group["top"][side * TOP]]["total"][side]
        sums.groups[side, rule] += 1
    if n >= 5:
        sums.large[side, rule] += n
        group["contradicts"][side] = contradicting(store, g, side)
        sums.contradicting[side, rule] += group["contradicts"][side]


@apart
def begin_again(store: Store, layout: Layout, g: int, value: int, count: int, pane: int) -> int:
    """Drop all cells of a group, and let it begin with a value at a count; return its cell."""
    is_swept = store.state[SWEEPING] and store.groups[g]["swept"] == store.state[SWEEP]
    for side in range(2):
        if side == store.state[SIDE] or is_swept:
            take_from_sums(store, g, side)
    x = i64(store.groups[g]["first_cell"])
    while x != NONE:
        following = i64(store.cells[x]["next_cell"])
        for j in range(layout.n_lhs[store.groups[g]["rule"]]):
            drop_from_reverse(store, i64(store.links[x, j]["reverse"]), x, j)
        cell_free(store, x)
        x = following
    store.groups[g]["has_levels"] = 0
    x = cell_new(store, layout, g, value, pane)
    add_cells(Counted(store.cells, store.panes, store.pane_pool), x, pane, count)
    for side in range(2):
        if side == store.state[SIDE] or (is_swept and store.state[CARRY]):
            _begin_side(store, layout, g, x, count, side)
    return x


@apart
def _begin_side(store: Store, layout: Layout, g: int, x: int, count: int, side: int) -> None:
    group = store.groups[g]
    store.cells[x]["total"][side] = count
    group["n"][side] = count
    group["n_values"][side] = 1
    group["log_factorials"][side] = log_factorial(count)
    group["top"][side * TOP] = x
    give_to_sums(store, g, side)
    for j in range(layout.n_lhs[group["rule"]]):
        b = store.links[x, j]["reverse"]
        if side == store.state[SIDE] or store.reverses[b]["swept"] == store.state[SWEEP]:
            raise_in_reverse(store, b, x, j, side)


# ------------------------------------------------------------------------------------------ the most frequent


@inline
def _beats(store: Store, x: int, y: int, side: int) -> bool:
    a = store.cells[x]["total"][side]
    b = store.cells[y]["total"][side]
    if a != b:
        return a > b
    return value_less(store.values, store.cells[x]["value"], store.cells[y]["value"])


@apart
def raise_in_group(store: Store, g: int, x: int, side: int) -> None:
    """Put a cell where it belongs among the most frequent of its group."""
    top = store.groups[g]["top"]
    base = side * TOP
    at = i64(0)
    while at < TOP and top[base + at] != x and top[base + at] != NONE:
        at += 1
    if at == TOP:
        at = i64(TOP - 1)
        if not _beats(store, x, top[base + at], side):
            return
    while at > 0 and _beats(store, x, top[base + at - 1], side):
        top[base + at] = top[base + at - 1]
        at -= 1
    top[base + at] = x


@inline
def _beats_in_reverse(store: Store, x: int, y: int, j: int, side: int) -> bool:
    a = store.cells[x]["total"][side]
    b = store.cells[y]["total"][side]
    if a != b:
        return a > b
    return value_less(
        store.values, store.left[store.cells[x]["group"], j], store.left[store.cells[y]["group"], j]
    )


@inline
def raise_in_reverse(store: Store, b: int, x: int, j: int, side: int) -> None:
    """Put a cell where it belongs among the most frequent of a reverse group."""
    top = store.reverses[b]["top"]
    base = side * REVERSE_TOP
    if top[base] == x:
        return
    last = top[base + REVERSE_TOP - 1]
    if last != NONE and store.cells[x]["total"][side] < store.cells[last]["total"][side]:
        return
    _raise_in_reverse(store, b, x, j, side)


@apart
def _raise_in_reverse(store: Store, b: int, x: int, j: int, side: int) -> None:
    top = store.reverses[b]["top"]
    base = side * REVERSE_TOP
    at = i64(0)
    while at < REVERSE_TOP and top[base + at] != x and top[base + at] != NONE:
        at += 1
    if at == REVERSE_TOP:
        at = i64(REVERSE_TOP - 1)
        if not _beats_in_reverse(store, x, top[base + at], j, side):
            return
    while at > 0 and _beats_in_reverse(store, x, top[base + at - 1], j, side):
        top[base + at] = top[base + at - 1]
        at -= 1
    top[base + at] = x


@apart
def rank_reverse(store: Store, b: int, side: int, without: int) -> None:
    """Find the most frequent cells of a reverse group anew, without one of them."""
    reverse = store.reverses[b]
    j = i64(reverse["at"])
    base = side * REVERSE_TOP
    for k in range(REVERSE_TOP):
        reverse["top"][base + k] = NONE
    x = i64(reverse["first_cell"])
    while x != NONE:
        if x != without and store.cells[x]["total"][side] > 0:
            raise_in_reverse(store, b, x, j, side)
        x = i64(store.links[x, j]["next"])


@apart
def drop_from_reverse(store: Store, b: int, x: int, j: int) -> None:  # noqa: ARG001 - the place of the link
    """Let a cell that goes not be among the most frequent of a reverse group."""
    top = store.reverses[b]["top"]
    for side in range(2):
        named = False
        for k in range(REVERSE_TOP):
            named = named or top[side * REVERSE_TOP + k] == x
        if named:
            rank_reverse(store, b, side, x)
