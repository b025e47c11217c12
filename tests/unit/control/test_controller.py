"""The rule controller warns of what its user adds, and of nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import Rule, RuleController, RuleError, RuleWarning, SparkbleachError
from sparkbleach.control.outcome import Outcome
from sparkbleach.control.rule_log import DirectoryLog
from sparkbleach.schema_text import schema_to_text

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.string())])


def controller(directory: Path, *rules: Rule) -> RuleController:
    """Return the controller of a stream that has started with these rules."""
    log = DirectoryLog(directory)
    log.create()
    rules_now = [rule.to_dict() for rule in rules]
    log.record(0, [Outcome(0, "started", 0, 1, rules_now, schema_to_text(SCHEMA), SCHEMA.names, "id")])
    return RuleController(log)


def test_a_twin_warns_once_where_it_is_added(tmp_path: Path) -> None:
    """Rules that are active, or on their way, do not warn again with each update."""
    control = controller(tmp_path, Rule("a", "k", "v"), Rule("b", "k", "v"))
    with pytest.warns(RuleWarning, match="'a' and 'c' say the same thing") as caught:
        control.add(Rule("c", "k", "v"))
    assert [warning.filename for warning in caught] == [__file__]
    control.delete("a")
    control.add("id -> v")


def test_what_the_stream_would_refuse_is_not_published(tmp_path: Path) -> None:
    """An update is checked against the rules that will be active when the stream reads it."""
    control = controller(tmp_path, Rule("a", "k", "v"))
    control.delete("a")
    with pytest.raises(RuleError, match="'a': cannot be deleted, no active rule has this id"):
        control.delete("a")
    with pytest.raises(RuleError, match="'r', rhs: 'id' is the id of the tuples"):
        control.add(Rule("b", "k", "v"), Rule("r", "k", "id"))
    assert [str(change.what) for change in control.history()[1:]] == ["delete a"]


def test_an_accepted_change_is_history(tmp_path: Path) -> None:
    """The history shows it; the rules are still those of the last outcome that is about rules."""
    control = controller(tmp_path, Rule("a", "k", "v"))
    text = "accepted: k=1, v x → y after 10 confirmations"
    control.log.record(1, [Outcome(0, "accepted", 7, 1, [], "", [], "id", accepted={"rule": "a"}, text=text)])
    assert [str(one.rule.id) for one in control.rules()] == ["a"]
    control.delete("a")
    change = control.history()[1]
    assert (change.state, change.what, change.position) == ("accepted", text.removeprefix("accepted: "), 7)


def test_a_damaged_outcome_is_named(tmp_path: Path) -> None:
    """An outcome that is cut off, or is not one, is an error with its file, its line and the remedy."""
    control = controller(tmp_path, Rule("a", "k", "v"))
    (path,) = (tmp_path / "_outcomes").iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:50], b"[]", b'{"index": 0}', b"\xff"):
        path.write_bytes(whole + damaged)
        with pytest.raises(SparkbleachError, match=f"^{path}:2: this outcome is damaged; restore it from a"):
            control.history()


def test_a_condition_that_needs_too_much_is_not_published(tmp_path: Path) -> None:
    """A rule is tried on made-up tuples of the stream's schema before it is published."""
    control = controller(tmp_path)
    with pytest.raises(RuleError, match="rule 'r', when: tried on made-up tuples, it needs more than"):
        control.add("r: k -> v WHERE len(range(length(v) * 4000000000)) > 0")
    assert len(control.history()) == 1
    control.add("r: k -> v WHERE length(v) > 3")


def test_a_withdrawn_rule_is_history(tmp_path: Path) -> None:
    """The history says why a rule was withdrawn; it is not active, and can be added again."""
    control = controller(tmp_path, Rule("a", "k", "v"), Rule("b", "k", "v"))
    left, schema = [Rule("b", "k", "v").to_dict()], schema_to_text(SCHEMA)
    update = {"at": 7, "op": "delete", "id": "a"}
    outcome = Outcome(0, "withdrawn", 7, 2, left, schema, SCHEMA.names, "id", update=update, reason="is slow")
    control.log.record(1, [outcome])
    change = control.history()[1]
    assert (change.state, change.what, change.position) == ("withdrawn", "a", 7)
    assert change.reason == "its condition is slow"
    assert [one.rule.id for one in control.rules()] == ["b"]
    control.add("a: k -> v WHERE v <> ''")


def test_a_rule_that_a_lane_has_withdrawn_waits_to_be_deleted(tmp_path: Path) -> None:
    """It is shown as withdrawn, also when it is promoted; its id is free once it is deleted."""
    shadow = Rule("a", "k", "v", mode="shadow")
    control = controller(tmp_path, shadow, Rule("b", "k", "v"))
    schema = schema_to_text(SCHEMA)

    def outcome(kind: str, update: dict[str, Any], *rules: Rule) -> Outcome:
        active = [rule.to_dict() for rule in rules]
        return Outcome(0, kind, 7, 1, active, schema, SCHEMA.names, "id", update=update, reason="is slow")

    b = Rule("b", "k", "v")
    control.log.record(1, [outcome("withdrawn", {"at": 7, "op": "delete", "id": "a"}, shadow, b)])
    assert [(one.rule.id, one.withdrawn) for one in control.rules()] == [("a", True), ("b", False)]
    promoted = shadow.with_mode("live")
    control.log.record(2, [outcome("applied", {"op": "promote", "id": "a"}, promoted, b)])
    assert [one.withdrawn for one in control.rules()] == [True, False]
    with pytest.raises(RuleError, match="'a'"):
        control.add("a: k -> v")
    control.log.record(3, [outcome("applied", {"op": "delete", "id": "a"}, b)])
    control.log.record(4, [outcome("applied", {"op": "add", "rule": promoted.to_dict()}, b, promoted)])
    assert [(one.rule.id, one.withdrawn) for one in control.rules()] == [("b", False), ("a", False)]
