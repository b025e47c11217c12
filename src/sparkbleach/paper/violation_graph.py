"""A worker's part of the violation graph of one attribute.

It has all groups of the graph, but of the super cells only those whose tuples the worker holds: the counts
are spread over the workers, the subgraphs are the same on all of them. What links groups are the worker's own
super cells, and hinges of other workers' cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import pyarrow as pa

from .hinges import Hinges
from .messages import KEY_BYTES, key_prefix, make_batch, split_keys, to_list


class Group:
    """A cell group: in the graph if it has a subgraph."""

    __slots__ = ("cells", "key", "subgraph")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.subgraph: Subgraph | None = None
        self.cells: set[SuperCell] = set()  #: the worker's own super cells in it


class SuperCell:
    """The worker's cells with one value that lie in exactly one set of groups, as counts."""

    __slots__ = ("anchor", "cumulative", "groups", "keys", "value", "window")

    def __init__(self, keys: bytes, groups: tuple[Group, ...], value: Any) -> None:
        self.keys = keys
        self.groups = groups
        self.value = value
        self.window: dict[int, int] = {}  #: by pane: cells
        self.cumulative = 0  #: cells since it is in the graph
        self.anchor = first_in_graph(groups)  #: one of its groups in the graph, None if there is none


class Subgraph:
    """A connected component: named by its set of groups, any of which leads to it."""

    __slots__ = ("counts", "groups")

    def __init__(self, group: Group) -> None:
        self.groups = [group]
        self.counts: dict[Any, int] = {}  #: by value: the worker's own cells in it

    def add(self, value: Any, count: int) -> None:
        """Count cells."""
        self.counts[value] = self.counts.get(value, 0) + count


