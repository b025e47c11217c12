"""The rule controller: changes the rules of a running stream, and shows what each change became."""

from __future__ import annotations

import os
import pwd
import socket
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import RuleError, RuleWarning
from ..rules.active import ActiveRules
from ..rules.check import warn_of_twins
from ..rules.rule import Rule, RuleLike, as_rule
from ..rules.trial import try_conditions
from ..rules.update import RuleUpdate, check_readable
from ..schema_text import schema_from_text
from .outcome import Outcome
from .rule_log import RuleLog, open_log


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """An active rule, and since when it is active."""

    rule: Rule  #: the rule
    since: int  #: the position from which on it is active, in its mode
    version: int  #: the version of the rule set that it came with
    withdrawn: bool = False  #: whether one of several lanes has withdrawn it: it waits to be deleted


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the history.

    Attributes:
        state: `published` (the stream has not read the update yet), `applied`, `refused`, `started`,
            `withdrawn` or `accepted`.
        what: The update in words.
        by: Who published the update.
        published: When it was published.
        number: The number of its control record.
        position: The position from which on the update is active, or at which the stream refused it.
        version: The version of the rule set afterwards.
        reason: Why the update was refused, or the rule withdrawn.
    """

    state: str
    what: str
    by: str | None
    published: str | None
    number: str | None
    position: int | None = None
    version: int | None = None
    reason: str | None = None


class RuleController:
    """Adds, deletes and promotes rules of a stream that was started with `clean(…, control=…)`.

    An update is checked before it is published, and again when the stream applies it. The condition of a rule
    is tried on made-up tuples, too.

    Args:
        target: The stream's rule log, or its target, as `open_log` takes it.
        by: Who makes the changes; the user that this process runs as, and the host, if not given.

    Raises:
        ConfigError: If the target cannot be that of a log.
    """

    def __init__(self, target: str | RuleLog, by: str | None = None) -> None:
        self.log = open_log(target) if isinstance(target, str) else target
        self.by = by or f"{_user()}@{socket.gethostname()}"

    def add(self, *rules: RuleLike) -> list[str]:
        """Add rules: all of them, or none if one is wrong; return the numbers of the control records.

        Raises:
            RuleError: If a rule is wrong, or its id is that of an active rule.
        """
        return self.publish(RuleUpdate(rule=as_rule(rule)) for rule in rules)

    def delete(self, id: str) -> str:
        """Delete a rule; return the number of the control record.

        Raises:
            RuleError: If no active rule has this id.
        """
        return self.publish([RuleUpdate(delete=id)])[0]

    def promote(self, id: str) -> str:
        """Make a shadow rule live, with its state; return the number of the control record.

        Raises:
            RuleError: If no active shadow rule has this id.
        """
        return self.publish([RuleUpdate(promote=id)])[0]

    def publish(self, updates: Iterable[RuleUpdate]) -> list[str]:
        """Publish updates, all or none; return the numbers of the control records.

        Before the stream has begun its schema is not known: then only the updates themselves are checked,
        with a warning that says so.

        Raises:
            RuleError: If the stream would refuse one of them.
        """
        updates = list(updates)
        active = self._active_rules()
        if active is None:
            warnings.warn(
                f"{self.log.target}: no stream has begun with this log, so columns and ids were not checked, "
                "and no condition was tried; look at the history once it runs",
                RuleWarning,
                stacklevel=3,
            )
        else:
            last = self._rule_outcomes()[-1]
            for update in updates:
                check_readable(update, active.schema, last.columns, last.id)
                changed = active.apply(update)
                if update.rule is not None:
                    try_conditions([changed.checked], active.schema)
                    warn_of_twins((one.checked for one in active), {update.id}, stacklevel=4)
        return [self.log.publish(update, self.by) for update in updates]

    def rules(self) -> list[RuleStatus]:
        """Return the active rules, earlier ones first."""
        found: dict[str, RuleStatus] = {}
        for outcome in self._rule_outcomes():
            before, found = found, {}
            for data in outcome.rules:
                rule = Rule.from_dict(data)
                found[rule.id] = _status(rule, outcome, before.get(rule.id))
            id = outcome.update["id"] if outcome.kind == "withdrawn" and outcome.update else None
            if id in found:
                found[id] = replace(found[id], withdrawn=True)
        return list(found.values())

    def history(self) -> list[Change]:
        """Return all changes in the order in which they came about; those not yet read come last."""
        outcomes = self.log.outcomes()
        done = {outcome.number for outcome in outcomes}
        waiting = [record for record in self.log.published() if record.number not in done]
        return [_as_change(outcome) for outcome in outcomes] + [
            Change(
                "published", str(record.update or record.problem), record.by, record.published, record.number
            )
            for record in waiting
        ]

    def _rule_outcomes(self) -> list[Outcome]:
        """Return the outcomes that say which rules are active."""
        return [outcome for outcome in self.log.outcomes() if outcome.kind != "accepted"]

    def _active_rules(self) -> ActiveRules | None:
        """Return the rules that will be active once all published records are read."""
        outcomes = self._rule_outcomes()
        if not outcomes:
            return None
        last = outcomes[-1]
        done = {outcome.number for outcome in outcomes}
        rules = [Rule.from_dict(rule) for rule in last.rules]
        active = ActiveRules(schema_from_text(last.schema), rules, last.id)
        for record in self.log.published():
            if record.number not in done and record.update is not None:
                try:
                    active.apply(record.update)
                except RuleError:
                    continue  # the stream will refuse it, too
        return active


def _user() -> str:
    """Return who this process runs as, whatever its environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _status(rule: Rule, outcome: Outcome, known: RuleStatus | None) -> RuleStatus:
    """Return what an outcome says of an active rule, and what was known of it before."""
    if known and known.rule == rule:
        return known
    stays_withdrawn = known is not None and known.withdrawn and known.rule.with_mode("live") == rule
    return RuleStatus(rule, outcome.position, outcome.version, stays_withdrawn)


def _as_change(outcome: Outcome) -> Change:
    if outcome.kind == "started":
        what = f"started with {', '.join(str(rule['id']) for rule in outcome.rules) or 'no rules'}"
    elif outcome.kind == "withdrawn" and outcome.update:
        what = str(outcome.update["id"])
    elif outcome.kind == "accepted":
        what = str(outcome).removeprefix("accepted: ")
    else:
        what = str(RuleUpdate.from_dict(outcome.update)) if outcome.update else "a record that is no update"
    return Change(
        state=outcome.kind,
        what=what,
        by=outcome.by,
        published=outcome.published,
        number=outcome.number,
        position=outcome.position,
        version=outcome.version,
        reason=f"its condition {outcome.reason}" if outcome.kind == "withdrawn" else outcome.reason,
    )
