"""The state of one RHS attribute: what its rules have seen, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import MEMBER, Store, new_store, reserve_store
from .check_cells import check_solo, check_store
from .clean import Cells, clean_segment
from .graph import Graph, Mode, clear_graph, new_graph, reserve_graph, split_all
from .groups import DEAD
from .removal import without_column
from .repair import Repairs, new_repairs
from .saved import arrays_of, load, save
from .solo import Solo, clean_solo, hinged_store, new_solo, reserve_solo, solo_store, sweep_solo
from .table import NONE, Pool, grow, pool_live, pool_used
from .truth import Acceptances, new_acceptances
from .unions import Unions, clear_unions, new_unions, reserve_unions
from .values import Values, recycle_values
from .window import sweep

_CHUNK_TUPLES = 32_768  # bounds the room that is reserved ahead


TIMED = -1  # a number of tuples per pane


class PaneWindow(NamedTuple):
    """A sliding window in panes."""

    slide: int  #: tuples per pane; 0 for no window, TIMED if the caller says which pane a tuple is in
    n_panes: int  #: panes per window
    n_remembered: int  #: panes in which the newest cell of a super cell may lie, 0 for all


class Attribute(ABC):
    """The state machine of one attribute: batches of cells in, repairs out.

    Lets the window reach each tuple before that tuple is looked at, and spreads the sweep over the second
    half of each pane. What there is to clean and to sweep is a matter of the two kinds below.

    Args:
        mode: Which counts, and over what.
        window: The window.
        pane: The pane that it begins in.
    """

    def __init__(self, mode: Mode, window: PaneWindow, pane: int) -> None:
        self.mode = mode
        self.window = window
        #: the pane of the newest tuple
        self.pane = pane
        #: how many tuples of it there were, and how many there will be: a guess if panes are given
        self.pane_tuples = 0
        self.pane_length = max(0, window.slide)
        #: True from the middle of each pane to its end
        self.sweeping = False
        #: the sweep has been at all super cells below this slot, and need not go to `sweep_end` or above
        self.sweep_at = 0
        self.sweep_end = 0
        #: by column: how often a group must meet another value to accept it as the truth, 0 for never
        self.accept_after: NDArray[np.int64] = np.zeros(1, np.int64)
        #: by column: tuples that violated the rule
        self.violations: NDArray[np.int64] = np.zeros(1, np.int64)

    @property
    def n_columns(self) -> int:
        """How many columns there are: one for each rule."""
        return self.violations.size

    @property
    def start(self) -> int:
        """The first pane of the window."""
        return self.pane - self.window.n_panes + 1

    @property
    def remembered(self) -> int:
        """The first pane that is remembered: a super cell whose cells are all older counts no more."""
        if self.mode.basic:
            return self.start
        return self.pane - self.window.n_remembered + 1 if self.window.n_remembered else DEAD

    @property
    def remembered_after_slide(self) -> int:
        """The first pane that is remembered after the next slide."""
        return DEAD if self.remembered == DEAD else self.remembered + 1

    @property
    @abstractmethod
    def store(self) -> Any:
        """The arrays that are all of the state: what else there is follows from them."""

    @property
    def values(self) -> Values:
        """The value dictionary."""
        values: Values = self.store.values
        return values

    @property
    def cell_pool(self) -> Pool:
        """The slots of super cells."""
        pool: Pool = self.store.cell_pool
        return pool

    def n_super_cells(self) -> int:
        """Return how many super cells there are, those that the sweep has yet to drop included."""
        return int(pool_live(self.cell_pool))

    def process(
        self, cells: Cells, position: int, panes: NDArray[np.int64] | None = None
    ) -> tuple[Repairs, int, Acceptances]:
        """Clean the cells of a batch.

        Args:
            cells: The cells.
            position: The position of the first tuple.
            panes: The pane of each tuple, if they are not a matter of positions; they never fall.

        Returns:
            The repairs, their number, and the accepted changes. They name values that stay as they are until
            the next call.
        """
        n = cells.constant.size
        recycle_values(self.values)
        repairs = new_repairs(n, self.n_columns)
        acceptances = new_acceptances(n * int(np.count_nonzero(self.accept_after)))
        n_repairs = 0
        first = 0
        while first < n:
            last = min(n, first + _CHUNK_TUPLES)
            if panes is not None:
                last = min(last, int(np.searchsorted(panes, panes[first], "right")))
                last = first + self._move_to(int(panes[first]), last - first)
            elif self.window.slide:
                pane, self.pane_tuples = divmod(position + first, self.window.slide)
                last = min(last, first + self.window.slide - self.pane_tuples)
                last = first + self._move_to(pane, last - first)
            n_bytes = 0
            offsets = cells.column.offsets
            if cells.column.value_index.size:
                n_bytes = int(offsets[-1])  # each value is stored once at most
            elif offsets.size:
                n_bytes = int(offsets[last] - offsets[first])
            self._reserve(last - first, n_bytes)
            n_repairs = self._clean(cells, first, last, repairs, n_repairs, acceptances)
            self.pane_tuples += last - first
            if self.sweeping:
                self._sweep_some()
            first = last
        return repairs, n_repairs, acceptances

    def _move_to(self, pane: int, n_tuples: int) -> int:
        """Let the window reach a pane; return how many of its next `n_tuples` tuples lie alike."""
        if pane > self.pane:
            self._slide_to(pane)
        half = self.pane_length // 2
        if self.pane_tuples < half:
            return min(n_tuples, half - self.pane_tuples)
        if not self.sweeping:
            self._begin_sweep()
        return n_tuples

    def _begin_sweep(self) -> None:
        self.sweeping = True
        self.sweep_at = 0
        self.sweep_end = int(pool_used(self.cell_pool))

    def _sweep_some(self) -> None:
        """Sweep as far as the tuples of the pane ask for, so that its end finds nothing left to do."""
        half = self.pane_length // 2
        done, whole = self.pane_tuples - half, self.pane_length - half
        self._sweep_to(self.sweep_end if done >= whole else -(-self.sweep_end * done // whole))

    def _sweep_to(self, slot: int) -> None:
        if slot > self.sweep_at:
            self._sweep(self.sweep_at, slot)
            self.sweep_at = slot

    def _slide_to(self, pane: int) -> None:
        if not self.sweeping:
            self._begin_sweep()
        self._sweep_to(self.sweep_end)
        self.sweeping = False
        is_next = pane == self.pane + 1
        self.pane = pane
        self._slide(is_next=is_next)
        if self.window.slide == TIMED:
            self.pane_length = (self.pane_length + self.pane_tuples + 1) // 2
            self.pane_tuples = 0

    def _slide(self, *, is_next: bool) -> None:  # noqa: B027 - most kinds have nothing to do
        """Do what a slide, to the next pane or a later one, asks for at once."""

    @abstractmethod
    def _reserve(self, n_tuples: int, n_bytes: int) -> None:
        """Make room for what the next tuples can need."""

    @abstractmethod
    def _clean(
        self, cells: Cells, first: int, last: int, repairs: Repairs, n_repairs: int, acceptances: Acceptances
    ) -> int:
        """Clean tuples of one pane."""

    @abstractmethod
    def _sweep(self, first: int, last: int) -> None:
        """Sweep over slots of super cells."""

    @abstractmethod
    def with_column(self) -> HingedAttribute:
        """Return an attribute with the same state and room for one more rule."""

    @abstractmethod
    def without_column(self, column: int) -> Attribute:
        """Return an attribute without a rule and all its groups; this one must not be used any more."""

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(array.nbytes for array in arrays_of(self.store))

    def save(self) -> list[NDArray[Any]]:
        """Return all state but the pane, as arrays."""
        return [self.violations, *save(self.store)]

    def load(self, arrays: list[NDArray[Any]], n_columns: int) -> None:
        """Put the state of a number of rules that `save` returned in place of this one.

        Raises:
            ValueError: If they are not arrays of such a state.
        """
        if not arrays or arrays[0].dtype != np.int64 or arrays[0].shape != (n_columns,):
            raise ValueError("these are not the arrays of a store")
        self._take_over(arrays, is_checked=True)

    def copy(self) -> Attribute:
        """Return an attribute with a state of its own that is the same."""
        twin = type(self)(self.mode, self.window, self.pane)
        twin.accept_after = self.accept_after
        twin._take_over(self.save(), is_checked=False)
        return twin

    @abstractmethod
    def _take_over(self, arrays: list[NDArray[Any]], *, is_checked: bool) -> None:
        """Put saved arrays in place of the store's."""


