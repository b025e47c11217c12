"""The stages without state: both routers, and the coordinator."""

from __future__ import annotations

import json

from ...engine.apply import apply_active_rules
from ...paper.messages import CLAIMS, SUB_TUPLES, TUPLES
from ...paper.topology import PaperTopology, uncollected
from ..blob import unpack
from ..ingress import ArrowFunction
from ..plan import Plan
from .parts import parts_of
from .rows import (
    AGGREGATOR,
    COORDINATOR,
    COUNTS,
    DETECT,
    EGRESS_ROUTER,
    INGRESS_ROUTER,
    LINK,
    REPAIR,
    Row,
    addressed,
    by_attribute,
    envelopes_of,
    in_order,
    stateless,
)


def ingress_router(plan: Plan, topology: PaperTopology) -> ArrowFunction:
    """Return the stage that cuts the tuples of blobs into sub-tuples; the blobs go on to the aggregator."""

    def process(blobs: list[Row]) -> list[Row]:
        router = topology.ingress_router()
        sent = [blob._replace(stage=AGGREGATOR) for blob in blobs]
        for blob in blobs:
            for part in parts_of(plan, blob, unpack(blob.data or b"")):
                for envelope in router.process(apply_active_rules(part.rules, part.batch), part.positions):
                    if envelope.kind == SUB_TUPLES:
                        sent.append(addressed(DETECT, envelope))
                    elif envelope.kind == TUPLES:
                        sent.append(by_attribute(EGRESS_ROUTER, envelope))
        return sent

    return stateless(INGRESS_ROUTER, process)


def egress_router(topology: PaperTopology) -> ArrowFunction:
    """Return the stage that joins verdicts, and tells repair workers what they must know."""
    workers = LINK if topology.link_workers else REPAIR

    def process(rows: list[Row]) -> list[Row]:
        with uncollected():
            sent = topology.egress_router().process(envelopes_of(in_order(rows)))
        return [addressed(AGGREGATOR if envelope.kind == CLAIMS else workers, envelope) for envelope in sent]

    return stateless(EGRESS_ROUTER, process)


def coordinator(topology: PaperTopology) -> ArrowFunction:
    """Return the stage that brings the links which each link worker has found to all repair workers."""

    def process(rows: list[Row]) -> list[Row]:
        one = topology.coordinator()
        with uncollected():
            sent = one.process(envelopes_of(in_order(rows)))
        counts = Row(AGGREGATOR, 0, COUNTS, note=json.dumps({"coordination_messages": one.messages}))
        return [counts, *(addressed(REPAIR, envelope) for envelope in sent)]

    return stateless(COORDINATOR, process)
