"""The state machine of `repair: bayes`: tuples in, changes with their reasons out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..check import check_shapes, require
from ..saved import arrays_of, load
from ..table import NONE, grow, pool_live, pool_used, table_buckets, table_items
from ..truth import Acceptances, new_acceptances
from ..values import MARK, Column, Values, arena_used, recycle_values
from .blocks import REFRESH_TUPLES, clean_blocks
from .change import drop_attribute, drop_rule, renumbered
from .check import check_bayes
from .clock import (
    LENGTH,
    LEVELS_NEEDED,
    PANE,
    TUPLES,
    Horizon,
    new_clock,
    reach_pane,
    start_of,
    window_start_of,
)
from .count import Tuples, count_tuples, new_ahead, number_values, write_texts
from .evidence import Parameters
from .explain import Reasons, new_reasons
from .found import Found, joined_found, new_found, reserve_found
from .judge import MOVES, Changes, Moves, new_changes, new_moves
from .layout import Layout, NumberedRule, make_layout
from .likeness import forget_pairs
from .merge import merge_into
from .parameters import new_parameters, prepare, refresh
from .scores import Room, new_room
from .search import new_search, search
from .store import (
    CARRY,
    DUE,
    HALVINGS,
    N_TUPLES,
    SIDE,
    SWEEPING,
    Store,
    new_store,
    reserve_new_values,
    reserve_store,
)
from .votes import Sources, estimate_accuracy, new_sources, note_row, reserve_sources

_CHUNK_TUPLES = 16_384  # for which room is made, and whose values are numbered, at once
_PARTS_PER_PANE = 16  # at least, so that clearing and sweep keep up
_TRUST_GROUPS = 512
_HALVED_TUPLES = 128  # from which on a block is searched in two halves
_TUPLES_MAX = 1 << 62  # that a pane may have had in saved state: counting goes on in 64 bits
_FOUND_CELLS = 1000  # for which room is made at a time
_EMPTY_SOURCE: NDArray[np.int32] = np.zeros(0, np.int32)

#: texts of new values: from their codes to bytes and offsets
Texts = Callable[[NDArray[np.int64]], tuple[NDArray[np.uint8], NDArray[np.int64]]]
Map = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of the algorithm."""

    look_ahead: int  #: how many tuples are counted before the first of them is decided
    confidence: float  #: the probability from which a cell is read differently
    repair_left: bool  #: whether cells on left sides only change
    with_sources: bool  #: whether tuples have sources
    horizon: Horizon  #: how far back cells are counted


class Input(NamedTuple):
    """A batch."""

    columns: Sequence[Column]  #: by attribute
    is_text: Sequence[bool]  #: by attribute: whether the bytes of its values are text
    texts: Sequence[Texts]  #: by attribute: for values with codes
    may_apply: NDArray[np.bool_]  #: by rule and tuple
    constants: Sequence[Column | None]  #: by attribute: the constants that decide cells, null where none does
    source: NDArray[np.int32]  #: by tuple; empty if there are none
    panes: NDArray[np.int64]  #: by tuple; never falling


class Decided(NamedTuple):
    """What was decided in a batch."""

    found: Found  #: the cells that change or are flagged; those of an attribute are in no order
    violated: NDArray[np.bool_]  #: by rule and tuple
    accepted: Acceptances


class Desk(NamedTuple):
    """What a thread searches with."""

    room: Room
    moves: Moves
    changes: Changes
    reasons: Reasons
    found: Found


class _Saved(NamedTuple):
    """What a state is saved as, beside its pane."""

    store: Store
    sources: Sources
    parameters: Parameters