class SoloAttribute(Attribute):
    """An attribute with a single rule."""

    def __init__(self, mode: Mode, window: PaneWindow, pane: int) -> None:
        super().__init__(mode, window, pane)
        self._solo = new_solo()

    @property
    def store(self) -> Solo:
        """All that is known of its cells."""
        return self._solo

    def _reserve(self, n_tuples: int, n_bytes: int) -> None:
        reserve_solo(self._solo, n_tuples, n_bytes)

    def _clean(
        self, cells: Cells, first: int, last: int, repairs: Repairs, n_repairs: int, acceptances: Acceptances
    ) -> int:
        return clean_solo(
            self._solo,
            self.mode.basic,
            self.pane,
            self.start,
            self.remembered,
            self.accept_after,
            cells,
            first,
            last,
            repairs,
            n_repairs,
            self.violations,
            acceptances,
        )

    def _sweep(self, first: int, last: int) -> None:
        sweep_solo(self._solo, self.mode.basic, self.start, self.remembered, first, last)

    def _take_over(self, arrays: list[NDArray[Any]], *, is_checked: bool) -> None:
        solo = load(self._solo, arrays[1:])
        if is_checked:
            check_solo(solo, self.start)
        self.violations = arrays[0].copy()
        self._solo = solo

    def use(self, solo: Solo) -> None:
        """Go on with another store."""
        self._solo = solo

    def without_column(self, column: int) -> SoloAttribute:  # noqa: ARG002 - there is one
        """Return an attribute that has seen nothing: its only rule is gone."""
        return SoloAttribute(self.mode, self.window, self.pane)

    def with_column(self) -> HingedAttribute:
        """Return an attribute with the same state and room for one more rule."""
        hinged = HingedAttribute(self.mode, self.window, self.pane)
        hinged.violations = self.violations
        hinged.accept_after = self.accept_after
        hinged.use(hinged_store(self._solo))
        return hinged.with_column()


