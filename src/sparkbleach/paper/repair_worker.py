"""The repair worker: cells in, repair proposals out; it holds the cells of its tuples."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..config import Window
from .messages import (
    CELLS,
    LINKS,
    PROPOSALS,
    REMOVED,
    SERIAL_BYTES,
    Cursor,
    Envelope,
    Inbox,
    Segment,
    key_prefix,
    list_column,
    message_schema,
    read_verdicts,
    split_keys,
)
from .violation_graph import ViolationGraph
from .worker import Saved, StatefulWorker


class RepairWorker(StatefulWorker[ViolationGraph]):
    """Keep a part of the violation graph, and propose candidates for violating cells."""

    def __init__(
        self, window: Window | None, windowing: str, repair: str, links_late: bool, top: int | None
    ) -> None:
        super().__init__(window, windowing)
        self.vote = repair == "vote"
        self.links_late = links_late  #: links found by others count from the next micro-batch on (RW-ir)
        self.top = top  #: how many candidates a proposal has; None for all, which is exact

    @property
    def n_super_cells(self) -> int:
        """How many super cells the worker holds."""
        return sum(len(graph.cells) for graph in self.states.values())

    def process_attribute(self, attribute: str, inbox: Inbox, segments: list[Segment]) -> list[Envelope]:
        """Take in the cells of an attribute, and propose candidates for those that violate a rule."""
        batch = inbox.get(CELLS, attribute)
        graph = self.states.get(attribute)
        if graph is None:
            if batch is None:  # news of groups that no cell here is in
                return []
            value = batch.schema.field("value").type
            graph = self.states[attribute] = ViolationGraph(self.basic, self.vote, value)
        proposals = self._repair(graph, segments, inbox, attribute, batch)
        if not proposals.positions:
            return []
        return [Envelope(PROPOSALS, 0, attribute, proposals.batch(graph.value_type))]

    def _repair(
        self,
        graph: ViolationGraph,
        segments: list[Segment],
        inbox: Inbox,
        attribute: str,
        batch: pa.RecordBatch | None,
    ) -> Proposals:
        cells = Cursor(batch, "position", "groups", "verdicts", "stored", "value")
        removals = Cursor(inbox.get(REMOVED, attribute), "group")
        cursor = Cursor(inbox.get(LINKS, attribute), "position", "groups", "pane")
        links: dict[int, list[tuple[bytes, int]]] = {}
        for position, keys, pane in cursor.until(segments[-1].end):
            links.setdefault(position, []).append((keys, pane))
        gone: dict[bytes, int] = {}
        proposals = Proposals()
        for segment in segments:
            for serial in segment.deleted:
                gone[key_prefix(serial)] = segment.first
                graph.delete_rule(serial, segment.start)
            if segment.slides:
                removed = {key for (key,) in removals.until(segment.first + 1)}
                gone.update(dict.fromkeys(removed, segment.first))
                graph.slide(segment.start, removed)
            self._take_in(graph, segment, cells, {} if self.links_late else links, proposals)
        if self.links_late:
            self._learn_late(graph, segments[-1].start, links, gone)
        return proposals

    def _learn_late(
        self,
        graph: ViolationGraph,
        start: int,
        links: dict[int, list[tuple[bytes, int]]],
        gone: dict[bytes, int],
    ) -> None:
        """Learn of the links found by others in this micro-batch, less what has been removed since."""
        for position, hinges in links.items():
            for groups, pane in hinges:
                left = [
                    key
                    for key in split_keys(groups)
                    if gone.get(key, -1) <= position and gone.get(key[:SERIAL_BYTES], -1) <= position
                ]
                if pane >= start or (not self.basic and any(key in graph.graph for key in left)):
                    graph.learn(b"".join(left), pane)

    def _take_in(
        self,
        graph: ViolationGraph,
        segment: Segment,
        cells: Cursor,
        links: dict[int, list[tuple[bytes, int]]],
        proposals: Proposals,
    ) -> None:
        pane = segment.pane
        for position, groups, verdicts, stored, value in cells.until(segment.end):
            if value is not None:
                graph.join(groups, value, pane)
            verdict = read_verdicts(verdicts)
            if verdict is None:
                continue
            for place in verdict.entering:
                graph.enter(groups[place])
            if value is None and stored:
                graph.learn(groups, pane)
            for hinge, at in links.get(position, ()):
                graph.learn(hinge, at)
            if not verdict.violated:
                continue
            # A cell that is not stored links nothing: it asks the groups that it violates, each by itself.
            counts, n_groups = graph.candidates(
                [groups[place] for place in (verdict.in_graph if stored else verdict.violated)], stored
            )
            if counts:
                proposals.add(position, counts, n_groups, self.top)

    def save_state(self, state: ViolationGraph) -> Saved:
        """Return the graph."""
        return state.save()

    def load_state(self, saved: Saved) -> ViolationGraph:
        """Return the graph as it was saved."""
        return ViolationGraph.load(self.basic, self.vote, saved)


class Proposals:
    """The proposals of a worker about one attribute, column by column."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.groups: list[int] = []
        self.totals: list[int] = []
        self.lengths: list[int] = []
        self.values: list[Any] = []
        self.counts: list[int] = []

    def add(self, position: int, counts: dict[Any, int], n_groups: int, top: int | None) -> None:
        """Propose candidates for a cell: the best `top` of them, or all."""
        self.positions.append(position)
        self.groups.append(n_groups)
        self.totals.append(sum(counts.values()))
        if top is not None and len(counts) > top:
            counts = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:top])
        self.lengths.append(len(counts))
        self.values += counts
        self.counts += counts.values()

    def batch(self, value: pa.DataType) -> pa.RecordBatch:
        """Return them as messages."""
        columns = [
            pa.array(self.positions, pa.int64()),
            pa.array(self.groups, pa.int64()),
            pa.array(self.totals, pa.int64()),
            list_column(self.lengths, pa.array(self.values, value)),
            list_column(self.lengths, pa.array(self.counts, pa.int64())),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=message_schema(PROPOSALS, value))
