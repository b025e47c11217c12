"""Random streams for `repair: bayes`, and the comparison of engine and reference on them."""

from __future__ import annotations

import datetime as dt
import functools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from sparkbleach import Engine, Rule, Window
from tests.naive.bayes import Acceptance, BayesReference, BayesRepair, Candidate
from tests.naive.reference import NaiveRule, canonical
from tests.support.cases import CONDITIONS, text

#: by type: values, and for each of them another one that is like it
VALUES: dict[pa.DataType, tuple[list[Any], list[Any]]] = {
    pa.string(): (
        ["birmingham", "boaz", "", "\U0001f600 long"],
        ["birminghxm", "boas", "a", "\U0001f600 lung"],
    ),
    pa.int64(): ([35233, 35957, -1, 2**63 - 1], [35223, 3957, 1, 2**63 - 2]),
    pa.float64(): ([1.5, -0.0, math.nan, -math.inf], [1.25, 0.0, 15.0, 1e300]),
    pa.date32(): (
        [dt.date(2020, 2, 29), dt.date(1969, 12, 31), dt.date(2024, 1, 1)],
        [dt.date(2020, 2, 28), dt.date(1968, 12, 31), dt.date(2024, 10, 1)],
    ),
    pa.bool_(): ([False, True], [True, False]),
    pa.decimal128(5, 2): (
        [Decimal("12.34"), Decimal("-9.50"), Decimal("0.00")],
        [Decimal("12.35"), Decimal("9.50"), Decimal("100.00")],
    ),
}
ATTRIBUTES = ("a", "b", "c", "d", "e")
SOURCES = ["one", "two", "three", "", None]
TOLERANCE = 1e-6
#: what can happen to a cell: it stays, is mistyped, replaced by another entity's, or lost
NOISE = {
    "some": ["stays"] * 14 + ["mistyped"] * 2 + ["replaced"] + ["lost"],
    "little": ["stays"] * 60 + ["mistyped"] * 2 + ["replaced"] + ["lost"],
}


@dataclass(frozen=True)
class BayesCase:
    """A stream, and what happens to it."""

    types: dict[str, pa.DataType]  # of the attributes that rules are about
    rules: list[NaiveRule]
    window: tuple[int, int] | None
    options: dict[str, Any]  # those that engine and reference have in common
    steps: list[Any]  # ("tuples", [...]), ("add", rule), ("delete", which), ("promote", which), ("restore",)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stream."""
        return pa.schema(
            [("n", pa.int32()), ("source", pa.string()), *self.types.items(), ("key", pa.int64())]
        )

    @property
    def reference(self) -> BayesReference:
        """The reference, that has seen nothing."""
        return BayesReference(
            self.schema.names, self.rules, self.window, text=text_of, watch_rounding=True, **self.options
        )


@functools.lru_cache(maxsize=1000, typed=True)
def text_of(value: Any) -> str:
    """Return a canonical value as text."""
    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), tuple: pa.float64(), dt.date: pa.date32()}
    rendered = text(value, types.get(type(value), pa.decimal128(5, 2)))
    assert rendered is not None
    return rendered


@st.composite
def rules(draw: st.DrawFn, id: str, types: Mapping[str, pa.DataType]) -> NaiveRule:
    """Draw a rule."""
    *lhs, rhs = draw(st.permutations(list(types)))[: draw(st.sampled_from([2, 2, 2, 3, 4]))]
    when = draw(st.sampled_from([None, None, None, *range(len(CONDITIONS))]))
    tableau: list[tuple[Any, ...]] = []
    if draw(st.integers(0, 3)) == 0:
        row = st.tuples(*(st.one_of(st.none(), st.none(), _constants(types[x])) for x in (*lhs, rhs)))
        tableau = draw(st.lists(row, min_size=1, max_size=draw(st.sampled_from([3, 3, 40]))))
    return NaiveRule(
        id,
        tuple(lhs),
        rhs,
        _always if when is None else CONDITIONS[when][1],
        draw(st.booleans()),
        tuple(tableau),
        draw(st.sampled_from([False, False, False, True])),
        draw(st.sampled_from([False, False, False, True])),
        draw(st.sampled_from([None, None, None, "never", 2, 3])),
        frozenset() if when is None else frozenset("n"),
    )


