"""Random streams, rules and updates, and the comparison of engine and reference on them."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sparkbleach import Engine, Rule, Window
from sparkbleach.engine.acceptance import Acceptance
from tests.naive.reference import NaiveRepair, NaiveRule, Reference, canonical
from tests.support.invariants import check_invariants

DOMAINS: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-3, 0, 7, 127],
    pa.int64(): [-(2**63), -1, 0, 5, 2**63 - 1],
    pa.uint32(): [0, 9, 2**32 - 1],
    pa.uint64(): [0, 1, 2**63, 2**64 - 1],
    pa.float32(): [-1.5, 0.0, -0.0, 2.25, math.nan],
    pa.float64(): [-math.inf, -0.0, 0.0, 1e-300, 1.5, math.nan, -math.nan],
    pa.decimal128(5, 2): [Decimal("-9.50"), Decimal("0.00"), Decimal("12.34")],
    pa.decimal128(38, 3): [Decimal("-1e30"), Decimal("-0.001"), Decimal("0"), Decimal("1e30")],
    pa.decimal256(50, 1): [Decimal("-1e40"), Decimal("0.1"), Decimal("1e40")],
    pa.bool_(): [False, True],
    pa.string(): [
        "",
        "a",
        "a\0",
        "b",
        "zz",
        "\U0001f600",
        "\ufffd",
        "averylongvalueindeed",
        "averylongvaluf",
    ],
    pa.large_string(): ["", "é", "e", "prefix-of-8-bytes-1", "prefix-of-8-bytes-0"],
    pa.string_view(): ["x", "y", "a string of more than twelve bytes"],
    pa.binary(): [b"", b"\0", b"\xff\xfe", b"abc"],
    pa.large_binary(): [b"\x80", b"\x7f", b"0123456789abcdef0"],
    pa.binary(3): [b"abc", b"abd", b"\0\0\xff"],
    pa.date32(): [dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(2024, 1, 1)],
    pa.timestamp("us"): [dt.datetime(1960, 1, 1), dt.datetime(2020, 5, 5, 1, 2, 3, 4)],
    pa.timestamp("ms", "UTC"): [
        dt.datetime(1999, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2001, 1, 1, 5, tzinfo=dt.UTC),
    ],
    pa.time64("us"): [dt.time(0, 0), dt.time(23, 59, 59, 5)],
    pa.duration("ms"): [dt.timedelta(0), dt.timedelta(milliseconds=-5), dt.timedelta(days=2)],
}
#: the types that a column of a DataFrame can have
SPARK_TYPES = [
    type
    for type in DOMAINS
    if not (
        pa.types.is_unsigned_integer(type)
        or type
        in (pa.string_view(), pa.large_string(), pa.large_binary(), pa.binary(3), pa.decimal256(50, 1))
    )
]
ATTRIBUTES = ("a", "b", "c", "d", "e")
CONDITIONS: list[tuple[str, Callable[[Any], bool | None]]] = [
    ("n > 1", lambda t: None if t["n"] is None else t["n"] > 1),
    ("n IS NOT NULL", lambda t: t["n"] is not None),
    ("n = 0 OR n IS NULL", lambda t: t["n"] in (None, 0)),
    ("NOT (n = 2)", lambda t: None if t["n"] is None else t["n"] != 2),
]


@dataclass(frozen=True)
class Case:
    """A stream, and what happens to it."""

    types: dict[str, pa.DataType]
    rules: list[tuple[Rule, NaiveRule]]
    window: tuple[int, int] | tuple[int, int, str] | None
    windowing: str
    repair: str
    steps: list[Any]  # ("tuples", [...]), ("add", rules), ("delete", which), ("promote", which), ("restore",)
    remember: int | None = None
    accept_after: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stream."""
        return pa.schema([("n", pa.int32()), *self.types.items()])


