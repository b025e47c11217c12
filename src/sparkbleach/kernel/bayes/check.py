"""Whether saved arrays are a state of `repair: bayes`; see ../check.py.

What belongs to the side after the next slide is counted anew before it is used: only the side of the horizon
as it is has to be sound, but for levels, which always follow both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..check import (
    COUNT_MAX,
    I32,
    I64,
    Mask,
    Slots,
    check_back_links,
    check_counts,
    check_fields,
    check_pair_hashes,
    check_panes,
    check_values,
    is_within,
    mixed,
    owners,
    require,
)
from ..table import NONE, Records
from .evidence import Parameters
from .layout import Layout
from .store import DUE, HALVINGS, N_TUPLES, REVERSE_TOP, SIDE, SWEEP, TOP, Store
from .votes import Sources

_ERROR_MAX = 0.5
_INT32_MAX = 2**31 - 1
_LEVELS = np.uint64(1 << 63)


def check_bayes(
    store: Store,
    sources: Sources,
    parameters: Parameters,
    layout: Layout,
    fresh: Sources,
    start: int,
    refresh_tuples: int,
) -> None:
    """Check a state whose arrays have the right shapes.

    Args:
        store: The counts.
        sources: The sources.
        parameters: The parameters.
        layout: The rules.
        fresh: Sources of which nothing is known, for these rules.
        start: The first pane of the horizon.
        refresh_tuples: From one refresh to the next.

    Raises:
        ValueError: If it is none.
    """
    _check_numbers(store, parameters, layout, refresh_tuples)
    groups = Slots("groups", store.groups, store.group_pool, store.group_table)
    cells = Slots("cells", store.cells, store.cell_pool, store.cell_table)
    reverses = Slots("reverse groups", store.reverses, store.reverse_pool, store.reverse_table)
    levels = Slots("levels", store.levels, store.level_pool, store.level_table)
    votes = Slots("votes", store.votes, store.vote_pool, store.vote_table)
    for what, slots in (
        ("groups", groups),
        ("cells", cells),
        ("reverse groups", reverses),
        ("levels", levels),
        ("votes", votes),
    ):
        slots.check_linked(what)
    values = _check_values(store, layout, groups)
    _check_counts(store, cells, votes, values, start)
    _check_cells(store, layout, groups, cells, values)
    _check_groups(store, groups, cells)
    _check_reverses(store, layout, groups, reverses, cells)
    _check_levels(groups, levels, cells)
    _check_votes(votes, cells, sources.accuracy.size)
    _check_sources(sources, fresh)


def _check_numbers(store: Store, parameters: Parameters, layout: Layout, refresh_tuples: int) -> None:
    state = store.state
    n_tuples = int(state[N_TUPLES])
    require("the side of the horizon is out of bounds", is_within(state[SIDE : SIDE + 1], 2))
    require("the number of sweeps is out of bounds", is_within(state[SWEEP : SWEEP + 1], _INT32_MAX))
    require("the number of halvings is out of bounds", is_within(state[HALVINGS : HALVINGS + 1], 2**62))
    require("the number of tuples is out of bounds", 0 <= n_tuples < 2**62)
    require("the next refresh is out of bounds", n_tuples < state[DUE] <= n_tuples + refresh_tuples)
    error = parameters.error
    require("an error rate is out of bounds", (error > 0.0) & (error <= _ERROR_MAX))
    require("an error rate is out of bounds", store.running.settled_error <= _ERROR_MAX)
    witness = parameters.witness
    require("a witness is out of bounds", is_within(witness, layout.rhs.size, NONE))
    named = witness != NONE
    require("a witness is a rule on another attribute", layout.rhs[witness[named]] == np.flatnonzero(named))


class _Occurrences:
    """What is said of values, each field taken out of the records once."""

    def __init__(self, store: Store) -> None:
        records = store.occurrences
        self.attribute: I32 = np.ascontiguousarray(records["attribute"])
        self.pane: I64 = np.ascontiguousarray(records["pane"])
        #: the newest pane with a cell; -1 if there is none
        self.newest: I64 = np.where(records["count"] > 0, self.pane, -1)


def _check_values(store: Store, layout: Layout, groups: Slots) -> _Occurrences:
    """Check values, and that groups name values of the attributes of their rules."""
    check_fields("groups", groups, {"rule": layout.rhs.size}, least=0)
    require("groups: a free one has a rule", groups.every("rule")[groups.free] == NONE)
    values = _Occurrences(store)
    occurrences, attribute = store.occurrences, values.attribute
    require("values: an attribute is out of bounds", is_within(attribute, layout.is_movable.size, NONE))
    occurring = attribute != NONE
    swept = occurrences["swept"] <= store.state[SWEEP]
    require("values: a sweep is out of bounds", swept | ~occurring)
    slots = check_values(
        store.values, np.flatnonzero(occurring), groups["held"], groups["challenger"], store.running.last
    )
    kept, length = slots.linked, slots.every("length")
    text, offset = occurrences["text_length"], slots.every("offset")
    require("values: one has no text", (length >= 0) | slots.free)
    is_same = (occurrences["text"] == offset) & ((text == length) | (text == -1 - length))
    require("values: a text is out of bounds", is_same | ~kept)
    check_fields("groups", groups, {"last": slots.n})
    rule = groups["rule"]
    rhs = layout.rhs[rule]
    for field in ("held", "challenger"):
        named = np.flatnonzero(groups[field] != NONE)
        of = attribute[groups[field][named]]
        require(f"groups: {field} is of another attribute", (of == rhs[named]) | (of == NONE))
    left, n_lhs = store.left[groups.which], layout.n_lhs[rule]
    for j in range(left.shape[1]):
        has_place, value = n_lhs > j, left[:, j]
        require("groups: a left value is out of bounds", is_within(value, slots.n, NONE))
        require("groups: one has more or fewer left values", (value != NONE) == has_place)
        is_right = attribute[value] == layout.lhs[rule, j] if slots.n else ~has_place
        require("groups: a left value is of another attribute", is_right | ~has_place)
    return values


def _check_counts(store: Store, cells: Slots, votes: Slots, values: _Occurrences, start: int) -> None:
    """Check that the counts of cells, values and votes are those of their panes."""
    occurring = values.attribute != NONE
    kinds = (
        ("cells", store.cells, cells.live, cells.every("pane")),
        ("values", store.occurrences, occurring, values.pane),
        ("votes", store.votes, votes.live, votes.every("pane")),
    )
    older = [np.where(live, records["older"], np.int32(NONE)) for _, records, live, _ in kinds]
    owner = check_panes("older panes", store.panes, store.pane_pool, older)
    for kind, of, first in zip(kinds, owner, older, strict=True):
        _check_total(store, *kind, of, first, start)


def _check_total(
    store: Store, what: str, records: Records, live: Mask, pane: I64, owner: I32, older: I32, start: int
) -> None:
    panes, following = store.panes["pane"], store.panes["next"]
    count = np.where(live, records["count"], 0)
    check_counts(what, count)
    begins = np.flatnonzero(older != NONE)
    require(f"{what}: panes are not in order", panes[older[begins]] < pane[begins])
    nodes = np.flatnonzero(owner != NONE)
    ahead = nodes[following[nodes] != NONE]
    require(f"{what}: panes are not in order", panes[following[ahead]] < panes[ahead])
    total = np.where(pane >= start, count, 0).astype(np.float64)
    nodes = nodes[panes[nodes] >= start]
    if nodes.size:
        total += np.bincount(owner[nodes], store.panes["count"][nodes], minlength=total.size)
    totals = records["total"]
    is_right = (totals[:, store.state[SIDE]] == total) | ~live
    require(f"{what}: a total is not that of the panes", is_right)
    is_bounded = (totals >= 0) & (totals < COUNT_MAX)
    require(f"{what}: a total is out of bounds", is_bounded.all(axis=1) | ~live)


def _check_cells(store: Store, layout: Layout, groups: Slots, cells: Slots, values: _Occurrences) -> None:
    """Check that cells are in the lists of their groups, and name values that are as new as they are."""
    first = np.where(groups.live, groups.every("first_cell"), np.int32(NONE))
    following, previous = cells.every("next_cell"), cells.every("prev_cell")
    owner = owners("cells of a group", first, following)
    require("cells: one is in the list of another group", owner == cells.every("group"))
    require("cells: a free one has a group, or another one has none", (owner != NONE) == cells.live)
    check_back_links("cells of a group", first, following, previous, owner)
    group, value = cells["group"], cells["value"]
    check_pair_hashes("cells", cells["hash"], group, value)
    require("cells: a value is out of bounds", is_within(value, values.attribute.size))
    is_right = values.attribute[value] == layout.rhs[groups.every("rule")[group]]
    require("cells: a value is of another attribute", is_right)
    # A value goes when it has left the horizon; no cell that is still in it may name it then.
    pane = np.where(cells["count"] > 0, cells["pane"], -1)
    require("cells: a value is older than its cell", values.newest[value] >= pane)
    left = store.left[group]
    for j in range(left.shape[1]):
        is_old = values.newest[left[:, j]] < pane if values.newest.size else left[:, j] != NONE
        require("cells: a left value is older than its cell", ~is_old | (left[:, j] == NONE))


def _check_groups(store: Store, groups: Slots, cells: Slots) -> None:
    """Check that groups say how many cells they have, and which are the most frequent."""
    side = int(store.state[SIDE])
    total = cells["total"][:, side]

    def counted(weights: NDArray[Any] | None) -> NDArray[Any]:
        return np.bincount(cells["group"], weights, minlength=groups.n)[groups.which]

    n, n_cells = counted(total), counted(None)
    require("groups: one has more or fewer cells than it says", groups["n_cells"] == n_cells)
    require("groups: one has no cell", n_cells > 0)
    require("groups: a count is out of bounds", n < COUNT_MAX)
    require("groups: one has another count", groups["n"][:, side] == n)
    n_values = groups["n_values"][:, side]
    require("groups: one has more or fewer values than it says", n_values == counted(total > 0))
    check_fields("groups", groups, {"has_levels": 2}, least=0)
    check_fields("groups", groups, {"swept": int(store.state[SWEEP]) + 1}, least=-(2**31))
    require("groups: levels are missing", (groups["has_levels"] == 1) | (n_cells <= TOP))
    check_fields("groups", groups, {"recent_cell": cells.n, "top": cells.n})
    numbers = np.flatnonzero(groups.live)
    recent = groups["recent_cell"]
    is_own = cells.every("group")[recent] == numbers if cells.n else recent == NONE
    require("groups: recent_cell is of another one", is_own | (recent == NONE))
    top = groups["top"][:, side * TOP : (side + 1) * TOP]
    require("groups: top has a gap", (top[:, 1:] == NONE) | (top[:, :-1] != NONE))
    require("groups: top is empty", (top[:, 0] != NONE) | (n == 0))
    row, place = np.nonzero(top != NONE)
    is_own = cells.every("group")[top[row, place]] == numbers[row]
    require("groups: top names a cell of another one", is_own)


def _check_reverses(store: Store, layout: Layout, groups: Slots, reverses: Slots, cells: Slots) -> None:
    """Check that cells hang in a reverse group of their rule for each place on its left side."""
    side = int(store.state[SIDE])
    check_fields("reverse groups", reverses, {"rule": layout.rhs.size}, least=0)
    require("reverse groups: a free one has a rule", reverses.every("rule")[reverses.free] == NONE)
    at = reverses["at"]
    is_place = (at >= 0) & (at < layout.n_lhs[reverses["rule"]])
    require("reverse groups: a place is out of bounds", is_place)
    check_fields("reverse groups", reverses, {"swept": int(store.state[SWEEP]) + 1}, least=-(2**31))
    check_fields("reverse groups", reverses, {"top": cells.n})
    rule = groups.every("rule")[cells["group"]]
    sizes: I64 = np.zeros(reverses.n + 1, np.int64)
    for j in range(store.links.shape[1]):
        link = store.links[:, j]
        hangs = np.zeros(cells.n, np.bool_)
        hangs[cells.which] = layout.n_lhs[rule] > j
        here = reverses.live & (reverses.every("at") == j)
        first = np.where(here, reverses.every("first_cell"), np.int32(NONE))
        following, previous = (np.ascontiguousarray(link[field]) for field in ("next", "prev"))
        owner = owners("cells of a reverse group", first, following)
        right = np.where(hangs, link["reverse"], np.int32(NONE))
        require("cells: one is in the list of another reverse group", owner == right)
        require("cells: one hangs in no reverse group", (owner != NONE) == hangs)
        of = owner[cells.which]
        is_right = reverses.every("rule")[of] == rule if reverses.n else of == NONE
        require("cells: a reverse group is of another rule", is_right | (of == NONE))
        check_back_links("cells of a reverse group", first, following, previous, owner)
        sizes += np.bincount(owner + 1, minlength=reverses.n + 1)
        here_at = np.flatnonzero(here)
        top = reverses.every("top")[here_at, side * REVERSE_TOP : (side + 1) * REVERSE_TOP]
        row, place = np.nonzero(top != NONE)
        is_own = owner[top[row, place]] == here_at[row]
        require("reverse groups: top names a cell of another one", is_own)
    of_reverse = sizes[1:][reverses.which]
    require("reverse groups: one has more or fewer cells than it says", reverses["n_cells"] == of_reverse)
    require("reverse groups: one has no cell", of_reverse > 0)


def _check_levels(groups: Slots, levels: Slots, cells: Slots) -> None:
    """Check that levels count the cells of the groups that have them, on both sides."""
    n_values = levels["n_values"]
    require("levels: a number of values is out of bounds", n_values >= 0)
    require("levels: one is empty", n_values.any(axis=1))
    which = np.flatnonzero(groups.every("has_levels")[cells["group"]] == 1)
    group, totals = cells["group"][which].astype(np.uint64), cells["total"][which]
    for side in range(2):
        total = totals[:, side]
        counted = total > 0
        key = _LEVELS | group[counted] << np.uint64(32) | total[counted].astype(np.uint64)
        hash, n = np.unique(mixed(key), return_counts=True)
        of_side = n_values[:, side] > 0
        order = np.argsort(levels["hash"][of_side])
        is_same = np.array_equal(levels["hash"][of_side][order], hash)
        require("levels: they are not those of the cells", is_same)
        require("levels: they are not those of the cells", n_values[of_side, side][order] == n)


def _check_votes(votes: Slots, cells: Slots, n_sources: int) -> None:
    """Check that votes are in the lists of their cells."""
    first = np.where(cells.live, cells.every("first_vote"), np.int32(NONE))
    owner = owners("votes of a cell", first, votes.every("next_vote"))
    require("votes: one is in the list of another cell", owner == votes.every("cell"))
    require("votes: a free one has a cell, or another one has none", (owner != NONE) == votes.live)
    check_fields("votes", votes, {"source": n_sources}, least=0)
    check_pair_hashes("votes", votes["hash"], votes["cell"], votes["source"])


def _check_sources(sources: Sources, fresh: Sources) -> None:
    n = sources.accuracy.size
    require("sources: they are of other rules", np.array_equal(sources.sides, fresh.sides))
    require("sources: they are of other rules", np.array_equal(sources.members, fresh.members))
    require("sources: an accuracy is out of bounds", (sources.accuracy > 0.0) & (sources.accuracy < 1.0))
    pairs = Slots("pairs of sources", sources.pairs, sources.pair_pool, sources.pair_table)
    pairs.check_linked("pairs of sources")
    check_fields("pairs of sources", pairs, {"a": n, "b": n}, least=0)
    check_pair_hashes("pairs of sources", pairs["hash"], pairs["a"], pairs["b"])
    rows = Slots("rows of sources", sources.rows, sources.row_pool, sources.row_table)
    rows.check_linked("rows of sources")
    require("rows of sources: a free one has a side", rows.every("side")[rows.free] == NONE)
    check_fields("rows of sources", rows, {"source": n, "side": fresh.sides.size}, least=0)
