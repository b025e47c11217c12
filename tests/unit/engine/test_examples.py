"""The worked examples of the semantics, and small streams that show one sentence of it each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import Engine, Rule, Window

CITY = pa.schema([("client", pa.int64()), ("zip", pa.string()), ("city", pa.string())])
CITY_RULES = ["client_city: client -> city", "zip_city: zip -> city"]
CITY_TUPLES: list[tuple[Any, ...]] = [
    (1, "z", "Paris"),
    (2, "z", "Paris"),
    (3, "z", "Pariss"),
    (4, None, "Rome"),
    (1, None, "Lyon"),
]
KEY_VALUE = pa.schema([("k", pa.int64()), ("v", pa.string())])
TWO_KEYS = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.string())])
THREE_KEYS = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64()), ("v", pa.string())])
PLACE = pa.schema([("country", pa.string()), ("zip", pa.string()), ("city", pa.string())])


def run(
    engine: Engine, tuples: Iterable[Sequence[Any]]
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Clean tuples; return them, and the audit rows."""
    names = engine.schema.names
    rows = [dict(zip(names, t, strict=True)) for t in tuples]
    clean, audit = engine.process(pa.RecordBatch.from_pylist(rows, engine.schema))
    return [tuple(row.values()) for row in clean.to_pylist()], audit.to_pylist()


def cleaned(engine: Engine, tuples: Iterable[Sequence[Any]]) -> list[Any]:
    """Clean tuples; return the cells of the last attribute."""
    return [t[-1] for t in run(engine, tuples)[0]]


