"""The public behaviour of the engine."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import ConfigError, Engine, Rule, RuleError, RuleUpdate, RuleWarning, SchemaError, Window
from sparkbleach.config import Options
from sparkbleach.rules.active import ActiveRules
from tests.support.profiles import one_in

SCHEMA = pa.schema([("id", pa.string()), ("k", pa.int64()), ("v", pa.string()), ("w", pa.string())])
RULES = ["kv: k -> v", "kw: k -> w"]
AUDIT_COLUMNS = [
    "id",
    "position",
    "attribute",
    "old_value",
    "new_value",
    "rules",
    "candidates",
    "confidence",
    "groups",
    "decided_by",
    "overruled",
    "version",
    "applied",
]
# Streams of thousands of tuples: fewer examples than elsewhere, in proportion to the profile's.
FEW = one_in(8)
MODES = pytest.mark.parametrize(
    ("windowing", "repair"), [("bleach", "class"), ("bleach", "vote"), ("basic", "class"), ("basic", "vote")]
)


def batch(tuples: Iterable[Sequence[Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Return tuples as a batch."""
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, t, strict=True)) for t in tuples], schema)


def started(**options: Any) -> Engine:
    """Return an engine that has seen some tuples, with repairs in both attributes."""
    engine = Engine(SCHEMA, RULES, **options)
    engine.process(batch([("a", 1, "x", "p"), ("b", 1, "x", "p"), ("c", 1, "y", "q"), ("d", 2, "z", None)]))
    return engine


class TestRefusals:
    """What the engine refuses, it refuses whole."""

    @pytest.mark.parametrize(
        "wrong",
        [
            pa.schema([("id", pa.string()), ("k", pa.int32()), ("v", pa.string()), ("w", pa.string())]),
            pa.schema([("k", pa.int64()), ("id", pa.string()), ("v", pa.string()), ("w", pa.string())]),
            pa.schema([("id", pa.string()), ("k", pa.int64()), ("v", pa.string())]),
            pa.schema([("id", pa.string()), ("k", pa.int64()), ("v", pa.string()), ("x", pa.string())]),
            pa.schema([*SCHEMA, pa.field("extra", pa.int8())]),
            pa.schema([]),
        ],
    )
    def test_wrong_schema(self, wrong: pa.Schema) -> None:
        """A batch of another schema is refused with both schemas in the message, and changes nothing."""
        engine = started()
        before = engine.snapshot()
        with pytest.raises(SchemaError, match="batch at position 4") as error:
            engine.process(pa.RecordBatch.from_pylist([{}], wrong))
        assert "k int64" in str(error.value)
        assert engine.snapshot() == before
        assert engine.position == 4
        self.goes_on_like_another(engine)

    @pytest.mark.parametrize(
        "rule",
        [
            "kv: k -> w",  # a live id
            "new: nothing -> v",
            "new: k -> nothing",
            "new: k -> k",
            "new: k -> v WHERE nothing > 1",
            "new: k -> v WHERE k +",
            "new: k",
            Rule("new", "k", "v", tableau=[["one", "_"]]),
        ],
    )
    def test_wrong_rule(self, rule: Rule | str) -> None:
        """A rule that is wrong, or has a live id, is refused, and changes nothing."""
        engine = started()
        before = engine.snapshot()
        with pytest.raises(RuleError):
            engine.add_rule(rule)
        assert engine.snapshot() == before
        assert engine.version == 1
        assert [rule.id for rule in engine.rules] == ["kv", "kw"]
        self.goes_on_like_another(engine)

    def test_unknown_rule(self) -> None:
        """Deleting an unknown id is refused with the live ids in the message, and changes nothing."""
        engine = started()
        before = engine.snapshot()
        with pytest.raises(RuleError, match=r"'nothing'.*no active rule has this id.*'kv', 'kw'"):
            engine.delete_rule("nothing")
        assert engine.snapshot() == before
        assert engine.version == 1
        self.goes_on_like_another(engine)

    def test_deleted_twice(self) -> None:
        """A rule can be deleted once."""
        engine = started()
        engine.delete_rule("kv")
        with pytest.raises(RuleError, match="no active rule"):
            engine.delete_rule("kv")
        assert engine.version == 2

    def test_wrong_options(self) -> None:
        """Wrong options and wrong first rules are refused by the constructor."""
        for options in ({"id": "nothing"}, {"windowing": "slow"}, {"repair": "guess"}):
            with pytest.raises(ConfigError):
                Engine(SCHEMA, RULES, **options)  # type: ignore[arg-type]
        with pytest.raises(RuleError):
            Engine(SCHEMA, ["r: k -> v", "r: k -> w"])
        with pytest.raises(ConfigError):
            Window(10, 3)

    @staticmethod
    def goes_on_like_another(engine: Engine) -> None:
        """Assert that the engine cleans as one that was never asked for what was refused."""
        more = batch([("e", 1, "y", "p"), ("f", 2, "y", "q"), ("g", 2, "z", "q")])
        clean, audit = engine.process(more)
        expected_clean, expected_audit = started().process(more)
        assert clean.equals(expected_clean)
        assert audit.equals(expected_audit)


