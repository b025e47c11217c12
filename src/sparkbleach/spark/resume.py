"""What a checkpoint remembers of its stream, and how the stream resumes: what may change, what is refused.

Each lane, and the sequencer of the paper's topology, remembers its options in the head of its state store.
The command `sparkbleach clean` keeps more, in a file of the checkpoint directory (`cli/checkpoint.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from ..control.record import ControlRecord
from ..engine.engine import Engine
from ..engine.placement import Placement
from ..errors import ConfigError
from ..rules.update import RuleUpdate, difference
from .plan import Plan
from .rule_updates import AcceptsRules, Event, Events, PlacementChange, SchemaChange
from .state_store import Head

#: options that may change at a restart; a restart that changes another one is refused
_CHANGEABLE = {"rules", "updates", "control"}


def remembered_options(plan: Plan) -> dict[str, Any]:
    """Return the options and rules that a checkpoint remembers, as JSON values."""
    return {
        **plan.options.to_dict(),
        "rules": [rule.to_dict() for rule in plan.rules],
        "updates": [update.to_dict() for update in plan.updates],
        "control": plan.control,
        "lanes": plan.n_lanes,
        **({"topology": "paper", **asdict(plan.paper)} if plan.paper else {}),
    }


def check_options(made: Mapping[str, Any], given: Mapping[str, Any], checkpoint: str = "") -> None:
    """Check that no option is given now that differs from what a checkpoint was made with, and must not.

    The directory of the checkpoint is named in the error, if it is known here.
    """
    place = f"the checkpoint {checkpoint}".rstrip()
    # The first two decide what the defaults of others are.
    for option in dict.fromkeys(["topology", "lanes", *made, *given]):
        if option in _CHANGEABLE or made.get(option) == given.get(option):
            continue
        before, now = (_describe(option, options.get(option)) for options in (made, given))
        raise ConfigError(
            f"{option}: {place} was made with {before}, not with {now}; "
            f"go on with {before}, or begin with a new checkpoint"
        )


def resume(plan: Plan, head: Head, target: AcceptsRules, records: Iterable[ControlRecord]) -> Events:
    """Apply all that comes before the first tuple of a micro-batch to the target; return the events."""
    made = head.options
    check_options(made, remembered_options(plan))
    _check_past_updates(plan, head)
    events = Events(target, plan.updates, plan)
    rules = _rule_changes(plan, made, target)
    changes: list[Event] = [update for update in rules if update.op != "add"]
    if plan.schema != target.schema:
        changes.append(SchemaChange(target.position, plan.schema))
    for change in changes:
        events.apply(change)
    if isinstance(target, Engine):
        _adopt_placement(plan, target, events)
    for update in rules:  # may read a column that is new, on a lane that is new
        if update.op == "add":
            events.apply(update)
    if head.sequence == 0 or rules or changes or not made["control"]:
        events.note_start()
    events.apply_records(records)
    return events


def _check_past_updates(plan: Plan, head: Head) -> None:
    """Check that the rule updates which were scheduled for earlier positions are still the same."""
    before, now = (
        [update for update in updates if update["at"] < head.position]
        for updates in (head.options["updates"], remembered_options(plan)["updates"])
    )
    if before != now:
        raise ConfigError(
            f"rule updates: those before position {head.position}, where the stream is, differ from those "
            "that took effect; leave them as they were, and give new ones later positions"
        )


def _rule_changes(plan: Plan, made: Mapping[str, Any], target: AcceptsRules) -> list[RuleUpdate]:
    """Return the updates that make up for rules that are given differently now.

    Rules that are given as before stay as they are in the stream, where updates may have changed them.
    """
    before = {rule["id"]: rule for rule in made["rules"]}
    now = {rule.id: rule.to_dict() for rule in plan.rules}
    differ = {id for id in before | now if before.get(id) != now.get(id)}
    old, new = ([rule for rule in rules if rule.id in differ] for rules in (target.rules, plan.rules))
    return difference(old, new, target.position)


def _adopt_placement(plan: Plan, engine: Engine, events: Events) -> None:
    """Place attributes without a rule as they are given now."""
    if engine.share is None:
        return
    before = engine.share.placement
    with_rule = {rule.rhs for rule in engine.rules}
    after = before.changed(plan.placement, with_rule)
    for name in sorted(with_rule & plan.placement.attributes):
        joined = before.is_split(name) and not plan.placement.is_split(name)
        # With control each lane gets all columns, wherever an attribute is.
        if before.lanes_of(name) != plan.placement.lanes_of(name) and (joined or not plan.control):
            raise ConfigError(
                f"lanes: the checkpoint has {name!r} on {_lanes(before, name)}, and the rules given now "
                f"would have it on {_lanes(plan.placement, name)}; go on with lanes={after.to_lists()}, "
                "or begin with a new checkpoint"
            )
    if after != before:
        events.apply(PlacementChange(engine.position, after))


def _lanes(placement: Placement, attribute: str) -> str:
    return "lane " + " and ".join(map(str, placement.lanes_of(attribute)))


def _describe(option: str, value: Any) -> str:
    """Return the value of an option as an error names it."""
    if value is None:
        return f"no {option}"
    if not isinstance(value, list):
        return repr(value)
    size, slide, *column = value
    if column:
        size, slide = (timedelta(microseconds=length) for length in (size, slide))
        return f"a window of {size} by {column[0]}, sliding by {slide}"
    return f"{size} tuples sliding by {slide}"
