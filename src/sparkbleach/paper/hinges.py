"""Hinges: sets of groups that share a cell, and when the newest such cell was seen.

A hinge says "some cell lies in exactly these groups", not how many cells or of what value. Hinges are what
links groups; they are facts, so it does no harm to learn one twice, or from two workers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import pyarrow as pa

from .messages import make_batch, split_keys, to_list

_STATE = pa.schema([("groups", pa.large_binary()), ("pane", pa.int64())])


class Hinges:
    """The hinges that a worker knows, of one attribute."""

    def __init__(self) -> None:
        self.panes: dict[bytes, int] = {}  #: by set of two or more groups: the pane of its newest cell
        self._by_group: dict[bytes, set[bytes]] = {}  #: by group: the sets that it is in

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.panes)

    def with_group(self, key: bytes) -> Iterable[bytes]:
        """Return the hinges that a group is in."""
        return self._by_group.get(key, ())

    def add(self, groups: bytes, pane: int) -> None:
        """Learn that a cell of a pane lies in exactly these groups."""
        known = self.panes.get(groups)
        if known is not None:
            if pane > known:
                self.panes[groups] = pane
            return
        keys = split_keys(groups)
        if len(keys) > 1:
            self.panes[groups] = pane
            for key in keys:
                self._by_group.setdefault(key, set()).add(groups)

    def remove(self, keys: Container[bytes], among: Iterable[bytes]) -> None:
        """Take removed groups out of all hinges; `among` has at least those that may be in one."""
        for groups in {groups for key in among for groups in self.with_group(key)}:
            pane = self._drop(groups)
            self.add(b"".join(key for key in split_keys(groups) if key not in keys), pane)

    def prune(self, start: int, graph: Container[bytes]) -> None:
        """Forget hinges whose cells have left both the window and the graph.

        `start` is the first pane of the window; groups of the graph keep their cells beyond it.
        """
        expired = [groups for groups, pane in self.panes.items() if pane < start]
        for groups in expired:
            if not any(key in graph for key in split_keys(groups)):
                self._drop(groups)

    def groups(self) -> Iterable[bytes]:
        """Return all groups that are in a hinge."""
        return self._by_group.keys()

    def _drop(self, groups: bytes) -> int:
        for key in split_keys(groups):
            sets = self._by_group[key]
            sets.discard(groups)
            if not sets:
                del self._by_group[key]
        return self.panes.pop(groups)

    def save(self) -> pa.RecordBatch:
        """Return all state."""
        return make_batch(list(self.panes.items()), _STATE)

    @classmethod
    def load(cls, saved: pa.RecordBatch) -> Hinges:
        """Return hinges as they were saved."""
        hinges = cls()
        for groups, pane in zip(to_list(saved.column(0)), to_list(saved.column(1)), strict=True):
            hinges.add(groups, pane)
        return hinges
