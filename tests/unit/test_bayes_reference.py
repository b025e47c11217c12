"""The reference of `repair: bayes` does what its text says, on streams that can be followed by hand."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from sparkbleach.evaluate.tables import real_table
from tests.naive.bayes import BayesReference, BayesRepair
from tests.naive.reference import NaiveRule

DEFAULTS: dict[str, Any] = {
    "window": None,
    "windowing": "bleach",
    "remember": None,
    "accept_after": None,
    "look_ahead": 1000,
    "confidence": 0.6,
    "trust": None,
    "implied": False,
    "left": "flag",
    "id": None,
}
PLACES = ("zip", "city", "state", "phone")
BIRMINGHAM = ("35233", "birmingham", "al", "2053258100")
BOAZ = ("35957", "boaz", "al", "2565938310")


@pytest.fixture
def every_fourth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample every fourth tuple, as the prototype does, whose numbers these are."""
    monkeypatch.setattr("tests.naive.bayes.is_sampled", lambda position: position % 4 == 0)


def reference(attributes: str, *rules: NaiveRule, **options: Any) -> BayesReference:
    """Return a reference with the default options."""
    return BayesReference(attributes.split(), rules, **{**DEFAULTS, **options})


def tuples(attributes: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return tuples with these attributes."""
    return [dict(zip(attributes.split(), row, strict=True)) for row in rows]


def gain(repair: BayesRepair) -> float:
    """Return the gain that a confidence is from."""
    return log(repair.confidence / (1 - repair.confidence))


def group(reference: BayesReference, *x: Any) -> dict[Any, int]:
    """Return the counts of a group of the first rule."""
    return dict(reference.live.user[0].groups[x].counts.c)


@pytest.mark.usefixtures("every_fourth")
def test_worked_example() -> None:
    """A typo, a wrong key, a null key and a null right side are repaired, with the gains of the text."""
    names = " ".join(PLACES)
    rules = [("r0", "zip", "city"), ("r1", "zip", "state"), ("r2", "phone", "zip")]
    cleaner = reference(names, *(NaiveRule(id, (x,), a, fill=True) for id, x, a in rules))
    cleaner.due = 11  # the numbers are those after a refresh
    rows = tuples(
        names,
        *[BIRMINGHAM] * 4,
        ("35233", "birminghxm", *BIRMINGHAM[2:]),
        *[BOAZ] * 3,
        ("35957", *BIRMINGHAM[1:]),
        (None, *BOAZ[1:]),
        ("35957", None, *BOAZ[2:]),
    )
    clean, repairs, accepted = cleaner.process_batch(rows)
    assert [(r.position, r.attribute, r.new) for r in repairs] == [
        (4, "city", "birmingham"),
        (8, "zip", "35233"),
        (9, "zip", "35957"),
        (10, "city", "boaz"),
    ]
    assert [gain(r) for r in repairs] == pytest.approx([3.3203, 5.7631, 4.9836, 2.2595], abs=1e-4)
    assert repairs[0].confidence == pytest.approx(0.965, abs=1e-3)
    expected = {"city": 0.103448, "state": 0.033333, "zip": 0.066667, "phone": 0.05}
    assert cleaner.error_rates == pytest.approx(expected, abs=1e-6)
    assert [cleaner.trust_of(f"r{i}") for i in range(3)] == pytest.approx([0.98, 0.985, 0.98125])
    assert all(r.applied and r.step == 1 and r.decided_by == "probability" for r in repairs)
    assert repairs[1].rules == ("r2",)
    assert clean[8] == {**rows[8], "zip": "35233"}
    assert accepted == []
    assert cleaner.violations == {"r0": 3, "r2": 2}


@pytest.mark.usefixtures("every_fourth")
@pytest.mark.parametrize(
    ("table", "rows", "trust", "implied", "look_ahead", "n_repairs", "n_right"),
    [
        ("hospital", 150, None, False, 1, 55, 52),
        ("hospital", 150, None, False, 1000, 55, 55),
        ("hospital", 150, None, True, 1000, 63, 63),
        ("flights", 300, None, False, 1000, 320, 221),
        ("flights", 300, "src", False, 1, 250, 149),
        ("flights", 300, "src", False, 100, 294, 179),
        ("flights", 300, "src", False, 1000, 538, 240),
        pytest.param("hospital", 1000, None, False, 1000, 419, 397, marks=pytest.mark.slow),
        pytest.param("hospital", 1000, None, True, 1000, 475, 453, marks=pytest.mark.slow),
    ],
)
def test_real_tables(
    table: str, rows: int, trust: str | None, implied: bool, look_ahead: int, n_repairs: int, n_right: int
) -> None:
    """On two real tables it repairs what the prototype repairs."""
    real = real_table(table)
    rules = [NaiveRule(rule.id, rule.lhs, rule.rhs, fill=True) for rule in real.rules]
    cleaner = reference(
        " ".join(real.dirty.schema.names),
        *rules,
        trust=trust,
        implied=implied,
        look_ahead=look_ahead,
        left="repair",
    )
    _, repairs, _ = cleaner.process_batch(real.dirty.slice(0, rows).to_pylist())
    truth = real.truth.to_pylist()
    assert len(repairs) == n_repairs
    assert sum(r.new == truth[r.position][r.attribute] for r in repairs) == n_right


def test_blocks() -> None:
    """With look-ahead, a tuple is decided by those after it in its block; blocks end with the call."""
    rows = tuples("a b", ("x", "boaz?"), *[("x", "boaz")] * 5)
    rule = NaiveRule("r", ("a",), "b")
    clean, _, _ = reference("a b", rule).process_batch(rows)
    assert [t["b"] for t in clean] == ["boaz"] * 6
    clean, _, _ = reference("a b", rule, look_ahead=1).process_batch(rows)
    assert clean == rows
    cleaner = reference("a b", rule)
    assert [cleaner.process_batch([t])[0] for t in rows] == [[t] for t in rows]


def test_window() -> None:
    """The cells of expired panes leave groups; what is remembered counts, but is no violation."""
    rule = NaiveRule("r", ("a",), "b")
    old = tuples("a b", *[("x", "old")] * 4)
    new = tuples("a b", *[("x", "new")] * 4)
    basic = reference("a b", rule, window=(4, 2), windowing="basic")
    basic.process_batch(old)
    assert group(basic, "x") == {"old": 4}
    basic.process_batch(new[:1])
    assert group(basic, "x") == {"old": 2, "new": 1}
    basic.process_batch(new[1:])
    assert group(basic, "x") == {"new": 4}
    assert basic.violations == {"r": 2}
    bleach = reference("a b", rule, window=(4, 2), remember=6)
    bleach.process_batch(old + new)
    assert group(bleach, "x") == {"old": 2, "new": 4}
    assert bleach.violations == {"r": 2}
    forever = reference("a b", rule, window=(4, 2))
    forever.process_batch(old + new)
    assert group(forever, "x") == {"old": 4, "new": 4}


def test_groups_and_reputations_end_with_their_cells() -> None:
    """A group without cells is gone with its held value, and a value without cells has no reputation."""
    cleaner = reference("a b", NaiveRule("r", ("a",), "b"), window=(2, 2), windowing="basic", accept_after=2)
    cleaner.process_batch(tuples("a b", ("x", "old"), ("x", "old")))
    (rule,) = cleaner.live.user
    assert rule.groups["x",].seen == 2
    assert rule.rep == {"old": (0, 1)}
    cleaner.process_batch(tuples("a b", ("y", "new")))
    assert list(rule.groups) == [("y",)]
    assert rule.rep == {}


@pytest.mark.usefixtures("every_fourth")
def test_sums_are_halved_with_each_window() -> None:
    """Running sums lose half with every window, rounded down, above where they began."""
    cleaner = reference("a b", NaiveRule("r", ("a",), "b"), window=(8, 4))
    cleaner.process_batch(tuples("a b", *[("x", "old")] * 7, ("x", "odd")))
    (rule,) = cleaner.live.user
    assert rule.rep == {"old": (0, 6), "odd": (1, 1)}
    assert rule.s1 == (1, 1)
    assert cleaner.live.m("b") == [1, 1, 1, 1, 2]
    assert cleaner.live.u["b"] == [1, 1, 1, 1, 1, 1]
    cleaner.process_batch(tuples("a b", ("y", "old")))
    assert rule.rep == {"old": (0, 3), "odd": (0, 0)}
    assert rule.s1 == (0, 0)
    assert cleaner.live.m("b") == [1] * 5
    assert cleaner.live.u["b"] == [1, 1, 1, 1, 1, 1]  # (old, old) is halved away, and has come again


def test_acceptance() -> None:
    """A value that comes often enough begins the group anew; the tuple at hand is right as it is."""
    rules = [NaiveRule("r", ("a",), "b"), NaiveRule("never", ("a",), "c", accept_after="never")]
    cleaner = reference("a b c", *rules, accept_after=3, look_ahead=1)
    rows = tuples("a b c", *[("x", "old", "old")] * 3, *[("x", "new", "new")] * 3)
    clean, repairs, accepted = cleaner.process_batch(rows)
    (change,) = accepted
    assert (change.rule, change.key, change.attribute) == ("r", {"a": "x"}, "b")
    assert (change.old, change.new, change.position) == ("old", "new", 5)
    assert group(cleaner, "x") == {"new": 3}
    assert cleaner.violations == {"r": 2, "never": 3}
    assert clean[5]["b"] == "new"
    assert (5, "b") not in [(r.position, r.attribute) for r in repairs]
    assert cleaner.live.user[0].rep["new"] == (2, 3)
    assert dict(cleaner.live.user[0].rev(0, (), "new")) == {"x": 3}
    assert not cleaner.live.user[0].rev(0, (), "old")


def test_nothing_established_is_no_acceptance() -> None:
    """A challenger of a value that was seen less often is held, and the counts stay."""
    cleaner = reference("a b", NaiveRule("r", ("a",), "b"), accept_after=3)
    rows = tuples("a b", ("x", "old"), ("x", "old"), *[("x", "new")] * 3)
    assert cleaner.process_batch(rows)[2] == []
    assert cleaner.live.user[0].groups["x",].held == "new"
    assert group(cleaner, "x") == {"old": 2, "new": 3}


def wrong_key(**options: Any) -> tuple[dict[str, Any], list[BayesRepair]]:
    """Clean a tuple whose key is wrong, after tuples that are right."""
    names = " ".join(PLACES)
    rules = [NaiveRule(a, ("zip",), a) for a in ("city", "phone")]
    cleaner = reference(names, *rules, **options)
    rows = [*[BIRMINGHAM] * 6, *[BOAZ] * 6, ("35957", *BIRMINGHAM[1:])]
    clean, repairs, _ = cleaner.process_batch(tuples(names, *rows))
    assert clean[:12] == tuples(names, *rows[:12])
    return clean[12], repairs


def test_a_key_is_flagged() -> None:
    """A cell on left sides only keeps its value, and an audit row says what it should be."""
    clean, repairs = wrong_key()
    assert clean["zip"] == "35957"
    assert clean["city"] == "birmingham"
    (flag,) = repairs
    assert (flag.attribute, flag.old, flag.new, flag.applied) == ("zip", "35957", "35233", False)
    assert flag.rules == ("city", "phone")
    assert [candidate.value for candidate in flag.candidates] == ["35233", None, "35957"]
    assert [candidate.count for candidate in flag.candidates] == [0, 0, 0]


def test_a_key_is_repaired() -> None:
    """With `left: repair` it changes."""
    clean, (repair,) = wrong_key(left="repair")
    assert clean == dict(zip(PLACES, BIRMINGHAM, strict=True))
    assert repair.applied


def test_constants() -> None:
    """A constant decides first; of two that disagree the earlier wins, and counts play no part."""
    first = NaiveRule("first", ("a",), "b", tableau=(("x", "right"), (None, None)))
    second = NaiveRule("second", ("a",), "b", tableau=(("x", "other"),))
    cleaner = reference("a b", first, second)
    clean, (repair, *others), _ = cleaner.process_batch(tuples("a b", *[("x", "wrong")] * 5, ("x", "right")))
    assert [t["b"] for t in clean] == ["right"] * 6
    assert len(others) == 4
    assert (repair.decided_by, repair.confidence, repair.new) == ("constant", 1.0, "right")
    assert repair.rules == ("first", "second")
    assert repair.overruled == ("second",)
    assert repair.step is None
    assert group(cleaner, "x") == {"wrong": 5, "right": 1}  # cells count as they arrived
    assert cleaner.violations == {"first": 6, "second": 6}


def test_conditions_are_about_the_tuple_as_it_arrived() -> None:
    """A rule that may not apply says nothing, and counts nothing."""
    rule = NaiveRule("r", ("a",), "b", when=lambda t: t["n"] == 1, reads=frozenset("n"))
    cleaner = reference("n a b", rule)
    rows = tuples("n a b", *[(1, "x", "boaz")] * 6, (0, "x", "boas"), (1, "x", "boas"))
    clean, _, _ = cleaner.process_batch(rows)
    assert [t["b"] for t in clean[6:]] == ["boas", "boaz"]
    assert group(cleaner, "x") == {"boaz": 6, "boas": 1}


def test_nulls() -> None:
    """A null cell is filled by a rule that fills, and violates its group; others leave it alone."""
    rows = tuples("a b", *[("x", "boaz")] * 6, ("x", None))
    for fill in (True, False):
        cleaner = reference("a b", NaiveRule("r", ("a",), "b", fill=fill))
        clean, repairs, _ = cleaner.process_batch(rows)
        assert clean[6]["b"] == ("boaz" if fill else None)
        assert len(repairs) == cleaner.violations["r"] == int(fill)


def test_certain_rules() -> None:
    """A rule that contradicts itself is not believed, unless it is certain."""
    rows = tuples("a b", *[(x, b) for x in "pqrs" for b in ("one", "two", "one", "two", "one")])
    doubtful, certain = (NaiveRule("r", ("a",), "b", certain=certain) for certain in (False, True))
    cleaner = reference("a b", doubtful)
    cleaner.due = len(rows)
    assert cleaner.process_batch(rows)[1] == []
    assert cleaner.trust_of("r") < 0.1
    cleaner = reference("a b", certain)
    cleaner.due = len(rows)
    assert {r.new for r in cleaner.process_batch(rows)[1]} == {"one"}


def test_shadow_rules() -> None:
    """A shadow rule changes nothing and reports what it would change; promoted, it changes it."""
    live, shadow = NaiveRule("live", ("a",), "c"), NaiveRule("shadow", ("a",), "b", shadow=True)
    rows = tuples("a b c", *[("x", "boaz", "al")] * 6, ("x", "boas", "ak"))
    alone, both = reference("a b c", live), reference("a b c", live, shadow)
    expected, live_rows, _ = alone.process_batch(rows)
    clean, audit, _ = both.process_batch(rows)
    assert clean == expected
    assert [r for r in audit if r.attribute == "c"] == live_rows
    (would,) = (r for r in audit if r.attribute == "b")
    assert (would.new, would.applied, would.rules) == ("boaz", False, ("shadow",))
    assert both.violations == {"live": 1, "shadow": 1}
    both.promote_rule("shadow")
    assert both.shadow is None
    clean, (repair, _), _ = both.process_batch(tuples("a b c", ("x", "boax", "az")))
    assert clean[0]["b"] == "boaz"
    assert repair.applied
    assert (repair.version, both.version, both.position) == (2, 2, 8)


def test_rule_updates() -> None:
    """A new rule begins with nothing; attributes that no rule mentions any more are forgotten."""
    cleaner = reference("a b c d", NaiveRule("r", ("a",), "b"), implied=True)
    assert [r.id for r in cleaner.live.implied] == ["a -> c (implied)", "a -> d (implied)"]
    cleaner.process_batch(tuples("a b c d", *[("x", "y", "z", "w")] * 3))
    kept = cleaner.live.implied[1]
    cleaner.add_rule(NaiveRule("s", ("b",), "c"))
    assert [r.id for r in cleaner.live.implied] == ["a -> d (implied)", "b -> d (implied)"]
    assert cleaner.live.implied[0] is kept
    assert cleaner.live.user[1].groups == {}
    assert cleaner.live.nd("c") == 3
    cleaner.delete_rule("r")
    assert cleaner.live.attributes == ["a", "b", "c", "d"]
    assert [r.id for r in cleaner.live.implied] == ["b -> a (implied)", "b -> d (implied)"]


def test_sources() -> None:
    """Sources that repeat each other are copies, and one that is mostly wrong is believed less."""
    rules = [NaiveRule("city", ("zip",), "city"), NaiveRule("state", ("zip",), "state")]
    rows = [
        (f"{x}", f"city {x}" if source != "bad" else f"town {x}", "al", source)
        for x in range(12)
        for source in ("good", None, "", "copy", "bad")
    ]
    cleaner = reference("zip city state source", *rules, trust="source")
    cleaner.due = len(rows)
    clean, _, _ = cleaner.process_batch(tuples("zip city state source", *rows))
    assert cleaner.live.copies("good") == {"", "copy"}
    accuracy = cleaner.source_accuracy
    assert set(accuracy) == {"good", "", "copy", "bad"}  # a null source is the source ""
    assert accuracy["bad"] < accuracy["good"]
    assert all(t["city"].startswith("city") for t in clean)
