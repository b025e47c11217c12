"""What the report says of rules and sources with `repair: bayes`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import Engine

NAMES = ("zip", "city", "state", "phone", "source")
SCHEMA = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in NAMES)])
RULES = [
    {"id": "zip_city", "lhs": ["zip"], "rhs": "city", "nulls": "fill"},
    {"id": "zip_state", "lhs": ["zip"], "rhs": "state"},
    {"id": "phone_zip", "lhs": ["phone"], "rhs": "zip", "nulls": "fill"},
]
A = ("35233", "birmingham", "al", "2053258100")
B = ("35957", "boaz", "al", "2565938310")
DIRTY: list[tuple[str | None, ...]] = [
    *[A, B] * 20,
    ("35233", "birminghxm", "al", "2053258100"),
    ("35957", "birmingham", "al", "2053258100"),
    (None, "boaz", "al", "2565938310"),
    ("35957", None, "ax", "2565938310"),
    ("35233", "birmingham", "al", "2565938310"),
    ("35957", "boaz", "al", "2053258100"),
]


def batch(rows: Sequence[tuple[str | None, ...]], first: int = 0) -> pa.RecordBatch:
    """Return tuples with ids, all from one source."""
    return pa.RecordBatch.from_pylist(
        [
            {"id": first + n, "source": "s", **dict(zip(NAMES, row, strict=False))}
            for n, row in enumerate(rows)
        ],
        SCHEMA,
    )


def engine_of(*rules: dict[str, Any], **options: Any) -> Engine:
    """Return an engine."""
    return Engine(SCHEMA, rules or RULES, id="id", repair="bayes", **options)


def counted(audit: list[dict[str, Any]], rule: str) -> tuple[int, int, float | None, float | None]:
    """Return repairs and flags of a rule, the mean confidence and the share of doubtful repairs."""
    own = [row for row in audit if rule in row["rules"]]
    sure = [row["confidence"] for row in own if row["applied"]]
    flags = len(own) - len(sure)
    if not sure:
        return 0, flags, None, None
    doubtful = sum(confidence < 0.8 for confidence in sure)
    return len(sure), flags, sum(sure) / len(sure), doubtful / len(sure)


@pytest.mark.parametrize("sizes", [1, 7, 100])
def test_the_audit_adds_up_to_the_report(sizes: int) -> None:
    """Repairs, flags and confidences of a rule are those of the audit, however batches are cut."""
    chicago = ("60601", "chicago", "illinois", "3")
    wrong_key = ("35233", "chicago", "illinois", "3")
    rows = [*DIRTY * 3, *[chicago] * 20, wrong_key, *[chicago] * 3, wrong_key]
    engine = engine_of(RULES[0], RULES[1], look_ahead=1)
    audit: list[dict[str, Any]] = []
    for first in range(0, len(rows), sizes):
        audit += engine.process(batch(rows[first : first + sizes], first))[1].to_pylist()
        if first == sizes * 5:
            engine = Engine.restore(engine.snapshot())
    report = engine.report()
    assert report["rule_quality"].keys() == {"zip_city", "zip_state"}
    for rule, quality in report["rule_quality"].items():
        repairs, flags, confidence, doubtful = counted(audit, rule)
        assert quality["repairs"] == repairs == engine.repairs[rule] > 0
        assert quality["flags"] == flags
        assert quality["confidence"] == pytest.approx(confidence, abs=1e-4)
        assert quality["doubtful"] == pytest.approx(doubtful, abs=1e-4)
    assert sum(quality["flags"] for quality in report["rule_quality"].values()) > 0
    assert json.loads(json.dumps(report)) == report


def test_trust_and_error_rate() -> None:
    """A rule that holds is trusted more than one that does not; wrong cells raise the error rate."""
    rows = [(f"z{n % 5}", f"c{n % 5}", f"s{n % 7}", "1") for n in range(210)]
    engine = engine_of(RULES[0], RULES[1])
    before = engine.report()["rule_quality"]
    assert before["zip_city"]["error_rate"] == before["zip_state"]["error_rate"] == 0.05
    engine.process(batch(rows))
    quality = engine.report()["rule_quality"]
    assert quality["zip_city"]["trust"] > 0.95
    assert quality["zip_state"]["trust"] < 0.05
    assert quality["zip_city"]["error_rate"] < 0.01
    assert quality["zip_state"]["error_rate"] == 0.5
    assert quality["zip_city"]["confidence"] is None
    assert quality["zip_city"]["doubtful"] is None


def test_a_report_changes_nothing() -> None:
    """An engine that reports decides as one that does not."""
    one, other = engine_of(), engine_of()
    for first in range(0, len(DIRTY) * 4, 10):
        part = batch((DIRTY * 4)[first : first + 10], first)
        one.report()
        assert one.process(part)[1].equals(other.process(part)[1])
    assert one.snapshot() == other.snapshot()


def test_rule_updates() -> None:
    """A deleted rule is not in the report; one that is added or promoted begins at 0; others go on."""
    shadow = {"id": "zip_state", "lhs": ["zip"], "rhs": "state", "mode": "shadow"}
    engine = engine_of(RULES[0], shadow)
    engine.process(batch(DIRTY))
    before = engine.report()["rule_quality"]
    assert before["zip_state"]["repairs"] == 1
    engine = Engine.restore(engine.snapshot())
    assert engine.report()["rule_quality"] == before
    engine.promote_rule("zip_state")
    after = engine.report()["rule_quality"]
    assert (after["zip_state"]["repairs"], after["zip_state"]["confidence"]) == (0, None)
    assert after["zip_city"]["repairs"] == before["zip_city"]["repairs"] > 0
    engine.process(batch(DIRTY, len(DIRTY)))
    assert engine.report()["rule_quality"]["zip_state"]["repairs"] == 1
    engine.delete_rule("zip_city")
    assert engine.report()["rule_quality"].keys() == {"zip_state"}
    engine.add_rule(RULES[0])
    assert engine.report()["rule_quality"]["zip_city"]["repairs"] == 0
    assert engine.report()["rule_quality"]["zip_state"]["repairs"] == 1


class TestSources:
    """What the report says of sources."""

    def test_accuracy_and_copies(self) -> None:
        """A source that is often wrong has a lower accuracy; two that say the same are copies."""
        rows: list[tuple[str, ...]] = []
        for n in range(40):
            right, wrong = (f"c{n}", f"s{n}"), (f"x{n}", f"y{n}")
            for source, said in (
                ("good", right if n % 10 else wrong),
                ("fair", right if n % 7 else (f"v{n}", f"w{n}")),
                ("bad", wrong if n % 3 else right),
                ("copy", wrong if n % 3 else right),
            ):
                rows.append((f"z{n}", *said, "1", source))
        engine = engine_of(RULES[0], RULES[1], trust="source")
        engine.process(batch(rows))
        for one in (engine, Engine.restore(engine.snapshot())):
            sources = one.report()["sources"]
            assert sources["n_sources"] == len(sources["accuracy"]) == 4
            assert sources["accuracy"]["good"] > sources["accuracy"]["bad"]
            assert sources["copies"] == [["bad", "copy"]]
            assert sources["n_copies"] == 1

    def test_few_are_named(self) -> None:
        """Of many sources those with most votes are named, so that the report stays small."""
        rows = [(f"z{n}", "c", "s", "1", f"source {k}") for k in range(50) for n in range(50 - k)]
        engine = engine_of(RULES[0], RULES[1], trust="source")
        engine.process(batch(rows))
        sources = engine.report()["sources"]
        assert sources["n_sources"] == 50
        assert list(sources["accuracy"]) == [f"source {k}" for k in range(20)]
        assert len(sources["copies"]) == 20 < sources["n_copies"]
        assert len(json.dumps(sources)) < 2_000

    def test_without_the_option(self) -> None:
        """There are no sources in the report if no column names them, and neither with other algorithms."""
        assert "sources" not in engine_of().report()
        assert "rule_quality" not in Engine(SCHEMA, RULES, repair="class").report()
