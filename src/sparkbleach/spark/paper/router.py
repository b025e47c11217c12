"""The stages without state as functions on Arrow batches: both routers, and the coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ...paper.stages import AGGREGATOR, INGRESS_ROUTER, Stages, paused_garbage_collector
from ..blob import unpack
from ..garbage import collect_garbage
from ..ingress import ArrowFunction
from ..plan import Plan
from ..rows import rows_to_batch
from .parts import cut_blob
from .rows import Row, count_rows, message_rows, read_envelopes, sort_rows


def router_function(plan: Plan, stages: Stages, name: str) -> ArrowFunction:
    """Return a stage without state: it processes its own rows all together, and passes others on."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine: list[Row] = []
        for batch in batches:
            own = pc.equal(batch.column("stage"), name)
            others = batch.filter(pc.invert(own))
            if others.num_rows:
                yield others
            mine += [Row(**row) for row in batch.filter(own).to_pylist()]
        if mine:
            sent = _cut(plan, stages, mine) if name == INGRESS_ROUTER else _route(stages, name, mine)
            if sent:
                yield rows_to_batch(sent)
        collect_garbage(plan.limits)

    return run


def _cut(plan: Plan, stages: Stages, blobs: list[Row]) -> list[Row]:
    """Cut the tuples of blobs into sub-tuples; the blobs go on to the aggregator."""
    router = stages[INGRESS_ROUTER].make()
    sent = [blob._replace(stage=AGGREGATOR) for blob in blobs]
    for blob in blobs:
        for part in cut_blob(plan, blob, unpack(blob.data or b"")):
            envelopes = router.process(part.apply_rules(plan.limits), part.positions)
            sent += message_rows(stages, INGRESS_ROUTER, envelopes)
    return sent


def _route(stages: Stages, name: str, rows: list[Row]) -> list[Row]:
    router = stages[name].make()
    with paused_garbage_collector():
        sent = router.process(read_envelopes(sort_rows(rows)))
    return [*count_rows(stages[name], router), *message_rows(stages, name, sent)]
