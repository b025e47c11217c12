"""The aggregator: the proposals of all repair workers in, decisions out. It has no state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .messages import CLAIMS, DECISIONS, PROPOSALS, Cursor, Envelope, Inbox, decisions_schema, rows

TOP = 5  #: how many candidates a decision tells


class Aggregator:
    """Add up what the repair workers have counted, and decide."""

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Decide on the violating cells of a micro-batch."""
        inbox = Inbox(envelopes)
        sent = []
        for attribute in inbox.attributes:
            claims = inbox.get(CLAIMS, attribute)
            if claims is None:
                continue
            added: dict[int, tuple[int, int, dict[Any, int]]] = {}
            for position, n_groups, total, values, counts in Cursor(
                inbox.get(PROPOSALS, attribute), "position", "groups", "total", "values", "counts"
            ):
                # All workers know the same subgraph, but with RW-ir some may know more of it.
                groups_before, total_before, sums = added.get(position, (0, 0, {}))
                for value, count in zip(values, counts, strict=True):
                    sums[value] = sums.get(value, 0) + count
                added[position] = (max(groups_before, n_groups), total_before + total, sums)
            found = []
            for position, own, violated in Cursor(claims, "position", "value", "violated"):
                n_groups, total, sums = added[position]
                ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
                changed = own is None or sums.get(own, 0) < ranked[0][1]
                found.append(
                    (
                        position,
                        changed,
                        violated,
                        n_groups,
                        total,
                        [value for value, _ in ranked[:TOP]],
                        [count for _, count in ranked[:TOP]],
                    )
                )
            schema = decisions_schema(claims.schema.field("value").type)
            sent.append(Envelope(DECISIONS, 0, attribute, rows(schema.names, found, schema)))
        return sent
