"""Conditions: what is accepted, what is refused, and what they evaluate to."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sparkbleach.errors import SchemaError
from sparkbleach.rules.condition import Condition
from sparkbleach.rules.condition_child import connect
from sparkbleach.rules.condition_evaluator import ConditionEvaluator
from sparkbleach.rules.condition_syntax import ConditionError

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("city", pa.string()),
        ("my col", pa.string()),
        ("half", pa.float16()),
        ("wide", pa.decimal256(50, 2)),
        ("ts", pa.timestamp("us")),
        ("Twin", pa.int8()),
        ("twin", pa.int8()),
        ("tags", pa.list_(pa.string())),
        ("ok", pa.bool_()),
        ("pays", pa.dictionary(pa.int8(), pa.string())),
    ]
)


def evaluate(sql: str, **columns: object) -> list[bool]:
    """Evaluate one condition on a batch made of the given columns."""
    batch = pa.record_batch(columns)
    [result] = ConditionEvaluator(batch.schema, [Condition.compile(sql, batch.schema)]).evaluate(batch)
    assert result.dtype == np.bool_
    return [bool(value) for value in result]


@pytest.mark.parametrize(
    ("sql", "columns", "not_null"),
    [
        ("a = 1", ("a",), None),
        ("A = 1 AND CITY <> ''", ("a", "city"), None),
        ("\"my col\" LIKE 'x%' OR \"MY COL\" = 'y'", ("my col",), None),
        ("a IN (1, 2) AND a BETWEEN 0 AND 9 AND NOT ok", ("a", "ok"), None),
        ("CASE WHEN a = 1 THEN ok ELSE false END", ("a", "ok"), None),
        ("ok", ("ok",), None),
        ("lower(trim(city)) = 'lyon' /* any case */", ("city",), None),
        ("a = 1 -- the first\n AND ok", ("a", "ok"), None),
        ("split_part(city, ',', 1) = 'x'", ("city",), None),
        ("extract(year FROM ts) = 2024 AND ts > TIMESTAMP '2024-02-01'", ("ts",), None),
        ("len(tags) > 0 AND tags[1] = 'x'", ("tags",), None),
        ("city COLLATE NOCASE = 'lyon'", ("city",), None),
        ("try_cast(city AS INTEGER) > 3", ("city",), None),
        ("pays = 'FR'", ("pays",), None),
        ("true", (), None),
        ("a IS NOT NULL", ("a",), ("a",)),
        ("(city is not null) AND (A NOTNULL and city IS NOT NULL)", ("city", "a"), ("city", "a")),
        ("half IS NOT NULL", ("half",), ("half",)),
        ("a IS NOT NULL OR city IS NOT NULL", ("a", "city"), None),
        ("NOT (a IS NULL)", ("a",), None),
        ("pays IS NOT NULL", ("pays",), None),
    ],
)
def test_compile_accepts(sql: str, columns: tuple[str, ...], not_null: tuple[str, ...] | None) -> None:
    """A boolean expression over the attributes compiles, and names what it reads."""
    condition = Condition.compile(sql, SCHEMA)
    assert (condition.columns, condition.not_null) == (columns, not_null)


@pytest.mark.parametrize(
    ("sql", "character", "problem", "remedy"),
    [
        ("", None, "blank", "write a predicate"),
        ("1) FROM t; DROP TABLE t; SELECT (1", 2, "cannot parse", "one SQL expression"),
        ("a = 1) AND (ok", 6, "cannot parse", "one SQL expression"),
        ("(a = 1", 6, "cannot parse", "one SQL expression"),
        ("a = 'x", 5, "unterminated", "one SQL expression"),
        ("a = 1 /* x", 7, "unterminated", "one SQL expression"),
        ("a = 1 -- x", None, "exactly one", "a comment at the end"),
        ("a = 1;", None, "exactly one", "semicolons"),
        ("a = 1; DROP TABLE t", None, "cannot parse|exactly one", "one SQL expression|semicolons"),
        ("a = 1; SELECT 2", None, "exactly one", "semicolons"),
        ("ok, ok", None, "exactly one", "commas"),
        ("ok AS x", None, "exactly one", "aliases"),
        ("ok x", None, "exactly one", "aliases"),
        ("ok FROM t", None, "exactly one", "clauses"),
        ("ok WHERE ok", None, "exactly one", "clauses"),
        ("ok LIMIT 1", None, "exactly one", "clauses"),
        ("ok UNION SELECT true", None, "exactly one", "clauses"),
        ("ok WINDOW w AS ()", None, "exactly one", "clauses"),
        ("DISTINCT ok", None, "exactly one", "clauses"),
        ("a = 1\0 AND ok", None, "NUL", "remove"),
        ("city = '\ud800'", None, "surrogate", "remove"),
        ("NOT " * 5000 + "ok", None, "nested too deeply|cannot parse", "fewer levels|one SQL expression"),
        ("(SELECT true)", 1, "subquery", "IN with a list"),
        ("EXISTS (SELECT 1)", 1, "subquery", "IN with a list"),
        ("a IN (SELECT 1)", 3, "subquery", "IN with a list"),
        ("a = ANY([1, 2])", 3, "subquery", "IN with a list"),
        ("sum(a) OVER () > 1", 1, "window function", "one tuple only"),
        ("ok AND count(*) > 1", 8, "aggregate", "scalar function"),
        ("max(a) = 1", 1, "aggregate", "scalar function"),
        ("*", 1, "not supported", "name each attribute"),
        ("COLUMNS('a') = 1", 1, "not supported", "name each attribute"),
        ("a = ?", None, "parameter", "the value itself"),
        ("a = $1", None, "parameter", "the value itself"),
        ("DEFAULT", None, "VALUE_DEFAULT is not supported", "write it with comparisons"),
        ("(tags).x = 1", None, "STRUCT_EXTRACT is not supported", "write it with comparisons"),
        ("#1", 1, "not supported", "name the attribute"),
        ("len(list_filter(tags, x -> x = 'a')) > 0", 25, "lambdas", "json_extract"),
        ("len(list_filter(tags, lambda x: x = 'a')) > 0", 30, "lambdas", "json_extract"),
        ("unnest([true])", 1, "not a scalar function", "use a scalar function"),
        ("read_text('/etc/passwd') = ''", 1, "not a scalar function", "use a scalar function"),
        ("random() < 0.5", 1, "not deterministic", "attributes and constants only"),
        ("ts < now()", 6, "not deterministic", "attributes and constants only"),
        ("ts < today()", 6, "not deterministic", "attributes and constants only"),
        ("ts < current_date()", 6, "not deterministic", "attributes and constants only"),
        ("ts < current_localtimestamp()", 6, "not deterministic", "attributes and constants only"),
        ("age(ts) > INTERVAL 1 DAY", 1, "not deterministic", "attributes and constants only"),
        ("ts < ago(INTERVAL 1 DAY)", 6, "not deterministic", "attributes and constants only"),
        ("ts < pg_postmaster_start_time()", 6, "not deterministic", "attributes and constants only"),
        ("nextval('s') = 1", 1, "not deterministic", "attributes and constants only"),
        ("uuid()::VARCHAR = city", 1, "not deterministic", "attributes and constants only"),
        ("getenv('HOME') = city", 1, "not deterministic", "attributes and constants only"),
        ("current_setting('threads') = 1", 1, "not deterministic", "attributes and constants only"),
        ("getvariable('x') = 1", 1, "not deterministic", "attributes and constants only"),
        ("get_block_size('x') = 1", 1, "not deterministic", "attributes and constants only"),
        ("list_aggregate([a], 'reservoir_quantile', 0.5) = 1", 1, "not deterministic", "constants only"),
        ("ts < current_timestamp", 6, "unknown attribute 'current_timestamp'", "there are|did you mean"),
        ("ok AND ctiy = ''", 8, "unknown attribute 'ctiy'", "did you mean 'city'"),
        ("'été' = city AND zip = 1", 18, "unknown attribute 'zip'", "there are 'a', 'city'"),
        ("rowid = 1", 1, "unknown attribute 'rowid'", "did you mean"),
        ("twin = 1", 1, "ambiguous.*'Twin', 'twin'", "rename"),
        ("t.a = 1", 1, "dotted name", "an attribute alone"),
        ("city.lower() = ''", 1, "dotted name", r"write lower\(...\)"),
        ("system.main.lower(city) = ''", 1, "dotted name", r"write lower\(...\)"),
        ("lowr(city) = ''", 1, r"no function lowr\(\)", "did you mean lower"),
        ("ok AND lower(a, 2) = ''", 8, "No function matches", "cast where needed"),
        ("regexp_matches(city, '(')", None, "missing", "check the functions"),
        ("a + 1", None, "gives INTEGER, not BOOLEAN", "write a comparison"),
        ("city", None, "gives VARCHAR, not BOOLEAN", "write a comparison"),
        ("NULL", None, "not BOOLEAN", "write a comparison"),
        ("half > 1", None, "cannot read attribute 'half' of type halffloat", "cast it"),
        ("a = 1 AND wide > 1", None, "cannot read attribute 'wide' of type decimal256", "cast it"),
    ],
)
def test_compile_refuses(sql: str, character: int | None, problem: str, remedy: str) -> None:
    """What is not one pure boolean expression over the attributes is refused, with place and remedy."""
    with pytest.raises(ConditionError) as caught:
        Condition.compile(sql, SCHEMA)
    assert caught.value.character == character
    assert pytest.RaisesExc(ConditionError, match=f"(?:{problem}).*; .*(?:{remedy})").matches(caught.value)


def test_any_depth_compiles_or_is_refused() -> None:
    """A deeply nested predicate is either accepted or refused, but never crashes."""
    for depth in range(50, 1100, 75):
        for sql in (
            "NOT " * depth + "ok",
            "(" * depth + "ok" + ")" * depth,
            "(1 + " * depth + "a" + ")" * depth + " > 0",
        ):
            with contextlib.suppress(ConditionError):
                assert Condition.compile(sql, SCHEMA).columns in (("ok",), ("a",))


def test_attribute_wins_over_function_of_its_name() -> None:
    """An attribute called current_date or user is the attribute, not the clock or the account."""
    assert evaluate("current_date = 'x' AND user = 'y'", current_date=["x", "z"], user=["y", "y"]) == [
        True,
        False,
    ]


def test_normal_form_ignores_spelling() -> None:
    """Spaces, brackets, comments and the case of keywords, functions and attributes do not matter."""
    spellings = ["lower(city) = 'X' AND a > 1", "(LOWER( City )='X') and /* x */ (A>1)"]
    assert len({Condition.compile(sql, SCHEMA).normal for sql in spellings}) == 1
    other = Condition.compile("lower(city) = 'x' AND a > 1", SCHEMA).normal
    assert other != Condition.compile(spellings[0], SCHEMA).normal


def test_only_true_is_true() -> None:
    """FALSE and NULL both give False."""
    assert evaluate("a > 1", a=pa.array([0, 2, None])) == [False, True, False]


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("CAST(x AS INTEGER) > 1", ["2", "x", None, "0", "3"], [True, False, False, False, True]),
        ("regexp_matches('a', x)", ["a", "(", "b"], [True, False, False]),
        ("strptime(x, '%Y') > TIMESTAMP '2000-01-01'", ["2024", "no", "1999"], [True, False, False]),
        ("x::TINYINT + x::TINYINT > 0", ["1", "100", "2"], [True, False, True]),
        ("10 // x::INTEGER > 1", ["1", "0", "2"], [True, False, True]),
    ],
)
def test_error_in_one_row_is_false_there_only(sql: str, values: list[str], expected: list[bool]) -> None:
    """A row that makes the predicate fail gives False, and does not disturb the others."""
    assert evaluate(sql, x=values) == expected


def test_error_of_one_condition_leaves_the_others_alone() -> None:
    """A row that fails one condition is still judged by the others."""
    batch = pa.record_batch({"x": ["1", "b", "3"]})
    compiled = [Condition.compile(sql, batch.schema) for sql in ("x::INT > 0", "x = 'b'", "x IS NOT NULL")]
    results = ConditionEvaluator(batch.schema, compiled).evaluate(batch)
    assert [list(result) for result in results] == [[True, False, True], [False, True, False], [True] * 3]


def test_value_out_of_the_range_of_duckdb_is_false_there_only() -> None:
    """A timestamp that DuckDB cannot even read gives False in its row, for the conditions that read it."""
    seconds = np.arange(1000, dtype=np.int64)
    seconds[[3, 700]] = 2**62
    ts = pa.array(seconds).cast(pa.int64()).view(pa.timestamp("s", "UTC"))
    batch = pa.record_batch({"ts": ts, "n": np.arange(1000)})
    compiled = [Condition.compile(sql, batch.schema) for sql in ("ts >= '1970-01-01'", "n % 2 = 1")]
    conditions = ConditionEvaluator(batch.schema, compiled)
    for _ in range(2):
        read, untouched = conditions.evaluate(batch)
        assert list(np.flatnonzero(~read)) == [3, 700]
        assert list(untouched) == [n % 2 == 1 for n in range(1000)]


def test_invalid_utf8_is_refused_and_the_next_batch_works() -> None:
    """Text that is not UTF-8 is an error that names the column; later batches are unharmed."""
    offsets = pa.array([0, 2, 3], pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfea")])
    schema = pa.schema([("x", pa.string())])
    conditions = ConditionEvaluator(
        schema, [Condition.compile("upper(x) = 'A' AND regexp_matches(x, 'a')", schema)]
    )
    with pytest.raises(SchemaError, match=r"'x' holds invalid data.*decode it as UTF-8"):
        conditions.evaluate(pa.record_batch([bad], schema=schema))
    with pytest.raises(SchemaError, match=r"'x' holds invalid data"):
        conditions.evaluate(pa.record_batch([bad], schema=schema))
    assert list(conditions.evaluate(pa.record_batch({"x": ["a", "b"]}))[0]) == [True, False]


def test_row_order_is_kept() -> None:
    """Row n of the result is row n of the batch, over many of DuckDB's vectors, in slices too."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 1000, 300_000)
    text = pa.array(numbers).cast(pa.string())
    batch = pa.record_batch({"n": numbers, "unused": numbers, "s": text})
    compiled = [
        Condition.compile(sql, batch.schema) for sql in ("n % 7 = 3", "s LIKE '%5'", "s::INT < n + 1")
    ]
    conditions = ConditionEvaluator(batch.schema, compiled)
    for start, length in ((0, 300_000), (12_345, 5_001), (299_999, 1)):
        part = numbers[start : start + length]
        modulo, like, always = conditions.evaluate(batch.slice(start, length))
        np.testing.assert_array_equal(modulo, part % 7 == 3)
        np.testing.assert_array_equal(like, part % 10 == 5)
        assert always.all()
        assert len(always) == length


