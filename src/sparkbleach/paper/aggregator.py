"""The aggregator: the proposals of all repair workers in, decisions out. It has no state."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..testing import reach
from .messages import CLAIMS, DECISIONS, PROPOSALS, Envelope, Inbox, list_column, message_schema

#: the number of candidates in a decision
TOP = 5


class Aggregator:
    """Add up what the repair workers have counted, and decide."""

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Decide on the violating cells of a micro-batch."""
        inbox = Inbox(envelopes)
        sent = []
        for attribute in inbox.attributes:
            claims = inbox.get(CLAIMS, attribute)
            proposals = inbox.get(PROPOSALS, attribute, in_order=False)
            if claims is not None and proposals is not None:
                sent.append(Envelope(DECISIONS, 0, attribute, decide(claims, proposals)))
        reach("paper.aggregate")
        return sent


def decide(claims: pa.RecordBatch, proposals: pa.RecordBatch) -> pa.RecordBatch:
    """Decide what becomes of the violating cells in claims, by position.

    The value with the highest sum of counts wins; a tie keeps the cell's own value, any other tie goes to the
    smallest value. One worker or more propose candidates for each cell, in any order.
    """
    own = claims.column("value")
    n = len(own)
    claim = np.searchsorted(claims.column("position").to_numpy(), proposals.column("position").to_numpy())
    # All workers know the same subgraph, but with RW-ir some may know more of it.
    groups = np.zeros(n, np.int64)
    np.maximum.at(groups, claim, proposals.column("groups").to_numpy())
    total = np.zeros(n, np.int64)
    np.add.at(total, claim, proposals.column("total").to_numpy())

    proposed = proposals.column("values")
    ordered, order = _in_order(pa.concat_arrays([proposed.flatten(), own]))
    own_order = order[len(order) - n :]
    candidate = (
        np.repeat(claim, np.diff(proposed.offsets.to_numpy())) * len(ordered) + order[: len(order) - n]
    )
    candidate, same = np.unique(candidate, return_inverse=True)
    count = np.zeros(candidate.size, np.int64)
    np.add.at(count, same, proposals.column("counts").flatten().to_numpy())
    claim, value = np.divmod(candidate, len(ordered))

    place = np.searchsorted(candidate, np.arange(n) * len(ordered) + own_order)
    place = np.minimum(place, candidate.size - 1)
    has_own = (claim[place] == np.arange(n)) & (value[place] == own_order) & (own_order >= 0)
    own_count = np.where(has_own, count[place], 0)

    best_first = np.lexsort((value, -count, claim))
    claim, value, count = claim[best_first], value[best_first], count[best_first]
    first = np.searchsorted(claim, np.arange(n))
    listed = np.arange(claim.size) - first[claim] < TOP
    lengths = np.bincount(claim[listed], minlength=n)
    return pa.RecordBatch.from_arrays(
        [
            claims.column("position"),
            pa.array((own_order < 0) | (own_count < count[first])),
            claims.column("violated"),
            pa.array(groups),
            pa.array(total),
            list_column(lengths, ordered.take(pa.array(value[listed]))),
            list_column(lengths, pa.array(count[listed])),
        ],
        schema=message_schema(DECISIONS, own.type),
    )


def _in_order(values: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the distinct values in ascending order, and the place of each value among them, -1 for nulls."""
    distinct = values.dictionary_encode()
    ascending = pc.sort_indices(distinct.dictionary).to_numpy()
    rank = np.empty(ascending.size + 1, np.int64)
    rank[ascending] = np.arange(ascending.size)
    rank[-1] = -1
    return distinct.dictionary.take(pa.array(ascending)), rank[distinct.indices.fill_null(-1).to_numpy()]
