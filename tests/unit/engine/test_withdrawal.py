"""A rule whose condition needs too much is withdrawn, and the stream goes on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import Engine, RuleWarning
from sparkbleach.engine.placement import Placement, Share
from sparkbleach.engine.withdrawal import Withdrawal
from sparkbleach.rules.condition_evaluator import ConditionLimitError
from sparkbleach.rules.condition_process import ConditionLimits

SCHEMA = pa.schema([("a", pa.int64()), ("z", pa.int64()), ("b", pa.string()), ("n", pa.int64())])
#: harmless where n is 0
POISON = "poison: a -> b WHERE length(repeat('x', n * 90000000)) >= 0"
LIMITS = ConditionLimits(memory_bytes=64 << 20)
REASON = "needs more than 64 MB of memory on 6 tuples"


def batch(values: str, n: int) -> pa.RecordBatch:
    """Return tuples that agree in a and z."""
    rows = [{"a": 1, "z": 1, "b": value, "n": n} for value in values]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def clean(engine: Engine, values: str, n: int) -> list[Any]:
    """Clean tuples; return the values of b, and the audit."""
    cleaned, audit = engine.process(batch(values, n))
    return [cleaned.column("b").to_pylist(), audit.to_pylist()]


@pytest.mark.parametrize("repair", ["bayes", "class", "vote"])
def test_the_stream_goes_on_without_the_rule(repair: str) -> None:
    """From the batch on for which its condition needs too much, it is as if the rule had been deleted."""
    rules = [POISON, "good: z -> b", "alike: a -> b"]
    engine = Engine(SCHEMA, rules, repair=repair, condition_limits=LIMITS)
    other = Engine(SCHEMA, rules, repair=repair)
    assert clean(engine, "xxxxyx", 0) == clean(other, "xxxxyx", 0)
    assert engine.take_withdrawn() == []
    other.delete_rule("poison")
    with pytest.warns(RuleWarning, match=r"withdrawn: rule 'poison', from position 6 on; .*64 MB.*add it"):
        cleaned = clean(engine, "xyxxxx", 9)
    assert cleaned == clean(other, "xyxxxx", 9)
    assert engine.take_withdrawn() == [Withdrawal("poison", 6, REASON)]
    assert engine.take_withdrawn() == []
    assert clean(engine, "xxyxxx", 9) == clean(other, "xxyxxx", 9)
    assert engine.report() == other.report()
    assert [rule.id for rule in Engine.restore(engine.snapshot()).rules] == ["good", "alike"]
    engine.add_rule(POISON)
    assert [rule.id for rule in engine.rules] == ["good", "alike", "poison"]


@pytest.mark.parametrize("repair", ["class", "vote"])
def test_one_of_several_lanes_goes_on_without_the_rule(repair: str) -> None:
    """From that batch on the rule applies to no tuple; ids and versions stay as the other lanes have them."""
    rules = ["good: z -> b", "alike: a -> b"]
    share = Share(Placement((("b",), ("z",))), 0)
    engine = Engine(SCHEMA, [POISON, *rules], repair=repair, share=share, condition_limits=LIMITS)
    other = Engine(SCHEMA, ["poison: a -> b WHERE n = 0", *rules], repair=repair, share=share)
    assert clean(engine, "xxxxyx", 0) == clean(other, "xxxxyx", 0)
    with pytest.warns(RuleWarning, match=r"rule 'poison' in lane 0, .* 6 on; .*; delete it, then"):
        assert clean(engine, "xyxxxx", 9) == clean(other, "xyxxxx", 9)
    assert engine.take_withdrawn() == [Withdrawal("poison", 6, REASON, lane=0)]
    engine = Engine.restore(engine.snapshot())
    assert clean(engine, "xxyxxx", 9) == clean(other, "xxyxxx", 9)
    assert (engine.violations, engine.repairs) == (other.violations, other.repairs)
    for one in (engine, other):
        one.delete_rule("poison")
        one.add_rule("poison: a -> b WHERE n = 9")
    assert clean(engine, "yyyyyx", 9) == clean(other, "yyyyyx", 9)
    assert engine.violations == other.violations
    assert engine.violations["poison"] > 0


def test_a_replay_withdraws_nothing() -> None:
    """Tuples that are processed again have wider limits, and a rule that breaks even these is an error."""
    engine = Engine(SCHEMA, [POISON], condition_limits=LIMITS)
    wider = Engine(SCHEMA, [POISON], condition_limits=LIMITS)
    with engine.replaying():
        assert clean(engine, "x", 0) == clean(wider, "x", 0)
        with pytest.raises(
            ConditionLimitError, match=r"rule 'poison', when: it needs .*it did not when these"
        ):
            engine.process(batch("y", 9))
    assert (engine.rules, engine.position, engine.take_withdrawn()) == (wider.rules, 1, [])
    assert engine.condition_limits == LIMITS
