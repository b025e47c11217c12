"""The stages of the paper's topology, declared once; in_process.py and spark/paper/ run them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..config import Options
from .aggregator import Aggregator
from .coordinator import Coordinator
from .detect_worker import DetectWorker
from .egress_router import EgressRouter
from .ingress_router import IngressRouter
from .link_worker import LinkWorker
from .messages import (
    CELLS,
    CLAIMS,
    CLOCK,
    DECISIONS,
    LINKS,
    MERGES,
    PROPOSALS,
    REMOVED,
    SUB_TUPLES,
    TUPLES,
    VERDICTS,
    Clock,
    Envelope,
)
from .repair_worker import RepairWorker
from .topology import PaperTopology

INGRESS_ROUTER = "ingress router"
DETECT = "detect"
EGRESS_ROUTER = "egress router"
LINK = "link"
COORDINATOR = "coordinator"
REPAIR = "repair"
AGGREGATOR = "aggregator"
#: no stage: where decisions go
END = "end"


@dataclass(frozen=True)
class Stage:
    """A stage: its workers do the same, each with its own messages."""

    name: str  #: one of the names above
    make: Callable[[], Any]  #: returns a worker with no state
    sends: Mapping[str, str]  #: by kind of message: the stage that gets it
    #: whether its workers have state. If not, any number of them may share the attributes.
    has_state: bool = False
    workers: int = 1  #: the number of workers
    #: by kind of message that a worker gets: the stage whose worker of the same number gets it next
    forwards: Mapping[str, str] = field(default_factory=dict)
    #: returns the numbers of a worker that the report adds up
    counts: Callable[[Any], dict[str, int]] = lambda _: {}


Stages = Mapping[str, Stage]


def declare_stages(topology: PaperTopology, options: Options) -> Stages:
    """Return the stages by name, in the order in which a micro-batch runs through them."""
    window, windowing, repair = options.window, options.windowing, options.repair
    n = topology.repair_workers
    # To `vote`, which counts over the tuple's own groups, no link matters.
    sends_hinges = repair != "vote" and topology.coordination == "hinge"
    has_coordinator = repair != "vote" and topology.coordination != "hinge"
    first_half = LINK if has_coordinator else REPAIR
    stages = [
        Stage(
            INGRESS_ROUTER,
            partial(IngressRouter, topology.detect_workers, sends_hinges),
            sends={SUB_TUPLES: DETECT, TUPLES: EGRESS_ROUTER},
        ),
        Stage(
            DETECT,
            partial(DetectWorker, window, windowing, sends_hinges),
            sends={VERDICTS: EGRESS_ROUTER, REMOVED: EGRESS_ROUTER, LINKS: EGRESS_ROUTER},
            has_state=True,
            workers=topology.detect_workers,
        ),
        Stage(
            EGRESS_ROUTER,
            partial(EgressRouter, n, sends_hinges),
            sends={CELLS: first_half, REMOVED: first_half, LINKS: REPAIR, CLAIMS: AGGREGATOR},
        ),
        Stage(
            LINK,
            partial(LinkWorker, window, windowing, topology.coordination == "basic"),
            sends={MERGES: COORDINATOR},
            has_state=True,
            workers=n,
            forwards={CELLS: REPAIR, REMOVED: REPAIR},
        ),
        Stage(
            COORDINATOR,
            partial(Coordinator, n),
            sends={LINKS: REPAIR},
            counts=lambda coordinator: {"coordination_messages": coordinator.messages},
        ),
        Stage(
            REPAIR,
            partial(RepairWorker, window, windowing, repair, topology.coordination == "ir", topology.top),
            sends={PROPOSALS: AGGREGATOR},
            has_state=True,
            workers=n,
            counts=lambda worker: {"super_cells": worker.n_super_cells},
        ),
        Stage(AGGREGATOR, Aggregator, sends={DECISIONS: END}),
    ]
    absent = () if has_coordinator else (LINK, COORDINATOR)
    return {stage.name: stage for stage in stages if stage.name not in absent}


def clock_ticks(stages: Stages, clock: Clock) -> Iterator[tuple[str, Envelope]]:
    """Yield the clock of a micro-batch for every worker with state, with the name of its stage."""
    for stage in stages.values():
        if stage.has_state:
            for worker in range(stage.workers):
                yield stage.name, Envelope(CLOCK, worker, "", clock.to_batch())


@contextmanager
def paused_garbage_collector() -> Iterator[None]:
    """Pause the garbage collector: workers make no cycles, and it would look at all their objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
