"""What a caller that puts the new cells in place itself relies on: decide, adopt_schema, threads, report."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import ConfigError, Engine, Rule, SchemaError, Window
from sparkbleach.engine.apply import apply_rules
from sparkbleach.engine.audit import RepairedColumn, audit_batch, replace_cells
from sparkbleach.rules.check import check_rules, columns_read
from tests.support.profiles import one_in

SCHEMA = pa.schema(
    [
        ("unread", pa.list_(pa.int8())),
        ("id", pa.string()),
        ("a", pa.int64()),
        ("b", pa.string()),
        ("v", pa.string()),
        ("x", pa.float64()),
        ("c", pa.int32()),
        ("twice", pa.int8()),
        ("twice", pa.string()),
    ]
)
RULES = [
    Rule("av", "a", "v", nulls="fill"),
    Rule("bv", "b", "v", when="c > 1"),
    Rule("ax", "a", "x", tableau=[["_", "_"], [3, 0.5], [3, 0.75]]),
    Rule("bx", "b", "x", tableau=[["k1", 0.25], ["_", "_"]], when="c IS NOT NULL"),
]
READ = ["id", "a", "b", "v", "x", "c"]
FEW = one_in(8)


def stream(n: int = 200, seed: int = 1) -> pa.RecordBatch:
    """Return a stream with many violations in two attributes."""
    rng = np.random.default_rng(seed)
    value = rng.integers(0, 4, n)
    null = rng.random((4, n)) < 0.1
    columns = {
        "id": pa.array([f"t{i}" for i in range(n)]),
        "a": pa.array(rng.integers(0, 9, n), mask=null[0]),
        "b": pa.array(np.char.add("k", rng.integers(0, 9, n).astype(str)), pa.string(), mask=null[1]),
        "v": pa.array(np.char.add("value ", value.astype(str)), pa.string(), mask=null[2]),
        "x": pa.array(value / 4, mask=null[3]),
        "c": pa.array(rng.integers(0, 4, n), pa.int32(), mask=null[0]),
    }
    arrays = [
        columns.get(name, pa.nulls(n, type)) for name, type in zip(SCHEMA.names, SCHEMA.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def engine_of(**options: Any) -> Engine:
    """Return an engine at the beginning of the stream."""
    return Engine(SCHEMA, RULES, **{"id": "id", "window": Window(60, 20), **options})


def as_tuples(repaired: list[RepairedColumn]) -> list[tuple[Any, ...]]:
    """Return repaired columns as values that can be compared."""
    return [
        (
            column.attribute,
            column.version,
            column.rows.tolist(),
            column.positions.tolist(),
            column.new.to_pylist(),
            column.why.to_pylist(),
        )
        for column in repaired
    ]


class TestDecide:
    """`decide` is `process` without the clean batch."""

    def test_like_process(self) -> None:
        """The new cells, put in place, and the audit are those of process, and the state goes on alike."""
        one, other = engine_of(), engine_of()
        for start in range(0, 200, 40):
            batch = stream().slice(start, 40)
            clean, audit = one.process(batch)
            repaired = other.decide(batch)
            assert repaired
            assert replace_cells(batch, repaired).equals(clean)
            rows, same_audit = audit_batch(repaired, batch, batch.column("id"), other.audit_schema)
            assert same_audit.equals(audit)
            assert (rows + start).tolist() == audit.column("position").to_pylist()
            assert other.report() == one.report()
        assert other.snapshot() == one.snapshot()

    def test_some_columns_in_any_order(self) -> None:
        """Columns that nothing reads may be missing, and columns may be in any order."""
        expected = engine_of().decide(stream())
        for names in (READ, READ[::-1], [*READ, "unread"]):
            assert as_tuples(engine_of().decide(stream().select(names))) == as_tuples(expected) != []

    def test_one_of_two_columns_of_a_name(self) -> None:
        """Of columns that share a name and that nothing reads, any may be there."""
        batch = stream().select(READ)
        for array in (pa.nulls(200, pa.int8()), pa.nulls(200, pa.string())):
            engine_of().decide(batch.append_column("twice", array))
        with pytest.raises(SchemaError, match="twice double"):
            engine_of().decide(batch.append_column("twice", pa.nulls(200, pa.float64())))

    def test_empty(self) -> None:
        """An empty batch, and an engine without rules, decide nothing."""
        assert engine_of().decide(stream(0).select(READ)) == []
        engine = Engine(SCHEMA)
        assert engine.decide(stream().select([])) == []
        assert engine.position == 200

    def test_constant_conditions(self) -> None:
        """A condition that reads no column is evaluated, too."""
        batch = stream().select(["a", "v"])
        always, never = (
            Engine(SCHEMA, [Rule("r", "a", "v", when=when)], repair="class") for when in ("1 = 1", "1 = 2")
        )
        assert (
            as_tuples(always.decide(batch))
            == as_tuples(Engine(SCHEMA, ["r: a -> v"], repair="class").decide(batch))
            != []
        )
        assert never.decide(batch) == []

    @pytest.mark.parametrize("missing", READ)
    def test_missing_column(self, missing: str) -> None:
        """A batch without a column of LHS, RHS, condition or id is refused by name, and changes nothing."""
        engine = engine_of()
        engine.decide(stream(20))
        before = engine.snapshot()
        names = [name for name in READ if name != missing]
        with pytest.raises(SchemaError, match=f"batch at position 20: it lacks '{missing}'.*select at least"):
            engine.decide(stream().select(names))
        assert engine.snapshot() == before

    @pytest.mark.parametrize("wrong", [("more", pa.int64()), ("v", pa.large_string()), ("a", pa.int64())])
    def test_wrong_column(self, wrong: tuple[str, pa.DataType]) -> None:
        """A column that is unknown, of another type, or there twice is refused, and changes nothing."""
        engine = engine_of()
        before = engine.snapshot()
        name, type = wrong
        batch = stream().select([one for one in READ if one != name or type == pa.int64()])
        with pytest.raises(SchemaError, match=rf"\({name} {type}\) are not those.*drop or cast"):
            engine.decide(batch.append_column(name, pa.nulls(200, type)))
        assert engine.snapshot() == before

    def test_not_a_batch(self) -> None:
        """A table is refused with the remedy."""
        with pytest.raises(SchemaError, match="to_batches"):
            engine_of().decide(pa.Table.from_batches([stream()]))

    def test_process_stays_strict(self) -> None:
        """What decide accepts with columns left out, process refuses."""
        with pytest.raises(SchemaError, match="select and cast"):
            engine_of().process(stream().select(READ))

    def test_columns_read(self) -> None:
        """The columns that are read follow the live rules, their conditions and the id, in schema order."""
        engine = engine_of()
        assert engine.columns_read == READ
        engine.delete_rule("bv")
        assert engine.columns_read == READ
        engine.delete_rule("bx")
        assert engine.columns_read == ["id", "a", "v", "x"]
        assert Engine(SCHEMA).columns_read == []
        assert columns_read(check_rules(RULES[:2], SCHEMA), SCHEMA) == ["a", "b", "v", "c"]
        assert columns_read(check_rules(RULES[:1], SCHEMA), SCHEMA, "id") == ["id", "a", "v"]

    def test_decide_after_an_update(self) -> None:
        """Columns that only a deleted rule read may be missing from then on."""
        engine = engine_of()
        engine.decide(stream(50).select(READ))
        engine.delete_rule("bv")
        engine.delete_rule("bx")
        engine.decide(stream(50).select(["id", "a", "v", "x"]))
        engine.add_rule("new: a -> b")
        with pytest.raises(SchemaError, match="it lacks 'b'"):
            engine.decide(stream(50).select(["id", "a", "v", "x"]))


def test_report() -> None:
    """The report has position, version, rules, counters and sizes, and goes through JSON unchanged."""
    engine = engine_of(window=None)
    engine.process(stream())
    engine.delete_rule("bx")
    report = engine.report()
    assert json.loads(json.dumps(report)) == report
    assert report.pop("rule_quality").keys() == {"av", "bv", "ax"}
    assert report == {
        "position": 200,
        "version": 2,
        "rules": ["av", "bv", "ax"],
        "violations": engine.violations,
        "repairs": engine.repairs,
        "super_cells": engine.super_cells,
        "nbytes": engine.nbytes,
    }
    assert report["violations"]["av"] > 0
    json.dumps(Engine(SCHEMA).report())


class TestAdoptSchema:
    """The stream goes on with another schema."""

    @pytest.mark.parametrize("restored", [False, True])
    def test_goes_on(self, restored: bool) -> None:
        """With columns added, dropped and reordered the engine goes on as before, also when restored."""
        batch = stream()
        engine, other = engine_of(), engine_of()
        engine.process(batch.slice(0, 90))
        other.process(batch.slice(0, 90))
        more = batch.select(READ[::-1]).append_column("new", pa.array(range(200)))
        engine.adopt_schema(more.schema)
        assert engine.schema.names == [*READ[::-1], "new"]
        assert engine.columns_read == READ[::-1]
        if restored:
            engine = Engine.restore(engine.snapshot())
        clean, audit = engine.process(more.slice(90))
        expected, expected_audit = other.process(batch.slice(90))
        assert clean.select(READ).equals(expected.select(READ))
        assert clean.column("new").equals(more.slice(90).column("new"))
        order = [("position", "ascending"), ("attribute", "ascending")]
        assert audit.sort_by(order).equals(expected_audit.sort_by(order))
        assert engine.violations == other.violations
        assert engine.version == 1

    def test_audit_in_the_new_order(self) -> None:
        """Audit rows of a tuple are in the order of the new schema."""
        engine = engine_of(repair="class")
        engine.adopt_schema(stream().select(READ[::-1]).schema)
        _, audit = engine.process(stream().select(READ[::-1]))
        rows = audit.select(["position", "attribute"]).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["position"], -READ.index(row["attribute"])))
        assert {row["attribute"] for row in rows} == {"v", "x"}

    def test_rules_for_new_columns(self) -> None:
        """A rule for an added column can be added once the schema is adopted, and unread ones may change."""
        engine = engine_of()
        schema = pa.schema(
            [("unread", pa.string()), *(SCHEMA.field(name) for name in READ), ("new", pa.int8())]
        )
        engine.adopt_schema(schema)
        engine.add_rule("n: new -> unread WHERE new > 0")
        assert engine.columns_read == ["unread", *READ, "new"]
        with pytest.raises(
            SchemaError, match="'unread', which a rule or the id reads, was string and is gone"
        ):
            engine.adopt_schema(pa.schema([field for field in schema if field.name != "unread"]))

    def test_twins_do_not_warn_again(self) -> None:
        """Two live rules that say the same warned when they came, not with each schema."""
        with pytest.warns(match="say the same"):
            engine = Engine(SCHEMA, ["r: a -> v", "s: a -> v"])
        engine.adopt_schema(stream().select(READ).schema)

    @pytest.mark.parametrize("name", READ)
    @pytest.mark.parametrize("now", ["gone", "bool", "twice"])
    def test_refused(self, name: str, now: str) -> None:
        """Without a column that is read, or with another type of it or two of it, nothing changes."""
        engine = engine_of()
        engine.process(stream(50))
        before = engine.snapshot()
        fields = [field for field in SCHEMA if field.name != name]
        kind = SCHEMA.field(name).type
        fields += {"gone": [], "bool": [pa.field(name, pa.bool_())], "twice": [pa.field(name, kind)] * 2}[now]
        description = {"gone": "gone", "bool": "bool", "twice": f"{kind} and {kind}"}[now]
        with pytest.raises(
            SchemaError, match=f"from position 50 on: column '{name}'.*was {kind} and is {description};"
        ):
            engine.adopt_schema(pa.schema(fields))
        assert engine.snapshot() == before
        assert engine.process(stream()) is not None

    def test_ambiguous_conditions(self) -> None:
        """A column that makes an attribute of a condition ambiguous is refused, and nothing changes."""
        engine = engine_of()
        before = engine.snapshot()
        with pytest.raises(SchemaError, match=r"rule 'bv'.*ambiguous"):
            engine.adopt_schema(pa.schema([*SCHEMA, ("C", pa.int32())]))
        assert engine.snapshot() == before

    def test_not_a_schema(self) -> None:
        """Anything but a schema is refused."""
        with pytest.raises(SchemaError, match=r"pyarrow\.Schema"):
            engine_of().adopt_schema({"a": "int64"})


def engine_threads() -> set[threading.Thread]:
    """Return the threads of all engines in this process: other tests may have left some."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("sparkbleach")}