def _always(_: Any) -> bool:
    return True


def _constants(type: pa.DataType) -> st.SearchStrategy[Any]:
    # NaN is refused as a constant, and a constant -0.0 is written as it is.
    return st.sampled_from([v for v in VALUES[type][0] if str(v) not in ("nan", "-0.0")])


def rule_of_engine(naive: NaiveRule) -> Rule:
    """Return a rule as the engine has it."""
    options: dict[str, Any] = {}
    if naive.certain:
        options["certain"] = True
    if naive.accept_after is not None:
        options["accept_after"] = naive.accept_after
    any_rule: Any = Rule
    rule: Rule = any_rule(
        naive.id,
        naive.lhs,
        naive.rhs,
        when=next((condition for condition, naively in CONDITIONS if naively is naive.when), None),
        nulls="fill" if naive.fill else "ignore",
        tableau=tuple(tuple("_" if c is None else c for c in row) for row in naive.tableau),
        mode="shadow" if naive.shadow else "live",
        **options,
    )
    return rule


@st.composite
def bayes_cases(draw: st.DrawFn, look_ahead: int | None = None, *, is_divided: bool = False) -> BayesCase:
    """Draw a case whose tuples describe a few entities, with noise.

    If it is divided, the first rules keep to the first two attributes or to the others; later ones may join
    these components.
    """
    choice = list(VALUES)
    names = ATTRIBUTES[: 5 if is_divided else draw(st.integers(2, 5))]
    types = {name: draw(st.sampled_from([pa.string(), pa.string(), *choice])) for name in names}
    # Some attributes may be left to implied rules.
    ruled = {name: types[name] for name in names[: 5 if is_divided else draw(st.integers(2, len(names)))]}
    sides = [ruled]
    if is_divided:
        sides = [{name: types[name] for name in side} for side in (names[:2], names[2:])]
    first = [draw(rules(f"r{i}", sides[i % len(sides)])) for i in range(draw(st.integers(len(sides), 5)))]
    slide = draw(st.one_of(st.integers(1, 12), st.sampled_from([20, 30])))  # a witness needs 30 cells
    size = slide * draw(st.integers(1, 4))
    window = draw(st.sampled_from([None, (size, slide)]))
    windowing = draw(st.sampled_from(["bleach", "basic"]))
    remember = draw(st.sampled_from([None, size, size + slide, 4 * size]))
    options = {
        "windowing": windowing,
        "remember": remember if window is not None and windowing == "bleach" else None,
        "accept_after": draw(st.sampled_from([None, 2, 3, 4])),
        "look_ahead": draw(st.sampled_from([1, 2, 3, 5, 1000])) if look_ahead is None else look_ahead,
        "confidence": draw(st.sampled_from([0.5, 0.6, 0.8])),
        "trust": None if is_divided else draw(st.sampled_from([None, "source"])),
        "implied": not is_divided and draw(st.booleans()),
        "left": draw(st.sampled_from(["flag", "repair"])),
        "id": draw(st.sampled_from([None, "key"])),
    }
    return BayesCase(types, first, window, options, draw(_steps(types, ruled, 6 if is_divided else 14)))


