"""`sparkbleach explain`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sparkbleach.cli.app import app
from sparkbleach.cli.reasons import in_words
from sparkbleach.engine.engine import Engine
from sparkbleach.kafka import client
from sparkbleach.kafka.client import Record

ROW = {
    "id": "007",
    "position": 12_345,
    "attribute": "city",
    "old_value": None,
    "new_value": "Edinburgh",
    "rules": ["dialling", "zip_city"],
    "candidates": [{"value": "Leith", "count": 1_200}, {"value": "Edinburgh", "count": 3}],
    "confidence": 1.0,
    "groups": 2,
    "decided_by": "constant",
    "overruled": ["postal"],
    "version": 4,
    "applied": True,
}


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_repair_in_words(tmp_path: Path, format: str) -> None:
    """Everything that an audit row says is explained in words; staged files are not read."""
    path = tmp_path / f"part-000000-0000.{format}"
    if format == "json":
        path.write_text(json.dumps(ROW) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([ROW]), path)
    (tmp_path / "_staging").mkdir()
    (tmp_path / "_staging" / "part-0.json").write_text("not even JSON")
    result = CliRunner().invoke(app, ["explain", "007", "--audit", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "city: null -> 'Edinburgh'",
        "  because it violated rules dialling, zip_city",
        "  a constant in a rule's tableau demands this value; counts did not matter",
        "  candidates and their counts, from 2 groups: 'Leith' 1,200, 'Edinburgh' 3",
        "  overruled, because their constants say otherwise: postal",
        "  tuple 007 at position 12,345, version 4 of the rules",
    ]


def test_an_unknown_id(tmp_path: Path) -> None:
    """A tuple that is not in the audit was not changed; ids are compared as text."""
    (tmp_path / "part-000000-0000.json").write_text(json.dumps(ROW) + "\n")
    result = CliRunner().invoke(app, ["explain", "7", "--audit", str(tmp_path)])
    assert result.exit_code == 0
    assert result.stdout.startswith("the audit has no tuple 7: none of its cells was changed")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "is not a directory"), ({}, "has no part files"), ({"part-0.json": "1,2\n"}, "is not an audit")],
)
def test_no_audit(tmp_path: Path, content: dict[str, str] | None, message: str) -> None:
    """A directory that is not there, is empty, or is no audit, is an error with a remedy."""
    directory = tmp_path / "audit"
    if content is not None:
        directory.mkdir()
        for name, text in content.items():
            (directory / name).write_text(text)
    result = CliRunner().invoke(app, ["explain", "7", "--audit", str(directory)])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_a_shadow_rule_would_repair(tmp_path: Path) -> None:
    """A repair that was not made is shown as one."""
    (tmp_path / "part-000000-0000.json").write_text(json.dumps(ROW | {"applied": False}) + "\n")
    result = CliRunner().invoke(app, ["explain", "007", "--audit", str(tmp_path)])
    first = result.stdout.splitlines()[0]
    assert first == "city: null -> 'Edinburgh', if its shadow rules were live; it was not changed by them"


class TestProbability:
    """A cell that is read as its most probable value."""

    def test_amounts_add_up(self, tmp_path: Path) -> None:
        """The amounts that are shown of a candidate add up to its score, and two scores give the gain."""
        rows = audit_of(TUPLES)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "part-000000-0000.parquet")
        (row,) = [row for row in rows if row["id"] == 4]
        text = explained(tmp_path, 4)
        assert text[0] == f"city: 'birminghxm' -> 'birmingham', confidence {row['confidence']:.1%}"
        shown = amounts(text)
        assert list(shown) == ["'birmingham'", "'birminghxm', as it came"]
        for (score, terms), candidate in zip(shown.values(), row["candidates"], strict=True):
            assert round(sum(terms), 2) == score == round(candidate["score"], 2)
        (new, _), (old, _) = shown.values()
        assert f"  gain {new - old:.2f} = {new:.2f} - ({old:.2f}); " in "\n".join(text)
        assert any("rule zip_city, trust " in line and "4 of 4 other cells" in line for line in text)

    def test_all_amounts_add_up(self) -> None:
        """It is so in every row: with nulls, keys, several moves and implied rules."""
        for options in ({}, {"left": "repair"}, {"implied": True}, {"look_ahead": 1}):
            rows = audit_of(DIRTY, **options)
            assert len(rows) > 10
            texts = [in_words(row, rows) for row in rows]
            assert any("how alike: 'birminghxm' may be a typing error" in " ".join(text) for text in texts)
            for row, text in zip(rows, texts, strict=True):
                shown = amounts(text)
                assert len(shown) == len(row["candidates"])
                for (score, terms), candidate in zip(shown.values(), row["candidates"], strict=True):
                    assert round(sum(terms), 2) == score
                    assert score == pytest.approx(candidate["score"], abs=0.0051)

    def test_a_null_cell(self) -> None:
        """The gain of a null cell is over all other values, and there is no error rate."""
        rows = audit_of(TUPLES)
        (row,) = [row for row in rows if row["id"] == 9]
        text = in_words(row, rows)
        assert text[0].startswith("zip: null -> '35957', confidence 99.")
        assert text[-2].startswith("  gain ")
        assert " over all other values together; confidence 99." in text[-2]
        assert not any("error rate" in line for line in text)

    def test_order_and_flags(self, tmp_path: Path) -> None:
        """A cell that was read anew after others names them; what is flagged gives the reason."""
        lines = "\n".join(json.dumps(row | {"id": "x"}) for row in CHAIN)
        (tmp_path / "part-000000-0000.json").write_text(lines + "\n")
        text = explained(tmp_path, "x")
        starts = [n for n, line in enumerate(text) if line and not line.startswith(" ")]
        phone, zipcode, city, state, promo = (text[n : n + 3] for n in starts)
        assert phone[0].startswith("phone: '1' -> '2', confidence")
        assert phone[1] == "  flagged, not changed: the key may be wrong"
        assert zipcode[0].startswith("zip: ")
        assert zipcode[1] == "  flagged, not changed: it depends on phone, and the key may be wrong"
        assert zipcode[2] == "  after phone was read as '2'"
        assert city[1:3] == ["  after phone was read as '2'", "  after zip was read as 'b'"]
        assert state[1] == "  not changed: a shadow rule would change it"
        assert not state[2].startswith("  after")
        assert not any(line.startswith("  after") for line in promo)  # rules that share nothing with these


def test_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit in a topic is explained as one in files; rows of other tuples are left out."""
    values = [json.dumps(row | {"id": id}).encode() for id in (7, 8) for row in CHAIN]
    records = [Record(0, offset, 0, None, value, []) for offset, value in enumerate(values)]
    monkeypatch.setattr(client, "check_exists", lambda topic: 1)  # noqa: ARG005
    monkeypatch.setattr(client, "read", lambda topic: records)  # noqa: ARG005
    result = CliRunner().invoke(app, ["explain", "7", "--audit", "kafka://localhost:9092/audit"])
    assert result.exit_code == 0, result.output
    expected = [in_words(row | {"id": 7}, CHAIN) for row in sorted(CHAIN, key=lambda row: int(row["step"]))]
    assert result.stdout.rstrip().split("\n\n") == ["\n".join(lines) for lines in expected]


