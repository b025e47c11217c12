"""All state of one RHS attribute: what its rules have seen, and the violation graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .cells import MEMBER, Store, new_store, reserve_store
from .clean import Cells, clean_segment
from .graph import Graph, Mode, clear_graph, new_graph, reserve_graph
from .repair import Repairs, new_repairs
from .table import NONE, arrays_of, grow, pool_live, pool_used
from .values import recycle_values
from .window import kill_column, sweep

_CHUNK_TUPLES = 8192  # bounds the room that is reserved ahead


class Attribute:
    """The state machine of one attribute: batches of cells in, repairs out.

    Args:
        n_columns: How many rules it begins with; each has a column, in order.
        mode: Which counts, and over what.
        slide: Tuples per pane, 0 for no window.
        n_panes: Panes per window.
    """

    def __init__(self, n_columns: int, mode: Mode, slide: int, n_panes: int) -> None:
        #: one column per live rule, and columns of deleted rules that wait for another one
        self.n_columns = n_columns
        self.mode = mode
        self.slide = slide
        self.n_panes = n_panes
        self.store: Store = new_store(n_columns)
        #: the violation graph of the window as it is
        self.current: Graph = new_graph(self._slots)
        #: the violation graph after the next slide; means something while `sweeping`
        self.upcoming: Graph = new_graph(self._slots)
        self.pane = 0
        #: from the middle of each pane to its end
        self.sweeping = False
        #: super cells below this slot are in `upcoming`; none of those at or above `sweep_end` need to be
        self.sweep_at = 0
        self.sweep_end = 0
        #: by column: tuples that violated the rule
        self.violations = np.zeros(n_columns, np.int64)

    @property
    def start(self) -> int:
        """The first pane of the window."""
        return max(0, self.pane - self.n_panes + 1)

    @property
    def start_after_slide(self) -> int:
        """The first pane of the window after the next slide."""
        return max(0, self.pane - self.n_panes + 2)

    @property
    def _slots(self) -> int:
        return self.n_columns if self.mode.vote else 1

    def begin(self, position: int) -> None:
        """Let an empty attribute begin at a position in the stream."""
        if self.slide:
            self.pane = position // self.slide
        clear_graph(self.current, self.start)

    def restore(self, n_columns: int, pane: int, violations: NDArray[np.int64], store: Store) -> None:
        """Take over a saved state."""
        self.n_columns = n_columns
        self.pane = pane
        self.violations = violations
        self.store = store
        self.current = new_graph(self._slots)
        self.upcoming = new_graph(self._slots)
        self.rebuild()

    def process(self, cells: Cells, position: int) -> tuple[Repairs, int]:
        """Clean the cells of a batch whose first tuple is at `position`.

        Returns:
            The repairs and their number. They name values that stay as they are until the next call.
        """
        n = cells.constant.size
        recycle_values(self.store.values)
        repairs = new_repairs(n, self.n_columns)
        n_repairs = 0
        first = 0
        while first < n:
            last = self._move_to(position + first, min(n, first + _CHUNK_TUPLES) - first) + first
            self._reserve(last - first, cells, first, last)
            n_repairs = clean_segment(
                self.store,
                self.current,
                self.upcoming,
                self.sweeping,
                self.mode,
                self.pane,
                self.start,
                cells,
                first,
                last,
                repairs,
                n_repairs,
                self.violations,
            )
            if self.sweeping:
                self._sweep_some(position + last)
            first = last
        return repairs, n_repairs

    def _move_to(self, position: int, n_tuples: int) -> int:
        """Let the window reach a position; return how many of `n_tuples` from there on lie alike."""
        if not self.slide:
            return n_tuples
        pane, offset = divmod(position, self.slide)
        while self.pane < pane:
            self._slide()
        half = self.slide // 2
        if offset >= half and not self.sweeping:
            self._begin_sweep()
        return min(n_tuples, (half if offset < half else self.slide) - offset)

    def _begin_sweep(self) -> None:
        self.sweeping = True
        self.sweep_at = 0
        self.sweep_end = int(pool_used(self.store.cell_pool))
        clear_graph(self.upcoming, self.start_after_slide)

    def _sweep_some(self, position: int) -> None:
        """Sweep as far as the position asks for, so that the end of the pane finds nothing left to do."""
        half = self.slide // 2
        done = position - self.pane * self.slide - half
        self._sweep_to(-(-self.sweep_end * done // (self.slide - half)))

    def _sweep_to(self, slot: int) -> None:
        slot = min(slot, self.sweep_end)
        if slot > self.sweep_at:
            self._reserve(slot - self.sweep_at)
            sweep(self.store, self.upcoming, self.current, self.mode, self.start, self.sweep_at, slot)
            self.sweep_at = slot

    def _slide(self) -> None:
        if not self.sweeping:
            self._begin_sweep()
        self._sweep_to(self.sweep_end)
        self.current, self.upcoming = self.upcoming, self.current
        self.sweeping = False
        self.pane += 1

    def _reserve(self, n: int, cells: Cells | None = None, first: int = 0, last: int = 0) -> None:
        """Make room for `n` tuples, or for a sweep over `n` super cells."""
        n_bytes = 0
        if cells is not None and cells.column.offsets.size:
            n_bytes = int(cells.column.offsets[last] - cells.column.offsets[first])
        if cells is None:
            grow(self.store.panes, pool_used(self.store.pane_pool) + n + 2)
        else:
            reserve_store(self.store, n, n_bytes)
        reserve_graph(self.current, self.store, n)
        reserve_graph(self.upcoming, self.store, n)

    def rebuild(self) -> None:
        """Build the graph anew from the super cells, and tidy these."""
        self.sweeping = False
        clear_graph(self.current, self.start)
        n = int(pool_used(self.store.cell_pool))
        self._reserve(n)
        sweep(self.store, self.current, self.upcoming, self.mode, self.start, 0, n)

    def delete_column(self, column: int) -> None:
        """Remove all groups of a deleted rule; its column is free for another rule."""
        kill_column(self.store, column)
        self.violations[column] = 0
        self.rebuild()

    def add_column(self) -> None:
        """Make room for one more rule."""
        columns = self.n_columns
        self.n_columns += 1
        store = self.store
        members = np.zeros((store.members.shape[0], self.n_columns), MEMBER)
        members[:, :columns] = store.members
        members[:, columns]["group"] = NONE
        self.store = store._replace(
            members=members,
            set=np.full(self.n_columns, NONE, np.int32),
            owners=np.full(self.n_columns, NONE, np.int32),
            rescued=np.zeros(self.n_columns, np.bool_),
        )
        self.violations = np.append(self.violations, 0)
        if self.mode.vote:
            self.current = _widen(self.current)
            self.upcoming = _widen(self.upcoming)

    def n_super_cells(self) -> int:
        """Return how many super cells there are."""
        return int(pool_live(self.store.cell_pool))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(array.nbytes for array in arrays_of((self.store, self.current, self.upcoming)))


def _widen(graph: Graph) -> Graph:
    links: NDArray[np.int64] = np.zeros((graph.links.shape[0], graph.links.shape[1] + 1), np.int64)
    links[:, :-1] = graph.links
    return graph._replace(links=links)