@st.composite
def _steps(
    draw: st.DrawFn, types: Mapping[str, pa.DataType], ruled: Mapping[str, pa.DataType], n_batches: int
) -> list[Any]:
    """Draw what happens: `n_batches` batches for each rule update of a kind, on average."""
    noise = st.sampled_from(NOISE[draw(st.sampled_from(list(NOISE)))])
    tuples = st.tuples(
        st.integers(0, 3),  # the entity
        st.sampled_from([None, 0, 1, 2, 3]),
        st.sampled_from(SOURCES),
        *(noise for _ in types),
    ).map(lambda drawn: _tuple(types, *drawn))
    kinds = ["tuples"] * n_batches + ["add", "delete", "promote", "restore"]
    steps: list[Any] = []
    for i in range(draw(st.integers(1, 16))):
        kind = draw(st.sampled_from(kinds))
        if kind == "tuples":
            batch = draw(st.lists(tuples, min_size=1, max_size=12))
            # What comes again gives counts that a small case would not reach.
            steps.append(("tuples", batch * draw(st.sampled_from([1, 1, 1, 2, 4, 8]))))
        elif kind == "add":
            steps.append(("add", draw(rules(f"s{i}", ruled))))
        elif kind == "restore":
            steps.append(("restore",))
        else:
            steps.append((kind, draw(st.integers(0, 9))))
    return steps


def _tuple(
    types: Mapping[str, pa.DataType], entity: int, n: int | None, source: str | None, *noise: str
) -> dict[str, Any]:
    """Return a tuple about an entity."""
    t: dict[str, Any] = {"n": n, "source": source}
    for (name, type), event in zip(types.items(), noise, strict=True):
        values, like = VALUES[type]
        which = entity % len(values)
        t[name] = {
            "stays": values[which],
            "mistyped": like[which],
            "replaced": values[(which + 1) % len(values)],
            "lost": None,
        }[event]
    return {**t, "key": None}


def numbered(batch: Sequence[dict[str, Any]], position: int) -> list[dict[str, Any]]:
    """Return tuples with a key of their own, from a position in the stream on."""
    return [{**t, "key": 1000 + position + i} for i, t in enumerate(batch)]


def update(reference: BayesReference, step: Any) -> tuple[str, Any] | None:
    """Update the rules of the reference; return which method was called, and with what."""
    match step:
        case ("add", rule):
            reference.add_rule(rule)
            return "add_rule", rule
        case ("delete", which):
            ids = list(reference.rules)
        case ("promote", which):
            ids = [id for id, rule in reference.rules.items() if rule.shadow]
        case _:
            return None
    if not ids:
        return None
    method = f"{step[0]}_rule"
    getattr(reference, method)(ids[which % len(ids)])
    return method, ids[which % len(ids)]