class TestRuleUpdates:
    """Rules come and go between tuples."""

    def test_version(self) -> None:
        """The version begins with 1, grows by one with each update, and is in the audit."""
        engine = started(repair="class")
        assert engine.version == 1
        engine.delete_rule("kw")
        assert engine.version == 2
        engine.add_rule("kw: k -> w")
        assert engine.version == 3
        _, audit = engine.process(batch([("e", 1, "new", "p")]))
        assert audit.column("version").to_pylist() == [3]

    def test_rules_in_order(self) -> None:
        """Rules are listed earlier ones first, whatever their attribute."""
        engine = Engine(SCHEMA, ["r1: k -> w", "r2: k -> v"])
        engine.add_rule("r3: v -> w")
        engine.delete_rule("r1")
        engine.add_rule("r4: id -> w")
        assert [rule.id for rule in engine.rules] == ["r2", "r3", "r4"]

    def test_added_rule_begins_empty(self) -> None:
        """Tuples that were seen before a rule was added never join its groups."""
        engine = Engine(SCHEMA, [])
        engine.process(batch([("a", 1, "x", "p")] * 3))
        engine.add_rule("k -> v")
        clean, audit = engine.process(batch([("b", 1, "y", "p"), ("c", 1, "x", "p")]))
        assert clean.column("v").to_pylist() == ["y", "x"]
        assert audit.num_rows == 0

    def test_all_rules_can_go(self) -> None:
        """Without rules tuples pass as they are, and there is no state."""
        engine = started(repair="class")
        engine.delete_rule("kv")
        engine.delete_rule("kw")
        assert engine.rules == ()
        assert (engine.super_cells, engine.nbytes) == (0, 0)
        more = batch([("e", 1, "new", "new")])
        clean, audit = engine.process(more)
        assert clean.equals(more)
        assert audit.num_rows == 0

    def test_counters(self) -> None:
        """Violations and repairs are counted by live rule, and begin anew with a rule."""
        engine = started(repair="class")
        assert engine.violations == {"kv": 1, "kw": 1}
        assert engine.repairs == {"kv": 1, "kw": 1}
        engine.process(batch([("e", 1, "y", None), ("f", 1, "y", None)]))
        assert engine.violations == {"kv": 3, "kw": 1}
        assert engine.repairs == {"kv": 1, "kw": 1}  # y has drawn level with x
        engine.delete_rule("kv")
        engine.add_rule("kv: k -> v")
        assert engine.violations == {"kw": 1, "kv": 0}
        assert engine.repairs == {"kw": 1, "kv": 0}

    def test_twins_warn(self) -> None:
        """Two rules that say the same thing are both taken, with a warning."""
        with pytest.warns(RuleWarning, match="say the same thing"):
            engine = Engine(SCHEMA, ["a: k -> v", "b: k -> v"])
        clean, audit = engine.process(batch([("a", 1, v, None) for v in "xxy"]))
        assert clean.column("v").to_pylist() == ["x"] * 3
        assert audit.column("rules").to_pylist() == [["a", "b"]]

    @pytest.mark.parametrize(
        "call",
        [
            lambda engine: Engine(SCHEMA, [*engine.rules, "b: k -> v"]),
            lambda engine: engine.add_rule("b: k -> v"),
            lambda engine: engine.apply(RuleUpdate(rule=Rule("b", "k", "v"))),
        ],
        ids=["new engine", "add_rule", "apply"],
    )
    def test_twins_warn_once_where_they_are_added(self, call: Callable[[Engine], object]) -> None:
        """The warning points to the line that adds the second of two rules that say the same."""
        engine = Engine(SCHEMA, ["a: k -> v"])
        with pytest.warns(RuleWarning, match="'a' and 'b' say the same thing") as caught:
            call(engine)
        assert [warning.filename for warning in caught] == [__file__]

    def test_an_update_that_was_warned_of_does_not_warn(self) -> None:
        """A lane applies updates whose author was warned already."""
        engine = Engine(SCHEMA, ["a: k -> v"])
        engine.change_rules(RuleUpdate(rule=Rule("b", "k", "v")))
        assert [rule.id for rule in engine.rules] == ["a", "b"]
        Engine.of(ActiveRules(SCHEMA, engine.rules), Options())

    def test_conditions(self) -> None:
        """A rule is for the tuples its condition is TRUE for, as they arrived: not for FALSE or NULL."""
        engine = Engine(SCHEMA, ["k -> v WHERE w = 'yes'"], window=None, repair="class")
        tuples = [("", 1, "x", "yes"), ("", 1, "y", "no"), ("", 1, "y", None), ("", 1, "x", "yes")]
        clean, audit = engine.process(batch([*tuples, ("", 1, "y", "yes")]))
        assert clean.column("v").to_pylist() == ["x", "y", "y", "x", "x"]
        assert audit.column("candidates").to_pylist() == [
            [{"value": "x", "count": 2}, {"value": "y", "count": 1}]
        ]

    def test_conditions_of_several_rules(self) -> None:
        """Each rule has its own condition, also after an update of the rules."""
        engine = Engine(SCHEMA, ["a: k -> v WHERE w = 'v'", "b: k -> w WHERE v IS NOT NULL"])
        engine.add_rule("c: id -> v WHERE k > 5")
        engine.delete_rule("a")
        clean, _ = engine.process(
            batch([("i", 1, "x", "p"), ("i", 1, "y", "p"), ("i", 1, None, "q"), ("i", 9, "x", "p")])
        )
        assert clean.column("v").to_pylist() == ["x", "y", None, "x"]
        assert clean.column("w").to_pylist() == ["p", "p", "q", "p"]


