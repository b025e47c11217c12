"""An attribute with a single rule: no hinges, so no graph to keep.

Each of its groups is a subgraph of its own and each of its super cells a candidate, so the best candidates
lie with the group and their weights with the super cells: what a tuple needs is in three places in memory
instead of eight, and a slide of the window has nothing to build. Most rules of most users are such rules.

A weight is what a super cell counts while its group is in the graph. Basic windowing: its cells in the
window. Bleach windowing: all its cells, until it is forgotten. What a slide takes away from weights is taken
away when a group is next needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import MEMBER, SUPER_CELL, Store, new_store, set_hash
from .clean import CONSTANT_BROKEN, NO_CONSTANT, Cells
from .clock import (
    PANE,
    REMEMBERED,
    START,
    SWEEP_AT,
    SWEEP_END,
    SWEEPING,
    TUPLES,
    Clock,
    PaneWindow,
    begin_segment,
    begin_sweep,
    pane_of,
    slide_to,
    sweep_goal,
)
from .groups import (
    DEAD,
    GROUP,
    GROUP_FIELDS,
    Groups,
    group_detect,
    group_find,
    group_free,
    group_of,
    reserve_groups,
)
from .hashing import mix64
from .jit import apart, entry, i64, inline, jit
from .panes import PANE_COUNT, cell_add, forget_panes, forget_panes_before, window_count
from .rank import TOP, raised
from .refs import ref
from .repair import Repairs, candidates_of_one, no_candidates
from .table import (
    NONE,
    POOL_USED,
    Pool,
    Records,
    Table,
    grow,
    new_pool,
    new_table,
    pool_give,
    pool_take,
    pool_used,
    table_first,
    table_insert,
    table_items,
    table_remove,
)
from .truth import Acceptances, is_accepted, replace_group
from .values import Values, is_value, new_values, reserve_values, value_of, value_release

SOLO_GROUP = np.dtype(
    [
        *GROUP_FIELDS,
        ("top", np.int32, (TOP,)),  # while in the graph: the best super cells, best first, then NONE
        ("total", np.int64),  # while in the graph: sum of all weights
        ("as_of", np.int64),  # while in the graph: weights hold up to when this is the first remembered pane
    ],
    align=True,
)

SOLO_CELL = np.dtype(
    [
        ("hash", np.uint64),  # of group and value
        ("pane", np.int64),  # the newest pane with a cell
        ("count", np.int64),  # cells in that pane
        ("weight", np.int64),  # means something while the group is in the graph
        ("value", np.int32),  # NONE if the slot is free
        ("group", np.int32),
        ("next", np.int32),  # in the table or the pool
        ("older", np.int32),  # first of the counts of older panes
        ("next_cell", np.int32),  # super cell after this one in the group's list
        ("prev_cell", np.int32),  # super cell before it
    ],
    align=True,
)

_COLUMN = i64(0)
_ONE_GROUP = i64(1)
_LATE = i64(1 << 62)  # a pane after all others


class Solo(NamedTuple):
    """All that is known of the cells of an attribute with a single rule."""

    groups: Groups  #: SOLO_GROUP
    values: Values
    cells: Records  #: SOLO_CELL
    cell_table: Table
    cell_pool: Pool
    panes: Records  #: PANE_COUNT
    pane_pool: Pool


def new_solo() -> Solo:
    """Return an empty store."""
    return Solo(
        Groups(np.zeros(0, SOLO_GROUP), new_table(), new_pool()),
        new_values(),
        np.zeros(0, SOLO_CELL),
        new_table(),
        new_pool(),
        np.zeros(0, PANE_COUNT),
        new_pool(),
    )


def reserve_solo(solo: Solo, n_tuples: int, n_bytes: int) -> None:
    """Make room for what `n_tuples` more tuples can need, with `n_bytes` in their cells."""
    reserve_groups(solo.groups, n_tuples)
    reserve_values(solo.values, n_tuples, n_bytes)
    grow(solo.cells, pool_used(solo.cell_pool) + n_tuples)
    grow(solo.cell_table.heads, table_items(solo.cell_table) + n_tuples + 1)
    grow(solo.panes, pool_used(solo.pane_pool) + n_tuples)


@entry
def clean_solo(
    solo: Solo,
    clock: Clock,
    window: PaneWindow,
    basic: bool,
    panes: NDArray[np.int64],
    position: int,
    accept_after: NDArray[np.int64],
    cells: Cells,
    first: int,
    last: int,
    repairs: Repairs,
    n_repairs: int,
    violations: NDArray[np.int64],
    acceptances: Acceptances,
) -> int:
    """Clean the cells of the tuples `first` to `last`, and slide the window, as clean_hinged does.

    Returns:
        How many rows `repairs` has now.
    """
    solo = ref(solo)
    cells = ref(cells)
    repairs = ref(repairs)
    acceptances = ref(acceptances)
    while first < last:
        pane = pane_of(clock, window, panes, position, first)
        if pane > clock[PANE]:
            if clock[SWEEPING] == 0:
                begin_sweep(clock, solo.cell_pool.state[POOL_USED])
            _sweep_to(solo, clock, basic, i64(clock[SWEEP_END]))
            slide_to(clock, window, basic, pane)
        end = begin_segment(clock, window, panes, position, first, last, solo.cell_pool.state[POOL_USED])
        n_repairs = _clean_segment(
            solo,
            basic,
            i64(clock[PANE]),
            i64(clock[START]),
            i64(clock[REMEMBERED]),
            accept_after,
            cells,
            first,
            end,
            repairs,
            n_repairs,
            violations,
            acceptances,
        )
        clock[TUPLES] += end - first
        first = end
        if clock[SWEEPING]:
            _sweep_to(solo, clock, basic, sweep_goal(clock))
    return n_repairs


@apart
def _clean_segment(
    solo: Solo,
    basic: bool,
    pane: int,
    start: int,
    remembered: int,
    accept_after: NDArray[np.int64],
    cells: Cells,
    first: int,
    last: int,
    repairs: Repairs,
    n_repairs: int,
    violations: NDArray[np.int64],
    acceptances: Acceptances,
) -> int:
    """Clean the cells of a segment; see clean_segment."""
    threshold = accept_after[0]
    for i in range(first, last):
        constant = cells.constant[i]
        violated = False
        changed = False
        if not cells.applies[0, i]:
            if constant == CONSTANT_BROKEN:
                no_candidates(repairs, n_repairs)
                changed = True
        elif cells.column.valid[i]:
            g = group_of(solo.groups, cells.key_lo[0, i], cells.key_hi[0, i], _COLUMN, start)
            value = i64(solo.groups.records[g]["last"])  # most often the same again
            if value == NONE or not is_value(solo.values, value, cells.column, i):
                value = value_of(solo.values, cells.column, i)
            accepted = threshold > 0 and is_accepted(solo.groups, solo.values, g, value, threshold)
            if accepted:
                g = _accept(solo, acceptances, i, g, value, threshold)
            violated = group_detect(solo.groups, g, value, pane, start)
            x = _join(solo, basic, g, value, violated, pane, start, remembered)
            if accepted:
                solo.cells[x]["count"] += threshold - 1
            if violated:
                group = solo.groups.records[g]
                changed = constant == CONSTANT_BROKEN or (
                    constant == NO_CONSTANT
                    and solo.cells[x]["weight"] < solo.cells[group["top"][0]]["weight"]
                )
                if changed:
                    candidates_of_one(
                        repairs, n_repairs, solo.cells, group["top"], group["total"], _ONE_GROUP
                    )
            elif constant == CONSTANT_BROKEN:
                no_candidates(repairs, n_repairs)
                changed = True
        else:
            violated = _fill(solo, basic, cells, i, start, remembered, repairs, n_repairs)
            changed = violated or constant == CONSTANT_BROKEN
        violated = violated or (cells.broken.shape[1] > 0 and cells.broken[0, i])
        violations[0] += violated
        if changed:
            repairs.violated[n_repairs, 0] = violated
            repairs.tuple[n_repairs] = i
            n_repairs += 1
    return n_repairs


@jit
def _accept(solo: Solo, acceptances: Acceptances, i: int, g: int, value: int, threshold: int) -> int:
    """Return the group that takes the place of one that has accepted a value, and drop that one."""
    new = replace_group(solo.groups, solo.values, acceptances, i, g, value, threshold)
    x = i64(solo.groups.records[g]["first_cell"])
    while x != NONE:
        following = i64(solo.cells[x]["next_cell"])
        _free_cell(solo, x)  # the last one frees the group
        x = following
    return new


@inline
def _join(
    solo: Solo, basic: bool, g: int, value: int, violated: bool, pane: int, start: int, remembered: int
) -> int:
    """Add the newest cell of a group to its super cell, and the group to the graph if it is violated."""
    group = solo.groups.records[g]
    x = i64(group["recent_cell"])
    if group["n_cells"] == 0 or solo.cells[x]["value"] != value or solo.cells[x]["group"] != g:
        x = _cell_of(solo, g, value, pane)
        group["recent_cell"] = x
    in_graph = group["in_graph"]
    if in_graph and group["as_of"] < remembered:
        _weigh_again(solo, basic, g, start, remembered)
    cell_add(solo, x, pane, start)
    if in_graph:
        solo.cells[x]["weight"] += 1
        group["total"] += 1
        raised(solo.values, solo.cells, group["top"], x)
    elif violated:
        _enter(solo, g, start)
    return x


@jit
def _fill(
    solo: Solo, basic: bool, cells: Cells, i: int, start: int, remembered: int, repairs: Repairs, row: int
) -> bool:
    """Find the candidates for a null cell; return whether there are any."""
    no_candidates(repairs, row)
    g = group_find(solo.groups, cells.key_lo[0, i], cells.key_hi[0, i])
    if g == NONE or solo.groups.records[g]["last_pane"] < start:
        return False
    group = solo.groups.records[g]
    if not group["in_graph"]:
        _enter(solo, g, start)
    elif group["as_of"] < remembered:
        _weigh_again(solo, basic, g, start, remembered)
    candidates_of_one(repairs, row, solo.cells, group["top"], group["total"], _ONE_GROUP)
    return True


@jit
def _enter(solo: Solo, g: int, start: int) -> None:
    """Let a group enter the graph: each super cell weighs as many cells as it has in the window."""
    solo.groups.records[g]["in_graph"] = 1
    _weigh_again(solo, True, g, start, start)


@jit
def _weigh_again(solo: Solo, basic: bool, g: int, start: int, remembered: int) -> None:
    """Take away from the weights of a group what slides have taken away since."""
    group = solo.groups.records[g]
    group["total"] = 0
    for k in range(TOP):
        group["top"][k] = NONE
    oldest = _LATE
    x = i64(group["first_cell"])
    while x != NONE:
        cell = solo.cells[x]
        if basic:
            cell["weight"] = window_count(solo, x, start)
        elif cell["pane"] < remembered:
            cell["weight"] = 0
        if cell["weight"] > 0:
            oldest = min(oldest, i64(cell["pane"]))
            group["total"] += cell["weight"]
            raised(solo.values, solo.cells, group["top"], x)
        x = i64(cell["next_cell"])
    # A super cell that gains cells later is newer than the oldest of these.
    group["as_of"] = remembered if basic or oldest == _LATE else oldest


@jit
def _cell_of(solo: Solo, g: int, value: int, pane: int) -> int:
    """Return the super cell of a group and a value; make it if it is new."""
    cells = solo.cells
    hash = mix64(np.uint64(g) << np.uint64(32) | np.uint64(value))
    x = i64(table_first(solo.cell_table, hash))
    while x != NONE:
        if cells[x]["hash"] == hash:  # the hash is a bijection of the two numbers
            return x
        x = i64(cells[x]["next"])
    x = pool_take(solo.cell_pool, cells)
    cells[x]["hash"] = hash
    cells[x]["pane"] = pane
    cells[x]["count"] = 0
    cells[x]["weight"] = 0
    cells[x]["value"] = value
    cells[x]["group"] = g
    cells[x]["older"] = NONE
    group = solo.groups.records[g]
    first = group["first_cell"]
    cells[x]["prev_cell"] = NONE
    cells[x]["next_cell"] = first
    if first != NONE:
        cells[first]["prev_cell"] = x
    group["first_cell"] = x
    group["n_cells"] += 1
    solo.values.records[value]["refs"] += 1
    table_insert(solo.cell_table, cells, x)
    return x


@inline
def _sweep_to(solo: Solo, clock: Clock, basic: bool, slot: int) -> None:
    if slot > clock[SWEEP_AT]:
        sweep_solo(solo, basic, i64(clock[START]), i64(clock[REMEMBERED]), i64(clock[SWEEP_AT]), slot)
        clock[SWEEP_AT] = slot


@apart
def sweep_solo(solo: Solo, basic: bool, start: int, remembered: int, first: int, last: int) -> None:
    """Drop the super cells in the slots `first` to `last` that do not count any more."""
    for x in range(first, last):
        if solo.cells[x]["value"] == NONE:
            continue
        g = i64(solo.cells[x]["group"])
        group = solo.groups.records[g]
        forget_panes_before(solo, x, start)
        if group["last_pane"] >= start:
            newest = solo.cells[x]["pane"]
            if newest >= start or (group["in_graph"] and newest >= remembered):
                continue
            if group["in_graph"] and group["as_of"] < remembered:
                # Or the best candidates might still name it.
                _weigh_again(solo, basic, g, start, remembered)
        _free_cell(solo, x)


@jit
def _free_cell(solo: Solo, x: int) -> None:
    cells = solo.cells
    table_remove(solo.cell_table, cells, x)
    g = i64(cells[x]["group"])
    group = solo.groups.records[g]
    before = cells[x]["prev_cell"]
    after = cells[x]["next_cell"]
    if before == NONE:
        group["first_cell"] = after
    else:
        cells[before]["next_cell"] = after
    if after != NONE:
        cells[after]["prev_cell"] = before
    group["n_cells"] -= 1
    if group["n_cells"] == 0:
        group_free(solo.groups, solo.values, g)
    forget_panes(solo, x)
    value_release(solo.values, i64(cells[x]["value"]))
    cells[x]["value"] = NONE
    pool_give(solo.cell_pool, cells, x)


def hinged_store(solo: Solo) -> Store:
    """Return the same super cells and groups as a store that can take more rules."""
    n = solo.cells.size
    store = new_store(1)
    groups = np.zeros(solo.groups.records.size, GROUP)
    for name, _ in GROUP_FIELDS:
        groups[name] = solo.groups.records[name]
    cells = np.zeros(n, SUPER_CELL)
    for name in ("pane", "count", "value", "next", "older"):
        cells[name] = solo.cells[name]
    cells["cumulative"] = solo.cells["weight"]
    members = np.zeros((n, 1), MEMBER)
    members[:, 0]["group"] = np.where(cells["value"] == NONE, NONE, solo.cells["group"])
    members[:, 0]["next"] = solo.cells["next_cell"]
    members[:, 0]["prev"] = solo.cells["prev_cell"]
    store = store._replace(
        groups=Groups(groups, solo.groups.table, solo.groups.pool),
        values=solo.values,
        cells=cells,
        cell_pool=solo.cell_pool,
        members=members,
        panes=solo.panes,
        pane_pool=solo.pane_pool,
    )
    grow(store.cell_table.heads, n + 1)
    _enter_in_table(store, pool_used(solo.cell_pool))
    return store


@entry
def _enter_in_table(store: Store, n_cells: int) -> None:
    store = ref(store)
    for x in range(n_cells):
        if store.cells[x]["value"] != NONE:
            store.set[0] = store.members[x, 0]["group"]
            store.cells[x]["hash"] = set_hash(store.set, store.cells[x]["value"])
            table_insert(store.cell_table, store.cells, x)


def solo_store(store: Store) -> Solo:
    """Return the same super cells and groups as a store for the one rule that is left.

    Args:
        store: A store with one column, all of whose groups are in the window, and without free slots.
    """
    n = pool_used(store.cell_pool)
    groups = np.zeros(store.groups.records.size, SOLO_GROUP)
    for name, _ in GROUP_FIELDS:
        groups[name] = store.groups.records[name]
    groups["top"] = NONE
    groups["as_of"] = DEAD
    cells = np.zeros(n, SOLO_CELL)
    for name in ("pane", "count", "value", "older"):
        cells[name] = store.cells[name][:n]
    cells["weight"] = store.cells["cumulative"][:n]
    cells["group"] = store.members[:n, 0]["group"]
    cells["next_cell"] = store.members[:n, 0]["next"]
    cells["prev_cell"] = store.members[:n, 0]["prev"]
    solo = new_solo()._replace(
        groups=Groups(groups, store.groups.table, store.groups.pool),
        values=store.values,
        cells=cells,
        cell_pool=store.cell_pool,
        panes=store.panes,
        pane_pool=store.pane_pool,
    )
    grow(solo.cell_table.heads, n + 1)
    _enter_in_solo_table(solo, n)
    return solo


@entry
def _enter_in_solo_table(solo: Solo, n_cells: int) -> None:
    solo = ref(solo)
    for x in range(n_cells):
        g = i64(solo.cells[x]["group"])
        solo.cells[x]["hash"] = mix64(np.uint64(g) << np.uint64(32) | np.uint64(solo.cells[x]["value"]))
        table_insert(solo.cell_table, solo.cells, x)
        group = solo.groups.records[g]
        if group["in_graph"]:
            group["total"] += solo.cells[x]["weight"]
            if solo.cells[x]["weight"] > 0:
                raised(solo.values, solo.cells, group["top"], x)
