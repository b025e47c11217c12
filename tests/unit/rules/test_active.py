"""Active rules: they change by updates, keep their serial numbers, and come back as they were saved."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sparkbleach.errors import RuleError, SchemaError
from sparkbleach.rules.active import ActiveRules
from sparkbleach.rules.rule import Rule
from sparkbleach.rules.update import RuleUpdate

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.string()), ("w", pa.string())])
KV = Rule("kv", "k", "v", when="k > 1")
SHADOW = Rule("shadow", "k", "w", mode="shadow")
KW = Rule("kw", "k", "w", when="v IS NOT NULL AND k < 3")


def active_rules() -> ActiveRules:
    """Return three rules of two attributes."""
    return ActiveRules(SCHEMA, [KV, SHADOW, KW], "id")


def serials(rules: ActiveRules) -> dict[str, int]:
    """Return the serial numbers by id."""
    return {active.id: active.serial for active in rules}


def test_a_serial_number_is_never_given_twice() -> None:
    """A rule that comes back gets a new number, also when it was the last one."""
    rules = active_rules()
    assert serials(rules) == {"kv": 0, "shadow": 1, "kw": 2}
    assert rules.delete("kw").serial == 2
    assert rules.add(KW).serial == 3
    assert rules.version == 3
    assert rules.rules == (KV, SHADOW, KW)


def test_promotion_keeps_number_and_place() -> None:
    """A promoted rule differs in its mode only."""
    rules = active_rules()
    promoted = rules.promote("shadow")
    assert promoted.rule == SHADOW.with_mode("live")
    assert serials(rules) == {"kv": 0, "shadow": 1, "kw": 2}


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        (RuleUpdate(delete="none"), r"'none': cannot be deleted, no active rule.*'kv', 'shadow', 'kw'"),
        (RuleUpdate(promote="none"), "'none': cannot be promoted, no active rule"),
        (RuleUpdate(promote="kv"), "'kv': cannot be promoted, it is live already"),
        (RuleUpdate(delete=7), "7: cannot be deleted; give the id of a rule, a text"),  # type: ignore[arg-type]
        (RuleUpdate(rule=KV), "'kv', id: there is a rule of this id already"),
        (RuleUpdate(rule=Rule("r", "k", "id")), "'r', rhs: 'id' is the id of the tuples"),
        (RuleUpdate(rule=Rule("r", "k", "x")), "'r', rhs: unknown attribute 'x'"),
    ],
)
def test_a_refused_update_changes_nothing(update: RuleUpdate, problem: str) -> None:
    """The rules, their numbers and the version are as they were."""
    rules = active_rules()
    before = rules.save()
    with pytest.raises(RuleError, match=problem):
        rules.apply(update)
    assert rules.save() == before


def test_a_copy_changes_by_itself() -> None:
    """Updates of a copy do not reach the original, nor the other way round."""
    rules = active_rules()
    other = rules.copy()
    assert other.conditions() is rules.conditions()
    other.apply(RuleUpdate(delete="kv"))
    rules.apply(RuleUpdate(promote="shadow"))
    assert serials(other) == {"shadow": 1, "kw": 2}
    assert (rules.version, other.version) == (2, 2)
    assert other.rules[0].is_shadow


def test_saved_rules_go_on() -> None:
    """What was saved as JSON has the same rules, numbers and version, and gives the next number."""
    rules = active_rules()
    rules.delete("kv")
    loaded = ActiveRules.load(SCHEMA, "id", json.loads(json.dumps(rules.save())))
    assert loaded.save() == rules.save()
    assert list(loaded) == list(rules)
    assert loaded.add(KV).serial == 3


def test_conditions_are_those_of_the_rules_that_are_meant() -> None:
    """Only the columns that the conditions of these rules read are needed, and equal rules share a query."""
    rules = active_rules()
    batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3], "v": ["x", "x", None]})
    both, of_v = rules.conditions(), rules.conditions(["v"])
    assert (both.columns, of_v.columns) == (["k", "v"], ["k"])
    assert {id: list(mask) for id, mask in both.evaluate(batch).items()} == {
        "kv": [False, True, True],
        "kw": [True, True, False],
    }
    assert list(of_v.evaluate(batch.select(["k"]))) == ["kv"]
    assert rules.conditions(["v"]) is of_v
    rules.delete("kv")
    assert rules.conditions(["v"]).evaluate(batch.select([])) == {}


def test_columns_read() -> None:
    """The columns of rules, conditions and id, in the order of the schema, for all attributes or some."""
    rules = active_rules()
    assert rules.columns_read() == ["id", "k", "v", "w"]
    assert rules.columns_read(["v"]) == ["id", "k", "v"]
    assert list(rules.by_attribute) == ["v", "w"]


def test_another_schema_keeps_the_numbers() -> None:
    """Rules and numbers stay if all that is read stays; otherwise the schema is refused."""
    rules = active_rules()
    before = serials(rules)
    rules.adopt_schema(pa.schema([("new", pa.int8()), *reversed(list(SCHEMA))]), 5)
    assert serials(rules) == before
    assert list(rules.by_attribute) == ["w", "v"]
    with pytest.raises(SchemaError, match=r"schema from position 9 on: column 'w'.*was string and is gone"):
        rules.adopt_schema(SCHEMA.remove(3), 9)
    with pytest.raises(SchemaError, match="list is not a schema"):
        rules.adopt_schema([], 9)
