"""A blob, cut where rules change."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...engine.apply import AppliedRules, apply_active_rules
from ...engine.audit import take_rows
from ...rules.active import ActiveRules
from ...rules.condition_evaluator import ConditionLimitError
from ..limits import Limits
from ..plan import Plan
from .rows import Row


@dataclass(frozen=True, slots=True)
class Part:
    """Tuples of a blob that are read by the same rules."""

    rules: ActiveRules  #: the rules
    batch: pa.RecordBatch  #: the tuples, by position
    rows: NDArray[np.int64]  #: their places in the blob
    positions: NDArray[np.int64]  #: their positions in the stream, ascending

    def apply_rules(
        self, limits: Limits, attributes: Collection[str] | None = None
    ) -> dict[str, AppliedRules]:
        """Find the groups of the tuples by RHS attribute, of those given or all.

        The sequencer has evaluated the conditions before, and has withdrawn rules that need too much.
        """
        try:
            return apply_active_rules(self.rules, self.batch, attributes, limits.conditions.for_replay())
        except ConditionLimitError as error:
            raise error.in_replay() from None


def blob_note(first: int, segments: list[tuple[int, int, str]]) -> str:
    """Return the note of a blob: the position of its first tuple, if the others follow, and its segments.

    A segment has its first position, its end, and the rules as `ActiveRules.save` gives them, in JSON.
    """
    return json.dumps({"first": first, "segments": segments})


def cut_blob(plan: Plan, blob: Row, batch: pa.RecordBatch) -> Iterator[Part]:
    """Yield the parts of a blob whose cells are this batch."""
    note = json.loads(blob.note or "")
    if blob.positions is None:
        positions = np.arange(note["first"], note["first"] + batch.num_rows)
        order = np.arange(batch.num_rows)
    else:
        given = np.frombuffer(blob.positions, np.int64)
        order = np.argsort(given)
        positions = given[order]
        batch = take_rows(batch, order)
    for first, end, rules in note["segments"]:
        begin, stop = np.searchsorted(positions, [first, end])
        if begin < stop:
            part = batch.slice(begin, stop - begin)
            yield Part(rules_from_json(plan.schema, rules), part, order[begin:stop], positions[begin:stop])


@lru_cache(maxsize=32)
def rules_from_json(schema: pa.Schema, saved: str) -> ActiveRules:
    """Return the rules in a text; copy them before you change them."""
    return ActiveRules.load(schema, None, json.loads(saved))
