"""Conditions that need too much: they are stopped, and nothing else is."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace

import pyarrow as pa
import pytest

from sparkbleach import ConfigError, RuleError
from sparkbleach.rules import condition_evaluator, condition_process
from sparkbleach.rules.check import check_rules
from sparkbleach.rules.condition import Condition
from sparkbleach.rules.condition_evaluator import ConditionEvaluator, ConditionLimitError
from sparkbleach.rules.condition_process import Budget, ConditionLimits
from sparkbleach.rules.condition_syntax import ConditionError
from sparkbleach.rules.rule import Rule
from sparkbleach.rules.trial import try_conditions

BATCH = pa.record_batch({"z": ["a", "bc", "7"], "n": [1, 2, 3]})
SCHEMA = BATCH.schema
LIMITS = ConditionLimits(cpu_seconds=1, cpu_seconds_per_tuple=0, memory_bytes=128 << 20)
#: on a busy machine it may take a second of a processor to fill the memory
MUCH_TIME = replace(LIMITS, cpu_seconds=60)
MEMORY = r"it needs more than 128 MB of memory"
TIME = r"it takes more than 1 s of processor time"
TOO_MUCH = "len(range(n * 400000000)) > 0"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (TOO_MUCH, f"{MEMORY} on 3 tuples"),
        ("length(lpad(z, 2000000000, 'x')) > 0", MEMORY),
        ("len(regexp_extract_all(repeat(z, 9000000), '.')) > 0", f"{TIME}|{MEMORY}"),
        ("length(" + "hex(" * 27 + "z" + ")" * 28 + " > 2", MEMORY),
        ("length(printf('%1000000000d', n)) > 3", MEMORY),
        ("levenshtein(repeat(z, 90000), repeat(z, 89999)) > 3", f"{TIME} on 3 tuples"),
        ("repeat(z || 'ab', 20000) LIKE '%a_%a_%a_%b_%b_%x'", TIME),
        ("len(range(900000000)) > 0", MEMORY),
    ],
)
def test_a_condition_that_needs_too_much_is_stopped(sql: str, reason: str) -> None:
    """A condition that breaks a limit, also one without attributes, is an error that says which."""
    conditions = ConditionEvaluator(SCHEMA, [Condition.compile(sql, SCHEMA)])
    with pytest.raises(ConditionLimitError, match=reason):
        conditions.evaluate(BATCH, MUCH_TIME if reason.startswith(MEMORY) else LIMITS)


def test_what_is_slow_for_each_tuple_is_stopped() -> None:
    """A condition that takes some 0.1 s for a tuple is stopped within a batch."""
    sql = "len(regexp_extract_all(repeat(z, 1000000), 'a')) > 0"
    conditions = ConditionEvaluator(SCHEMA, [Condition.compile(sql, SCHEMA)])
    with pytest.raises(ConditionLimitError, match=f"{TIME}|{MEMORY}"):
        conditions.evaluate(pa.concat_batches([BATCH] * 300), LIMITS)


def test_only_what_breaks_a_limit_is_blamed() -> None:
    """Rules whose conditions hold the limits are not named, and hold as before."""
    rules = {"long": TOO_MUCH, "usual": "z = 'a'", "same": f"({TOO_MUCH})", "constant": "1 = 1"}
    compiled = [Condition.compile(sql, SCHEMA) for sql in rules.values()]
    with pytest.raises(ConditionLimitError, match=r"rule 'long', when: it needs .*; rule 'same'") as caught:
        ConditionEvaluator(SCHEMA, compiled, list(rules)).evaluate(BATCH, LIMITS)
    assert list(caught.value.broken) == ["long", "same"]
    held = ConditionEvaluator(SCHEMA, [compiled[1], compiled[3]]).evaluate(BATCH, LIMITS)
    assert [list(mask) for mask in held] == [[True, False, False], [True] * 3]


@pytest.mark.parametrize("turned", [False, True])
def test_no_condition_pays_for_the_memory_of_another(*, turned: bool) -> None:
    """Conditions that hold the limits alone, but not in one process after the other, hold them."""
    schema = pa.schema([("z", pa.string())])
    batch = pa.RecordBatch.from_pydict({"z": ["x" * 10] * 2_000}, schema)
    texts = ["length(repeat(z, 15000)) > 0", "len(range(1000 * length(z))) > 0"]
    compiled = [Condition.compile(sql, schema) for sql in (reversed(texts) if turned else texts)]
    assert all(mask.all() for mask in ConditionEvaluator(schema, compiled).evaluate(batch))


def test_limits_are_for_a_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is evaluated in parts has no more time than one that is not."""
    monkeypatch.setattr(condition_evaluator, "_TUPLES_MAX", 1)
    slow = "levenshtein(repeat('a', 7000), repeat(z, 7000)) >= 0"
    conditions = ConditionEvaluator(SCHEMA, [Condition.compile(slow, SCHEMA)])
    many = pa.concat_batches([BATCH.slice(0, 1)] * 40)
    limits = ConditionLimits(cpu_seconds=0.5, cpu_seconds_per_tuple=0.0025)
    assert conditions.evaluate(BATCH.slice(0, 1), replace(limits, cpu_seconds=60))[0].all()
    with pytest.raises(ConditionLimitError, match="takes more than 1 s of processor time on 40 tuples"):
        conditions.evaluate(many, limits)


def test_a_large_blob_has_some_seconds() -> None:
    """By default conditions may take 10 s of a processor for a blob of 50,000 rows, and 5 s for few rows."""
    assert [Budget(ConditionLimits(), n).cpu_seconds for n in (0, 50_000)] == [5, 10]