class HingedAttribute(Attribute):
    """An attribute with several rules, whose groups share super cells: the violation graph matters."""

    def __init__(self, mode: Mode, window: PaneWindow, pane: int) -> None:
        super().__init__(mode, window, pane)
        self._store = new_store(1)
        #: the violation graph of the window as it is
        self.current: Graph = new_graph(0)
        #: what several groups of `current` count together; only for `vote`
        self.unions: Unions = new_unions(1)
        #: groups that were retired while `upcoming` was being built and may be in it
        self._retired: list[int] = []
        #: the violation graph after the next slide; means something while `sweeping`
        self.upcoming: Graph = new_graph(1)
        clear_graph(self.current, self._store, self.start, self.remembered)
        self._clear_upcoming()

    @property
    def store(self) -> Store:
        """All that is known of its cells."""
        return self._store

    def _slide(self, *, is_next: bool) -> None:
        if not is_next:
            self._rebuild()
            return
        if self._retired:
            groups = np.array(self._retired, np.int32)
            self._retired = []
            # All super cells may have to be linked again.
            grow(self.upcoming.candidates, self.upcoming.candidates.shape[0] + pool_live(self.cell_pool))
            grow(self.upcoming.table.heads, self.upcoming.candidates.shape[0] + 1)
            split_all(self._store, self.upcoming, self.mode, groups)
        self.current, self.upcoming = self.upcoming, self.current
        clear_unions(self.unions)
        # Now, and not when the sweep begins, so that it gets its room little by little.
        self._clear_upcoming()

    def _clear_upcoming(self) -> None:
        clear_graph(self.upcoming, self._store, self.start + 1, self.remembered_after_slide)

    def _reserve(self, n_tuples: int, n_bytes: int) -> None:
        reserve_store(self._store, n_tuples, n_bytes)
        reserve_graph(self.current, self._store, self.mode, n_tuples)
        reserve_graph(self.upcoming, self._store, self.mode, n_tuples)
        if self.mode.vote:
            reserve_unions(self.unions, self._store, n_tuples)

    def _clean(
        self, cells: Cells, first: int, last: int, repairs: Repairs, n_repairs: int, acceptances: Acceptances
    ) -> int:
        n_before = int(acceptances.n[0])
        n_repairs = clean_segment(
            self._store,
            self.current,
            self.upcoming,
            self.unions,
            self.sweeping,
            self.mode,
            self.pane,
            self.start,
            self.remembered,
            self.start if self.window.slide else DEAD,
            self.accept_after,
            cells,
            first,
            last,
            repairs,
            n_repairs,
            self.violations,
            acceptances,
        )
        if self.sweeping and not self.mode.vote:
            self._retired += acceptances.group[n_before : int(acceptances.n[0])].tolist()
        return n_repairs

    def _sweep(self, first: int, last: int) -> None:
        self._build(self.upcoming, self.current, first, last)

    def _build(self, target: Graph, other: Graph, first: int, last: int) -> None:
        grow(self._store.panes, pool_used(self._store.pane_pool) + last - first + 2)
        reserve_graph(target, self._store, self.mode, 1)
        sweep(self._store, target, other, self.mode, self.start, self.remembered, first, last)

    def _take_over(self, arrays: list[NDArray[Any]], *, is_checked: bool) -> None:
        store = load(self._store, arrays[1:])
        if is_checked:
            check_store(store, arrays[0].size, self.start, basic=self.mode.basic)
        self.violations = arrays[0].copy()
        self.use(store)

    def use(self, store: Store) -> None:
        """Go on with another store."""
        store.members["link"] = 0  # to graphs that are no more
        self._store = store
        self.current = new_graph(0)
        self.upcoming = new_graph(1)
        self.unions = new_unions(store.set.size)
        self._rebuild()

    def _rebuild(self) -> None:
        """Build the graph anew from the super cells."""
        self.sweeping = False
        self._retired = []
        clear_unions(self.unions)
        clear_graph(self.current, self._store, self.start, self.remembered)
        self._clear_upcoming()
        reserve_graph(self.upcoming, self._store, self.mode, 1)
        self._build(self.current, self.upcoming, 0, int(pool_used(self.cell_pool)))

    def without_column(self, column: int) -> Attribute:
        """Return an attribute without a rule and all its groups; this one must not be used any more."""
        store = without_column(self._store, column, self.start, self.remembered)
        rest: Attribute
        if store.set.size == 1:
            rest = SoloAttribute(self.mode, self.window, self.pane)
            rest.use(solo_store(store))
        else:
            rest = HingedAttribute(self.mode, self.window, self.pane)
            rest.use(store)
        rest.violations = np.delete(self.violations, column)
        rest.accept_after = np.delete(self.accept_after, column)
        return rest

    def with_column(self) -> HingedAttribute:
        """Make room for one more rule."""
        self.violations = np.append(self.violations, 0)
        self.accept_after = np.append(self.accept_after, 0)
        old, n_used = self._store.members, pool_used(self.cell_pool)
        members = np.zeros((old.shape[0], self.n_columns), MEMBER)
        # Byte by byte: NumPy copies records field by field, which takes three times as long.
        n_bytes = old.shape[1] * MEMBER.itemsize
        _bytes(members)[:n_used, :n_bytes] = _bytes(old)[:n_used]
        members[:n_used, -1]["group"] = NONE
        self._store = self._store._replace(
            members=members,
            set=np.full(self.n_columns, NONE, np.int64),
            owners=np.full(self.n_columns, NONE, np.int64),
        )
        self.unions = new_unions(self.n_columns)
        return self

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return super().nbytes() + sum(
            array.nbytes for array in arrays_of((self.current, self.upcoming, self.unions))
        )


def _bytes(records: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the rows of an array of records as rows of bytes."""
    return records.view(np.uint8).reshape(records.shape[0], records.shape[1] * records.dtype.itemsize)