def explained(directory: Path, id: object) -> list[str]:
    """Return what the command prints."""
    result = CliRunner().invoke(app, ["explain", str(id), "--audit", str(directory)])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def amounts(lines: list[str]) -> dict[str, tuple[float, list[float]]]:
    """Return by candidate its score and the amounts below it."""
    found: dict[str, tuple[float, list[float]]] = {}
    terms: list[float] = []
    for line in lines:
        head = re.fullmatch(r"  (.*): score (\S+), the sum of", line)
        if head:
            terms = []
            found[head[1]] = (float(head[2]), terms)
        elif re.match(r"    +[+-]\d", line):
            terms.append(float(line.split()[0]))
    return found


def test_a_key_that_is_wrong_and_unknown() -> None:
    """Where many keys have the value at hand, none of them is named; nothing is changed."""
    categories = ("tools", "bread", "garden")
    rows = [{"sku": f"s{n % 40}", "category": categories[n % 40 % 3]} for n in range(800)]
    batch = pa.RecordBatch.from_pylist([*rows, {"sku": "s0", "category": "bread"}])
    clean, audit = Engine(batch.schema, ["sku -> category"], window=None).process(batch)
    assert clean.equals(batch)
    (row,) = audit.to_pylist()
    assert (row["attribute"], row["new_value"], row["applied"]) == ("sku", None, False)
    first, second, third, *_ = in_words(row)
    assert first.startswith("sku: 's0' -> unknown, confidence ")
    assert second == "  flagged, not changed: the key may be wrong"
    assert third.startswith("  another value, whichever it is: score ")


