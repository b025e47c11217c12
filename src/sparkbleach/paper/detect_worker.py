"""The detect worker: sub-tuples in, one verdict for each out; it holds the data history of its groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

import pyarrow as pa

from ..config import Window
from .messages import (
    ENTERS,
    IN_GRAPH,
    KEY_BYTES,
    LINKS,
    NEWS,
    REMOVED,
    SCHEMAS,
    SUB_TUPLES,
    VERDICTS,
    VIOLATED,
    Cursor,
    Envelope,
    Inbox,
    Segment,
    key_prefix,
    make_batch,
    split_keys,
    to_list,
)
from .worker import Saved, StatefulWorker

_STATE = pa.schema(
    [
        ("group", pa.binary(KEY_BYTES)),
        ("value", pa.binary(16)),
        ("newest", pa.int64()),
        ("other", pa.int64()),
        ("in_graph", pa.bool_()),
        ("hinged", pa.bool_()),
        ("hinges", pa.list_(pa.large_binary())),
        ("panes", pa.list_(pa.int64())),
    ]
)
_PLAIN_FIELDS = attrgetter("value", "newest", "other", "in_graph", "hinged")


@dataclass(slots=True)
class History:
    """What a detect worker knows of a group."""

    value: bytes  #: the hash of the value of its newest cell
    newest: int  #: the pane of that cell
    other: int = -1  #: the pane of the newest cell with any other value, -1 if there was none
    in_graph: bool = False  #: whether it has had a violation
    hinged: bool = False  #: whether one of its cells lies in other groups as well
    #: RW-hinge: by set of groups that a cell in the window lies in, the newest such cell's pane
    hinges: dict[bytes, int] = field(default_factory=dict)


class DetectWorker(StatefulWorker[dict[bytes, History]]):
    """Detect violations in the groups that fall to this worker; the state is its groups by key."""

    def __init__(self, window: Window | None, windowing: str, sends_hinges: bool) -> None:
        super().__init__(window, windowing)
        #: whether repair workers get the hinges of a group that enters the graph (RW-hinge)
        self.sends_hinges = sends_hinges

    def process_attribute(self, attribute: str, inbox: Inbox, segments: list[Segment]) -> list[Envelope]:
        """Give each sub-tuple about an attribute its verdict."""
        groups = self.states.setdefault(attribute, {})
        sub_tuples = inbox.get(SUB_TUPLES, attribute)
        cursor = Cursor(sub_tuples, "position", "group", "hinged", "value", "groups")
        verdicts: list[int] = []
        removed: list[tuple[int, bytes]] = []
        hinges: list[tuple[int, bytes, int]] = []
        for segment in segments:
            for serial in segment.deleted:
                _delete_rule(groups, serial)
            if segment.slides:
                removed += [(segment.first, key) for key in self._slide(groups, segment.start)]
            verdicts += self._detect(groups, segment, cursor, hinges)
        if not groups:
            del self.states[attribute]
        sent = []
        for kind, found in ((REMOVED, removed), (LINKS, hinges)):
            if found:
                sent.append(Envelope(kind, 0, attribute, make_batch(found, SCHEMAS[kind])))
        if sub_tuples is not None:
            arrays = [
                sub_tuples.column("position"),
                sub_tuples.column("place"),
                pa.array(verdicts, pa.uint8()),
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[VERDICTS])
            sent.append(Envelope(VERDICTS, 0, attribute, batch))
        return sent

    def _detect(
        self,
        groups: dict[bytes, History],
        segment: Segment,
        cursor: Cursor,
        hinges: list[tuple[int, bytes, int]],
    ) -> list[int]:
        """Look at each group before its tuple is added, then add it."""
        pane, start = segment.pane, segment.start
        verdicts = []
        for position, key, hinged, value, siblings in cursor.until(segment.end):
            history = groups.get(key)
            if history is None:
                if value is not None:
                    groups[key] = history = History(value, pane, hinged=hinged)
                    if siblings:
                        history.hinges[siblings] = pane
                verdicts.append(0)
                continue
            verdict = IN_GRAPH if history.in_graph else 0
            if value is None:
                verdict |= VIOLATED
            else:
                if value != history.value:
                    verdict |= VIOLATED
                    history.value, history.other = value, history.newest
                elif history.other >= start:
                    verdict |= VIOLATED
                history.newest = pane
                if hinged:
                    history.hinged = True
            if verdict == VIOLATED:
                verdict |= IN_GRAPH | ENTERS
                history.in_graph = True
                hinges += [(position, hinge, at) for hinge, at in history.hinges.items()]
            if siblings and value is not None and history.hinges.get(siblings) != pane:
                history.hinges[siblings] = pane
                if verdict & IN_GRAPH:
                    verdict |= NEWS
            verdicts.append(verdict)
        return verdicts

    def _slide(self, groups: dict[bytes, History], start: int) -> list[bytes]:
        """Forget groups without a cell in the window; return those that repair workers may know."""
        known = []
        for key in [key for key, history in groups.items() if history.newest < start]:
            history = groups.pop(key)
            # With basic windowing no super cell outlives the cells of one of its groups.
            if history.in_graph or (history.hinged and not self.basic):
                known.append(key)
        if self.sends_hinges:
            for history in groups.values():
                for expired in [hinge for hinge, pane in history.hinges.items() if pane < start]:
                    del history.hinges[expired]
        return known

    def save_state(self, state: dict[bytes, History]) -> Saved:
        """Return the groups."""
        found = [
            (key, *_PLAIN_FIELDS(history), list(history.hinges), list(history.hinges.values()))
            for key, history in state.items()
        ]
        return {"groups": make_batch(found, _STATE)}

    def load_state(self, saved: Saved) -> dict[bytes, History]:
        """Return the groups as they were saved."""
        found = {}
        for key, *history, hinges, panes in zip(*map(to_list, saved["groups"].columns), strict=True):
            found[key] = History(*history)
            found[key].hinges = dict(zip(hinges, panes, strict=True))
        return found


def _delete_rule(groups: dict[bytes, History], serial: int) -> None:
    """Forget all groups of a rule, and that others are hinged to them."""
    prefix = key_prefix(serial)
    for key in [key for key in groups if key.startswith(prefix)]:
        del groups[key]
    for history in groups.values():
        left: dict[bytes, int] = {}
        for hinge, pane in history.hinges.items():
            keys = [key for key in split_keys(hinge) if not key.startswith(prefix)]
            if len(keys) > 1:
                rest = b"".join(keys)
                left[rest] = max(left.get(rest, pane), pane)
        history.hinges = left
