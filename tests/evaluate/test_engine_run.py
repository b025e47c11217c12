"""A run in this process applies scheduled rule updates as a stream does."""

from __future__ import annotations

import pyarrow as pa

from sparkbleach import Rule, RuleUpdate
from sparkbleach.evaluate.engine_run import run_engine

DIRTY = pa.table({"k": [1, 1, 1, 1, 1], "v": ["x", "x", "x", "y", "y"]})


def test_a_shadow_rule_repairs_once_it_is_promoted() -> None:
    """Before the promotion cells stay as they are; after it they are repaired from all that was seen."""
    shadow = {"id": "kv", "lhs": "k", "rhs": "v", "mode": "shadow"}
    run = run_engine(DIRTY, [shadow], None, rule_updates=[RuleUpdate(4, promote="kv")])
    assert run.cleaned.column("v").to_pylist() == ["x", "x", "x", "y", "x"]
    assert run.reports[-1]["version"] == 2


def test_rules_come_and_go_at_their_positions() -> None:
    """A rule that is added again begins with no groups."""
    updates = [RuleUpdate(2, delete="kv"), RuleUpdate(4, rule=Rule("kv", "k", "v"))]
    run = run_engine(DIRTY, ["kv: k -> v"], None, rule_updates=updates)
    assert run.cleaned.column("v").to_pylist() == DIRTY.column("v").to_pylist()
    assert run.reports[-1]["version"] == 3
