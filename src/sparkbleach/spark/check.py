"""What `clean` checks before anything runs: topology, control, rules and lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from ..config import Options, OptionValues, check_choice, lane_options
from ..engine.check import check_stream
from ..engine.placement import Placement
from ..errors import ConfigError, RuleError
from ..paper.sequencer import Sequencer
from ..paper.topology import PaperTopology, paper_options
from ..rules.active import ActiveRules
from ..rules.check import CheckedRule, warn_of_twins
from ..rules.rule import RuleLike
from ..rules.update import RuleUpdate, sort_updates
from .compat import arrow_schema
from .files.quarantine import TEXT_FORMAT
from .files.record_text import RECORD
from .lanes import Lanes, choose_placement
from .plan import CONTROL, QUARANTINE, REPAIRS

TOPOLOGIES = ("fused", "paper")


def paper_topology(df: DataFrame, topology: str | PaperTopology) -> PaperTopology | None:
    """Return the paper's topology that is asked for; None for the fused one."""
    if isinstance(topology, str):
        if check_choice("topology", topology, TOPOLOGIES) == "fused":
            return None
        topology = PaperTopology()
    if not isinstance(topology, PaperTopology):
        raise ConfigError(
            f"topology: must be 'fused', 'paper' or a PaperTopology, not {type(topology).__name__}"
        )
    if not df.isStreaming:
        raise ConfigError(
            "topology: 'paper' is for streaming DataFrames; clean a static one with topology='fused', "
            "which gives the same rows"
        )
    return topology


def choose_options(
    given: OptionValues, *, n_lanes: int, topology: str | PaperTopology | None = None
) -> Options:
    """Return how rows are cleaned: what is given, and the defaults of the lanes and of the topology."""
    if topology in (None, "fused"):
        return lane_options(given, n_lanes)
    if n_lanes > 1:
        raise ConfigError("lanes: must be 1 with topology='paper'; they are for the fused topology")
    return paper_options(given)


def check_control(df: DataFrame, control: DataFrame | None) -> None:
    """Check that control records can be read with a DataFrame."""
    if control is None:
        return
    if not (df.isStreaming and control.isStreaming):
        raise ConfigError(
            "control: rules can change only while a stream runs, so both DataFrames have to be streaming; "
            "give rule_updates instead"
        )
    if [(field.name, field.dataType) for field in control.schema] != [
        (name, StringType()) for name in ("number", "value")
    ]:
        raise ConfigError(
            f"control: its columns are {control.schema.simpleString()}; "
            "select number and value, both as strings, or give what read_control returns"
        )


def check_names(df: DataFrame) -> None:
    """Check that no column has a name of those that are added to clean rows."""
    for field in df.schema:
        is_text = field.name == RECORD and TEXT_FORMAT in field.metadata
        if field.name.lower() in (REPAIRS, QUARANTINE, CONTROL, RECORD) and not is_text:
            raise ConfigError(
                f"schema: {field.name!r} is a name of a column that is added to clean rows; rename the column"
            )


def check_rules(
    active: ActiveRules, updates: Sequence[RuleUpdate], *, paper: bool = False, warn: bool = False
) -> tuple[list[CheckedRule], Counter[str]]:
    """Apply all updates to the rules; return those active at any time, and by attribute how many at the most.

    With `warn`, rules that say the same thing are warned of, at the line that calls the caller.
    """
    apply: Callable[[RuleUpdate], object] = Sequencer(active).change_rules if paper else active.apply
    checked = {one.serial: one.checked for one in active}
    if warn:
        warn_of_twins(checked.values(), stacklevel=4)
    n_rules = Counter(rule.rhs for rule in active.rules)
    for update in updates:
        try:
            apply(update)
        except RuleError as error:
            raise RuleError(f"{update.place}: {error}") from error
        checked |= {one.serial: one.checked for one in active}
        if warn and update.rule is not None:
            warn_of_twins((one.checked for one in active), {update.id}, stacklevel=4)
        n_rules |= Counter(rule.rhs for rule in active.rules)
    return list(checked.values()), n_rules


def place_attributes(
    df: DataFrame,
    rules: Iterable[RuleLike],
    *,
    rule_updates: Iterable[RuleUpdate | Mapping[str, Any]] = (),
    lanes: Lanes = 1,
) -> Placement:
    """Return which lane has which attributes if `clean` is called like this."""
    schema = arrow_schema(df.schema)
    _, n_rules = check_rules(check_stream(schema, rules), sort_updates(rule_updates))
    return choose_placement(lanes, n_rules, schema)
