"""The options of the paper's topology."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import check_choice, check_count

COORDINATIONS = ("hinge", "basic", "dr", "ir")


@dataclass(frozen=True, slots=True)
class PaperTopology:
    """How the paper's topology spreads the work.

    Attributes:
        detect_workers: The number of workers that share the cell groups.
        repair_workers: The number of workers that share the cells.
        coordination: How repair workers learn of each other's links: `hinge` (with the violations), `basic`,
            `dr` (from a coordinator), or `ir` (likewise, but a micro-batch late, which is not exact).
        top: The number of candidates that a repair worker proposes for a cell; None for all, which is exact.

    Raises:
        ConfigError: If one of them is wrong.
    """

    detect_workers: int = 2
    repair_workers: int = 2
    coordination: str = "hinge"
    top: int | None = None

    def __post_init__(self) -> None:
        check_count("detect_workers", self.detect_workers)
        check_count("repair_workers", self.repair_workers)
        check_choice("coordination", self.coordination, COORDINATIONS)
        if self.top is not None:
            check_count("top", self.top)
