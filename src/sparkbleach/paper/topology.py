"""The options of the paper's topology."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Window, check_choice, check_count
from ..errors import ConfigError

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


def check_counted(window: Window | None) -> None:
    """Check that a window is counted in tuples: workers know the panes from positions."""
    if window is not None and window.column is not None:
        raise ConfigError("window: the paper's topology has windows in tuples only; give Window.tuples(…)")
