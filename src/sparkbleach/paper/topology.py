"""The options of the paper's topology, and the routers and workers that they call for."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ..config import Window, check_choice, check_count, check_repair, check_windowing
from .coordinator import Coordinator
from .detect_worker import DetectWorker
from .egress_router import EgressRouter
from .ingress_router import IngressRouter
from .link_worker import LinkWorker
from .messages import Envelope
from .repair_worker import RepairWorker

COORDINATIONS = ("hinge", "basic", "dr", "ir")


class Worker(Protocol):
    """A worker with state: the same envelopes always lead it to the same state."""

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Take in the messages of a micro-batch."""

    def save(self) -> dict[str, pa.RecordBatch]:
        """Return all state, as record batches by name."""

    def load(self, saved: dict[str, pa.RecordBatch]) -> None:
        """Put saved state in place of this one."""


@dataclass(frozen=True)
class PaperTopology:
    """How the work is spread.

    Attributes:
        window: The window; None for none.
        windowing: `bleach` or `basic`.
        repair: `class` or `vote`.
        detect_workers: Over how many the groups are spread.
        repair_workers: Over how many the cells are spread.
        coordination: How repair workers learn of each other's links: `hinge` (with the violations), `basic`,
            `dr` (from a coordinator), or `ir` (likewise, but a micro-batch late).
        top: How many candidates a repair worker proposes; None for all, which is exact.

    Raises:
        ConfigError: If one of them is wrong.
    """

    window: Window | None
    windowing: str
    repair: str
    detect_workers: int = 2
    repair_workers: int = 2
    coordination: str = "hinge"
    top: int | None = None

    def __post_init__(self) -> None:
        check_windowing(self.windowing)
        check_repair(self.repair)
        check_count("detect_workers", self.detect_workers)
        check_count("repair_workers", self.repair_workers)
        check_choice("coordination", self.coordination, COORDINATIONS)
        if self.top is not None:
            check_count("top", self.top)

    @property
    def n_replicas(self) -> int:
        """How many workers with state there are."""
        return self.detect_workers + self.link_workers + self.repair_workers

    def spread(self) -> dict[str, int | str | None]:
        """Return what is special about this topology, by option: what the state of its workers depends on."""
        return {
            "topology": "paper",
            "detect_workers": self.detect_workers,
            "repair_workers": self.repair_workers,
            "coordination": self.coordination,
            "top": self.top,
        }

    @property
    def tells_hinges(self) -> bool:
        """Whether links come with the violations; `vote` counts over own groups, so that no link matters."""
        return self.repair != "vote" and self.coordination == "hinge"

    @property
    def link_workers(self) -> int:
        """How many link workers there are."""
        return 0 if self.repair == "vote" or self.coordination == "hinge" else self.repair_workers

    def ingress_router(self) -> IngressRouter:
        """Return an ingress router."""
        return IngressRouter(self.detect_workers, self.tells_hinges)

    def detect_worker(self) -> DetectWorker:
        """Return a detect worker with no state."""
        return DetectWorker(self.window, self.windowing, self.tells_hinges)

    def egress_router(self) -> EgressRouter:
        """Return an egress router."""
        return EgressRouter(self.repair_workers, self.tells_hinges)

    def link_worker(self) -> LinkWorker:
        """Return a link worker with no state."""
        return LinkWorker(self.window, self.windowing, self.coordination == "basic")

    def coordinator(self) -> Coordinator:
        """Return a coordinator."""
        return Coordinator(self.repair_workers)

    def repair_worker(self) -> RepairWorker:
        """Return a repair worker with no state."""
        return RepairWorker(self.window, self.windowing, self.repair, self.coordination == "ir", self.top)


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector away: workers make no cycles, and it would look at all their objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
