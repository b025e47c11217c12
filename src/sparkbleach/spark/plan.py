"""The options of a cleaning as all stages need them: made once on the driver, sent to the workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from ..config import Options
from ..engine.placement import ONE_LANE, Placement
from ..paper.topology import PaperTopology
from ..rules.rule import Rule
from ..rules.update import RuleUpdate
from .lanes import spread_keys
from .limits import DEFAULT_LIMITS, Limits

#: the column of a cleaned DataFrame that says what was changed in the row, and why
REPAIRS = "_repairs"
#: the column that says why a row is quarantined
QUARANTINE = "_quarantine"
#: the column that says what became of a rule update; such a row has no data
CONTROL = "_control"


@dataclass(frozen=True)
class Plan:
    """The options of a cleaning."""

    schema: pa.Schema  #: of the rows, in Arrow's types
    id: str  #: the id column
    rules: tuple[Rule, ...]  #: the rules at the start
    updates: tuple[RuleUpdate, ...]  #: rule updates that take effect before the tuple at their position
    #: the columns that say in which order the rows of a micro-batch come; none for source order
    order_by: tuple[str, ...]
    #: the columns that go to the engine, in the order of the schema; those of `order_by` last. With
    #: `quarantine` no rule reads a column of `order_by`: a quarantined row keeps nothing else.
    cells: tuple[str, ...]
    options: Options  #: how the rows are cleaned, beside the rules
    audit: bool  #: whether the output has the column `_repairs`
    quarantine: bool  #: whether rows without an id or with unreadable text are quarantined
    control: bool  #: whether control records are read, and the output has the column `_control`
    unreadable: str | None  #: the column with the text of records that could not be read, if there is one
    limits: Limits = DEFAULT_LIMITS  #: how much is done at once
    #: how the work is spread in the paper's topology; None for the fused one
    paper: PaperTopology | None = None
    placement: Placement = ONE_LANE  #: which lane has which attributes
    #: by lane: which of the cells it gets; all if there is one lane
    lane_cells: tuple[tuple[str, ...], ...] = ()

    @property
    def readable(self) -> tuple[str, ...]:
        """The columns that a rule may read that is added later."""
        return tuple(name for name in self.cells if name in self.schema.names)

    @property
    def n_lanes(self) -> int:
        """The number of lanes."""
        return len(self.placement.lanes)

    @property
    def keys(self) -> tuple[int, ...]:
        """By lane: the key of its rows."""
        return spread_keys(self.n_lanes)

    def cells_for(self, lane: int) -> tuple[str, ...]:
        """Return the columns that go to a lane."""
        return self.lane_cells[lane] if self.n_lanes > 1 else self.cells

    def carries(self, lane: int) -> bool:
        """Return whether a lane sends its cells on: the lanes before it do not have all of them."""
        before = {name for earlier in range(lane) for name in self.cells_for(earlier)}
        return lane == 0 or not before.issuperset(self.cells_for(lane))


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a name for a column of ours that is none of those that are taken."""
    lower = {other.lower() for other in taken}
    while name in lower:
        name = f"_{name}"
    return name


def quoted(name: str) -> str:
    """Return the name of a column quoted, so that Spark sees no dots in it."""
    return "`" + name.replace("`", "``") + "`"
