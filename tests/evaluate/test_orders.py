"""The stream of orders: rules hold, customers move, and some keys are hot."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from sparkbleach.evaluate.measures import differ
from sparkbleach.evaluate.orders import MOVERS_EVERY, ORDER_RULES, orders

N, KEYS = 5_000, 200


def test_rules_hold() -> None:
    """Each key has one value, and the same seed gives the same orders."""
    table = orders(N, KEYS, 3)
    assert table.equals(orders(N, KEYS, 3))
    assert not table.equals(orders(N, KEYS, 4))
    for rule in ORDER_RULES:
        (key,) = rule.lhs
        assert len(pc.unique(table[key])) == len(table.group_by([key, rule.rhs]).aggregate([]))


def test_customers_move() -> None:
    """From the change on, every tenth customer has another address; nothing else changes."""
    before, after = orders(N, KEYS, 3), orders(N, KEYS, 3, change_at=2_000)
    moved = np.flatnonzero(differ(before["email"], after["email"]))
    assert moved.min() >= 2_000
    assert len(pc.unique(after["customer"].take(moved))) == KEYS // MOVERS_EVERY
    assert before.drop_columns("email").equals(after.drop_columns("email"))


def test_some_keys_are_hot() -> None:
    """With a skew a few customers have most of the orders."""
    counts = [
        np.sort(orders(N, KEYS, 3, skew=skew)["customer"].value_counts().field("counts").to_numpy())[::-1]
        for skew in (1, 4)
    ]
    assert counts[0][:10].sum() < 0.1 * N
    assert counts[1][:10].sum() > 0.4 * N
