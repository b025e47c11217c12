"""The options of the paper's topology."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import COUNTING_REPAIRS, Options, OptionValues, Window, check_choice, check_count
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


def paper_options(given: OptionValues) -> Options:
    """Return the options of a stream in the paper's topology, whose defaults follow the paper's letter."""
    if given.get("accept_after") is not None:
        raise ConfigError(
            "accept_after: the paper's topology accepts no new truths; "
            "leave it out, or choose topology='fused'"
        )
    if given.get("remember") is not None:
        raise ConfigError(
            "remember: the paper's topology keeps counts for ever; leave it out, or choose topology='fused'"
        )
    window = given.get("window")
    if isinstance(window, Window) and window.column is not None:
        raise ConfigError(
            "window: the paper's topology has windows in tuples only; "
            "give Window.tuples(…), or choose topology='fused'"
        )
    values: OptionValues = {"repair": "class", **given, "accept_after": None, "remember": None}
    chosen = Options(**values)
    if chosen.repair not in COUNTING_REPAIRS:
        raise ConfigError(
            f"repair: {chosen.repair!r} is not for the paper's topology; "
            f"choose one of {', '.join(COUNTING_REPAIRS)}, or topology='fused'"
        )
    return chosen