@st.composite
def rules(draw: st.DrawFn, id: str, types: dict[str, pa.DataType]) -> tuple[Rule, NaiveRule]:
    """Draw a rule and its naive twin."""
    rhs = draw(st.sampled_from(ATTRIBUTES[2:]))
    lhs = tuple(
        draw(
            st.lists(
                st.sampled_from([a for a in ATTRIBUTES if a != rhs]), min_size=1, max_size=2, unique=True
            )
        )
    )
    when = draw(st.one_of(st.none(), st.none(), st.sampled_from(CONDITIONS)))
    nulls = draw(st.sampled_from(["ignore", "ignore", "fill"]))
    tableau: list[tuple[Any, ...]] = []
    if draw(st.integers(0, 3)) == 0:
        constants = [_constants(types[name]) for name in lhs]
        row = st.tuples(
            *(st.one_of(st.none(), c) for c in constants), st.one_of(st.none(), _constants(types[rhs]))
        )
        tableau = draw(st.lists(row, min_size=1, max_size=draw(st.sampled_from([3, 3, 40]))))
    as_written = tuple(tuple("_" if c is None else c for c in row) for row in tableau)
    mode = draw(st.sampled_from(["live", "live", "live", "shadow"]))
    rule = Rule(id, lhs, rhs, when=when and when[0], nulls=nulls, tableau=as_written, mode=mode)
    condition = when[1] if when else _always
    naive = NaiveRule(id, lhs, rhs, condition, nulls == "fill", tuple(tableau), mode == "shadow")
    return rule, naive


#: by type of a column with times: a third of a pane, or more
CLOCKS = {
    pa.timestamp("us"): dt.timedelta(seconds=20, microseconds=7),
    pa.timestamp("ms", "UTC"): dt.timedelta(milliseconds=1500),
    pa.timestamp("s"): dt.timedelta(minutes=1),
    pa.date32(): dt.timedelta(days=1),
}