class TestThreads:
    """Attributes in threads give what attributes in turn give."""

    @pytest.mark.parametrize("threads", [2, 5])
    @pytest.mark.parametrize(("windowing", "repair"), [("bleach", "class"), ("basic", "vote")])
    @FEW
    @given(data=st.data())
    def test_the_same(self, threads: int, windowing: str, repair: str, data: st.DataObject) -> None:
        """Cells, audit, counters and state are the same with any number of threads, also after updates."""
        n = data.draw(st.integers(100, 3_000), "n")
        batch = stream(n, data.draw(st.integers(0, 2**32), "seed"))
        slide = data.draw(st.integers(20, 600), "slide")
        window = data.draw(st.sampled_from([None, Window(slide, slide), Window(slide * 3, slide)]), "window")
        cuts = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=8), "cuts")), n]
        rules = {rule.id: rule for rule in (*RULES, Rule("acb", ["a", "c"], "b"), Rule("ab", "a", "b"))}
        toggled = st.lists(st.sampled_from([None, *rules]), min_size=10, max_size=10)
        updates = data.draw(toggled, "updates")
        options: Any = {"window": window, "windowing": windowing, "repair": repair}
        engines = [engine_of(threads=1, **options), engine_of(threads=threads, **options)]
        for start, stop, update in zip(cuts, cuts[1:], updates, strict=False):
            results = []
            for engine in engines:
                if update in {rule.id for rule in engine.rules}:
                    engine.delete_rule(update)
                elif update:
                    engine.add_rule(rules[update])
                results.append(engine.decide(batch.slice(start, stop - start)))
            assert as_tuples(results[1]) == as_tuples(results[0])
        one, other = engines
        assert other.report() == one.report()
        assert other.snapshot() == one.snapshot()
        for mine, others in zip(one.snapshot_parts()[1], other.snapshot_parts()[1], strict=True):
            assert mine.tobytes() == others.tobytes()
        other.close()

    def test_a_long_stream(self) -> None:
        """Batches that take the kernel milliseconds each are the same in two threads, over several slides."""
        engines = [engine_of(threads=threads, window=Window(60_000, 20_000)) for threads in (1, 2)]
        for seed in range(4):
            batch = stream(50_000, seed)
            one, other = (engine.process(batch) for engine in engines)
            assert other[0].equals(one[0])
            assert other[1].equals(one[1])
        assert engines[1].snapshot() == engines[0].snapshot()

    def test_restored(self) -> None:
        """A restored engine has as many threads as it is restored with, whatever it had."""
        engine = engine_of(threads=2)
        engine.decide(stream())
        for twin in (
            Engine.restore(engine.snapshot()),
            Engine.restore(engine.snapshot(), threads=3),
            Engine.restore_parts(*engine.snapshot_parts(), threads=2),
        ):
            expected = Engine.restore(engine.snapshot()).decide(stream(seed=2))
            assert as_tuples(twin.decide(stream(seed=2))) == as_tuples(expected) != []
        assert (Engine.restore(engine.snapshot()).threads, twin.threads) == (1, 2)

    def test_a_fault_before_the_state(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """When one attribute cannot be prepared, all others are as they were, too, and the engine goes on."""
        engine = engine_of(threads=2, repair="class")
        engine.decide(stream())
        before = engine.snapshot()

        def fail(columns: Any, attribute: str, *rest: Any) -> Any:
            if attribute == "x":
                raise SchemaError("x cannot be read")
            return apply_rules(columns, attribute, *rest)

        with monkeypatch.context() as patch:
            patch.setattr("sparkbleach.engine.engine.apply_rules", fail)
            with pytest.raises(SchemaError, match="x cannot be read"):
                engine.decide(stream())
        assert engine.snapshot() == before
        assert as_tuples(engine.decide(stream())) == as_tuples(Engine.restore(before).decide(stream())) != []

    def test_closed(self) -> None:
        """Closing ends the threads; the engine can be used again, and closed again."""
        others = engine_threads()
        engine = engine_of(threads=3)
        engine.close()
        for _ in range(2):
            engine.decide(stream())
            assert engine_threads() - others
            engine.close()
            assert not engine_threads() - others
            engine.close()

    def test_forgotten(self) -> None:
        """The threads of an engine that nothing refers to any more end by themselves."""
        others = engine_threads()
        engine = engine_of(threads=2)
        engine.decide(stream())
        trace = weakref.ref(engine)
        del engine
        gc.collect()
        assert trace() is None
        until = time.monotonic() + 120
        while engine_threads() - others:
            assert time.monotonic() < until
            time.sleep(0.01)

    @pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2", None])
    def test_wrong_number(self, threads: Any) -> None:
        """A number of threads that is none is refused."""
        with pytest.raises(ConfigError, match=r"threads: .* must be a positive integer"):
            engine_of(threads=threads)