def audit_of(tuples: list[tuple[str | None, ...]], **options: Any) -> list[dict[str, Any]]:
    """Return the audit of tuples of zip, city, state and phone."""
    names = ("zip", "city", "state", "phone")
    schema = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in names)])
    rules = [
        {"id": "zip_city", "lhs": ["zip"], "rhs": "city", "nulls": "fill"},
        {"id": "phone_zip", "lhs": ["phone"], "rhs": "zip", "nulls": "fill"},
    ]
    engine = Engine(schema, rules, id="id", repair="bayes", **options)
    rows = [{"id": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(tuples)]
    _, audit = engine.process(pa.RecordBatch.from_pylist(rows, schema))
    found: list[dict[str, Any]] = audit.to_pylist()
    return found


A = ("35233", "birmingham", "al", "2053258100")
B = ("35957", "boaz", "al", "2565938310")
TUPLES: list[tuple[str | None, ...]] = [
    *[A] * 4,
    ("35233", "birminghxm", "al", "2053258100"),
    *[B] * 3,
    ("35957", "birmingham", "al", "2053258100"),
    (None, "boaz", "al", "2565938310"),
    ("35957", None, "al", "2565938310"),
]
DIRTY: list[tuple[str | None, ...]] = [
    *[A] * 20,
    *[B] * 20,
    *TUPLES,
    *[("35233", "boaz", "al", "2565938310"), ("35957", "birminghxm", "al", "2053258100")] * 2,
    *[("35233", None, "ax", "2053258100"), (None, "boxz", "al", "2565938310")] * 3,
    *[("35233", "birmingham", "al", "2565938310"), ("3523", "birmingxam", "xl", "205325810x")],
]


def read_anew(attribute: str, step: int, key: str, *, applied: bool) -> dict[str, Any]:
    """Return an audit row of a cell that is read as its most probable value."""
    old, new = {"phone": ("1", "2"), "zip": ("a", "b")}.get(attribute, ("c", "d"))
    term = {"rule": "r", "key": key, "count": 4, "of": 5, "trust": 0.9, "lift": 1.5}
    amounts = {"error": -1.0, "likeness": 0.0, "recurrence": 0.5, "background": -2.0}
    return ROW | {
        "attribute": attribute,
        "old_value": old,
        "new_value": new,
        "candidates": [{"value": new, "count": 4, "score": -1.0, **amounts, "rules": [term]}],
        "confidence": 0.9,
        "decided_by": "probability",
        "overruled": [],
        "step": step,
        "error_rate": 0.1,
        "error_from": "the attribute",
        "applied": applied,
    }


#: the cells of one tuple, in the order of the schema: a shadow rule would change the state
CHAIN = [
    read_anew("city", 3, "street=s", applied=True),
    read_anew("zip", 2, "phone=2", applied=False),
    read_anew("phone", 1, "street=s, phone=2", applied=False),
    read_anew("state", 4, "city=d", applied=False),
    read_anew("promo", 5, "item=7", applied=True),
]
