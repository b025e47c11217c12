"""The state of one RHS attribute: what its rules have seen, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cells import MEMBER, Store, new_store, reserve_store
from .check_cells import check_solo, check_store
from .clean import Cells
from .clock import CANDIDATES_NEEDED, COUNTS_NEEDED, PANE, REMEMBERED, START, PaneWindow, new_clock
from .graph import Graph, Mode, first_pane, new_graph, reserve_candidates, reserve_graph
from .hinged import build_graphs, clean_hinged
from .removal import without_column
from .repair import Repairs, new_repairs
from .saved import arrays_of, load, save
from .solo import Solo, clean_solo, hinged_store, new_solo, reserve_solo, solo_store
from .table import NONE, Pool, grow, pool_live, pool_used
from .truth import Acceptances, new_acceptances
from .unions import Unions, new_unions, reserve_unions
from .values import Column, Values, recycle_values

# These bound the room that is reserved ahead.
_CHUNK_TUPLES = 32_768
_CHUNK_BYTES = 4_194_304

_NO_PANES: NDArray[np.int64] = np.zeros(0, np.int64)


class Attribute(ABC):
    """The state machine of one attribute: batches of cells in, repairs out.

    Makes room for some tuples and has them cleaned: compiled code lets the window reach each tuple before it
    is looked at, and spreads the sweep over the second half of each pane. What there is to clean and to
    sweep is a matter of the two kinds below.

    Args:
        mode: Which counts, and over what.
        window: The window.
        pane: The pane that it begins in.
    """

    def __init__(self, mode: Mode, window: PaneWindow, pane: int) -> None:
        self.mode = mode
        self.window = window
        self.clock = new_clock(window, mode.basic, pane)
        #: by column: how often a group must meet another value to accept it as the truth, 0 for never
        self.accept_after: NDArray[np.int64] = np.zeros(1, np.int64)
        #: by column: tuples that violated the rule
        self.violations: NDArray[np.int64] = np.zeros(1, np.int64)

    @property
    def n_columns(self) -> int:
        """How many columns there are: one for each rule."""
        return self.violations.size

    @property
    def pane(self) -> int:
        """The pane of the newest tuple."""
        return int(self.clock[PANE])

    @property
    def start(self) -> int:
        """The first pane of the window."""
        return int(self.clock[START])

    @property
    def remembered(self) -> int:
        """The first pane that is remembered."""
        return int(self.clock[REMEMBERED])

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
        panes = _NO_PANES if panes is None else panes
        n_repairs = 0
        first = 0
        while first < n:
            n_tuples, n_bytes = _chunk(cells.column, first, min(n, first + _CHUNK_TUPLES))
            last = first + n_tuples
            self._reserve(n_tuples, n_bytes)
            n_repairs = self._clean(cells, panes, position, first, last, repairs, n_repairs, acceptances)
            first = last
        return repairs, n_repairs, acceptances

    @abstractmethod
    def _reserve(self, n_tuples: int, n_bytes: int) -> None:
        """Make room for what the next tuples can need."""

    @abstractmethod
    def _clean(
        self,
        cells: Cells,
        panes: NDArray[np.int64],
        position: int,
        first: int,
        last: int,
        repairs: Repairs,
        n_repairs: int,
        acceptances: Acceptances,
    ) -> int:
        """Clean some tuples of a batch; return how many rows `repairs` has now."""

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
        self,
        cells: Cells,
        panes: NDArray[np.int64],
        position: int,
        first: int,
        last: int,
        repairs: Repairs,
        n_repairs: int,
        acceptances: Acceptances,
    ) -> int:
        return clean_solo(
            self._solo,
            self.clock,
            self.window,
            self.mode.basic,
            panes,
            position,
            self.accept_after,
            cells,
            first,
            last,
            repairs,
            n_repairs,
            self.violations,
            acceptances,
        )

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
        #: the violation graph after the next slide; means something while `sweeping`
        self.upcoming: Graph = new_graph(1)
        self._build()

    @property
    def store(self) -> Store:
        """All that is known of its cells."""
        return self._store

    def _reserve(self, n_tuples: int, n_bytes: int) -> None:
        reserve_store(self._store, n_tuples, n_bytes)
        n_retired = 0
        if self.window.slide and not self.mode.vote:
            n_retired = n_tuples * int(np.count_nonzero(self.accept_after))
        reserve_graph(self.current, self._store, self.mode, n_tuples, n_retired)
        reserve_graph(self.upcoming, self._store, self.mode, n_tuples, n_retired)
        if self.mode.vote:
            reserve_unions(self.unions, self._store, n_tuples)

    def _clean(
        self,
        cells: Cells,
        panes: NDArray[np.int64],
        position: int,
        first: int,
        last: int,
        repairs: Repairs,
        n_repairs: int,
        acceptances: Acceptances,
    ) -> int:
        while True:
            first, n_repairs = clean_hinged(
                self._store,
                self.current,
                self.upcoming,
                self.unions,
                self.clock,
                self.window,
                self.mode,
                panes,
                position,
                self.accept_after,
                cells,
                first,
                last,
                repairs,
                n_repairs,
                self.violations,
                acceptances,
            )
            if first_pane(self.current) != self.start:
                self.current, self.upcoming = self.upcoming, self.current
            n_counts, n_candidates = int(self.clock[COUNTS_NEEDED]), int(self.clock[CANDIDATES_NEEDED])
            if not n_counts and not n_candidates:
                return n_repairs
            self.clock[[COUNTS_NEEDED, CANDIDATES_NEEDED]] = 0
            grow(self._store.panes, n_counts)
            reserve_candidates(self.upcoming, n_candidates)

    def _build(self) -> None:
        """Build the graph anew from the super cells."""
        grow(self._store.panes, pool_used(self._store.pane_pool) + pool_live(self.cell_pool) + 2)
        for graph in (self.current, self.upcoming):
            reserve_graph(graph, self._store, self.mode, 1, 0)
        build_graphs(self._store, self.current, self.upcoming, self.unions, self.clock, self.mode)

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
        self._build()

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


def _chunk(column: Column, first: int, last: int) -> tuple[int, int]:
    """Return how many of these tuples to clean at once, one at least, and the bytes of their values.

    There are none of values that are codes only: even the empty value has a slot for its bytes.
    """
    if not column.offsets.size:
        return last - first, 0
    if column.value_index.size:
        # A value may be let go of, and come again as a new one: its bytes count each time.
        ends = np.cumsum(np.diff(column.offsets)[column.value_index[first:last]])
    else:
        ends = column.offsets[first + 1 : last + 1] - column.offsets[first]
    n_tuples = max(1, int(np.searchsorted(ends, _CHUNK_BYTES, "right")))
    return n_tuples, max(1, int(ends[n_tuples - 1]))


def _bytes(records: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the rows of an array of records as rows of bytes."""
    return records.view(np.uint8).reshape(records.shape[0], records.shape[1] * records.dtype.itemsize)
