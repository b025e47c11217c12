"""The coordinator: merge proposals of all workers in, one decision for all of them out. It has no state.

A decision names links, not the subgraph that they make: a later split must know which of them are left, and
a link is no longer than the number of rules of its attribute, a subgraph may have thousands of groups.
"""

from __future__ import annotations

from collections.abc import Iterable

from .messages import LINKS, MERGES, SCHEMAS, Cursor, Envelope, Inbox, make_batch


class Coordinator:
    """Bring the links that each repair worker has found to all of them."""

    def __init__(self, repair_workers: int) -> None:
        self.repair_workers = repair_workers
        #: merge proposals so far: one for each tuple, attribute and worker that made one
        self.received = 0
        #: decisions so far: one for each tuple and attribute with a proposal, and each worker
        self.sent = 0

    @property
    def messages(self) -> int:
        """The coordination messages so far."""
        return self.received + self.sent

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Merge the proposals of a micro-batch: those of a tuple about an attribute become one decision."""
        envelopes = list(envelopes)
        for envelope in envelopes:
            self.received += len(set(envelope.batch.column("position").to_pylist()))
        inbox = Inbox(envelopes)
        sent = []
        for attribute in inbox.attributes:
            merges = inbox.get(MERGES, attribute)
            if merges is None:
                continue
            decided: dict[int, dict[bytes, int]] = {}
            for position, groups, pane in Cursor(merges, "position", "groups", "pane"):
                links = decided.setdefault(position, {})
                links[groups] = max(links.get(groups, pane), pane)
            self.sent += len(decided) * self.repair_workers
            found = [
                (position, groups, pane) for position in decided for groups, pane in decided[position].items()
            ]
            batch = make_batch(found, SCHEMAS[LINKS])
            sent += [Envelope(LINKS, worker, attribute, batch) for worker in range(self.repair_workers)]
        return sent
