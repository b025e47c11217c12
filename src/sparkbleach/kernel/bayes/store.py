"""What was counted: values, groups and the cells in them, all as they arrived.

A *cell* here is a group with one of its values, and how often it came. Each cell also hangs in *reverse
groups*, one for each place on its rule's left side: the cells that agree in all but that place. They say
which left values go with a right value.

Counts have two *sides*. One is the horizon as it is: the panes whose cells count. The other one is the
horizon after the next slide; it means something for what the sweep has been at (expire.py). A slide
exchanges them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..panes import PANE_COUNT
from ..table import NONE, Pool, Records, Table, grow, new_pool, new_table, pool_used, table_items
from ..values import Values, new_values, reserve_values

TOP = 5  #: of a group: the most frequent cells
REVERSE_TOP = 3  #: of a reverse group
#: how many levels a cell can need: if it has no place in `top`, those of the others, and its own
LEVELS_PER_CELL = 2 * TOP + 1

GROUP = np.dtype(
    [
        ("hash", np.uint64),  # of rule and left values
        ("last_pane", np.int64),  # of the newest cell
        ("other_pane", np.int64),  # of the newest cell with another value than `last`
        ("log_factorials", np.int64, (2,)),  # by side: sum over its cells, in units of gamma.py
        ("trust", np.float64),  # of an implied rule in this group; negative if not yet known
        ("born", np.int64),  # how many tuples were counted before its first cell
        ("next", np.int32),  # in the table or the pool
        ("rule", np.int32),  # NONE if the slot is free
        ("swept", np.int32),  # the last sweep that was here, or that began before the group did
        ("first_cell", np.int32),
        ("n_cells", np.int32),  # cells in its list, those without a count included
        ("recent_cell", np.int32),  # the cell that was counted last
        ("last", np.int32),  # value of the newest cell
        ("held", np.int32),  # the value taken for the truth, NONE if the rule accepts no changes
        ("seen", np.int32),  # how often
        ("challenger", np.int32),  # the value that may be the new truth, NONE if there is none
        ("lead", np.int32),
        ("has_levels", np.int32),  # 1 once `top` has not all cells
        ("n", np.int32, (2,)),  # by side: count of all cells
        ("n_values", np.int32, (2,)),  # by side: cells with a count
        ("contradicts", np.int32, (2,)),  # by side: `n` if its second value repeats, else 0
        ("top", np.int32, (2 * TOP,)),  # by side: the most frequent cells, smaller values first, then NONE
    ],
    align=True,
)

CELL = np.dtype(
    [
        ("hash", np.uint64),  # of group and value
        ("pane", np.int64),  # the newest pane with a count
        ("count", np.int32),  # in that pane
        ("older", np.int32),  # first of the counts of older panes
        ("total", np.int32, (2,)),  # by side
        ("value", np.int32),
        ("group", np.int32),  # NONE if the slot is free
        ("next", np.int32),  # in the table or the pool
        ("next_cell", np.int32),  # in the group's list
        ("prev_cell", np.int32),
        ("first_vote", np.int32),  # with sources
    ],
    align=True,
)

LINK = np.dtype([("reverse", np.int32), ("next", np.int32), ("prev", np.int32)], align=True)

REVERSE = np.dtype(
    [
        ("hash", np.uint64),  # of rule, place, the other left values and the right value
        ("next", np.int32),
        ("rule", np.int32),  # NONE if the slot is free
        ("at", np.int32),  # the place
        ("swept", np.int32),
        ("first_cell", np.int32),
        ("n_cells", np.int32),
        ("top", np.int32, (2 * REVERSE_TOP,)),  # by side
    ],
    align=True,
)

#: how many values of a group with many values have the same count
LEVEL = np.dtype(
    [
        ("hash", np.uint64),  # of group and count
        ("next", np.int32),  # in the table or the pool
        ("n_values", np.int32, (2,)),  # by side; a level with none on both is given back
    ],
    align=True,
)

#: by value: how often an attribute has it
OCCURRENCE = np.dtype(
    [
        ("pane", np.int64),
        ("count", np.int32),
        ("older", np.int32),
        ("total", np.int32, (2,)),  # by side
        ("swept", np.int32),
        ("attribute", np.int32),  # NONE if no attribute has it
        ("text_length", np.int32),
        ("text", np.int64),  # where in the arena of values its text is
        ("halved", np.int32),  # the last halving that its reputations have seen
    ],
    align=True,
)

#: how often a source gave a value in a group
VOTE = np.dtype(
    [
        ("hash", np.uint64),  # of cell and source
        ("pane", np.int64),
        ("count", np.int32),
        ("older", np.int32),
        ("total", np.int32, (2,)),
        ("next", np.int32),  # in the table or the pool
        ("source", np.int32),
        ("next_vote", np.int32),  # of the same cell
        ("cell", np.int32),  # NONE if the slot is free
    ],
    align=True,
)


class Counted(NamedTuple):
    """Records with a count per pane, as panes.py takes them."""

    cells: Records
    panes: Records
    pane_pool: Pool


class Sums(NamedTuple):
    """Sums over groups, by side and rule; and over values, by side and attribute."""

    cells: NDArray[np.int64]  #: in groups of two or more
    majority: NDArray[np.int64]  #: of these, those with the most frequent value of their group
    groups: NDArray[np.int64]  #: how many such groups
    large: NDArray[np.int64]  #: cells in groups of five or more
    contradicting: NDArray[np.int64]  #: of these, those in groups whose second value repeats
    occurrences: NDArray[np.int64]  #: cells by attribute
    once: NDArray[np.int64]  #: values that occur once, by attribute


class Running(NamedTuple):
    """Sums that only grow, and are halved once a window."""

    settled_trust: NDArray[np.float64]  #: by rule: as of the windows before; negative if there are none
    trust_sum: NDArray[np.float64]  #: by rule
    trust_n: NDArray[np.int64]  #: by rule
    once_out: NDArray[np.int64]  #: by rule: how often values that occur once were outvoted
    once_seen: NDArray[np.int64]  #: by rule: and how often they came to a group with other cells
    wrong_like: NDArray[np.int64]  #: by attribute and class of likeness: outvoted values
    expected_like: NDArray[np.float64]  #: likewise, if they were no more alike than any two values
    any_like: NDArray[np.int64]  #: by attribute and class: values that follow each other
    last: NDArray[np.int64]  #: by attribute: the last value that was compared, NONE if there is none
    compared: NDArray[np.int64]  #: by rule: cells that came to a group with other cells
    foreign: NDArray[np.int64]  #: by rule: of these, outvoted ones whose value is at home elsewhere
    explained: NDArray[np.int64]  #: by rule and place: outvoted ones that another key at that place explains
    key_compared: NDArray[np.int64]  #: by attribute: keys of which a rule has compared the right side
    key_explains: NDArray[np.int64]  #: by attribute: of these, those for which another key explains all
    settled_error: NDArray[np.float64]  #: by attribute: of a key, as of the windows before; else negative
    violations: NDArray[np.int64]  #: by rule; these are never halved


class Store(NamedTuple):
    """All that was counted."""

    values: Values  #: of all attributes
    occurrences: Records  #: OCCURRENCE by value
    reputation: NDArray[np.int32]  #: by value, slot of the rule, and (outvoted, seen)
    groups: Records
    group_table: Table
    group_pool: Pool
    left: NDArray[np.int32]  #: by group and place: the left values
    cells: Records
    cell_table: Table
    cell_pool: Pool
    links: Records  #: by cell and place: the reverse group
    reverses: Records
    reverse_table: Table
    reverse_pool: Pool
    levels: Records
    level_table: Table
    level_pool: Pool
    votes: Records
    vote_table: Table
    vote_pool: Pool
    panes: Records
    pane_pool: Pool
    sums: Sums
    running: Running
    state: NDArray[np.int64]  #: see below


#: places in `Store.state`: the side of the horizon as it is; the number of sweeps, and whether one is on;
#: whether what is counted now outlives the next slide; the number of halvings, of tuples, and at how many of
#: them the parameters are next computed
SIDE, SWEEP, SWEEPING, CARRY, HALVINGS, N_TUPLES, DUE = 0, 1, 2, 3, 4, 5, 6
_N_STATE = 7


def new_store(n_rules: int, n_attributes: int, n_places: int, n_slots: int) -> Store:
    """Return an empty store for rules with at most `n_places` attributes on the left.

    At most `n_slots` rules are on one attribute.
    """
    by_rule, by_attribute = (2, n_rules), (2, n_attributes)
    return Store(
        new_values(),
        np.zeros(0, OCCURRENCE),
        np.zeros((0, n_slots, 2), np.int32),
        np.zeros(0, GROUP),
        new_table(),
        new_pool(),
        np.zeros((0, n_places), np.int32),
        np.zeros(0, CELL),
        new_table(),
        new_pool(),
        np.zeros((0, n_places), LINK),
        np.zeros(0, REVERSE),
        new_table(),
        new_pool(),
        np.zeros(0, LEVEL),
        new_table(),
        new_pool(),
        np.zeros(0, VOTE),
        new_table(),
        new_pool(),
        np.zeros(0, PANE_COUNT),
        new_pool(),
        Sums(
            *(np.zeros(by_rule, np.int64) for _ in range(5)),
            *(np.zeros(by_attribute, np.int64) for _ in range(2)),
        ),
        Running(
            np.full(n_rules, -1.0),
            np.zeros(n_rules, np.float64),
            np.zeros(n_rules, np.int64),
            np.zeros(n_rules, np.int64),
            np.zeros(n_rules, np.int64),
            np.zeros((n_attributes, 5), np.int64),
            np.zeros((n_attributes, 5)),
            np.tile(np.array([1, 1, 1, 1, 1, 0], np.int64), (n_attributes, 1)),
            np.full(n_attributes, NONE, np.int64),
            np.zeros(n_rules, np.int64),
            np.zeros(n_rules, np.int64),
            np.zeros((n_rules, n_places), np.int64),
            np.zeros(n_attributes, np.int64),
            np.zeros(n_attributes, np.int64),
            np.full(n_attributes, -1.0),
            np.zeros(n_rules, np.int64),
        ),
        np.zeros(_N_STATE, np.int64),
    )


def reserve_new_values(store: Store, n_values: int, n_bytes: int) -> None:
    """Make room for `n_values` more values with `n_bytes` bytes between them."""
    reserve_values(store.values, n_values, n_bytes)
    grow(store.occurrences, store.values.records.shape[0])
    grow(store.reputation, store.values.records.shape[0])


def reserve_store(store: Store, n_tuples: int, *, with_votes: bool) -> None:
    """Make room for what `n_tuples` more tuples can need, whose values have their numbers."""
    n_rules = store.sums.cells.shape[1]
    n_cells = n_tuples * n_rules
    n_attributes = store.sums.once.shape[1]
    grow(store.groups, pool_used(store.group_pool) + n_cells)
    grow(store.left, store.groups.shape[0])
    grow(store.group_table.heads, table_items(store.group_table) + n_cells + 1)
    grow(store.cells, pool_used(store.cell_pool) + n_cells)
    grow(store.links, store.cells.shape[0])
    grow(store.cell_table.heads, table_items(store.cell_table) + n_cells + 1)
    n_reverses = n_cells * store.left.shape[1]
    grow(store.reverses, pool_used(store.reverse_pool) + n_reverses)
    grow(store.reverse_table.heads, table_items(store.reverse_table) + n_reverses + 1)
    n_levels = n_cells * LEVELS_PER_CELL
    grow(store.levels, pool_used(store.level_pool) + n_levels)
    grow(store.level_table.heads, table_items(store.level_table) + n_levels + 1)
    n_votes = n_cells if with_votes else 0
    grow(store.votes, pool_used(store.vote_pool) + n_votes)
    grow(store.vote_table.heads, table_items(store.vote_table) + n_votes + 1)
    grow(store.panes, pool_used(store.pane_pool) + 2 * n_cells + n_tuples * n_attributes + n_votes)
