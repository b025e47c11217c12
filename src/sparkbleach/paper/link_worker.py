"""The link worker: that half of a repair worker which talks to the coordinator.

A stage of a micro-batch runs once, so a repair worker cannot ask the coordinator in the middle of its work.
It is cut in two: this half knows which groups the worker's own cells lie in, and proposes merges before the
other half (repair_worker.py), which has the counts, begins. RW-hinge has no coordinator and no link workers.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ..config import Window
from .hinges import Hinges
from .messages import (
    CELLS,
    KEY_BYTES,
    MERGES,
    REMOVED,
    SCHEMAS,
    Cursor,
    Envelope,
    Inbox,
    Segment,
    keys_of,
    listed,
    rows,
    serial_bytes,
    verdict_of,
)

_GRAPH = pa.schema([("group", pa.binary(KEY_BYTES))])


class LinkState:
    """What a link worker knows of one attribute.

    Attributes:
        hinges: Of the worker's own cells, in the window or in the graph.
        graph: All groups of the graph.
    """

    def __init__(self) -> None:
        self.hinges = Hinges()
        self.graph: set[bytes] = set()


class LinkWorker:
    """Find the links that the worker's own cells make, and propose merges.

    Args:
        window: The window.
        windowing: `bleach` or `basic`.
        always: Whether to propose for each tuple with a violation (RW-basic), or only where a group enters
            the graph with an old cell that is in it through another rule, and the tuple does not link the
            two by itself (RW-dr, RW-ir).
    """

    def __init__(self, window: Window | None, windowing: str, always: bool) -> None:
        self.window = window
        self.windowing = windowing
        self.always = always
        self._states: dict[str, LinkState] = {}

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Look at the cells of a micro-batch."""
        inbox = Inbox(envelopes)
        segments = list(inbox.clock.segments(self.window))
        sent = []
        for attribute in sorted({*inbox.attributes, *self._states}):
            state = self._states.setdefault(attribute, LinkState())
            cells = Cursor(inbox.get(CELLS, attribute), "position", "groups", "verdicts", "stored", "value")
            removed = Cursor(inbox.get(REMOVED, attribute), "group")
            merges: list[tuple[int, bytes, int]] = []
            for segment in segments:
                for serial in segment.deleted:
                    prefix = serial_bytes(serial)
                    known = {*state.graph, *state.hinges.keys()}
                    self._remove(state, {key for key in known if key.startswith(prefix)}, segment.start)
                if segment.slides:
                    self._remove(state, {key for (key,) in removed.until(segment.first + 1)}, segment.start)
                self._look(state, segment, cells, merges)
            if merges:
                schema = SCHEMAS[MERGES]
                sent.append(Envelope(MERGES, 0, attribute, rows(schema.names, merges, schema)))
        return sent

    def _look(
        self, state: LinkState, segment: Segment, cells: Cursor, merges: list[tuple[int, bytes, int]]
    ) -> None:
        hinges, graph = state.hinges, state.graph
        for position, groups, verdicts, stored, value in cells.until(segment.end):
            if value is not None and len(groups) > KEY_BYTES:
                hinges.add(groups, segment.pane)
            told = verdict_of(verdicts)
            if told is None or not told.violated:
                continue
            if self.always:
                merges.append((position, groups if stored else b"", segment.pane))
            if not told.entering:
                continue
            entering = [groups[place] for place in told.entering]
            graph.update(entering)
            links_itself = frozenset(keys_of(groups) if stored else ())
            for hinge in {hinge for key in entering for hinge in hinges.of(key)}:
                linked = graph.intersection(keys_of(hinge))
                if self.must_ask(linked, links_itself):
                    merges.append((position, hinge, hinges.panes[hinge]))

    def must_ask(self, linked: set[bytes], links_itself: frozenset[bytes]) -> bool:
        """Tell whether the other workers do not know a link yet.

        Args:
            linked: The groups of the graph that an old cell lies in, one of them new there.
            links_itself: The groups that the tuple's own cell lies in, which all workers are told.
        """
        return len(linked) > 1 and not linked <= links_itself

    def _remove(self, state: LinkState, removed: set[bytes], start: int) -> None:
        state.graph -= removed
        state.hinges.remove(removed, removed)
        state.hinges.prune(start, state.graph if self.windowing == "bleach" else ())

    def save(self) -> dict[str, pa.RecordBatch]:
        """Return all state, as record batches by attribute and name."""
        saved = {}
        for attribute, state in self._states.items():
            saved[f"{attribute}/graph"] = rows(_GRAPH.names, [(key,) for key in state.graph], _GRAPH)
            saved[f"{attribute}/hinges"] = state.hinges.save()
        return saved

    def load(self, saved: dict[str, pa.RecordBatch]) -> None:
        """Put saved state in place of this one."""
        self._states = {}
        for name, batch in saved.items():
            attribute, _, part = name.rpartition("/")
            state = self._states.setdefault(attribute, LinkState())
            if part == "graph":
                state.graph = set(listed(batch.column(0)))
            else:
                state.hinges = Hinges.load(batch)