class TestShadowRules:
    """A shadow rule reports and changes nothing; promoted, it goes on with what it has seen."""

    def test_results_are_as_if_it_did_not_exist(self) -> None:
        """Cells and audit rows are those of an engine without it, but for the rows that were not applied."""
        shadow = {"id": "wv", "lhs": ["w"], "rhs": "v", "mode": "shadow"}
        engine, other = (
            Engine(SCHEMA, [*RULES, shadow], repair="class"),
            Engine(SCHEMA, RULES, repair="class"),
        )
        tuples = batch([(str(i), i % 3, "xxy"[i % 3], "pq"[i % 2]) for i in range(30)])
        clean, audit = engine.process(tuples)
        expected, expected_audit = other.process(tuples)
        assert clean.equals(expected)
        assert [row for row in audit.to_pylist() if row["applied"]] == expected_audit.to_pylist()
        would_be = [row for row in audit.to_pylist() if not row["applied"]]
        assert would_be
        assert all("wv" in row["rules"] for row in would_be)
        assert engine.repairs == {**other.repairs, "wv": len(would_be)}

    def test_promotion(self) -> None:
        """A promoted rule repairs at once, from what it saw before, and counts its repairs from 0."""
        engine = Engine(SCHEMA, [{"id": "kv", "lhs": ["k"], "rhs": "v", "mode": "shadow"}], repair="class")
        engine.process(batch([("a", 1, "x", None), ("b", 1, "x", None), ("c", 1, "y", None)]))
        assert (engine.violations, engine.repairs) == ({"kv": 1}, {"kv": 1})
        engine.promote_rule("kv")
        clean, audit = engine.process(batch([("d", 1, "z", None)]))
        assert (clean["v"].to_pylist(), audit["applied"].to_pylist()) == (["x"], [True])
        assert (engine.violations, engine.repairs, engine.version) == ({"kv": 2}, {"kv": 1}, 2)
        assert [rule.mode for rule in engine.rules] == ["live"]

    def test_refused_promotions(self) -> None:
        """What is not a shadow rule in force cannot be promoted, and nothing changes."""
        engine = started()
        for id, problem in [("kv", "it is live already"), ("other", "no active rule has this id")]:
            with pytest.raises(RuleError, match=f"cannot be promoted, {problem}"):
                engine.promote_rule(id)
        assert engine.version == 1

    def test_the_second_state_goes_with_the_last_shadow_rule(self) -> None:
        """The memory of the second state is given back when its last shadow rule is deleted."""
        engine = started()
        size = engine.nbytes
        engine.add_rule({"id": "wv", "lhs": ["w"], "rhs": "v", "mode": "shadow"})
        assert engine.nbytes > size
        engine.delete_rule("wv")
        assert engine.nbytes == size


