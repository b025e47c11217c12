"""A truth that changes: after enough confirmations another value is right."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import ConfigError, Engine, Window
from sparkbleach.engine.acceptance import Acceptance

SCHEMA = pa.schema([("a", pa.int64()), ("z", pa.int64()), ("b", pa.string())])
WINDOWS = pytest.mark.parametrize("window", [None, Window.tuples(100, slide=50)])
REPAIRS = pytest.mark.parametrize("repair", ["class", "vote"])
WINDOWINGS = pytest.mark.parametrize("windowing", ["bleach", "basic"])


def run(engine: Engine, *tuples: tuple[int | None, int | None, str]) -> tuple[str, list[dict[str, Any]]]:
    """Clean tuples; return the values of b, and the audit."""
    rows = [dict(zip(SCHEMA.names, one, strict=True)) for one in tuples]
    clean, audit = engine.process(pa.RecordBatch.from_pylist(rows, SCHEMA))
    return "".join(clean.column("b").to_pylist()), audit.to_pylist()


def candidates(row: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the candidates of an audit row."""
    return [(one["value"], one["count"]) for one in row["candidates"]]


@WINDOWS
@REPAIRS
@WINDOWINGS
@pytest.mark.parametrize("rules", [["a -> b"], ["a -> b", "z -> b"]])
class TestOneKey:
    """All tuples have the same key in each rule."""

    def clean(self, values: str, rules: list[str], options: dict[str, Any]) -> tuple[str, list[Acceptance]]:
        """Clean cells of one group with a threshold of 2; return the clean ones and what was accepted."""
        engine = Engine(SCHEMA, rules, accept_after=2, **options)
        cleaned, _ = run(engine, *((1, 1, value) for value in values))
        return cleaned, engine.take_accepted()

    def test_a_change_is_accepted(
        self, rules: list[str], windowing: str, repair: str, window: Window | None
    ) -> None:
        """The second y in a row settles it: it stays, and an x after it is wrong."""
        options = {"windowing": windowing, "repair": repair, "window": window}
        cleaned, accepted = self.clean("xxxyyx", rules, options)
        assert cleaned == "xxxxyy"
        key: dict[str, dict[str, str | None]] = {"a -> b": {"a": "1"}, "z -> b": {"z": "1"}}
        assert accepted == [Acceptance(rule, key[rule], "b", "x", "y", 4, 2) for rule in rules]

    def test_the_truth_sets_a_challenger_back(
        self, rules: list[str], windowing: str, repair: str, window: Window | None
    ) -> None:
        """An x between two y takes the lead from y."""
        options = {"windowing": windowing, "repair": repair, "window": window}
        assert self.clean("xxxxyxy", rules, options) == ("xxxxxxx", [])

    def test_nothing_was_established(
        self, rules: list[str], windowing: str, repair: str, window: Window | None
    ) -> None:
        """After a single x, y is held without further ado, and counts decide; then y is established."""
        options = {"windowing": windowing, "repair": repair, "window": window}
        cleaned, accepted = self.clean("xyyzz", rules, options)
        assert cleaned == "xyyyz"
        assert [(one.old, one.new, one.position) for one in accepted] == [("y", "z", 4)] * len(rules)

    def test_challengers_take_each_other_back(
        self, rules: list[str], windowing: str, repair: str, window: Window | None
    ) -> None:
        """A z takes the lead from y, so that the next y begins anew."""
        options = {"windowing": windowing, "repair": repair, "window": window}
        assert self.clean("xxxxyzy", rules, options) == ("xxxxxxx", [])


class TestIntersectingRules:
    """Rules a -> b and z -> b: the key of a changes, and shares cells with a key of z."""

    TUPLES = ((1, 1, "x"), (1, 1, "x"), (1, 2, "y"), (1, 2, "y"), (None, 2, "q"))

    def test_removed_at_once(self) -> None:
        """Without a window the retired group is gone: q is in a subgraph of its own group."""
        engine = Engine(SCHEMA, ["a -> b", "z -> b"], accept_after=2, window=None, repair="class")
        cleaned, audit = run(engine, *self.TUPLES)
        assert cleaned == "xxxyy"
        assert candidates(audit[-1]) == [("y", 3), ("q", 1)]
        assert audit[-1]["groups"] == 1
        (accepted,) = engine.take_accepted()
        assert (accepted.rule, accepted.position) == ("a -> b", 3)
        assert engine.take_accepted() == []

    def test_removed_at_the_next_slide(self) -> None:
        """With a window it links and counts until the window slides, and then no more."""
        engine = Engine(
            SCHEMA, ["a -> b", "z -> b"], accept_after=2, window=Window.tuples(12, slide=6), repair="class"
        )
        cleaned, audit = run(engine, *self.TUPLES)
        assert cleaned == "xxxyy"
        assert candidates(audit[-1]) == [("y", 3), ("x", 2), ("q", 1)]
        assert audit[-1]["groups"] == 2
        _, audit = run(engine, (3, None, "n"), (None, 2, "r"))
        assert candidates(audit[-1]) == [("y", 3), ("q", 1), ("r", 1)]
        assert audit[-1]["groups"] == 1

    def test_vote(self) -> None:
        """With votes it leaves the graph at once."""
        engine = Engine(SCHEMA, ["a -> b", "z -> b"], accept_after=2, repair="vote")
        _, audit = run(engine, *self.TUPLES)
        assert candidates(audit[-1]) == [("y", 3), ("q", 1)]


def test_text() -> None:
    """One line describes an accepted change."""
    accepted = Acceptance("r", {"customer": "20"}, "email", "a@x", "b@x", 7, 10)
    assert str(accepted) == "accepted: customer=20, email a@x → b@x after 10 confirmations"


def test_ten_is_the_default() -> None:
    """The tenth confirmation is accepted, if the old value was seen ten times."""
    engine = Engine(SCHEMA, ["a -> b"], repair="class")
    cleaned, _ = run(engine, *((1, None, value) for value in 19 * "x" + 11 * "y"))
    assert cleaned == 28 * "x" + "yy"


def test_an_established_truth_takes_more() -> None:
    """From sixteen times the threshold on, two more confirmations are needed each time that that doubles."""
    engine = Engine(SCHEMA, ["a -> b"], repair="class")
    cleaned, _ = run(engine, *((1, None, value) for value in 165 * "x" + 13 * "y"))
    assert cleaned == (165 + 11) * "x" + "yy"


def test_never() -> None:
    """With None counts alone decide."""
    engine = Engine(SCHEMA, ["a -> b"], accept_after=None, repair="class")
    cleaned, _ = run(engine, *((1, None, value) for value in 20 * "x" + 19 * "y"))
    assert cleaned == 39 * "x"
    assert engine.take_accepted() == []


@pytest.mark.parametrize("accept_after", [0, 1, -3, True, "10", 30_001])
def test_threshold_is_checked(accept_after: Any) -> None:
    """It is an integer of 2 or more."""
    with pytest.raises(ConfigError, match=r"accept_after: .* must be an integer from 2"):
        Engine(SCHEMA, ["a -> b"], accept_after=accept_after)


def test_a_shadow_rule_reports_no_change() -> None:
    """What a shadow rule accepts is for itself; what a live one accepts is reported once."""
    engine = Engine(SCHEMA, ["a -> b", {"id": "s", "lhs": "z", "rhs": "b", "mode": "shadow"}], accept_after=2)
    run(engine, *((1, 1, value) for value in "xxxyy"))
    assert [one.rule for one in engine.take_accepted()] == ["a -> b"]
