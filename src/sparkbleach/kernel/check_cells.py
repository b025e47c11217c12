"""Whether saved arrays are a store of super cells; see check.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .cells import Store, new_store
from .check import (
    I32,
    Slots,
    check_back_links,
    check_counts,
    check_fields,
    check_pair_hashes,
    check_panes,
    check_shapes,
    check_values,
    is_within,
    owners,
    require,
)
from .groups import Groups
from .saved import used_rows
from .solo import Solo, new_solo
from .table import NONE

_LATE = 2**63 - 1  # a pane after all others
_NOT_NEWEST = "groups: one has no super cell in its newest pane"


def check_solo(solo: Solo, start: int) -> None:
    """Check a store for a single rule, in a window that begins with a pane.

    Raises:
        ValueError: If it is none.
    """
    check_shapes(new_solo(), solo, used_rows)
    groups = _check_groups(solo.groups, solo.cells.shape[0], 1)
    cells = Slots("super cells", solo.cells, solo.cell_pool, solo.cell_table)
    cells.check_linked("super cells")
    _check_super_cells(solo, cells, groups, "weight")
    owner = _check_list(
        cells,
        np.where(groups.live, groups.every("first_cell"), np.int32(NONE)),
        *(cells.every(field) for field in ("group", "next_cell", "prev_cell")),
    )
    group = cells["group"]
    require("super cells: one has no group", group != NONE)
    _check_sizes(groups, np.bincount(group, minlength=groups.n))
    check_pair_hashes("super cells", cells["hash"], group, cells["value"])
    # The value that a group was asked for last is taken for its own without a look.
    alive = groups.linked & (groups.every("last_pane") >= start)
    is_newest = cells["value"] == groups.every("last")[group]
    is_newest &= cells["pane"] >= groups.every("last_pane")[group]
    has_newest = np.zeros(groups.n, np.bool_)
    has_newest[group[is_newest]] = True
    require(_NOT_NEWEST, has_newest[alive])
    recent = groups.every("recent_cell")[alive]
    require("groups: recent_cell is out of bounds", is_within(recent, cells.n))
    ranked = np.flatnonzero(alive & (groups.every("in_graph") == 1))
    top = groups.every("top")[ranked]
    require("groups: top is out of bounds", is_within(top, cells.n, NONE))
    in_group = owner[top] == ranked[:, None]
    require("groups: top names a super cell of another one", in_group | (top == NONE))
    require("groups: top has a gap", (top[:, 1:] == NONE) | (top[:, :-1] != NONE))


def check_store(store: Store, n_columns: int, start: int, *, basic: bool) -> None:
    """Check a store for several rules, in a window that begins with a pane.

    Raises:
        ValueError: If it is none.
    """
    check_shapes(new_store(n_columns), store, used_rows)
    groups = _check_groups(store.groups, store.cells.shape[0], n_columns)
    cells = Slots("super cells", store.cells, store.cell_pool, store.cell_table)
    cells.check_linked("super cells")
    _check_super_cells(store, cells, groups, "cumulative")
    pane, column = cells.every("pane"), groups.every("column")
    alive = groups.live & (groups.every("last_pane") >= start)
    # One more, for the super cells that have no group of a column.
    in_graph = np.append(alive & (groups.every("in_graph") == 1), False)
    has_newest, linked = np.zeros(groups.n, np.bool_), np.zeros(cells.n, np.bool_)
    sizes = np.zeros(groups.n + 1, np.int64)
    is_counted = cells.live & (cells.every("count") > 0)
    newest = np.append(groups.every("last_pane"), _LATE)
    for j in range(n_columns):
        first = np.where(groups.live & (column == j), groups.every("first_cell"), np.int32(NONE))
        member = store.members[:, j]
        links = (np.ascontiguousarray(member[field]) for field in ("group", "next", "prev"))
        owner = _check_list(cells, first, *links)
        sizes += np.bincount(owner + 1, minlength=groups.n + 1)
        has_newest[owner[is_counted & (owner != NONE) & (pane >= newest[owner])]] = True
        linked |= in_graph[owner]
    _check_sizes(groups, sizes[1:])
    # In the graph there is no group without a count.
    require(_NOT_NEWEST, has_newest[alive])
    if not basic:
        is_new = linked & (pane >= start)
        require("super cells: one in the graph has no count", cells.every("cumulative")[is_new] > 0)


def _check_groups(groups: Groups, n_cells: int, n_columns: int) -> Slots:
    slots = Slots("groups", groups.records, groups.pool, groups.table)
    slots.check_unlinked("groups")
    check_fields("groups", slots, {"column": n_columns, "in_graph": 2, "n_cells": n_cells + 1}, least=0)
    check_fields("groups", slots, {"recent_cell": n_cells})
    require("groups: a free one has a column", slots.every("column")[slots.free] == NONE)
    return slots


def _check_super_cells(store: Store | Solo, cells: Slots, groups: Slots, weight: str) -> None:
    """Check values and counts, which are alike in both kinds of store."""
    require("super cells: a free one has a value", cells.every("value")[cells.free] == NONE)
    require("super cells: one has no value", cells["value"] >= 0)
    check_values(store.values, cells["value"], groups["held"], groups["challenger"])
    older = np.where(cells.live, cells.every("older"), np.int32(NONE))
    check_panes("super cells", store.panes, store.pane_pool, [older])
    check_counts("super cells", cells["count"], cells[weight])


def _check_list(cells: Slots, first: I32, group: I32, following: I32, previous: I32) -> I32:
    """Check the lists of the groups of a column; return by super cell the group in whose list it is."""
    owner = owners("super cells of a group", first, following)
    right = np.where(cells.live, group, np.int32(NONE))
    require("super cells: one is in the list of another group", owner == right)
    check_back_links("super cells of a group", first, following, previous, owner)
    return owner


def _check_sizes(groups: Slots, sizes: NDArray[np.int64]) -> None:
    sizes = sizes[groups.which]
    require("groups: one has more or fewer super cells than it says", groups["n_cells"] == sizes)
    require("groups: one has no super cell", sizes > 0)