class TestAudit:
    """One row for each changed cell."""

    def test_columns(self) -> None:
        """The columns are the documented ones in their order, also when there are no rows."""
        engine = started(repair="class")
        assert engine.audit_schema.names == AUDIT_COLUMNS
        for more in (batch([]), batch([("e", 1, "new", "new")])):
            _, audit = engine.process(more)
            assert audit.schema == engine.audit_schema

    def test_rows_by_position_then_attribute(self) -> None:
        """Rows are in the order of the tuples, then of the schema, not of the rules."""
        engine = Engine(SCHEMA, RULES[::-1], repair="class")
        engine.process(batch([("", k, "x", "p") for k in (1, 2, 1, 2)]))
        _, audit = engine.process(batch([("", 1, "x", "q"), ("", 2, "y", "q"), ("", 1, "y", "p")]))
        assert audit.select(["position", "attribute"]).to_pylist() == [
            {"position": 4, "attribute": "w"},
            {"position": 5, "attribute": "v"},
            {"position": 5, "attribute": "w"},
            {"position": 6, "attribute": "v"},
        ]

    def test_position_is_the_id_by_default(self) -> None:
        """Without an id attribute the audit's id is the position in the stream."""
        engine = started(repair="class")
        _, audit = engine.process(batch([("e", 2, "z", "p"), ("f", 1, "new", "new")]))
        assert audit.schema.field("id").type == pa.int64()
        assert audit.column("id").to_pylist() == [5, 5]

    @pytest.mark.parametrize(
        "type", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.int32(), pa.uint64()]
    )
    def test_id_attribute(self, type: pa.DataType) -> None:
        """With an id attribute the audit has its value, in its type."""
        numbers = [f"{i:03}" for i in range(6)]
        ids = pa.array(numbers).cast(type) if not pa.types.is_integer(type) else pa.array(range(6), type)
        schema = pa.schema([("id", type), ("k", pa.int64()), ("v", pa.string())])
        engine = Engine(schema, ["k -> v"], id="id", repair="class")
        stream = pa.RecordBatch.from_arrays(
            [ids, pa.array([1] * 6), pa.array(["x", "x", "y", "x", "x", "z"])], schema=schema
        )
        audits = [engine.process(stream.slice(at, 3))[1] for at in (0, 3)]
        assert audits[0].schema.field("id").type == type
        got = [value for audit in audits for value in audit.column("id").to_pylist()]
        assert got == [ids[2].as_py(), ids[5].as_py()]

    def test_id_may_be_null(self) -> None:
        """The id is the cell as it arrived, even when it is null."""
        engine = Engine(SCHEMA, ["k -> v"], id="id")
        tuples = [("a", 1, "x", ""), ("a", 1, "x", ""), (None, 1, "y", "")]
        clean, audit = engine.process(batch(tuples))
        assert clean.column("id").to_pylist() == ["a", "a", None]
        assert audit.column("id").to_pylist() == [None]

    @pytest.mark.parametrize("n_rules", [1, 8, 9, 20])
    def test_names_which_of_many_rules_are_violated(self, n_rules: int) -> None:
        """A tuple names just those rules of its attribute whose groups it contradicts, earlier ones first."""
        keys = [f"k{n}" for n in range(n_rules)]
        schema = pa.schema([*((key, pa.int64()) for key in keys), ("v", pa.string())])
        engine = Engine(schema, [f"r{n}: {key} -> v" for n, key in enumerate(keys)], repair="class")
        usual = [(*[0] * n_rules, "x")] * 3
        every_third = (*(n % 3 for n in range(n_rules)), "y")
        all_of_them = (*[0] * n_rules, "z")
        _, audit = engine.process(batch([*usual, every_third, all_of_them], schema))
        rules = [f"r{n}" for n in range(n_rules)]
        assert audit.column("rules").to_pylist() == [rules[::3], rules]