class BayesState:
    """Counts of what arrived, and what follows from them.

    Args:
        rules: The rules in use, in their order.
        is_movable: By attribute: whether its cells may be read differently.
        settings: The options.
        pane: The pane of the next tuple.
    """

    def __init__(
        self, rules: Sequence[NumberedRule], is_movable: Sequence[bool], settings: Settings, pane: int = 0
    ) -> None:
        self.rules = tuple(rules)
        self.settings = settings
        self.layout = make_layout(rules, is_movable)
        n_rules, n_attributes = len(rules), len(is_movable)
        n_places = self.layout.lhs.shape[1]
        self.store = new_store(n_rules, n_attributes, n_places, _n_slots(self.layout))
        self.store.state[DUE] = REFRESH_TUPLES
        self.sources = self._new_sources(np.zeros(0))
        self.parameters = new_parameters(n_rules, n_attributes)
        self.horizon = settings.horizon
        self.clock = new_clock(settings.horizon, pane)
        self._desks: list[Desk] = []
        self._ahead = new_ahead(n_rules)
        refresh(self.store, self.layout, self.parameters, settings.with_sources)

    # -------------------------------------------------------------------------------------- questions

    @property
    def values(self) -> Values:
        """The value dictionary, of all attributes."""
        return self.store.values

    @property
    def violations(self) -> NDArray[np.int64]:
        """By rule: tuples that violated it."""
        return self.store.running.violations

    @property
    def pane(self) -> int:
        """The pane of the newest tuple."""
        return int(self.clock[PANE])

    def n_super_cells(self) -> int:
        """Return how many pairs of a group and a value are kept."""
        return int(pool_live(self.store.cell_pool))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(array.nbytes for array in arrays_of((self.store, self.sources, self.parameters)))

    # -------------------------------------------------------------------------------------- tuples

    def process(self, batches: Sequence[Input], position: int, map: Map | None) -> list[Decided]:
        """Count and decide the tuples of some batches, one after the other.

        Args:
            batches: The batches.
            position: Where the first tuple is in the stream.
            map: Calls a function for each item, in threads; None if there are none.

        Returns:
            What was decided of each batch. It names values that stay as they are until the next call.
        """
        recycle_values(self.store.values)
        decided = []
        for batch in batches:
            decided.append(self._process_batch(batch, position, map))
            position += batch.panes.size
        return decided

    def _process_batch(self, batch: Input, position: int, map: Map | None) -> Decided:
        for desk in self._desks:
            forget_pairs(desk.room.texts)
            desk.found.n[:] = 0
        n = batch.panes.size
        n_rules, n_attributes = len(self.rules), len(batch.columns)
        tuples = Tuples(
            np.empty((n_attributes, n), np.int32),
            batch.may_apply,
            np.full((n_attributes, n), NONE, np.int32),
            batch.source,
            np.empty((n_rules, n), np.int32),
            np.empty((n_rules, n), np.uint8),
            np.zeros((n_rules, n), np.bool_),
        )
        accepted: list[Acceptances] = []
        ends = _part_ends(batch.panes, self._part_tuples())
        first, at = 0, 0
        while first < n:
            # Parts of up to a chunk in all; one may be as long by itself.
            after = max(at + 1, int(np.searchsorted(ends, first + _CHUNK_TUPLES, side="right")))
            self._process_parts(batch, tuples, first, ends[at:after], position, map, accepted)
            first, at = int(ends[after - 1]), after
        found = joined_found([desk.found for desk in self._desks] or [self._desk(0).found])
        return Decided(found, tuples.violated, _joined(accepted))

    def _part_tuples(self) -> int:
        """Return how many tuples a part has at the most: whole blocks, so few that the sweep keeps up."""
        ahead = self.settings.look_ahead
        length = int(self.clock[LENGTH])
        n = _CHUNK_TUPLES
        if self.horizon.n_counted and length:
            n = min(n, length // _PARTS_PER_PANE)
        return max(1, n // ahead) * ahead

    def _process_parts(
        self,
        batch: Input,
        tuples: Tuples,
        first: int,
        ends: NDArray[np.int64],
        position: int,
        map: Map | None,
        accepted: list[Acceptances],
    ) -> None:
        """Process parts of a batch, each of one pane."""
        self._reach(int(batch.panes[first]))
        self._number(batch, tuples, first, int(ends[-1]), marks=ends.size > 1)
        is_short = int(np.diff(ends, prepend=first).max()) < _HALVED_TUPLES  # too short for threads
        if not self.settings.with_sources and (map is None or is_short):
            self._clean_blocks(batch, tuples, first, ends, position, accepted)
            return
        ahead = self.settings.look_ahead
        for end in ends.tolist():
            self._reach(int(batch.panes[first]))
            for block in range(first, end, ahead):
                stop = min(block + ahead, end)
                self._count(tuples, block, stop, position, accepted)
                self._decide(tuples, block, stop, map)
            self.clock[TUPLES] += end - first
            first = end

    def _reach(self, pane: int) -> None:
        """Sweep as far as the tuples so far ask for, and let the window reach a pane."""
        while not reach_pane(self.store, self.layout, self.sources, self.clock, self.horizon, pane):
            self._reserve_levels()

    def _reserve_levels(self) -> None:
        needed = int(self.clock[LEVELS_NEEDED])
        grow(self.store.levels, pool_used(self.store.level_pool) + needed)
        grow(self.store.level_table.heads, table_items(self.store.level_table) + needed + 1)

    def _number(self, batch: Input, tuples: Tuples, first: int, last: int, *, marks: bool) -> None:
        """Give all values of some tuples their numbers, and new ones their texts."""
        self.store.values.state[MARK] += 1
        new = np.empty(last - first, np.int32)
        for a, column in enumerate(batch.columns):
            self._number_column(column, a, batch, first, last, tuples.values[a], new, marks=marks)
            constants = batch.constants[a]
            if constants is not None:
                self._number_column(constants, a, batch, first, last, tuples.fixed[a], new, marks=marks)

    def _number_column(
        self,
        column: Column,
        a: int,
        batch: Input,
        first: int,
        last: int,
        ids: NDArray[np.int32],
        new: NDArray[np.int32],
        *,
        marks: bool,
    ) -> None:
        store = self.store
        n_bytes = 0
        if column.value_index.size:
            n_bytes = max(1, int(column.offsets[-1]))  # even the empty value has a slot for its bytes
        elif column.offsets.size:
            n_bytes = max(1, int(column.offsets[last] - column.offsets[first]))
        reserve_new_values(store, last - first, n_bytes)
        n_new = number_values(store, column, a, batch.is_text[a], first, last, ids, new, marks)
        if n_new and column.codes.size:
            codes = store.values.records["code"][new[:n_new]]
            data, offsets = batch.texts[a](codes)
            reserve_new_values(store, n_new, int(offsets[-1]))
            write_texts(store, new, n_new, data, offsets)

    def _clean_blocks(
        self,
        batch: Input,
        tuples: Tuples,
        first: int,
        ends: NDArray[np.int64],
        position: int,
        all: list[Acceptances],
    ) -> None:
        """Count and decide the tuples of some parts."""
        last = int(ends[-1])
        reserve_store(self.store, last - first, with_votes=False)
        accepted = self._room_for_accepted(last - first)
        desk = self._desk(0)
        progress = new_search(min(self.settings.look_ahead, last - first), self._n_components)
        while first < last:
            first = clean_blocks(
                self.store,
                self.layout,
                self.parameters,
                self.sources,
                tuples,
                first,
                ends,
                batch.panes,
                self.settings.look_ahead,
                position,
                self.clock,
                self.horizon,
                self._ahead,
                accepted,
                progress,
                self._threshold,
                self.settings.repair_left,
                *desk,
            )
            if self.clock[LEVELS_NEEDED]:
                self._reserve_levels()
            elif first < last:
                reserve_found(desk.found, _FOUND_CELLS, desk.reasons.rule.shape[2])
        _keep(accepted, all)

    def _room_for_accepted(self, n: int) -> Acceptances:
        return new_acceptances(n * int(np.count_nonzero(self.layout.accept_after)))

    @property
    def _n_components(self) -> int:
        return self.layout.component_first.size - 1

    @property
    def _threshold(self) -> float:
        return log(self.settings.confidence / (1.0 - self.settings.confidence))

    def _count(self, tuples: Tuples, first: int, last: int, position: int, all: list[Acceptances]) -> None:
        n = last - first
        store, settings = self.store, self.settings
        reserve_store(store, n, with_votes=settings.with_sources)
        accepted = self._room_for_accepted(n)
        room = self._desk(0).room
        count_tuples(
            store,
            self.layout,
            self.parameters,
            room.texts,
            tuples,
            first,
            last,
            position,
            self.pane,
            window_start_of(self.horizon, self.pane),
            start_of(self.horizon, self.pane),
            room.left,
            self._ahead,
            accepted,
        )
        if settings.with_sources:
            known = int(tuples.source[first:last].max()) + 1
            if known > self.sources.accuracy.size:
                self._know_sources(known)
            reserve_sources(self.sources, n)
            note_row(
                self.sources,
                self.layout,
                tuples.values,
                tuples.source,
                first,
                last,
                self.pane,
                start_of(self.horizon, self.pane),
            )
        _keep(accepted, all)
        if store.state[N_TUPLES] >= store.state[DUE]:
            store.state[DUE] = store.state[N_TUPLES] + REFRESH_TUPLES
            self.refresh()

    def refresh(self) -> None:
        """Compute the parameters that are computed now and then."""
        refresh(self.store, self.layout, self.parameters, self.settings.with_sources)
        if self.settings.with_sources:
            self._estimate_sources()

    def _decide(self, tuples: Tuples, first: int, last: int, map: Map | None) -> None:
        """Search for the most probable reading of each tuple of a block that needs it."""
        store, layout, parameters, sources = self.store, self.layout, self.parameters, self.sources
        prepare(store, layout, parameters, self.settings.with_sources)

        def search_half(half: tuple[Desk, int, int]) -> None:
            desk, begin, end = half
            progress = new_search(end - begin, self._n_components)
            while not search(
                store,
                layout,
                parameters,
                sources,
                tuples,
                begin,
                end,
                progress,
                self._threshold,
                self.settings.repair_left,
                *desk,
            ):
                reserve_found(desk.found, _FOUND_CELLS, desk.reasons.rule.shape[2])

        if map is None or last - first < _HALVED_TUPLES:
            search_half((self._desk(0), first, last))
        else:
            middle = (first + last) // 2
            map(search_half, [(self._desk(0), first, middle), (self._desk(1), middle, last)])

    def _desk(self, number: int) -> Desk:
        while len(self._desks) <= number:
            n_rules, n_places = self.layout.lhs.shape
            self._desks.append(
                Desk(
                    new_room(n_rules, self.layout.is_movable.size, n_places),
                    new_moves(),
                    new_changes(),
                    new_reasons(MOVES, n_rules, _n_terms(self.layout)),
                    new_found(n_rules, n_places),
                )
            )
        return self._desks[number]

    # -------------------------------------------------------------------------------------- sources

    def _new_sources(self, accuracy: NDArray[np.float64]) -> Sources:
        by_side: dict[tuple[int, ...], list[int]] = {}
        first: dict[tuple[int, ...], int] = {}
        for r, rule in enumerate(self.rules):
            if not rule.is_implied:
                by_side.setdefault(rule.lhs, []).append(rule.rhs)
                first.setdefault(rule.lhs, r)
        several = [lhs for lhs, rights in by_side.items() if len(rights) > 1]
        widest = max((len(by_side[lhs]) for lhs in several), default=1)
        members = np.full((len(several), widest), NONE, np.int64)
        for side, lhs in enumerate(several):
            members[side, : len(by_side[lhs])] = by_side[lhs]
        sides = np.array([first[lhs] for lhs in several], np.int64)
        sources = new_sources(self.layout.lhs.shape[1], members, sides, in_use=self.settings.with_sources)
        return sources._replace(accuracy=accuracy) if accuracy.size else sources

    def _know_sources(self, n: int) -> None:
        before = self.sources.accuracy
        accuracy = np.full(n, 0.8)
        accuracy[: before.size] = before
        self.sources = self.sources._replace(accuracy=accuracy)

    def _estimate_sources(self) -> None:
        """Estimate how often each source is right, from the first groups of the rules that are trusted."""
        store = self.store
        side = int(store.state[SIDE])
        prepare(store, self.layout, self.parameters, with_sources=True)
        groups = store.groups[: pool_used(store.group_pool)]
        rule = groups["rule"]
        # One more, for the slots without a group.
        is_trusted = np.append(self.layout.is_user & (self.parameters.trust > 0.5), False)
        found = np.flatnonzero((rule != NONE) & is_trusted[rule] & (groups["n"][:, side] >= 2))
        order = np.lexsort((groups["born"][found], rule[found]))[:_TRUST_GROUPS]
        chosen = found[order].astype(np.int64)
        n_cells = int(groups["n_cells"][chosen].sum())
        n_sources = self.sources.accuracy.size
        estimate_accuracy(
            store,
            self.sources,
            chosen,
            np.empty(n_cells),
            np.empty(pool_live(store.vote_pool)),
            np.empty(n_sources),
            np.empty(n_sources),
        )

    # -------------------------------------------------------------------------------------- snapshots

    def save(self) -> list[NDArray[Any]]:
        """Return all state as arrays, without the room at their ends."""
        numbers = self.clock[[PANE, TUPLES, LENGTH]]
        used = _used(self.store, self.sources)
        stores = arrays_of((self.store, self.sources, self.parameters))
        return [numbers, *(array[: used.get(id(array), len(array))] for array in stores)]

    def load(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Put the state that `save` returned in place of this one.

        Raises:
            ValueError: If they are not arrays of such a state.
        """
        self._take_over(arrays, is_checked=True)

    def _take_over(self, arrays: Sequence[NDArray[Any]], *, is_checked: bool) -> None:
        numbers = arrays[0]
        if numbers.dtype != np.int64 or numbers.shape != (3,):
            raise ValueError("these are not the arrays of such a state")
        before = _Saved(self.store, self.sources, self.parameters)
        after = load(before, list(arrays[1:]))
        pane, pane_tuples, pane_length = map(int, numbers)
        if is_checked:
            check_shapes(before, after, lambda saved: _used(saved.store, saved.sources))
            knows_sources = bool(after.sources.accuracy.size)
            require("the sources are out of bounds", knows_sources == self.settings.with_sources)
            self._check_panes(pane, pane_tuples, pane_length)
            check_bayes(*after, self.layout, before.sources, start_of(self.horizon, pane), REFRESH_TUPLES)
        self.clock = new_clock(self.horizon, pane)
        self.clock[[TUPLES, LENGTH]] = pane_tuples, pane_length
        self.store, self.sources, self.parameters = after
        _end_sweep(self.store)

    def _check_panes(self, pane: int, pane_tuples: int, pane_length: int) -> None:
        given = self.horizon.pane_length
        is_sound = max(pane_tuples, pane_length) < _TUPLES_MAX and min(pane_tuples, pane_length) >= 0
        is_sound &= not given or pane_length == given
        require("the pane is out of bounds", is_sound and pane == self.pane)

    def with_rules(
        self, rules: Sequence[NumberedRule], is_movable: Sequence[bool], attribute_from: Sequence[int]
    ) -> BayesState:
        """Return a state with other rules; this one must not be used any more.

        Rules are the same if their serial numbers are. `attribute_from` has by attribute its number in this
        state, -1 if it is new.
        """
        _end_sweep(self.store)
        number = {rule.serial: r for r, rule in enumerate(self.rules)}
        rule_from = [number.get(rule.serial, -1) for rule in rules]
        n_groups, n_values = pool_used(self.store.group_pool), pool_used(self.store.values.pool)
        for r in set(range(len(self.rules))) - set(rule_from):
            drop_rule(self.store, r, n_groups)
        for a in set(range(self.layout.is_movable.size)) - set(attribute_from):
            drop_attribute(self.store, a, n_values)
        state = BayesState(rules, is_movable, self.settings, self.pane)
        state.clock[[TUPLES, LENGTH]] = self.clock[[TUPLES, LENGTH]]
        state.store = renumbered(self.store, self.layout, state.layout, rule_from, attribute_from)
        state.sources = state.sources._replace(
            accuracy=self.sources.accuracy,
            pairs=self.sources.pairs,
            pair_table=self.sources.pair_table,
            pair_pool=self.sources.pair_pool,
        )
        state.refresh()
        return state

    def absorb(self, other: BayesState) -> BayesState:
        """Return a state with the rules and attributes of both, its own first; neither must be used any more.

        Both have seen the same tuples, without sources.
        """
        n_rules, n_attributes = len(self.rules), self.layout.is_movable.size
        shifted = [
            replace(rule, lhs=tuple(a + n_attributes for a in rule.lhs), rhs=rule.rhs + n_attributes)
            for rule in other.rules
        ]
        is_movable = [*self.layout.is_movable, *other.layout.is_movable]
        of_other = [-1] * other.layout.is_movable.size
        _end_sweep(other.store)
        recycle_values(other.store.values)
        both = self.with_rules([*self.rules, *shifted], is_movable, [*range(n_attributes), *of_other])
        merge_into(both.store, both.layout, other.store, n_rules, n_attributes)
        return both

    def beside(self, rules: Sequence[NumberedRule], is_movable: Sequence[bool]) -> BayesState:
        """Return a state of other rules that has counted nothing, but is as old as this one."""
        state = BayesState(rules, is_movable, self.settings, self.pane)
        state.clock[[TUPLES, LENGTH]] = self.clock[[TUPLES, LENGTH]]
        for clock in (HALVINGS, N_TUPLES, DUE):
            state.store.state[clock] = self.store.state[clock]
        return state

    def copy(self) -> BayesState:
        """Return the same state once more."""
        twin = BayesState(self.rules, list(self.layout.is_movable), self.settings)
        twin._take_over(self.save(), is_checked=False)
        return twin


def _end_sweep(store: Store) -> None:
    """Forget how far the sweep is: it begins anew."""
    store.state[SWEEPING] = 0
    store.state[CARRY] = 0


def _part_ends(panes: NDArray[np.int64], n_max: int) -> NDArray[np.int64]:
    """Return where the parts of a batch end: each is of one pane, and has up to `n_max` tuples."""
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(panes)) + 1, [panes.size]])
    n_parts = -(-np.diff(cuts) // n_max)
    ends = np.repeat(cuts[:-1] - np.cumsum(n_parts) * n_max + n_parts * n_max, n_parts)
    ends += np.arange(1, ends.size + 1) * n_max
    return np.minimum(ends, np.repeat(cuts[1:], n_parts))


def _n_slots(layout: Layout) -> int:
    """Return how many rules are on one attribute at the most."""
    return int(np.diff(layout.on_first).max(initial=1))


def _n_terms(layout: Layout) -> int:
    """Return how many rules an attribute is in at the most."""
    return int((np.diff(layout.on_first) + np.diff(layout.left_first)).max(initial=1))


def _used(store: Store, sources: Sources) -> dict[int, int]:
    """Return by array how many of its rows are in use."""
    n_values = pool_used(store.values.pool)
    rows = [
        (store.values.records, n_values),
        (store.values.arena, arena_used(store.values)),
        (store.values.scratch_count, 0),
        (store.values.scratch_stamp, 0),
        (store.values.scratch_list, 0),
        (store.occurrences, n_values),
        (store.reputation, n_values),
        (store.groups, pool_used(store.group_pool)),
        (store.left, pool_used(store.group_pool)),
        (store.cells, pool_used(store.cell_pool)),
        (store.links, pool_used(store.cell_pool)),
        (store.reverses, pool_used(store.reverse_pool)),
        (store.levels, pool_used(store.level_pool)),
        (store.votes, pool_used(store.vote_pool)),
        (store.panes, pool_used(store.pane_pool)),
        (sources.accuracy, sources.accuracy.size),
        (sources.pairs, pool_used(sources.pair_pool)),
        (sources.rows, pool_used(sources.row_pool)),
        (sources.row_left, pool_used(sources.row_pool)),
        (sources.row_right, pool_used(sources.row_pool)),
    ]
    tables = (
        store.values.table,
        store.group_table,
        store.cell_table,
        store.reverse_table,
        store.level_table,
        store.vote_table,
        sources.pair_table,
        sources.row_table,
    )
    return {id(array): n for array, n in rows} | {id(table.heads): table_buckets(table) for table in tables}


def _keep(accepted: Acceptances, all: list[Acceptances]) -> None:
    """Keep the changes that were accepted, without the room for more."""
    if accepted.n[0]:
        all.append(Acceptances(accepted.n, *(array[: int(accepted.n[0])] for array in accepted[1:])))


def _joined(accepted: Sequence[Acceptances]) -> Acceptances:
    """Put the changes that were accepted in the blocks of a batch together."""
    accepted = [new_acceptances(0), *accepted]
    return Acceptances(
        np.array([sum(int(one.n[0]) for one in accepted)]),
        *(np.concatenate(arrays) for arrays in zip(*(one[1:] for one in accepted), strict=True)),
    )
