"""Odd control records are applied or refused in words, and the stream goes on, whatever is in them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import Engine
from sparkbleach.config import Options
from sparkbleach.control.outcome import Outcome
from sparkbleach.control.record import ControlRecord
from sparkbleach.spark.plan import Plan
from sparkbleach.spark.rule_updates import Events
from tests.support.profiles import one_in

#: two values of each type
COLUMNS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "small": (pa.int8(), 1, -1),
    "whole": (pa.int64(), 1, 2**62),
    "natural": (pa.uint64(), 0, 2**64 - 1),
    "half": (pa.float32(), 1.5, float("nan")),
    "real": (pa.float64(), -0.0, float("inf")),
    "price": (pa.decimal128(10, 2), Decimal("1.25"), Decimal(-1)),
    "wide": (pa.decimal256(50, 2), Decimal("1.25"), Decimal("1e40")),
    "text": (pa.string(), "", "é"),
    "long": (pa.large_string(), "x", "_"),
    "raw": (pa.binary(), b"", b"\x00"),
    "open": (pa.bool_(), True, False),
    "day": (pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "time": (pa.time64("ns"), dt.time(0), dt.time(23, 59, 59)),
    "at": (pa.timestamp("ns"), dt.datetime(1970, 1, 1), dt.datetime(2024, 1, 1)),
    "zoned": (
        pa.timestamp("us", "UTC"),
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    ),
    "took": (pa.duration("ns"), dt.timedelta(0), dt.timedelta(days=-1)),
    "tags": (pa.list_(pa.int8()), [], [1]),
    "nothing": (pa.null(), None, None),
}
SCHEMA = pa.schema([("id", pa.int64()), *((name, type) for name, (type, *_) in COLUMNS.items())])
TUPLES = pa.RecordBatch.from_pylist(
    [
        {"id": n, **{name: values[n % (2 + len(name) % 3) % 2] for name, (_, *values) in COLUMNS.items()}}
        for n in range(12)
    ],
    SCHEMA,
)
HALF = "\ud800"  # of a character
_CONSTANTS: list[Any] = [
    0, -1, 1.5, 1e308, -0.0, 10**18, 10**30, True, "", "_", "x", HALF, "2024-01-01", "2024-01-01T00:00:00",
    "2024-01-01T00:00:00+99:00", "12:00:00", None, [], {}, [1],
    *({"$decimal": text} for text in ("1e30", "1e100000000", "-1e-100000000", "0e99999999", "sNaN", HALF)),
    *({"$float": text} for text in ("inf", "nan", HALF)), {"$float": []}, {"$date": "0001-01-01"},
    {"$date": 5}, {"$datetime": "0001-01-01T00:00:00+23:59"}, {"$datetime": "9999-12-31T23:59:59-23:59"},
    {"$time": "00:00:00+01:00"}, {"$duration": 10**25}, {"$duration": 86399999913600000000},
    {"$duration": 1.5}, {"$bytes": "AA=="}, {"$bytes": "é"}, {"$bytes": HALF}, {HALF: 1},
]  # fmt: skip
_WHENS = [
    "",
    "text = 'x'",
    "1 = 1",
    f"text = '{HALF}'",
    "text",
    "whole / 0 > 1",
    "NOT",
    "text::INT > 1",
    5,
    [],
]
_ODD_VALUES = [None, 5, 1.5, 10**30, True, "x", "", HALF, "\x00", "a" * 1_000, [], {}, [HALF], {HALF: 1}]


@st.composite
def odd_rules(draw: st.DrawFn) -> Any:
    """Return a rule as JSON has it, which may be odd in a few places."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["text -> whole", f"{HALF} -> text", f'"{HALF}": text -> whole', 5, []]))
    names = st.sampled_from([*SCHEMA.names * 3, "none", HALF, 5, None])
    lhs = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    rule: dict[str, Any] = {"id": f"r{draw(st.integers(0, 9))}", "lhs": lhs, "rhs": draw(names)}
    constant = st.just("_") | st.just("_") | st.sampled_from(_CONSTANTS)
    constants = st.lists(constant, min_size=len(lhs) + 1, max_size=len(lhs) + 1)
    if draw(st.booleans()):
        rule["tableau"] = draw(st.lists(constants, min_size=1, max_size=2))
    if draw(st.integers(0, 9)) == 0:
        rule["when"] = draw(st.sampled_from(_WHENS))
    more: dict[str, list[Any]] = {
        "nulls": ["ignore", "fill"],
        "mode": ["live", "shadow"],
        "certain": [True],
        "accept_after": [2, 30_000, 2**31, "never"],
    }
    for key, values in more.items():
        if draw(st.integers(0, 4)) == 0:
            rule[key] = draw(st.sampled_from(values))
    if draw(st.integers(0, 4)) == 0:
        rule[draw(st.sampled_from([*rule, HALF]))] = draw(st.sampled_from(_ODD_VALUES))
    return rule


@st.composite
def odd_records(draw: st.DrawFn) -> str:
    """Return the text of a control record, which may be odd in a few places."""
    op = draw(st.sampled_from(["add"] * 8 + ["delete", "promote", HALF, []]))
    record: dict[str, Any] = {"op": op, "by": "ann"}
    if op == "add":
        record["rule"] = draw(odd_rules())
    else:
        record["id"] = draw(st.sampled_from(["r1", *_ODD_VALUES]))
    if draw(st.integers(0, 9)) == 0:
        record[draw(st.sampled_from(["by", "published", "at", HALF]))] = draw(st.sampled_from(_ODD_VALUES))
    return json.dumps(record)


@one_in(2)
@given(st.lists(odd_records(), min_size=1, max_size=6), st.sampled_from(["class", "vote", "bayes"]))
def test_control_records_in_a_stream(texts: list[str], repair: Any) -> None:
    """Each record, however odd, is applied or refused; its outcome can be shown; the stream goes on."""
    plan = Plan(
        schema=SCHEMA,
        id="id",
        rules=(),
        updates=(),
        order_by=(),
        cells=tuple(SCHEMA.names),
        options=Options(repair=repair),
        audit=True,
        quarantine=False,
        control=True,
        unreadable=None,
    )
    engine = Engine(SCHEMA, [], id="id", repair=repair)
    events = Events(engine, plan=plan)
    for number, text in enumerate(texts):
        events.apply_records([ControlRecord.read(str(number), text)])
        clean, _ = engine.process(TUPLES)
        assert clean.num_rows == TUPLES.num_rows
    assert [outcome.number for outcome in events.outcomes] == [str(number) for number in range(len(texts))]
    for outcome in events.outcomes:
        assert outcome.kind in ("applied", "refused")
        assert Outcome.from_json(outcome.to_json()) == outcome
        assert str(outcome).encode()