class ViolationGraph:
    """Groups, super cells and subgraphs of one attribute, on one worker."""

    def __init__(self, basic: bool, vote: bool, value_type: pa.DataType) -> None:
        self.basic = basic  #: whether window counts are counted, instead of cumulative ones
        self.vote = vote  #: whether each group counts for itself: nothing merges then
        self.value_type = value_type  #: of values as messages have them
        self.cells: dict[tuple[bytes, Any], SuperCell] = {}
        self.groups: dict[bytes, Group] = {}  #: those in the graph, and those of own super cells
        self.graph: dict[bytes, Group] = {}  #: those in the graph
        self.hinges = Hinges()  #: what is known of other workers' cells

    def join(self, keys: bytes, value: Any, pane: int) -> None:
        """Let a cell join its super cell."""
        cell = self.cells.get((keys, value))
        if cell is None:
            cell = self.cells[keys, value] = SuperCell(keys, tuple(map(self._group, split_keys(keys))), value)
            for group in cell.groups:
                group.cells.add(cell)
            if cell.anchor is not None and not self.vote:
                self._merge(*[group for group in cell.groups if group.subgraph is not None])
        cell.window[pane] = cell.window.get(pane, 0) + 1
        if cell.anchor is not None:
            cell.cumulative += 1
            self._count(cell, 1)

    def enter(self, key: bytes) -> None:
        """Let a group enter the graph: its super cells that were not in it start at their window counts."""
        group = self._group(key)
        if group.subgraph is not None:
            return
        group.subgraph = Subgraph(group)
        self.graph[key] = group
        for cell in group.cells:
            if cell.anchor is None:
                cell.anchor = group
                cell.cumulative = sum(cell.window.values())
                group.subgraph.add(cell.value, cell.cumulative)
            elif self.vote:
                group.subgraph.add(cell.value, self._current_count(cell))
            else:
                self._merge(group, cell.anchor)
        for keys in self.hinges.with_group(key):
            self.link(split_keys(keys))

    def learn(self, keys: bytes, pane: int) -> None:
        """Learn that a cell of some worker lies in exactly these groups."""
        # What is known already has been linked, too: here, when a group entered, or after a split.
        if self.hinges.panes.get(keys, -1) < pane and len(keys) > KEY_BYTES:
            self.hinges.add(keys, pane)
            self.link(split_keys(keys))

    def link(self, keys: Iterable[bytes]) -> None:
        """Merge the subgraphs of those of these groups that are in the graph."""
        if not self.vote:
            self._merge(*[self.graph[key] for key in keys if key in self.graph])

    def slide(self, start: int, removed: set[bytes]) -> None:
        """Let the window slide to its first pane `start`; removed groups have no cell in it, on no worker."""
        for cell in list(self.cells.values()):
            for pane in [pane for pane in cell.window if pane < start]:
                del cell.window[pane]
            if not cell.window and (self.basic or cell.anchor is None):
                self._drop(cell)
        self._remove(removed)
        self.hinges.prune(start, () if self.basic else self.graph)
        if self.basic:
            self._rebuild(list(self.graph.values()))

    def delete_rule(self, serial: int, start: int) -> None:
        """Remove all groups of a rule."""
        prefix = key_prefix(serial)
        known = chain(self.groups, self.hinges.groups())
        self._remove({key for key in known if key.startswith(prefix)})
        self.hinges.prune(start, () if self.basic else self.graph)

    def candidates(self, keys: list[bytes], linked: bool) -> tuple[dict[Any, int], int]:
        """Count the worker's cells by value in the subgraphs that these groups of the graph are in.

        Each super cell counts once; the other result is how many groups the counts are over. The subgraph of
        `linked` groups is one, because a cell lies in all of them.
        """
        first = self.graph[keys[0]].subgraph
        if first is not None and (len(keys) == 1 or (linked and not self.vote)):
            return first.counts, len(first.groups)
        groups = [self.graph[key] for key in keys]
        if self.vote:
            return self._votes(groups), len(groups)
        counts: dict[Any, int] = {}
        subgraphs = list({id(group.subgraph): group.subgraph for group in groups if group.subgraph}.values())
        for subgraph in subgraphs:
            for value, count in subgraph.counts.items():
                counts[value] = counts.get(value, 0) + count
        return counts, sum(len(subgraph.groups) for subgraph in subgraphs)

    def _votes(self, groups: list[Group]) -> dict[Any, int]:
        """Count over several groups: all of the largest, and what the others have beside it."""
        groups = sorted(groups, key=lambda group: -len(group.cells))
        largest = groups[0].subgraph
        counts = dict(largest.counts) if largest else {}
        seen = set(groups[:1])
        for group in groups[1:]:
            for cell in group.cells:
                if seen.isdisjoint(cell.groups):
                    counts[cell.value] = counts.get(cell.value, 0) + self._current_count(cell)
            seen.add(group)
        return counts

    def _group(self, key: bytes) -> Group:
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key)
        return group

    def _current_count(self, cell: SuperCell) -> int:
        return sum(cell.window.values()) if self.basic else cell.cumulative

    def _count(self, cell: SuperCell, count: int) -> None:
        """Count cells of a super cell in the graph: once, or with `vote` in each of its groups."""
        for group in cell.groups if self.vote else (cell.anchor,):
            if group is not None and group.subgraph is not None:
                group.subgraph.add(cell.value, count)

    def _merge(self, *groups: Group) -> None:
        """Merge the subgraphs of groups: the smaller ones become part of the larger."""
        for one in groups[1:]:
            into, other = groups[0].subgraph, one.subgraph
            if into is None or other is None or into is other:
                continue
            if len(into.groups) + len(into.counts) < len(other.groups) + len(other.counts):
                into, other = other, into
            for group in other.groups:
                group.subgraph = into
            into.groups += other.groups
            for value, count in other.counts.items():
                into.add(value, count)

    def _remove(self, removed: set[bytes]) -> None:
        """Take groups out of super cells, hinges and the graph, and split subgraphs that lose one."""
        self.hinges.remove(removed, removed)
        gone = [self.groups.pop(key) for key in removed if key in self.groups]
        split: dict[Group, None] = {}
        for group in gone:
            if group.subgraph is not None:
                del self.graph[group.key]
                split.update(dict.fromkeys(group.subgraph.groups))
        for group in gone:
            group.subgraph = None
        for cell in {cell for group in gone for cell in group.cells}:
            self._leave(cell, removed)
        if not self.vote:
            self._rebuild([group for group in split if group.subgraph is not None])

    def _leave(self, cell: SuperCell, removed: set[bytes]) -> None:
        """Take removed groups out of a super cell; it may become equal to another one."""
        del self.cells[cell.keys, cell.value]
        cell.groups = tuple(group for group in cell.groups if group.key not in removed)
        cell.keys = b"".join(group.key for group in cell.groups)
        cell.anchor = first_in_graph(cell.groups)
        if not cell.groups:
            return
        same = self.cells.setdefault((cell.keys, cell.value), cell)
        if same is not cell:
            for pane, count in cell.window.items():
                same.window[pane] = same.window.get(pane, 0) + count
            same.cumulative += cell.cumulative
            for group in cell.groups:
                group.cells.discard(cell)
        if same.anchor is None and not same.window:
            self._drop(same)

    def _drop(self, cell: SuperCell) -> None:
        del self.cells[cell.keys, cell.value]
        for group in cell.groups:
            group.cells.discard(cell)
            if not group.cells and group.subgraph is None:
                self.groups.pop(group.key, None)

    def _rebuild(self, groups: list[Group]) -> None:
        """Find the subgraphs of groups anew, whole former subgraphs at a time: merges of what is left."""
        for group in groups:
            group.subgraph = Subgraph(group)
        cells = set[SuperCell]().union(*(group.cells for group in groups))
        if not self.vote:
            for cell in cells:
                self._merge(*[group for group in cell.groups if group.subgraph is not None])
            for keys in {keys for group in groups for keys in self.hinges.with_group(group.key)}:
                self.link(split_keys(keys))
        for cell in cells:
            self._count(cell, self._current_count(cell))

    def save(self) -> dict[str, pa.RecordBatch]:
        """Return all state: super cells, the groups in the graph, hinges. Subgraphs follow from them."""
        cells = [
            (cell.keys, cell.value, list(cell.window), list(cell.window.values()), cell.cumulative)
            for cell in self.cells.values()
        ]
        schema = _cells_schema(self.value_type)
        graph = pa.schema([("group", pa.large_binary())])
        return {
            "cells": make_batch(cells, schema),
            "graph": make_batch([(key,) for key in self.graph], graph),
            "hinges": self.hinges.save(),
        }

    @classmethod
    def load(cls, basic: bool, vote: bool, saved: dict[str, pa.RecordBatch]) -> ViolationGraph:
        """Return a graph as it was saved."""
        graph = cls(basic, vote, saved["cells"].schema.field("value").type)
        graph.hinges = Hinges.load(saved["hinges"])
        for key in to_list(saved["graph"].column(0)):
            graph.graph[key] = graph._group(key)
            graph.graph[key].subgraph = Subgraph(graph.graph[key])
        for keys, value, panes, counts, cumulative in zip(*map(to_list, saved["cells"].columns), strict=True):
            cell = SuperCell(keys, tuple(map(graph._group, split_keys(keys))), value)
            cell.window = dict(zip(panes, counts, strict=True))
            cell.cumulative = cumulative
            graph.cells[keys, value] = cell
            for group in cell.groups:
                group.cells.add(cell)
        graph._rebuild(list(graph.graph.values()))
        return graph


def first_in_graph(groups: Iterable[Group]) -> Group | None:
    """Return the first of some groups that is in the graph."""
    return next((group for group in groups if group.subgraph is not None), None)


def _cells_schema(value: pa.DataType) -> pa.Schema:
    """Return the schema of saved super cells."""
    return pa.schema(
        [
            ("groups", pa.large_binary()),
            ("value", value),
            ("panes", pa.list_(pa.int64())),
            ("counts", pa.list_(pa.int64())),
            ("cumulative", pa.int64()),
        ]
    )