class TestBatches:
    """The shape of the input does not matter."""

    def test_empty(self) -> None:
        """An empty batch gives an empty batch and an empty audit, before and after tuples."""
        for engine in (Engine(SCHEMA, RULES), Engine(SCHEMA, []), started()):
            position = engine.position
            clean, audit = engine.process(batch([]))
            assert (clean.num_rows, audit.num_rows) == (0, 0)
            assert clean.schema == SCHEMA
            assert engine.position == position

    def test_sliced_and_chunked(self) -> None:
        """A slice of a batch, or a chunk of a table, is cleaned as a batch of its own would be."""
        rng = np.random.default_rng(1)
        tuples = [
            (str(i), int(rng.integers(5)), [None, "x", "y", "long value"][rng.integers(4)], "p")
            for i in range(300)
        ]
        rules = [Rule("r", "k", "v", nulls="fill"), Rule("s", ["k", "v"], "w", when="k > 1")]
        whole = batch(tuples)
        padded = pa.Table.from_batches([batch(tuples[:7]), whole, whole]).combine_chunks()
        expected = Engine(SCHEMA, rules, look_ahead=1).process(whole)

        (sliced,) = padded.slice(7, 300).to_batches()
        assert sliced.column(2).offset == 7
        got = Engine(SCHEMA, rules, look_ahead=1).process(sliced)
        assert [part.to_pylist() for part in got] == [part.to_pylist() for part in expected]

        engine = Engine(SCHEMA, rules, look_ahead=1)
        chunked = pa.Table.from_batches([whole.slice(0, 100), whole.slice(100, 1), whole.slice(101)])
        parts = [engine.process(chunk) for chunk in chunked.to_batches(max_chunksize=90)]
        assert len(parts) > 3
        assert [row for clean, _ in parts for row in clean.to_pylist()] == expected[0].to_pylist()
        assert [row for _, audit in parts for row in audit.to_pylist()] == expected[1].to_pylist()

    def test_nothing_is_lost(self) -> None:
        """Every tuple comes out once, in its place; columns without a rule, and the schema, are the same."""
        nested = pa.list_(pa.struct([("x", pa.int8())]))
        schema = pa.schema(
            [
                pa.field("k", pa.int64(), nullable=False, metadata={"unit": "customer"}),
                pa.field("v", pa.string(), nullable=False, metadata={"source": "form"}),
                pa.field("extra", nested),
                pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
                pa.field("extra", pa.int8()),  # of the same name
            ],
            metadata={"table": "customers"},
        )
        n = 1000
        rng = np.random.default_rng(2)
        columns = [
            pa.array(rng.integers(0, 20, n)),
            pa.array([f"v{i}" for i in rng.integers(0, 3, n)]),
            pa.array([[{"x": 1}], None] * (n // 2), nested),
            pa.array(["a", "b"] * (n // 2)).dictionary_encode().cast(schema.field("kind").type),
            pa.array([None, 5] * (n // 2), pa.int8()),
        ]
        stream = pa.RecordBatch.from_arrays(columns, schema=schema)
        engine = Engine(schema, ["k -> v"], window=Window(100, 50), repair="class")
        clean, audit = engine.process(stream)
        assert clean.num_rows == n
        assert clean.schema.equals(schema, check_metadata=True)
        for at in (0, 2, 3, 4):
            assert clean.column(at).equals(stream.column(at))
        changed = [
            i
            for i, (old, new) in enumerate(
                zip(*(b.column(1).to_pylist() for b in (stream, clean)), strict=True)
            )
            if old != new
        ]
        assert changed == audit.column("position").to_pylist()
        assert changed
        clean.validate(full=True)
        audit.validate(full=True)

    def test_input_is_not_touched(self) -> None:
        """The batch that was given is the same afterwards, and the clean one does not share repairs."""
        stream = batch([("a", 1, v, "p") for v in "xxyx"])
        copy = batch([tuple(row.values()) for row in stream.to_pylist()])
        clean, _ = Engine(SCHEMA, RULES).process(stream)
        assert stream.equals(copy)
        assert clean.column("v").to_pylist() == ["x"] * 4

    def test_output_stays_as_it_was(self) -> None:
        """Clean batches and audits are values: later batches do not change them."""
        engine = Engine(SCHEMA, RULES, window=Window(4, 2))
        clean, audit = engine.process(batch([("a", 1, v, "p") for v in "xxy"]))
        before = (clean.to_pylist(), audit.to_pylist())
        for i in range(50):
            engine.process(batch([("a", i % 3, f"other{i}", f"{i}")] * 3))
        assert (clean.to_pylist(), audit.to_pylist()) == before


def stream_of(seed: int, n: int, n_keys: int) -> pa.RecordBatch:
    """Return a stream with two keys per tuple, skewed, a tenth of wrong values and some nulls."""
    rng = np.random.default_rng(seed)
    skew = rng.choice([0.5, 1.0, 3.0])
    a = (n_keys * rng.random(n) ** skew).astype(np.int64)
    b = (a * 7 + rng.integers(0, 3, n)) % n_keys
    right = a % 17
    value = np.where(rng.random(n) < 0.15, rng.integers(0, 40, n), right)
    null = rng.random((3, n)) < 0.05
    return pa.RecordBatch.from_arrays(
        [
            pa.array(a, mask=null[0]),
            pa.array(np.char.add("key", b.astype(str)), pa.string(), mask=null[1]),
            pa.array(np.char.add("value", value.astype(str)), pa.string(), mask=null[2]),
            pa.array(value / 4.0, mask=null[2]),
        ],
        schema=pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.string()), ("x", pa.float64())]),
    )


STREAM_RULES = [
    Rule("av", "a", "v", nulls="fill"),
    Rule("bv", "b", "v"),
    Rule("abv", ["a", "b"], "v", when="a > 3"),
    Rule("ax", "a", "x"),
]


def run(engine: Engine, stream: pa.RecordBatch, cuts: Sequence[int]) -> tuple[pa.Table, pa.Table]:
    """Clean a stream that is cut at the given places."""
    places = [0, *sorted(cuts), stream.num_rows]
    parts = [engine.process(stream.slice(start, stop - start)) for start, stop in itertools.pairwise(places)]
    clean, audit = (
        pa.Table.from_batches(list(batches)).combine_chunks() for batches in zip(*parts, strict=True)
    )
    return clean, audit


@MODES
@FEW
@given(data=st.data())
def test_any_cut_gives_the_same(windowing: str, repair: str, data: st.DataObject) -> None:
    """A stream of thousands of tuples gives the same rows and audit however it is cut into batches."""
    n = data.draw(st.integers(2_000, 6_000), "n")
    stream = stream_of(data.draw(st.integers(0, 2**32), "seed"), n, data.draw(st.integers(50, 400), "keys"))
    slide = data.draw(st.integers(50, 900), "slide")
    window = data.draw(st.sampled_from([None, Window(slide, slide), Window(slide * 3, slide)]), "window")
    n_rules = data.draw(st.sampled_from([1, 2, 4]), "rules")
    options: Any = {"window": window, "windowing": windowing, "repair": repair}
    expected = run(Engine(stream.schema, STREAM_RULES[:n_rules], **options), stream, [])
    cuts = data.draw(st.lists(st.integers(0, n), max_size=40), "cuts")
    engine = Engine(stream.schema, STREAM_RULES[:n_rules], **options)
    clean, audit = run(engine, stream, cuts)
    assert clean.equals(expected[0])
    assert audit.equals(expected[1])
    assert audit.num_rows > 0
    assert engine.position == n


@MODES
def test_one_by_one_gives_the_same(windowing: str, repair: str) -> None:
    """Batches of a single tuple give what one batch gives, over several slides."""
    stream = stream_of(5, 600, 40)
    options: Any = {"window": Window(160, 40), "windowing": windowing, "repair": repair}
    expected = run(Engine(stream.schema, STREAM_RULES, **options), stream, [])
    got = run(Engine(stream.schema, STREAM_RULES, **options), stream, range(1, 600))
    assert got[0].equals(expected[0])
    assert got[1].equals(expected[1])


@MODES
def test_a_batch_of_many_windows(windowing: str, repair: str) -> None:
    """A batch far larger than the window, and than what is reserved at a time, is cut by the engine."""
    stream = stream_of(6, 40_000, 300)
    options: Any = {"windowing": windowing, "repair": repair}
    for window in (None, Window(2_000, 500), Window(30_000, 30_000)):
        expected = run(Engine(stream.schema, STREAM_RULES, window=window, **options), stream, [])
        cuts = range(777, 40_000, 777)
        got = run(Engine(stream.schema, STREAM_RULES, window=window, **options), stream, cuts)
        assert got[0].equals(expected[0])
        assert got[1].equals(expected[1])


def new_keys(position: np.ndarray[Any, Any]) -> list[pa.Array]:
    """Return keys that never come back, with a hinge between neighbours, and three values."""
    return [pa.array(position // 6), pa.array(position // 10), _text(position % 3)]


def new_keys_and_values(position: np.ndarray[Any, Any]) -> list[pa.Array]:
    """Return keys and values that never come back."""
    return [pa.array(position // 6), pa.array(position // 10), _text(position // 2)]


def new_values(position: np.ndarray[Any, Any]) -> list[pa.Array]:
    """Return a few hundred keys that stay, with values that never come back."""
    return [pa.array(position % 300), pa.array(position % 7), _text(position)]


def _text(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.char.add("value of some length ", numbers.astype(str)), pa.string())


@pytest.mark.parametrize("repair", ["class", "vote"])
@pytest.mark.parametrize("rules", [["a -> v"], ["a -> v", "b -> v"]], ids=["one rule", "two rules"])
@pytest.mark.parametrize(
    ("windowing", "columns"),
    [
        ("bleach", new_keys),
        ("bleach", new_keys_and_values),
        ("basic", new_keys),
        ("basic", new_keys_and_values),
        ("basic", new_values),
    ],
)
def test_memory_is_flat(
    windowing: str, columns: Callable[[np.ndarray[Any, Any]], list[pa.Array]], rules: list[str], repair: str
) -> None:
    """The state is no larger after twelve windows than after three, whatever never comes back."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.string())])
    size, slide = 8_000, 2_000
    engine = Engine(schema, rules, window=Window(size, slide), windowing=windowing, repair=repair)
    sizes = {}
    for start in range(0, 12 * size, slide):
        position = np.arange(start, start + slide)
        engine.process(pa.RecordBatch.from_arrays(columns(position), schema=schema))
        sizes[engine.position // size] = (engine.nbytes, engine.super_cells, len(engine.snapshot()))
    for early, late in zip(sizes[3], sizes[12], strict=True):
        assert 0 < late <= 1.3 * early
    # Cells of the window, and of the panes that the sweep has yet to reach.
    assert sizes[12][1] <= size + 2 * slide


@pytest.mark.parametrize("rules", [["k -> v"], ["k -> v", "j -> v"]], ids=["one rule", "two rules"])
@MODES
def test_long_strings(rules: list[str], windowing: str, repair: str) -> None:
    """Thousands of values of 5 KB, alike but for their end, are distinct and ordered as short ones are."""
    rng = np.random.default_rng(4)
    n = 3_000
    value = rng.integers(0, 1_500, n)
    value[::3] = value[::3] % 5
    short = [f"{i:05}" for i in value]
    keys = [pa.array(rng.integers(0, 40, n)), pa.array(rng.integers(0, 200, n))]
    schema = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("v", pa.string())])
    prefix = "ä" * 2_500
    results = []
    for texts in (short, [prefix + text for text in short]):
        engine = Engine(schema, rules, window=Window(600, 200), windowing=windowing, repair=repair)
        stream = pa.RecordBatch.from_arrays([*keys, pa.array(texts)], schema=schema)
        results.append((*run(engine, stream, range(150, n, 150)), engine))
    (clean, audit, _), (long_clean, long_audit, engine) = results
    assert long_clean.column("v").to_pylist() == [prefix + v for v in clean.column("v").to_pylist()]
    assert long_audit.drop_columns(["old_value", "new_value", "candidates"]).equals(
        audit.drop_columns(["old_value", "new_value", "candidates"])
    )
    assert [
        [(c["value"][-5:], c["count"]) for c in row] for row in long_audit.column("candidates").to_pylist()
    ] == [[(c["value"], c["count"]) for c in row] for row in audit.column("candidates").to_pylist()]
    assert audit.num_rows > 100
    assert engine.nbytes < 40e6  # 600 values in the window, some more that Bleach windowing keeps


def test_values_of_all_lengths() -> None:
    """Values of every length from 0 to 2,100 bytes come back whole, in slots that were used before."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.binary())])
    engine = Engine(schema, [Rule("r", "k", "v", nulls="fill")], window=Window(64, 32), windowing="basic")
    rng = np.random.default_rng(9)
    lengths = [*range(2_101), *rng.integers(0, 2_100, 2_000)]
    values = [rng.bytes(int(length)) for length in lengths]
    for start in range(0, len(values), 20):
        some = values[start : start + 20]
        keys = list(range(start, start + len(some)))
        clean, _ = engine.process(
            pa.RecordBatch.from_arrays(
                [pa.array(keys * 2), pa.array(some + [None] * len(some), pa.binary())], schema=schema
            )
        )
        assert clean.column("v").to_pylist() == some * 2


def test_two_engines_share_nothing() -> None:
    """Engines that take turns give what each would give alone."""
    stream = stream_of(8, 2_000, 80)
    alone = run(Engine(stream.schema, STREAM_RULES, window=Window(300, 100), look_ahead=1), stream, [])
    engines = [Engine(stream.schema, STREAM_RULES, window=Window(300, 100), look_ahead=1) for _ in range(2)]
    parts: list[list[Any]] = [[], []]
    for start in range(0, 2_000, 250):
        for engine, out in zip(engines, parts, strict=True):
            out.append(engine.process(stream.slice(start, 250))[0])
    for out in parts:
        assert pa.Table.from_batches(out).combine_chunks().equals(alone[0])


def test_no_warning_without_reason() -> None:
    """Rules that differ do not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine(SCHEMA, ["k -> v", "k -> w", "k, id -> v", "k -> v WHERE k > 1"])


@pytest.mark.parametrize(
    ("id", "cells"),
    [
        (None, pa.array([5, 5, 7]).view(pa.timestamp("us", "Nowhere/Nope"))),
        (None, pa.array([b"", b"", None], pa.binary(0))),
        ("id", pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))),
    ],
    ids=["unknown time zone", "bytes of width 0", "run-end encoded id"],
)
def test_unusual_columns_are_refused_or_work(id: str | None, cells: pa.Array) -> None:
    """A column that cannot be cleaned or audited is refused at the start, not when state has changed."""
    attribute = "v" if id is None else "id"
    schema = pa.schema([("k", pa.int64()), (attribute, cells.type), *([("v", pa.string())] if id else [])])
    try:
        engine = Engine(schema, [Rule("r", "k", "v", nulls="fill")], id=id)
    except (RuleError, ConfigError):
        return
    columns = [pa.array([1, 1, 1]), cells, *([pa.array(["x", "x", "y"])] if id else [])]
    clean, _ = engine.process(pa.RecordBatch.from_arrays(columns, schema=schema))
    assert clean.column("v")[2] == clean.column("v")[0]
    assert engine.position == 3


def test_a_restored_engine_does_not_warn_again() -> None:
    """Rules that say the same thing are warned of when they come, not when a snapshot is restored."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    with pytest.warns(RuleWarning):
        engine = Engine(schema, ["a: k -> v", "b: k -> v"])
    assert Engine.restore(engine.snapshot()).rules == engine.rules


def test_a_table_is_refused() -> None:
    """What is not a record batch is refused with the remedy."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    with pytest.raises(SchemaError, match="to_batches"):
        Engine(schema, ["k -> v"]).process(schema.empty_table())


_SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("id", pa.int64())])


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"window": 1000}, "Window.tuples"),
        ({"rules": "a: k -> v"}, "brackets"),
        ({"rules": None}, "brackets"),
        ({"schema": {"k": "v"}}, "pyarrow.Schema"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], remedy: str) -> None:
    """An option of the wrong kind is a ConfigError that names the remedy, when the engine is made."""
    with pytest.raises(ConfigError, match=remedy):
        Engine(**{"schema": _SCHEMA, "rules": [], **options})


def test_no_rule_changes_ids() -> None:
    """A rule whose RHS is the id attribute is refused, at the start and as an update."""
    with pytest.raises(RuleError, match="rule 'r', rhs: 'id' is the id"):
        Engine(_SCHEMA, [Rule("r", ["k"], "id")], id="id")
    engine = Engine(_SCHEMA, [], id="id")
    with pytest.raises(RuleError, match="no rule may change"):
        engine.add_rule("k -> id")
    assert engine.rules == ()


def test_a_rule_may_be_a_mapping() -> None:
    """A mapping as in a file of rules is a rule; anything else is refused."""
    engine = Engine(_SCHEMA, [{"id": "r", "lhs": ["k"], "rhs": "v"}])
    assert engine.rules == (Rule("r", ["k"], "v"),)
    with pytest.raises(RuleError, match="give a Rule, a text or a mapping"):
        engine.add_rule(7)  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="give the id of a rule"):
        engine.delete_rule(engine.rules[0])  # type: ignore[arg-type]