def test_limits_are_for_each_batch() -> None:
    """A condition that has used up its time on one batch has as much for the next one."""
    conditions = ConditionEvaluator(
        SCHEMA, [Condition.compile("length(repeat(z, 20000000)) > 20000000", SCHEMA)]
    )
    for _ in range(10):
        (held,) = conditions.evaluate(BATCH, ConditionLimits(cpu_seconds=3, cpu_seconds_per_tuple=0))
        assert list(held) == [False, True, False]


def test_constants_that_need_too_much_are_refused() -> None:
    """A constant that DuckDB would compute while it compiles is refused."""
    schema = pa.schema([("t", pa.timestamp("us"))])
    with pytest.raises(ConditionError, match=r"needs more than .* MB of memory, before any tuple; write its"):
        Condition.compile("strftime(t, repeat('x', 2000000000)) = ''", schema)


def test_a_long_condition_is_refused_before_it_is_parsed() -> None:
    """What would take DuckDB minutes to parse is refused by its length."""
    sql = f"n IN ({', '.join(map(str, range(100_000)))})"
    with pytest.raises(ConditionError, match=r"it has 688,895 characters, and may have 50,000; write a list"):
        Condition.compile(sql, SCHEMA)


def test_a_process_that_is_killed_is_replaced() -> None:
    """If somebody kills the process that evaluates conditions, they are evaluated by another one."""
    conditions = ConditionEvaluator(SCHEMA, [Condition.compile("z = 'a'", SCHEMA)])
    for _ in range(2):
        for _ in range(2):  # by one that is not kept, then by another one
            assert list(conditions.evaluate(BATCH)[0]) == [True, False, False]
        condition_process._idle[-1]._process.kill()
        condition_process._idle[-1]._process.wait()
    assert list(conditions.evaluate(BATCH)[0]) == [True, False, False]


def test_a_process_that_stands_still_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that neither answers nor computes does not stop whoever asked it."""
    monkeypatch.setattr(condition_process, "_STANDSTILL_SECONDS", 3.0)
    conditions = ConditionEvaluator(SCHEMA, [Condition.compile("z = 'a'", SCHEMA)])
    condition_process._idle[-1]._process.send_signal(signal.SIGSTOP)
    assert list(conditions.evaluate(BATCH)[0]) == [True, False, False]


def test_a_copy_of_this_process_has_its_own() -> None:
    """After a fork both processes evaluate conditions, and neither disturbs the other."""
    conditions = ConditionEvaluator(SCHEMA, [Condition.compile("z = 'a'", SCHEMA)])
    conditions.evaluate(BATCH)
    copy = os.fork()
    if copy == 0:
        right = False
        try:
            right = list(conditions.evaluate(BATCH)[0]) == [True, False, False]
            condition_process._end()
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0
    assert list(conditions.evaluate(BATCH)[0]) == [True, False, False]


def test_an_interpreter_that_lacks_duckdb_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process does not start, the error says why, and which interpreter it is."""
    monkeypatch.setattr(condition_process, "_PROGRAM", "import nothing_of_this_name")
    monkeypatch.setattr(condition_process, "_idle", [])
    with pytest.raises(Exception, match=r"does not start \(.*nothing_of_this_name.*check that .*python"):
        Condition.compile("z = 'a'", SCHEMA)


def test_limits_are_checked() -> None:
    """A limit is a number, not below 0, and none that the system cannot take."""
    with pytest.raises(ConfigError, match=r"limits of conditions, cpu_seconds: must be a number.*'1'"):
        ConditionLimits(cpu_seconds="1")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="memory_bytes"):
        ConditionLimits(memory_bytes=-1)
    for endless in (math.inf, 1e20):
        with pytest.raises(ConfigError, match="must be a number from 0 to"):
            ConditionLimits(cpu_seconds=endless)
    widest = ConditionLimits(2**50, 2**50, 2**50, 2**50).for_replay()
    (held,) = ConditionEvaluator(SCHEMA, [Condition.compile("z = 'a'", SCHEMA)]).evaluate(BATCH, widest)
    assert list(held) == [True, False, False]


@pytest.mark.parametrize(
    "sql",
    [
        "len(range(length(z) * 4000000000)) > 0",
        "length(lpad(z, 2000000000, 'x')) > 0",
        "len(range(900000000)) > 0",
    ],
)
def test_a_trial_refuses_what_needs_too_much_for_usual_tuples(sql: str) -> None:
    """A rule is tried on made-up tuples; one that breaks a limit there is refused by its name."""
    rules = check_rules([Rule("r", "z", "n", when=sql)], SCHEMA)
    with pytest.raises(RuleError, match=r"rule 'r', when: tried on made-up tuples, it needs .*; write it so"):
        try_conditions(rules, SCHEMA)


def test_a_trial_accepts_attributes_of_all_types() -> None:
    """A usual condition passes its trial, whatever types it reads."""
    types = {
        "text": pa.string(),
        "bytes": pa.binary(),
        "wide": pa.binary(3),
        "flag": pa.bool_(),
        "small": pa.int8(),
        "whole": pa.uint64(),
        "real": pa.float32(),
        "sum": pa.decimal128(20, 2),
        "share": pa.decimal128(2, 2),
        "day": pa.date64(),
        "time": pa.time64("ns"),
        "ts": pa.timestamp("s", "Europe/Paris"),
        "span": pa.duration("us"),
        "tags": pa.list_(pa.string()),
    }
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), *types.items()])
    rules = [Rule(name, "k", "v", when=f'"{name}" IS NULL') for name in types]
    rules.append(Rule("several", "k", "v", when="lower(text) = 'a' AND ts > '2000-01-01' AND sum > 3"))
    try_conditions(check_rules(rules, schema), schema)