def clock_time(type: pa.DataType, units: int | None, begin: int) -> Any:
    """Return a time some units after another, shortly before or after 1970."""
    if units is None:
        return None
    zone = dt.UTC if pa.types.is_timestamp(type) and type.tz else None
    time = dt.datetime(1969, 12, 31, 23, 58, tzinfo=zone) + (units + begin) * (CLOCKS[type] / 3)
    if type == pa.timestamp("s"):
        time = time.replace(microsecond=0)
    elif type == pa.timestamp("ms", "UTC"):
        time = time.replace(microsecond=time.microsecond // 1000 * 1000)
    return time if pa.types.is_timestamp(type) else time.date()


def _always(_: Any) -> bool:
    return True


def _constants(type: pa.DataType) -> st.SearchStrategy[Any]:
    # NaN is refused as a constant, and a constant -0.0 is written as it is.
    return st.sampled_from([v for v in DOMAINS[type] if str(v) not in ("nan", "-0.0")])


@st.composite
def cases(
    draw: st.DrawFn,
    max_tuples: int = 60,
    choice: Sequence[pa.DataType] = tuple(DOMAINS),
    *,
    timed: bool = True,
) -> Case:
    """Draw a case with attributes of some types; its window may be one in time."""
    types = {name: draw(st.sampled_from(choice)) for name in ATTRIBUTES}
    n_values = draw(st.integers(1, 9))
    null = draw(st.sampled_from([0, 0, 1, 4]))  # of ten
    hot = draw(st.booleans())  # skew
    domains = {name: DOMAINS[type][:n_values] for name, type in types.items()}

    def cell(values: list[Any]) -> st.SearchStrategy[Any]:
        some = st.sampled_from(values)
        if hot:
            some = st.one_of(st.just(values[0]), st.just(values[0]), some)
        return st.integers(0, 9).flatmap(lambda x: st.none() if x < null else some)

    row = st.fixed_dictionaries(
        {"n": st.sampled_from([None, 0, 1, 2, 3]), **{name: cell(values) for name, values in domains.items()}}
    )
    first = [draw(rules(f"r{i}", types)) for i in range(draw(st.integers(1, 4)))]
    slide = draw(st.integers(1, 7))
    panes = draw(st.integers(1, 4))
    window: tuple[int, int] | tuple[int, int, str] | None = (slide * panes, slide)
    kind = draw(st.sampled_from(["none", "tuples", "tuples", "time"] if timed else ["none", "tuples"]))
    pace = 0
    if kind == "none":
        window = None
    elif kind == "time":
        types["t"] = draw(st.sampled_from(list(CLOCKS)))
        slide *= CLOCKS[types["t"]] // dt.timedelta(microseconds=1)
        window = (slide * panes, slide, "t")
        pace = draw(st.sampled_from([0, 1, 3]))
        row = st.tuples(row, st.one_of(st.none(), st.integers(-3, 5), st.integers(-3, 20))).map(
            lambda drawn: {**drawn[0], "t": drawn[1]}
        )
    remember = draw(st.one_of(st.none(), st.integers(0, 6))) if window else None
    steps: list[Any] = []
    n_tuples = 0
    for i in range(draw(st.integers(1, 8))):
        kinds = ["tuples", "tuples", "tuples", "tuples", "add", "delete", "promote", "restore"]
        kind = draw(st.sampled_from(kinds))
        if kind == "tuples" and n_tuples < max_tuples:
            batch = draw(st.lists(row, min_size=0, max_size=max_tuples - n_tuples))
            if "t" in types:
                batch = [
                    {**one, "t": clock_time(types["t"], one["t"], (n_tuples + n) * pace)}
                    for n, one in enumerate(batch)
                ]
            n_tuples += len(batch)
            steps.append(("tuples", batch))
        elif kind == "add":
            steps.append(("add", draw(rules(f"s{i}", types))))
        elif kind == "delete":
            steps.append(("delete", draw(st.integers(0, 9))))
        elif kind == "promote":
            steps.append(("promote", draw(st.integers(0, 9))))
        elif kind == "restore":
            steps.append(("restore",))
    return Case(
        types,
        first,
        window,
        draw(st.sampled_from(["bleach", "basic"])),
        draw(st.sampled_from(["class", "vote"])),
        steps,
        remember=None if window is None or remember is None else window[0] + remember * slide,
        accept_after=draw(st.sampled_from([None, 2, 2, 3, 4])),
    )


def as_live(rule: Rule, naive: NaiveRule) -> tuple[Rule, NaiveRule]:
    """Return a rule and its naive twin as live rules."""
    return rule.with_mode("live"), replace(naive, shadow=False)


def count_rules(rules: list[Rule]) -> dict[str, int]:
    """Return by attribute how many rules it has."""
    return {rule.rhs: sum(rule.rhs == other.rhs for other in rules) for rule in rules}


class Pair:
    """An engine and the reference, fed with the same.

    Subclasses put another engine to the test.
    """

    engine: Any

    def __init__(self, case: Case) -> None:
        self.case = case
        #: by rule: repairs of cells that violated it, or that it would have made
        self.repairs: Counter[str] = Counter()
        self.reference = Reference(
            case.schema.names,
            [naive for _, naive in case.rules],
            case.window,
            case.windowing,
            case.repair,
            remember=case.remember,
            accept_after=case.accept_after,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # random rules may say the same thing
            self.engine = self.new_engine(
                schema=case.schema,
                rules=[rule for rule, _ in case.rules],
                window=case.window and Window(*case.window),
                windowing=case.windowing,
                repair=case.repair,
                **self.more_options(case),
            )

    def more_options(self, case: Case) -> dict[str, Any]:
        """Return the options that only some engines have."""
        remember: Any = case.remember if case.windowing == "bleach" else None  # basic windowing has no say
        if remember is not None and case.window is not None and len(case.window) == 3:
            remember = dt.timedelta(microseconds=remember)
        return {"remember": remember, "accept_after": case.accept_after}

    def new_engine(self, **options: Any) -> Any:
        """Return an engine that has seen nothing."""
        return Engine(**options)

    def restore(self) -> None:
        """Replace the engine by one that is restored from its state."""
        self.engine = Engine.restore(self.engine.snapshot())

    def check(self) -> None:
        """Check what must be true of the engine between two steps."""
        for cleaner in self.engine._cleaners:
            check_invariants(cleaner.state)

    def step(self, step: Any) -> None:
        """Do the same with both and compare."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            match step:
                case ("tuples", batch):
                    self.tuples(batch)
                case ("add", (rule, naive)):
                    self.engine.add_rule(rule)
                    self.reference.add_rule(naive)
                    self.repairs[rule.id] = 0
                case ("delete", which):
                    live = list(self.reference.rules)
                    if live:
                        id = live[which % len(live)]
                        self.engine.delete_rule(id)
                        self.reference.delete_rule(id)
                        assert id not in self.engine.repairs
                case ("promote", which):
                    shadow = [id for id, (_, rule) in self.reference.rules.items() if rule.shadow]
                    if shadow:
                        id = shadow[which % len(shadow)]
                        self.engine.promote_rule(id)
                        self.reference.promote_rule(id)
                        self.repairs[id] = 0
                case ("restore",):
                    self.restore()
        self.check()
        assert list(self.reference.rules) == [rule.id for rule in self.engine.rules]
        assert self.reference.version == self.engine.version
        assert self.reference.position == self.engine.position

    def tuples(self, batch: list[dict[str, Any]]) -> None:
        """Clean a batch with both and compare cell for cell, audit row for audit row."""
        schema = self.case.schema
        clean, audit = self.engine.process(pa.RecordBatch.from_pylist(batch, schema))
        expected = [self.reference.process(t) for t in batch]
        assert clean.schema == schema
        got = [{name: canonical(value) for name, value in row.items()} for row in clean.to_pylist()]
        assert got == [
            {name: canonical(value) if not _is_canonical(value) else value for name, value in row.items()}
            for row, _ in expected
        ]
        assert audit.to_pylist() == [self.audit_row(repair) for _, repairs in expected for repair in repairs]
        self.compare_accepted()
        seen = self.reference.violations
        assert self.engine.violations == {id: seen[id] for id in self.reference.rules}
        for _, repairs in expected:
            for repair in repairs:
                rules = self.reference.rules
                self.repairs.update(id for id in repair.rules if rules[id][1].shadow != repair.applied)
        assert self.engine.repairs == {id: self.repairs[id] for id in self.reference.rules}

    def compare_accepted(self) -> None:
        """Compare the changes that were accepted in the last batch."""
        expected, self.reference.accepted = self.reference.accepted, []
        types = self.case.types
        rules = self.reference.rules
        assert self.engine.take_accepted() == [
            Acceptance(
                rule=one.rule,
                key={
                    name: text(value, types[name])
                    for name, value in zip(rules[one.rule][1].lhs, one.key, strict=True)
                },
                attribute=one.attribute,
                old=text(one.old, types[one.attribute]) or "",
                new=text(one.new, types[one.attribute]) or "",
                position=one.position,
                confirmations=self.case.accept_after or 0,
            )
            for one in expected
        ]

    def audit_row(self, repair: NaiveRepair) -> dict[str, Any]:
        """Return the audit row that the reference expects."""
        type = self.case.types[repair.attribute]
        return {
            "id": repair.position,
            "position": repair.position,
            "attribute": repair.attribute,
            "old_value": text(repair.old, type),
            "new_value": text(repair.new, type),
            "rules": list(repair.rules),
            "candidates": [{"value": text(v, type), "count": n} for v, n in repair.candidates],
            "confidence": repair.confidence,
            "groups": repair.groups,
            "decided_by": repair.decided_by,
            "overruled": list(repair.overruled),
            "version": repair.version,
            "applied": repair.applied,
        }


def _is_canonical(value: Any) -> bool:
    return isinstance(value, tuple)


def text(value: Any, type: pa.DataType) -> str | None:
    """Return the text of a canonical value in the audit."""
    if value is None:
        return None
    if isinstance(value, tuple):
        value = math.nan if value[0] else value[1]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.timedelta):
        return f"{value // dt.timedelta(milliseconds=1)} ms"
    return str(pa.scalar(value, type).cast(pa.string()).as_py())