def candidates(audit_row: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the candidates of an audit row, best first."""
    return [(candidate["value"], candidate["count"]) for candidate in audit_row["candidates"]]


class TestWorkedExampleOne:
    """Rule A -> B, W = 4, S = 2, all A equal, B = b b b c c."""

    @pytest.mark.parametrize(("windowing", "expected"), [("basic", "bbbbc"), ("bleach", "bbbbb")])
    @pytest.mark.parametrize("repair", ["class", "vote"])
    def test_output_tuple_by_tuple(self, windowing: str, expected: str, repair: str) -> None:
        """Basic windowing gives b b b b c, Bleach windowing b b b b b."""
        engine = Engine(KEY_VALUE, ["k -> v"], window=Window(4, 2), windowing=windowing, repair=repair)
        got = [cleaned(engine, [(1, value)])[0] for value in "bbbcc"]
        assert got == list(expected)

    def test_reasons(self) -> None:
        """For the fifth tuple basic windowing sees b c c; Bleach has counted three b and two c."""
        basic = Engine(KEY_VALUE, ["k -> v"], window=Window(4, 2), windowing="basic", repair="class")
        bleach = Engine(KEY_VALUE, ["k -> v"], window=Window(4, 2), windowing="bleach", repair="class")
        tuples = [(1, value) for value in "bbbcc"]
        _, basic_audit = run(basic, tuples)
        _, bleach_audit = run(bleach, tuples)
        assert [(row["position"], candidates(row)) for row in basic_audit] == [(3, [("b", 3), ("c", 1)])]
        assert [(row["position"], candidates(row)) for row in bleach_audit] == [
            (3, [("b", 3), ("c", 1)]),
            (4, [("b", 3), ("c", 2)]),
        ]


class TestWorkedExampleTwo:
    """Rules client -> city and zip -> city, no window."""

    def test_hinge_ties_both_groups(self) -> None:
        """The third tuple becomes Paris; so does the fifth, by way of the other rule's group."""
        engine = Engine(CITY, CITY_RULES, window=None, repair="class")
        clean, audit = run(engine, CITY_TUPLES)
        assert clean == [
            (1, "z", "Paris"),
            (2, "z", "Paris"),
            (3, "z", "Paris"),
            (4, None, "Rome"),
            (1, None, "Paris"),
        ]
        third, fifth = audit
        assert third["position"] == 2
        assert (third["old_value"], third["new_value"]) == ("Pariss", "Paris")
        assert third["rules"] == ["zip_city"]
        assert candidates(third) == [("Paris", 2), ("Pariss", 1)]
        assert third["confidence"] == pytest.approx(2 / 3)
        assert third["groups"] == 1
        assert fifth["position"] == 4
        assert (fifth["old_value"], fifth["new_value"]) == ("Lyon", "Paris")
        assert fifth["rules"] == ["client_city"]
        assert candidates(fifth) == [("Paris", 2), ("Lyon", 1), ("Pariss", 1)]
        assert fifth["confidence"] == 0.5
        assert fifth["groups"] == 2
        assert (fifth["decided_by"], fifth["overruled"], fifth["version"]) == ("count", [], 1)

    def test_without_the_hinge_a_tie_keeps_the_value(self) -> None:
        """With zip -> city deleted before the fifth tuple, Paris 1 and Lyon 1 tie, and Lyon stays."""
        engine = Engine(CITY, CITY_RULES, window=None, repair="class")
        run(engine, CITY_TUPLES[:4])
        engine.delete_rule("zip_city")
        clean, audit = run(engine, CITY_TUPLES[4:])
        assert clean == [(1, None, "Lyon")]
        assert audit == []
        assert engine.violations == {"client_city": 1}  # it was a violation, decided by the tie

    def test_candidates_after_the_deletion(self) -> None:
        """What the tie was made of shows in the next repair: Paris 1, Lyon 1 and the new value."""
        engine = Engine(CITY, CITY_RULES, window=None, repair="class")
        run(engine, CITY_TUPLES[:4])
        engine.delete_rule("zip_city")
        run(engine, CITY_TUPLES[4:])
        _, audit = run(engine, [(1, None, "Lyon"), (1, None, "Nice")])
        assert [candidates(row) for row in audit] == [[("Lyon", 2), ("Nice", 1), ("Paris", 1)]]
        assert audit[0]["version"] == 2

    def test_vote_does_not_look_beyond_the_own_group(self) -> None:
        """With `repair: vote` the fifth tuple's candidates are Paris 1 and Lyon 1, so it stays Lyon."""
        engine = Engine(CITY, CITY_RULES, window=None, repair="vote")
        clean, audit = run(engine, CITY_TUPLES)
        assert [t[2] for t in clean] == ["Paris", "Paris", "Paris", "Rome", "Lyon"]
        assert [row["position"] for row in audit] == [2]


@pytest.mark.parametrize("windowing", ["bleach", "basic"])
class TestSplit:
    """Three groups, two hinges: the groups of a, b and c hang together by way of b."""

    TUPLES: Sequence[tuple[Any, ...]] = (
        (1, 1, None, "x"),  # a hinge of a's and b's group
        (None, 1, 1, "x"),  # a hinge of b's and c's group
        (1, None, None, "x"),
        (1, None, None, "y"),  # a's group enters the graph
        (None, None, 1, "z"),  # c's
        (None, 1, None, "w"),  # b's: all three are one subgraph now
        (None, None, 1, "z"),
    )

    @staticmethod
    def engine(windowing: str) -> Engine:
        """Return an engine with a rule for each key."""
        rules = ["ra: a -> v", "rb: b -> v", "rc: c -> v"]
        return Engine(THREE_KEYS, rules, window=None, windowing=windowing, repair="class")

    def test_three_groups_merge(self, windowing: str) -> None:
        """Each super cell counts once in the subgraph, hinges included."""
        clean, audit = run(self.engine(windowing), self.TUPLES)
        assert [t[3] for t in clean] == ["x", "x", "x", "x", "z", "x", "x"]
        assert [(row["position"], row["groups"], candidates(row)) for row in audit] == [
            (3, 1, [("x", 2), ("y", 1)]),
            (5, 3, [("x", 3), ("w", 1), ("y", 1), ("z", 1)]),
            (6, 3, [("x", 3), ("z", 2), ("w", 1), ("y", 1)]),
        ]

    def test_deleting_the_middle_rule_splits(self, windowing: str) -> None:
        """Without rb the groups of ra and rc are two subgraphs, each with its own cells only."""
        engine = self.engine(windowing)
        run(engine, self.TUPLES)
        engine.delete_rule("rb")
        clean, audit = run(engine, [(None, None, 1, "q"), (1, None, None, "q")])
        assert [t[3] for t in clean] == ["z", "x"]
        assert [(row["rules"], row["groups"], candidates(row)) for row in audit] == [
            (["rc"], 1, [("z", 2), ("q", 1), ("x", 1)]),
            (["ra"], 1, [("x", 2), ("q", 1), ("y", 1)]),
        ]

    def test_deleting_an_outer_rule_leaves_the_rest_linked(self, windowing: str) -> None:
        """Without ra the groups of rb and rc are still one subgraph by their hinge."""
        engine = self.engine(windowing)
        run(engine, self.TUPLES)
        engine.delete_rule("ra")
        _, audit = run(engine, [(None, None, 1, "q")])
        # The hinge of ra and rb is b's alone now; a's own cells are gone.
        assert [(row["groups"], candidates(row)) for row in audit] == [
            (2, [("x", 2), ("z", 2), ("q", 1), ("w", 1)])
        ]
        assert audit[0]["new_value"] == "x"

    def test_a_rule_that_is_added_again_begins_anew(self, windowing: str) -> None:
        """Groups of a rule with the id of a deleted one are empty: nothing links to what it was."""
        engine = self.engine(windowing)
        run(engine, self.TUPLES)
        engine.delete_rule("rb")
        engine.add_rule("rb: b -> v")
        clean, audit = run(engine, [(None, 1, None, "new"), (None, None, 1, "q")])
        assert [t[3] for t in clean] == ["new", "z"]
        assert [(row["groups"], row["version"]) for row in audit] == [(1, 3)]


class TestNulls:
    """What becomes of null cells."""

    def test_ignored_by_default(self) -> None:
        """A null RHS cell stays null, and so does one of a rule with `nulls: ignore`."""
        engine = Engine(KEY_VALUE, ["k -> v"], window=None, repair="class")
        assert cleaned(engine, [(1, "x"), (1, None)]) == ["x", None]
        assert engine.violations == {"k -> v": 0}

    def test_filled_from_one_group(self) -> None:
        """With `nulls: fill` a null violates a group that has a cell, and takes its best value."""
        engine = Engine(KEY_VALUE, [Rule("r", "k", "v", nulls="fill")], window=None, repair="class")
        clean, audit = run(engine, [(1, None), (1, "x"), (1, None), (2, None)])
        assert [t[1] for t in clean] == [None, "x", "x", None]
        assert len(audit) == 1
        assert audit[0]["position"] == 2
        assert audit[0]["old_value"] is None
        assert audit[0]["new_value"] == "x"
        assert audit[0]["rules"] == ["r"]
        assert candidates(audit[0]) == [("x", 1)]
        assert audit[0]["confidence"] == 1.0
        assert audit[0]["groups"] == 1

    def test_nulls_are_never_counted(self) -> None:
        """However many nulls were filled with x, there is one x: a y ties with it and stays."""
        engine = Engine(KEY_VALUE, [Rule("r", "k", "v", nulls="fill")], window=None, repair="class")
        tuples = [(1, "x"), *[(1, None)] * 5, (1, "y"), (1, "z")]
        clean, audit = run(engine, tuples)
        assert [t[1] for t in clean[-2:]] == ["y", "z"]
        assert all(candidates(row) == [("x", 1)] for row in audit)

    def test_null_key(self) -> None:
        """A tuple with a null LHS cell is in no group, whatever `nulls` says."""
        engine = Engine(KEY_VALUE, [Rule("r", "k", "v", nulls="fill")], window=None, repair="class")
        assert cleaned(engine, [(None, "x"), (None, "y"), (None, None)]) == ["x", "y", None]

    @pytest.mark.parametrize("repair", ["class", "vote"])
    def test_filled_from_two_unlinked_groups(self, repair: str) -> None:
        """Two subgraphs are taken together: a value that is second in both can win."""
        rules = [Rule("ra", "a", "v", nulls="fill"), Rule("rb", "b", "v", nulls="fill")]
        engine = Engine(TWO_KEYS, rules, window=None, repair=repair)
        run(engine, [(1, None, "x")] * 3 + [(1, None, "z")] * 2)
        run(engine, [(None, 2, "y")] * 3 + [(None, 2, "z")] * 2)
        clean, audit = run(engine, [(1, 2, None)])
        assert clean == [(1, 2, "z")]
        assert audit[0]["rules"] == ["ra", "rb"]
        assert candidates(audit[0]) == [("z", 4), ("x", 3), ("y", 3)]
        assert audit[0]["confidence"] == pytest.approx(0.4)
        assert audit[0]["groups"] == 2

    def test_a_null_links_nothing(self) -> None:
        """A null in two groups is no super cell: the next tuple of one group sees that group only."""
        rules = [Rule("ra", "a", "v", nulls="fill"), Rule("rb", "b", "v", nulls="fill")]
        engine = Engine(TWO_KEYS, rules, window=None, repair="class")
        run(engine, [(1, None, "x"), (None, 2, "y"), (None, 2, "y"), (None, 2, "y"), (1, 2, None)])
        _, audit = run(engine, [(1, None, "x"), (1, None, "w")])
        assert [(row["groups"], candidates(row)) for row in audit] == [(1, [("x", 2), ("w", 1)])]

    def test_only_the_rules_that_fill(self) -> None:
        """A rule with `nulls: ignore` has no say on a null cell, beside one that fills."""
        rules = [Rule("ra", "a", "v"), Rule("rb", "b", "v", nulls="fill")]
        engine = Engine(TWO_KEYS, rules, window=None, repair="class")
        run(engine, [(1, None, "x")] * 3 + [(None, 2, "y")])
        clean, audit = run(engine, [(1, 2, None)])
        assert clean == [(1, 2, "y")]
        assert audit[0]["rules"] == ["rb"]


class TestRepairAlgorithms:
    """`class` counts over the subgraph, `vote` over the tuple's own groups."""

    TUPLES: Sequence[tuple[Any, ...]] = (
        (1, 5, "x"),  # the hinge
        (1, None, "x"),
        *[(None, 5, "w")] * 5,
        (1, None, "y"),
    )

    @pytest.mark.parametrize(
        ("repair", "expected", "counts", "groups"),
        [("class", "w", [("w", 5), ("x", 2), ("y", 1)], 2), ("vote", "x", [("x", 2), ("y", 1)], 1)],
    )
    def test_differ(self, repair: str, expected: str, counts: list[tuple[str, int]], groups: int) -> None:
        """The last tuple becomes what the whole class says, or what its own group says."""
        engine = Engine(TWO_KEYS, ["a -> v", "b -> v"], window=None, repair=repair)
        clean, audit = run(engine, self.TUPLES)
        assert clean[-1][-1] == expected
        assert candidates(audit[-1]) == counts
        assert audit[-1]["groups"] == groups

    def test_vote_counts_a_super_cell_once(self) -> None:
        """A hinge of two own groups counts once, not once per group."""
        engine = Engine(TWO_KEYS, ["a -> v", "b -> v"], window=None, repair="vote")
        run(engine, [(1, 2, "x"), (1, 2, "x"), (1, None, "p"), (None, 2, "p")])
        _, audit = run(engine, [(1, 2, "y")])
        # p is in two super cells, one per group; x in one super cell of both.
        assert candidates(audit[0]) == [("p", 2), ("x", 2), ("y", 1)]
        assert audit[0]["new_value"] == "p"
        assert audit[0]["groups"] == 2


class TestTableaux:
    """Rules with constants and wildcards."""

    FRANCE = Rule("france", ["country", "zip"], "city", tableau=[["FR", "_", "_"], ["FR", "75001", "Paris"]])

    def test_constant_repairs_a_single_tuple(self) -> None:
        """A row with an RHS constant needs no second tuple: the constant is the repair."""
        engine = Engine(PLACE, [self.FRANCE], window=None, repair="class")
        clean, audit = run(engine, [("FR", "75001", "Lyon")])
        assert clean == [("FR", "75001", "Paris")]
        assert audit[0]["rules"] == ["france"]
        assert audit[0]["decided_by"] == "constant"
        assert audit[0]["confidence"] == 1.0
        assert audit[0]["candidates"] == []
        assert audit[0]["groups"] == 0
        assert audit[0]["overruled"] == []

    def test_wildcard_rows_choose_the_tuples(self) -> None:
        """Groups form among tuples that match a row with a wildcard RHS; all others are left alone."""
        engine = Engine(PLACE, [self.FRANCE], window=None, repair="class")
        tuples = [
            *[("FR", "69001", "Lyon")] * 2,
            ("FR", "69001", "Lion"),
            *[("DE", "10115", "Berlin")] * 2,
            ("DE", "10115", "Bonn"),
        ]
        clean, audit = run(engine, tuples)
        assert [t[2] for t in clean] == ["Lyon", "Lyon", "Lyon", "Berlin", "Berlin", "Bonn"]
        assert [row["decided_by"] for row in audit] == ["count"]

    def test_wildcards_anywhere_on_the_left(self) -> None:
        """A wildcard matches every value but null."""
        rule = Rule("r", ["country", "zip"], "city", tableau=[["_", "75001", "Paris"]])
        engine = Engine(PLACE, [rule], window=None, repair="class")
        tuples = [("FR", "75001", "x"), ("", "75001", "x"), (None, "75001", "x"), ("FR", "75002", "x")]
        assert cleaned(engine, tuples) == ["Paris", "Paris", "x", "x"]

    def test_constant_wins_over_any_count(self) -> None:
        """However often Lyon arrived, Paris stays Paris; the audit still shows the counts."""
        engine = Engine(PLACE, [self.FRANCE], window=None, repair="class")
        tuples = [*[("FR", "75001", "Lyon")] * 4, ("FR", "75001", "Paris"), ("FR", "75001", "Lyon")]
        clean, audit = run(engine, tuples)
        assert [t[2] for t in clean] == ["Paris"] * 6
        assert [row["position"] for row in audit] == [0, 1, 2, 3, 5]
        assert candidates(audit[-1]) == [("Lyon", 5), ("Paris", 1)]  # as they arrived
        assert audit[-1]["groups"] == 1
        assert audit[-1]["confidence"] == 1.0

    def test_a_constant_alone_makes_no_group(self) -> None:
        """A rule whose rows all have RHS constants never compares two tuples."""
        rule = Rule("r", "zip", "city", tableau=[["75001", "Paris"]])
        engine = Engine(PLACE, [rule], window=None, repair="class")
        tuples = [("FR", "1", "a"), ("FR", "1", "a"), ("FR", "1", "b")]
        assert cleaned(engine, tuples) == ["a", "a", "b"]
        assert engine.super_cells == 0

    def test_constant_fills_a_null(self) -> None:
        """With `nulls: fill` the constant is also for null cells; without, they are left alone."""
        for nulls, expected in (("fill", "Paris"), ("ignore", None)):
            rule = Rule("r", "zip", "city", nulls=nulls, tableau=[["75001", "Paris"]])
            engine = Engine(PLACE, [rule], window=None, repair="class")
            assert cleaned(engine, [("FR", "75001", None)]) == [expected]

    def test_earlier_rule_wins(self) -> None:
        """Of two constants that disagree the earlier rule's wins, and `overruled` names the other."""
        first = Rule("first", "zip", "city", tableau=[["75001", "Paris"]])
        second = Rule("second", "country", "city", tableau=[["FR", "Lyon"]])
        engine = Engine(PLACE, [first, second], window=None, repair="class")
        tuples = [("FR", "75001", city) for city in ("Rome", "Lyon", "Paris")] + [("FR", "1", "Rome")]
        clean, audit = run(engine, tuples)
        assert [t[2] for t in clean] == ["Paris", "Paris", "Paris", "Lyon"]
        assert [(row["position"], row["rules"], row["overruled"]) for row in audit] == [
            (0, ["first", "second"], ["second"]),
            (1, ["first"], ["second"]),
            (3, ["second"], []),
        ]
        assert engine.violations == {"first": 2, "second": 3}

    def test_constants_that_agree_overrule_nothing(self) -> None:
        """Two rules with the same constant for a tuple do not contradict each other."""
        first = Rule("first", "zip", "city", tableau=[["75001", "Paris"]])
        second = Rule("second", "country", "city", tableau=[["FR", "Paris"]])
        engine = Engine(PLACE, [first, second], window=None, repair="class")
        _, audit = run(engine, [("FR", "75001", "Rome")])
        assert (audit[0]["rules"], audit[0]["overruled"]) == (["first", "second"], [])

    def test_earlier_row_wins(self) -> None:
        """Within a rule the earlier row wins; the rule has overruled itself."""
        rule = Rule("r", ["country", "zip"], "city", tableau=[["FR", "_", "Paris"], ["_", "69001", "Lyon"]])
        engine = Engine(PLACE, [rule], window=None, repair="class")
        clean, audit = run(engine, [("FR", "69001", "x"), ("CH", "69001", "x")])
        assert [t[2] for t in clean] == ["Paris", "Lyon"]
        assert [row["overruled"] for row in audit] == [["r"], []]

    def test_a_rule_that_is_added_again_is_a_later_one(self) -> None:
        """Earlier means added earlier: a rule that was deleted and added again comes last."""
        first = Rule("first", "zip", "city", tableau=[["75001", "Paris"]])
        second = Rule("second", "country", "city", tableau=[["FR", "Lyon"]])
        engine = Engine(PLACE, [first, second], window=None, repair="class")
        engine.delete_rule("first")
        engine.add_rule(first)
        assert [rule.id for rule in engine.rules] == ["second", "first"]
        clean, audit = run(engine, [("FR", "75001", "Rome")])
        assert clean[0][2] == "Lyon"
        assert (audit[0]["rules"], audit[0]["overruled"]) == (["second", "first"], ["first"])


class TestTies:
    """What a tie becomes."""

    @pytest.mark.parametrize(
        ("values", "smallest"),
        [
            (["b", "a"], "a"),
            (["a", "B"], "B"),
            (["a", ""], ""),
            (["ab", "a"], "a"),
            (["a\0", "a"], "a"),
            (["é", "f"], "f"),
            (["\U00010000", "\uffff"], "\uffff"),  # in UTF-16 it would be the other way round
            (["12345678b", "12345678a"], "12345678a"),
            (["12345678", "1234567"], "1234567"),
        ],
    )
    def test_smallest_by_code_point(self, values: list[str], smallest: str) -> None:
        """A tie without the tuple's own value goes to the smallest value by code point."""
        for arrived in (values, values[::-1]):
            engine = Engine(KEY_VALUE, [Rule("r", "k", "v", nulls="fill")], window=None, repair="class")
            tuples = [(1, value) for value in arrived for _ in range(2)]
            assert cleaned(engine, [*tuples, (1, None), (1, "own")])[-2:] == [smallest, smallest]

    def test_smallest_number(self) -> None:
        """Numbers tie in the order of numbers, not of their digits or bits."""
        schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
        for arrived in ([-1.5, 10.0, 9.0], [9.0, 10.0, -1.5], [10.0, -1.5, 9.0]):
            engine = Engine(schema, [Rule("r", "k", "v", nulls="fill")], window=None, repair="class")
            assert cleaned(engine, [*((1, v) for v in arrived), (1, None)])[-1] == -1.5

    def test_own_value_is_kept(self) -> None:
        """A tie that includes the tuple's own value keeps it, small or not; no audit row is written."""
        engine = Engine(KEY_VALUE, ["k -> v"], window=None, repair="class")
        clean, audit = run(engine, [(1, "a"), (1, "z")])
        assert [t[1] for t in clean] == ["a", "z"]
        assert audit == []

    @pytest.mark.parametrize("repair", ["class", "vote"])
    def test_five_candidates(self, repair: str) -> None:
        """The audit names the five best, ties in the order of the values; confidence counts them all."""
        engine = Engine(TWO_KEYS, ["a -> v", "b -> v"], window=None, repair=repair)
        letters = "hgfedcba"
        run(engine, [(1, None, letter) for letter in letters for _ in range(2)])
        _, audit = run(engine, [(1, None, "own")])
        assert candidates(audit[0]) == [(letter, 2) for letter in "abcde"]
        assert audit[0]["confidence"] == pytest.approx(2 / 17)


class TestValues:
    """What is a value, and which one rules read."""

    def test_empty_string_is_a_value(self) -> None:
        """The empty string makes groups on the left, violates and wins on the right."""
        schema = pa.schema([("k", pa.string()), ("v", pa.string())])
        engine = Engine(schema, ["k -> v"], window=None, repair="class")
        clean, audit = run(engine, [("", ""), ("", ""), ("", "x"), ("k", "x")])
        assert [t[1] for t in clean] == ["", "", "", "x"]
        assert (audit[0]["old_value"], audit[0]["new_value"]) == ("x", "")
        assert candidates(audit[0]) == [("", 2), ("x", 1)]

    def test_rules_read_the_tuple_as_it_arrived(self) -> None:
        """A cell that one rule repairs is what it was for the rules that have it on the left."""
        schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.string())])
        engine = Engine(schema, ["a -> b", "b -> c"], window=None, repair="class")
        clean, _ = run(engine, [(1, "x", "p"), (1, "x", "p"), (1, "y", "q"), (2, "y", "q"), (2, "y", "p")])
        assert clean == [
            (1, "x", "p"),
            (1, "x", "p"),
            (1, "x", "q"),  # b becomes x, but c is of the group of y
            (2, "y", "q"),
            (2, "y", "q"),  # two q in the group of y
        ]

    def test_what_is_stored_is_never_repaired(self) -> None:
        """A value that is repaired each time it arrives still counts each time it arrived."""
        engine = Engine(KEY_VALUE, ["k -> v"], window=None, repair="class")
        tuples = [(1, "a"), (1, "a"), (1, "b"), (1, "b"), (1, "b")]
        assert cleaned(engine, tuples) == ["a", "a", "a", "b", "b"]

    def test_attributes_are_independent(self) -> None:
        """Rules with different RHS attributes do not meet, even on the same left side."""
        schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.string())])
        engine = Engine(schema, ["k -> v", "k -> w"], window=None, repair="class")
        clean, audit = run(engine, [(1, "a", "p"), (1, "a", "p"), (1, "b", "q")])
        assert clean[-1] == (1, "a", "p")
        assert [(row["attribute"], row["rules"], row["groups"]) for row in audit] == [
            ("v", ["k -> v"], 1),
            ("w", ["k -> w"], 1),
        ]


@pytest.mark.parametrize("period", [2, 3, 4, 5, 8])
def test_a_stream_with_a_rhythm(period: int) -> None:
    """That products come in turns does not make a wrong key look like a wrong right side."""
    categories = ["toys", "books", "garden", "music", "food", "tools", "shoes", "wine"]
    rows = [{"sku": f"s{i % period}", "category": categories[i % period]} for i in range(400)]
    rows[301]["sku"] = f"s{302 % period}"
    schema = pa.schema([("sku", pa.string()), ("category", pa.string())])
    engine = Engine(schema, [Rule.parse("sku -> category", id="r")], repair="bayes")
    clean, audit = engine.process(pa.RecordBatch.from_pylist(rows, schema))
    assert clean.to_pylist() == rows
    (row,) = audit.to_pylist()
    assert (row["position"], row["attribute"], row["new_value"], row["applied"]) == (301, "sku", None, False)
