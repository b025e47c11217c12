"""The link worker: the half of a repair worker that asks the coordinator.

A stage of a micro-batch runs once, so a repair worker cannot ask the coordinator in the middle of its work.
It is cut in two: this half knows which groups the worker's own cells lie in, and proposes merges before the
other half (repair_worker.py), which has the counts, begins. RW-hinge has no coordinator and no link workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    key_prefix,
    make_batch,
    read_verdicts,
    split_keys,
    to_list,
)
from .worker import Saved, StatefulWorker

_GRAPH = pa.schema([("group", pa.binary(KEY_BYTES))])


@dataclass(slots=True)
class LinkState:
    """What a link worker knows of one attribute."""

    #: of the worker's own cells, in the window or in the graph
    hinges: Hinges = field(default_factory=Hinges)
    graph: set[bytes] = field(default_factory=set)  #: all groups of the graph


class LinkWorker(StatefulWorker[LinkState]):
    """Find the links that the worker's own cells make, and propose merges."""

    def __init__(self, window: Window | None, windowing: str, always: bool) -> None:
        super().__init__(window, windowing)
        #: whether to propose for each violating tuple (RW-basic), or only where a group enters the graph
        #: with an old cell in it through another rule, which the tuple does not link by itself (RW-dr, RW-ir)
        self.always = always

    def process_attribute(self, attribute: str, inbox: Inbox, segments: list[Segment]) -> list[Envelope]:
        """Propose merges for the cells of an attribute."""
        state = self.states.setdefault(attribute, LinkState())
        cells = Cursor(inbox.get(CELLS, attribute), "position", "groups", "verdicts", "stored", "value")
        removed = Cursor(inbox.get(REMOVED, attribute), "group")
        merges: list[tuple[int, bytes, int]] = []
        for segment in segments:
            for serial in segment.deleted:
                prefix = key_prefix(serial)
                known = {*state.graph, *state.hinges.groups()}
                self._remove(state, {key for key in known if key.startswith(prefix)}, segment.start)
            if segment.slides:
                self._remove(state, {key for (key,) in removed.until(segment.first + 1)}, segment.start)
            self._look(state, segment, cells, merges)
        if not merges:
            return []
        return [Envelope(MERGES, 0, attribute, make_batch(merges, SCHEMAS[MERGES]))]

    def _look(
        self, state: LinkState, segment: Segment, cells: Cursor, merges: list[tuple[int, bytes, int]]
    ) -> None:
        hinges, graph = state.hinges, state.graph
        for position, groups, verdicts, stored, value in cells.until(segment.end):
            if value is not None and len(groups) > KEY_BYTES:
                hinges.add(groups, segment.pane)
            verdict = read_verdicts(verdicts)
            if verdict is None or not verdict.violated:
                continue
            if self.always:
                merges.append((position, groups if stored else b"", segment.pane))
            if not verdict.entering:
                continue
            entering = [groups[place] for place in verdict.entering]
            graph.update(entering)
            links_itself = frozenset(split_keys(groups) if stored else ())
            for hinge in {hinge for key in entering for hinge in hinges.with_group(key)}:
                linked = graph.intersection(split_keys(hinge))
                if self.must_propose(linked, links_itself):
                    merges.append((position, hinge, hinges.panes[hinge]))

    def must_propose(self, linked: set[bytes], links_itself: frozenset[bytes]) -> bool:
        """Return whether the other workers do not know a link yet.

        An old cell lies in the `linked` groups of the graph, one of them new there; the tuple's own cell,
        which all workers get, lies in those of `links_itself`.
        """
        return len(linked) > 1 and not linked <= links_itself

    def _remove(self, state: LinkState, removed: set[bytes], start: int) -> None:
        state.graph -= removed
        state.hinges.remove(removed, removed)
        state.hinges.prune(start, () if self.basic else state.graph)

    def save_state(self, state: LinkState) -> Saved:
        """Return the groups in the graph, and the hinges."""
        graph = make_batch([(key,) for key in state.graph], _GRAPH)
        return {"graph": graph, "hinges": state.hinges.save()}

    def load_state(self, saved: Saved) -> LinkState:
        """Return groups and hinges as they were saved."""
        return LinkState(Hinges.load(saved["hinges"]), set(to_list(saved["graph"].column(0))))
