"""Rule updates, control records and the log in a directory."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import ConfigError, Rule, RuleError, RuleUpdate, SparkbleachError, open_log
from sparkbleach.control.outcome import Outcome
from sparkbleach.control.record import ControlRecord, record_text
from sparkbleach.control.rule_log import DirectoryLog
from sparkbleach.rules.update import difference, sort_updates

RULE = Rule("r", "a", "b", when="a > 1", nulls="fill")
STRANGE = Rule("line\u2028break\x85", "a", "b")  # both end a line, for some
UPDATES = [
    RuleUpdate(rule=RULE),
    RuleUpdate(rule=RULE.with_mode("shadow")),
    RuleUpdate(delete="r"),
    RuleUpdate(promote="r"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=8,
)
OPERATIONS = st.sampled_from([{}, {"op": "add"}, {"op": "delete"}, {"op": "promote"}])
KEYS = st.sampled_from(["id", "rule", "by", "at", "published"])
RECORDS = st.one_of(
    st.text(),
    JSON.map(json.dumps),
    st.builds(lambda op, rest: json.dumps(op | rest), OPERATIONS, st.dictionaries(KEYS, JSON)),
)


def outcome(index: int, kind: str = "applied") -> Outcome:
    """Return an outcome."""
    return Outcome(
        index, kind, 7, 2, [RULE.to_dict()], "", ["a", "b"], "id", "1", {"op": "delete", "id": "r"}
    )


class TestRuleUpdate:
    """What an update says."""

    @pytest.mark.parametrize("at", [None, 0, 12])
    @pytest.mark.parametrize("update", UPDATES)
    def test_there_and_back(self, update: RuleUpdate, at: int | None) -> None:
        """An update survives JSON; a live one has no position in it."""
        placed = RuleUpdate(at, update.rule, update.delete, update.promote)
        data = json.loads(json.dumps(placed.to_dict()))
        assert ("at" in data) == (at is not None)
        assert RuleUpdate.from_dict(data) == placed

    def test_in_words(self) -> None:
        """An update is described in a line."""
        assert [str(update) for update in UPDATES] == [
            "add r: a -> b WHERE a > 1",
            "add shadow r: a -> b WHERE a > 1",
            "delete r",
            "promote r",
        ]

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            ([], "not an object"),
            ({"op": "drop", "id": "r"}, "write add, delete or promote"),
            ({"op": "delete"}, "delete needs exactly op and id"),
            ({"op": "delete", "id": "r", "rule": "a -> b"}, "delete needs exactly op and id"),
            ({"op": "promote", "id": 3}, "3 is not a text"),
            ({"op": "delete", "id": "\ud800"}, "rule update, id: .* half of a character; write whole"),
            ({"op": "delete", "\ud800": 1}, r"it has 'op', '\\ud800'; delete needs"),
            ({"op": "add", "rule": 3}, "3 is not a rule"),
            ({"op": "add", "rule": "a -> b", "at": None}, "at: it is null"),
            ({"op": "add", "rule": "a -> b", "at": -1}, "-1 is not a position"),
            ({"op": "add", "rule": {"id": "r", "lhs": ["a"], "rhs": "b", "mode": "dark"}}, "live or shadow"),
        ],
    )
    def test_what_is_wrong(self, data: Any, problem: str) -> None:
        """A wrong update is refused with a remedy."""
        with pytest.raises(RuleError, match=problem):
            RuleUpdate.from_dict(data)

    def test_one_thing_at_a_time(self) -> None:
        """An update is about one rule; a scheduled one has a position."""
        for wrong in ({}, {"rule": RULE, "delete": "r"}, {"promote": "r", "delete": "r"}):
            with pytest.raises(RuleError, match="give either a rule to add"):
                RuleUpdate(3, **wrong)
        with pytest.raises(RuleError, match="it has no position"):
            sort_updates([{"op": "delete", "id": "r"}])


def test_the_difference_of_two_sets_of_rules() -> None:
    """A rule that changed goes and comes; one that only left the shadow is promoted."""
    old = [Rule("a", "x", "y"), Rule("b", "x", "y", mode="shadow"), Rule("c", "x", "z"), Rule("d", "y", "z")]
    new = [Rule("b", "x", "y"), Rule("c", "x", "z", mode="shadow"), Rule("d", "y", "z"), Rule("e", "z", "y")]
    assert [str(update) for update in difference(old, new, 5)] == [
        "promote b",
        "delete a",
        "delete c",
        "add shadow c: x -> z",
        "add e: z -> y",
    ]
    assert difference(new, new, 5) == []


class TestControlRecord:
    """What comes to the stream."""

    @given(RECORDS)
    def test_anything_can_be_read(self, text: str) -> None:
        """Whatever a record is, it is an update or has a problem; nothing is raised."""
        record = ControlRecord.read("1", text)
        assert (record.update is None) == (record.problem is not None)

    @pytest.mark.parametrize("text", ["", None, "[" * 100_000, "9" * 5_000, '{"op": "delete"', "null"])
    def test_what_cannot_be_read(self, text: str | None) -> None:
        """What is no update has a problem in words."""
        assert "control record: " in str(ControlRecord.read("1", text).problem)

    def test_a_position(self) -> None:
        """A live update has no position."""
        record = ControlRecord.read("1", '{"op": "delete", "id": "r", "at": 5, "by": "me"}')
        assert "leave at out" in str(record.problem)
        assert record.by == "me"

    @pytest.mark.parametrize("key", ["by", "published"])
    def test_half_of_a_character(self, key: str) -> None:
        """A record whose origin is not valid Unicode is refused, and can be shown; nobody publishes one."""
        record = ControlRecord.read("1", json.dumps({"op": "delete", "id": "r", key: "\ud800!"}))
        assert "half of a character" in str(record.problem)
        assert getattr(record, key) == "?!"
        with pytest.raises(RuleError, match="half of a character"):
            record_text(UPDATES[0], "\udcff")

    @pytest.mark.parametrize("update", UPDATES)
    def test_what_was_published(self, update: RuleUpdate) -> None:
        """A published update is read as it was, with who and when."""
        record = ControlRecord.read("7", record_text(update, "ann"))
        assert (record.update, record.by, record.number) == (update, "ann", "7")
        assert str(record.published).endswith("+00:00")


class TestDirectoryLog:
    """The log in a directory."""

    def test_numbers_are_distinct(self, tmp_path: Path) -> None:
        """Of many that publish at a time, each gets a number of its own, and nothing else is left behind."""
        log = DirectoryLog(tmp_path / "log")
        with ThreadPoolExecutor(8) as pool:
            numbers = list(pool.map(lambda n: log.publish(RuleUpdate(delete=f"r{n}"), "me"), range(40)))
        assert sorted(numbers) == [f"{n:08}" for n in range(1, 41)]
        assert {record.number: record.update for record in log.published()} == {
            number: RuleUpdate(delete=f"r{n}") for n, number in enumerate(numbers)
        }
        files = list((tmp_path / "log").iterdir())
        assert len(files) == 40
        assert not any(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) for path in files)

    def test_outcomes_of_a_batch_are_there_once(self, tmp_path: Path) -> None:
        """A micro-batch that is written again replaces what it wrote before."""
        log = DirectoryLog(tmp_path)
        assert log.outcomes() == []
        log.record(10, [outcome(0), outcome(1)])
        log.record(9, [outcome(0, "started")])
        assert [one.kind for one in log.outcomes()] == ["started", "applied", "applied"]
        log.record(10, [outcome(0, "refused")])
        assert log.outcomes() == [outcome(0, "started"), outcome(0, "refused")]
        log.record(10, [])
        log.record(11, [])
        assert log.outcomes() == [outcome(0, "started")]
        assert log.published() == []

    def test_outcomes_with_half_of_a_character(self, tmp_path: Path) -> None:
        """Outcomes of the time when such texts were applied are read; other texts stay as they are."""
        log = DirectoryLog(tmp_path)
        rule = {"id": "\ud800é😀", "lhs": ["a"], "rhs": "b"}
        before = outcome(0)
        log.record(1, [replace(before, update={"op": "add", "rule": rule}, by="\udfff"), before])
        read, after = log.outcomes()
        assert str(read).startswith('applied: add "?é😀": a -> b;')
        assert read.by == "?"
        assert after == before

    def test_targets(self, tmp_path: Path) -> None:
        """A target is a directory, with or without a scheme."""
        assert open_log(f"file://{tmp_path}").target == open_log(str(tmp_path)).target == str(tmp_path)
        with pytest.raises(ConfigError, match="unknown scheme 's3'"):
            open_log("s3://there/rules")
        (tmp_path / "file").write_text("")
        with pytest.raises(SparkbleachError, match=r"cannot be written \(Not a directory\)"):
            open_log(str(tmp_path / "file" / "below")).publish(RuleUpdate(delete="r"), "me")