def test_batches_of_any_size_and_order() -> None:
    """One object serves batch after batch, empty ones too, and each gives its own result."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    sqls = ("a = 1", "b IS NOT NULL", "a = 1", "1 = 1", "1 = 2", "a IS NOT NULL AND b IS NOT NULL", "A  =  1")
    conditions = ConditionEvaluator(schema, [Condition.compile(sql, schema) for sql in sqls])
    for values in ([1, 2, None], [], [2], [], [1] * 5000):
        batch = pa.record_batch(
            [pa.array(values, pa.int64()), pa.nulls(len(values), pa.string())], schema=schema
        )
        ones = [value == 1 for value in values]
        never = [False] * len(values)
        expected = [ones, never, ones, [True] * len(values), never, never, ones]
        results = conditions.evaluate(batch)
        assert all(result.dtype == np.bool_ for result in results)
        assert [list(result) for result in results] == expected


def test_same_conditions_are_evaluated_once() -> None:
    """Conditions that say the same share one array."""
    batch = pa.record_batch({"a": [1, 2]})
    first, second = ConditionEvaluator(
        batch.schema, [Condition.compile(sql, batch.schema) for sql in ("a=1", "A = 1")]
    ).evaluate(batch)
    assert first is second


def test_no_condition() -> None:
    """Without conditions there is nothing to evaluate."""
    batch = pa.record_batch({"a": [1]})
    assert ConditionEvaluator(batch.schema, []).evaluate(batch) == []


def test_other_columns_may_be_of_any_type() -> None:
    """Columns of any type, and columns of the same name, do no harm when no condition reads them."""
    others = [
        *(pa.float16(), pa.decimal256(60, 1), pa.decimal32(5, 2), pa.null(), pa.string_view(), pa.binary(3)),
        *(
            pa.dictionary(pa.int8(), pa.string()),
            pa.list_(pa.int8()),
            pa.struct([("x", pa.int8())]),
            pa.uuid(),
        ),
        *(pa.map_(pa.string(), pa.int8()), pa.month_day_nano_interval(), pa.duration("ns"), pa.time64("ns")),
        pa.run_end_encoded(pa.int32(), pa.int8()),
    ]
    schema = pa.schema([("a", pa.int8()), *(("other", kind) for kind in others)])
    arrays = [pa.array([1, 2], pa.int8()), *(pa.nulls(2, kind) for kind in others)]
    conditions = ConditionEvaluator(schema, [Condition.compile("a = 2", schema)])
    assert list(conditions.evaluate(pa.record_batch(arrays, schema=schema))[0]) == [False, True]


@pytest.mark.parametrize(
    ("type", "value", "sql"),
    [
        (pa.uint64(), 2**64 - 1, "x = 18446744073709551615"),
        (pa.float32(), 0.5, "x = 0.5"),
        (pa.decimal32(5, 2), Decimal("1.25"), "x = 1.25"),
        (pa.decimal64(12, 2), Decimal("1.25"), "x = 1.25"),
        (pa.decimal128(20, 2), Decimal("1.25"), "x = 1.25"),
        (pa.large_string(), "é", "x = 'é'"),
        (pa.string_view(), "a long text, not inlined", "x = 'a long text, not inlined'"),
        (pa.binary(), b"\xff", r"x = '\xFF'::BLOB"),
        (pa.binary(2), b"ab", "x = 'ab'::BLOB"),
        (pa.binary_view(), b"ab", "x = 'ab'::BLOB"),
        (pa.large_binary(), b"ab", "x = 'ab'::BLOB"),
        (pa.date32(), dt.date(2024, 5, 1), "x = '2024-05-01'"),
        (pa.date64(), dt.date(2024, 5, 1), "x = '2024-05-01'"),
        (pa.time32("s"), dt.time(1, 2, 3), "x = '01:02:03'"),
        (pa.time64("ns"), dt.time(1, 2, 3), "x = '01:02:03'"),
        (pa.timestamp("s"), dt.datetime(2024, 5, 1), "x = '2024-05-01'"),
        (pa.timestamp("ns"), dt.datetime(2024, 5, 1), "x = '2024-05-01'"),
        (pa.timestamp("ms", "Europe/Paris"), dt.datetime(2024, 5, 1, tzinfo=dt.UTC), "x = '2024-05-01'"),
        (pa.duration("s"), dt.timedelta(hours=1), "x = INTERVAL 1 HOUR"),
        (pa.bool_(), True, "x"),
    ],
)
def test_types_that_duckdb_reads(type: pa.DataType, value: object, sql: str) -> None:
    """A condition compares an attribute of each type that DuckDB reads; null is not TRUE."""
    assert evaluate(sql, x=pa.array([value, None, value], type)) == [True, False, True]


def test_null_hidden_in_a_dictionary_is_null() -> None:
    """IS NOT NULL sees a null that is an entry of a dictionary."""
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["x", None]))
    assert evaluate("d IS NOT NULL", d=coded) == [True, False, False]


def test_another_schema_is_refused() -> None:
    """A batch of another schema is refused, with both schemas in the message; nullability does not matter."""
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    conditions = ConditionEvaluator(schema, [Condition.compile("a = 1", schema)])
    with pytest.raises(SchemaError, match=r"a string.*a int64.*cast the batch"):
        conditions.evaluate(pa.record_batch({"a": ["1"]}))
    assert list(conditions.evaluate(pa.record_batch({"a": [1]}))[0]) == [True]


def test_result_does_not_depend_on_the_time_zone_of_the_machine() -> None:
    """A zoned timestamp is shown in UTC, wherever the program runs."""
    program = """
import datetime as dt, pyarrow as pa
from sparkbleach.rules.condition import Condition
from sparkbleach.rules.condition_evaluator import ConditionEvaluator
batch = pa.record_batch({"ts": pa.array([dt.datetime(2024, 5, 1, 23, tzinfo=dt.UTC)])})
condition = Condition.compile("hour(ts) = 23 AND ts::DATE = DATE '2024-05-01'", batch.schema)
assert ConditionEvaluator(batch.schema, [condition]).evaluate(batch)[0].tolist() == [True]
"""
    environment = {**os.environ, "TZ": "Asia/Tokyo", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)  # noqa: S603 - fixed text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/sparkbleach_test'",
        "ATTACH '/tmp/sparkbleach_test.db'",
        "INSTALL httpfs",
        "SET threads = 4",
        "SET enable_external_access = true",
        "SELECT * FROM SCHEMA",
    ],
)
def test_connection_reaches_nothing(sql: str) -> None:
    """The database cannot read or write files, load extensions, change settings or see Python's names."""
    with pytest.raises(Exception, match=r"disabled|locked|does not exist|Cannot"):
        connect().execute(sql)