class BayesPair:
    """An engine and the reference, fed with the same."""

    def __init__(self, case: BayesCase, threads: int = 1) -> None:
        self.case = case
        self.reference = case.reference
        options = dict(case.options)
        if case.window is None or options["windowing"] == "basic":
            del options["remember"]
        any_engine: Any = Engine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # random rules may say the same thing
            self.engine = any_engine(
                case.schema,
                [rule_of_engine(rule) for rule in case.rules],
                window=Window(*case.window) if case.window else None,
                repair="bayes",
                threads=threads,
                **options,
            )

    def step(self, step: Any) -> None:
        """Do the same with both and compare."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if step[0] == "tuples":
                self.tuples(numbered(step[1], self.reference.position))
            elif step[0] == "restore":
                self.engine = Engine.restore(self.engine.snapshot())
            else:
                self.update(step)
        seen = self.reference.violations
        assert self.engine.violations == {id: seen[id] for id in self.reference.rules}
        assert list(self.reference.rules) == [rule.id for rule in self.engine.rules]
        assert self.reference.version == self.engine.version
        assert self.reference.position == self.engine.position

    def update(self, step: Any) -> None:
        """Update the rules of both."""
        done = update(self.reference, step)
        if done is not None:
            method, argument = done
            if isinstance(argument, NaiveRule):
                argument = rule_of_engine(argument)
            getattr(self.engine, method)(argument)

    def tuples(self, batch: list[dict[str, Any]]) -> None:
        """Clean a batch with both; compare cells, audit rows and acceptances."""
        expected, repairs, accepted = self.reference.process_batch(batch)
        clean, audit = self.engine.process(pa.RecordBatch.from_pylist(batch, self.case.schema))
        assert clean.schema == self.case.schema
        assert canonical_rows(clean.to_pylist()) == canonical_rows(expected)
        rows = audit.to_pylist()
        assert [facts(row) for row in rows] == [facts(self.audit_row(repair)) for repair in repairs]
        for row, repair in zip(rows, repairs, strict=True):
            wanted = self.audit_row(repair)
            assert numbers(row) == pytest.approx(numbers(wanted), rel=TOLERANCE, abs=TOLERANCE)
        taken = [
            Acceptance(
                change.rule,
                {name: "0" if value == "-0" else value for name, value in change.key.items()},
                change.attribute,
                change.old,
                change.new,
                change.position,
            )
            for change in self.engine.take_accepted()
        ]
        assert sorted(taken, key=in_order) == sorted(accepted, key=in_order)

    def audit_row(self, repair: BayesRepair) -> dict[str, Any]:
        """Return the audit row that the reference expects."""
        type = self.case.schema.field(repair.attribute).type
        return {
            "id": repair.position if self.case.options["id"] is None else 1000 + repair.position,
            "position": repair.position,
            "attribute": repair.attribute,
            "old_value": text(repair.old, type),
            "new_value": None if repair.new is None else text_of(repair.new),
            "rules": list(repair.rules),
            "candidates": [_candidate(candidate) for candidate in repair.candidates],
            "confidence": repair.confidence,
            "groups": repair.groups,
            "decided_by": repair.decided_by,
            "overruled": list(repair.overruled),
            "version": repair.version,
            "applied": repair.applied,
            "step": repair.step,
            "error_rate": _error_rate(repair),
        }


def in_order(change: Acceptance) -> tuple[int, str]:
    """Sort by position, then by rule."""
    return change.position, change.rule


def canonical_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tuples in which equal values are equal."""
    return [{name: v if isinstance(v, tuple) else canonical(v) for name, v in row.items()} for row in rows]


def _candidate(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as the audit has it: rule terms in a list, the others by their names."""
    amounts = dict.fromkeys(("error", "likeness", "recurrence", "background"), 0.0)
    amounts |= {term.kind: term.amount for term in candidate.terms if term.kind != "rule"}
    rules = [
        {
            "rule": term.rule,
            "key": term.key,
            "count": term.count,
            "of": term.of,
            "trust": term.share,
            "lift": term.amount,
        }
        for term in candidate.terms
        if term.kind == "rule"
    ]
    return {
        "value": None if candidate.value is None else text_of(candidate.value),
        "count": candidate.count,
        "score": candidate.score,
        **amounts,
        "rules": rules,
    }


def _rules(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rules that add something, by name: rounding may turn a zero into a small number."""
    terms = [term for term in candidate["rules"] if abs(term["lift"]) > TOLERANCE]
    return sorted(terms, key=lambda term: str(term["rule"]))


def facts(row: dict[str, Any]) -> dict[str, Any]:
    """Return all of an audit row but what depends on rounding."""
    names = ("rule", "key", "count", "of")
    candidates = [
        (
            candidate["value"],
            candidate["count"],
            [tuple(term[name] for name in names) for term in _rules(candidate)],
        )
        for candidate in row["candidates"]
    ]
    rest = {name: value for name, value in row.items() if name not in ("error_rate", "error_from")}
    return {**rest, "confidence": None, "candidates": candidates}


def numbers(row: dict[str, Any]) -> list[float]:
    """Return the numbers of an audit row that depend on rounding."""
    found = [row["confidence"], -1.0 if row["error_rate"] is None else row["error_rate"]]
    for candidate in row["candidates"]:
        found += [candidate[name] for name in ("score", "error", "likeness", "recurrence", "background")]
        for term in _rules(candidate):
            found += [term["lift"], term["trust"]]
    return found


def _error_rate(repair: BayesRepair) -> float | None:
    """Return the error rate of the observed cell, which all candidates share."""
    for candidate in repair.candidates:
        for term in candidate.terms:
            if term.kind == "error":
                return term.share
    return None
