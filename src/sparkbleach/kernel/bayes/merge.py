"""Two states become one: a new rule has joined their components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit import apart, entry, i64
from ..refs import ref
from ..table import NONE, Records, grow, pool_take, pool_used, table_items
from ..values import arena_used, value_copy
from .groups import cell_new, change_level, group_new, raise_in_reverse
from .layout import Layout
from .store import SIDE, SWEEP, TOP, Store, reserve_new_values


def merge_into(store: Store, layout: Layout, other: Store, rule_shift: int, attribute_shift: int) -> None:
    """Add all that another store has counted; no sweep is on in either.

    The store knows the rules and attributes of the other one already, by numbers that are larger by
    `rule_shift` and `attribute_shift`, but has counted nothing for them. Both have counted the same tuples,
    without sources.
    """
    values = np.full(pool_used(other.values.pool), NONE, np.int32)
    reserve_new_values(store, values.size, arena_used(other.values))
    for pool, more, arrays in (
        (store.group_pool, other.group_pool, (store.groups, store.left)),
        (store.cell_pool, other.cell_pool, (store.cells, store.links)),
        (store.reverse_pool, other.reverse_pool, (store.reverses,)),
        (store.level_pool, other.level_pool, (store.levels,)),
        (store.pane_pool, other.pane_pool, (store.panes,)),
    ):
        for array in arrays:
            grow(array, pool_used(pool) + pool_used(more))
    for table, more_items in (
        (store.group_table, other.group_table),
        (store.cell_table, other.cell_table),
        (store.reverse_table, other.reverse_table),
        (store.level_table, other.level_table),
    ):
        grow(table.heads, table_items(table) + table_items(more_items) + 1)
    _copy_values(store, other, values, attribute_shift)
    cells = np.full(pool_used(other.cell_pool), NONE, np.int32)
    left = np.empty(store.left.shape[1], np.int32)
    _copy_groups(store, layout, other, values, cells, left, pool_used(other.group_pool), rule_shift)
    _copy_sums(store, other, values, rule_shift, attribute_shift)


def _copy_sums(
    store: Store, other: Store, values: NDArray[np.int32], rule_shift: int, attribute_shift: int
) -> None:
    sides = [int(other.state[SIDE]), 1 - int(other.state[SIDE])]
    here = [int(store.state[SIDE]), 1 - int(store.state[SIDE])]
    by_attribute = {"occurrences", "once"}
    for name, sums, more in zip(store.sums._fields, store.sums, other.sums, strict=True):
        sums[here, (attribute_shift if name in by_attribute else rule_shift) :] = more[sides]
    of_attributes = {
        "wrong_like",
        "expected_like",
        "any_like",
        "last",
        "key_compared",
        "key_explains",
        "settled_error",
    }
    for name in store.running._fields:
        ours, theirs = getattr(store.running, name), getattr(other.running, name)
        shift = attribute_shift if name in of_attributes else rule_shift
        if ours.ndim == 1:
            ours[shift:] = theirs
        else:
            ours[shift:, : theirs.shape[1]] = theirs
    last = store.running.last[attribute_shift:]
    last[last != NONE] = values[last[last != NONE]]


@entry
def _copy_values(store: Store, other: Store, values: NDArray[np.int32], attribute_shift: int) -> None:
    """Add the values that the other store keeps; write by number there the number here."""
    store = ref(store)
    other = ref(other)
    for v in range(values.size):
        if other.values.records[v]["refs"] <= 0:
            continue
        w = value_copy(store.values, other.values, i64(v))
        values[v] = w
        theirs = other.occurrences[v]
        ours = store.occurrences[w]
        ours["pane"] = theirs["pane"]
        ours["count"] = theirs["count"]
        ours["older"] = _copy_panes(store, other, i64(theirs["older"]))
        ours["swept"] = store.state[SWEEP]
        ours["attribute"] = NONE if theirs["attribute"] == NONE else theirs["attribute"] + attribute_shift
        ours["text_length"] = theirs["text_length"]
        ours["text"] = store.values.records[w]["offset"]
        ours["halved"] = theirs["halved"]
        _copy_by_side(store, other, ours["total"], theirs["total"])
        for slot in range(store.reputation.shape[1]):
            for k in range(2):
                store.reputation[w, slot, k] = 0
        for slot in range(min(store.reputation.shape[1], other.reputation.shape[1])):
            for k in range(2):
                store.reputation[w, slot, k] = other.reputation[v, slot, k]


@entry
def _copy_groups(
    store: Store,
    layout: Layout,
    other: Store,
    values: NDArray[np.int32],
    cells: NDArray[np.int32],
    left: NDArray[np.int32],
    n_groups: int,
    rule_shift: int,
) -> None:
    """Add the groups of the other store with their cells."""
    store = ref(store)
    layout = ref(layout)
    other = ref(other)
    for g in range(n_groups):
        theirs = other.groups[g]
        if theirs["rule"] == NONE:
            continue
        rule = i64(theirs["rule"]) + rule_shift
        for j in range(layout.n_lhs[rule]):
            left[j] = values[other.left[g, j]]
        h = group_new(store, layout, rule, left)
        ours = store.groups[h]
        ours["last_pane"] = theirs["last_pane"]
        ours["other_pane"] = theirs["other_pane"]
        ours["trust"] = theirs["trust"]
        ours["born"] = theirs["born"]
        ours["last"] = _value_of(values, i64(theirs["last"]))
        ours["held"] = _value_of(values, i64(theirs["held"]))
        ours["seen"] = theirs["seen"]
        ours["challenger"] = _value_of(values, i64(theirs["challenger"]))
        ours["lead"] = theirs["lead"]
        _copy_by_side(store, other, ours["n"], theirs["n"])
        _copy_by_side(store, other, ours["n_values"], theirs["n_values"])
        _copy_by_side(store, other, ours["contradicts"], theirs["contradicts"])
        _copy_by_side(store, other, ours["log_factorials"], theirs["log_factorials"])
        x = i64(theirs["first_cell"])
        while x != NONE:
            cells[x] = _copy_cell(store, layout, other, x, h, values)
            x = i64(other.cells[x]["next_cell"])
        if theirs["recent_cell"] != NONE:
            ours["recent_cell"] = cells[theirs["recent_cell"]]
        flip = store.state[SIDE] != other.state[SIDE]
        for side in range(2):
            for k in range(TOP):
                y = theirs["top"][(1 - side if flip else side) * TOP + k]
                ours["top"][side * TOP + k] = NONE if y == NONE else cells[y]


@apart
def _copy_cell(store: Store, layout: Layout, other: Store, x: int, h: int, values: NDArray[np.int32]) -> int:
    theirs = other.cells[x]
    y = cell_new(store, layout, h, i64(values[theirs["value"]]), i64(theirs["pane"]))
    ours = store.cells[y]
    ours["count"] = theirs["count"]
    ours["older"] = _copy_panes(store, other, i64(theirs["older"]))
    _copy_by_side(store, other, ours["total"], theirs["total"])
    if store.groups[h]["has_levels"]:
        for side in range(2):
            change_level(store, h, i64(ours["total"][side]), i64(side), i64(1))
    side = i64(store.state[SIDE])
    if ours["total"][side] > 0:
        for j in range(layout.n_lhs[store.groups[h]["rule"]]):
            raise_in_reverse(store, i64(store.links[y, j]["reverse"]), y, i64(j), side)
    return y


@apart
def _copy_panes(store: Store, other: Store, node: int) -> int:
    """Copy a list of counts by pane; return its first one."""
    first = NONE
    last = NONE
    while node != NONE:
        new = pool_take(store.pane_pool, store.panes)
        store.panes[new]["pane"] = other.panes[node]["pane"]
        store.panes[new]["count"] = other.panes[node]["count"]
        store.panes[new]["next"] = NONE
        if last == NONE:
            first = new
        else:
            store.panes[last]["next"] = new
        last = new
        node = i64(other.panes[node]["next"])
    return first


@apart
def _copy_by_side(store: Store, other: Store, ours: Records, theirs: Records) -> None:
    ours[store.state[SIDE]] = theirs[other.state[SIDE]]
    ours[1 - store.state[SIDE]] = theirs[1 - other.state[SIDE]]


@apart
def _value_of(values: NDArray[np.int32], v: int) -> int:
    return NONE if v == NONE else i64(values[v])
