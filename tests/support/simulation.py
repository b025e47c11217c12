"""Long streams with intersecting rules, from a seed: keys come, go and come back while the window slides."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sparkbleach import Rule
from tests.naive.reference import NaiveRule
from tests.support.cases import Case, Pair

KEYS = ("k0", "k1", "k2")
TYPES = {**dict.fromkeys(KEYS, pa.int64()), "v": pa.string(), "w": pa.int32()}


def rule_pair(
    id: str, lhs: tuple[str, ...], rhs: str, nulls: str, mode: str = "live"
) -> tuple[Rule, NaiveRule]:
    """Return a rule and its naive twin."""
    rule = Rule(id, lhs, rhs, nulls=nulls, mode=mode)
    return rule, NaiveRule(id, lhs, rhs, fill=nulls == "fill", shadow=mode == "shadow")


def simulate(
    seed: int,
    windowing: str,
    repair: str,
    n_tuples: int,
    new_pair: Callable[[Case], Pair] = Pair,
    *,
    timed: bool = True,
) -> None:
    """Send a stream through engine and reference, and compare them after every batch."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    slide = rng.choice([1, 3, 7, 16, 40])
    window: Any = rng.choice([None, (slide * (10 if slide == 1 else rng.randint(1, 4)), slide)])
    lhs_choices = [("k0",), ("k1",), ("k2",), ("k0", "k1")]
    chosen = rng.sample(lhs_choices, rng.randint(2, 4))
    if rng.random() < 0.1:
        chosen = rng.choices(lhs_choices, k=12)  # many rules on one attribute
    rules = [
        rule_pair(f"r{i}", lhs, "v", rng.choice(["ignore", "ignore", "fill"])) for i, lhs in enumerate(chosen)
    ]
    rules.append(rule_pair("solo", ("k0",), "w", "ignore"))
    remember = rng.choice([None, window[0] + slide * rng.randint(0, 6)]) if window else None
    accept_after = rng.choice([None, 2, 2, 3, 4])
    types = TYPES
    if timed and window and rng.random() < 0.5:
        types = {**TYPES, "t": pa.timestamp("us")}
        second = 1_000_000
        window = (window[0] * second, slide * second, "t")
        remember = None if remember is None else remember * second
    pair = new_pair(Case(types, rules, window, windowing, repair, [], remember, accept_after))
    drift = {key: rng.choice([0.0, 0.02, 0.2]) for key in KEYS}
    spread = {key: rng.choice([1, 3, 8]) for key in KEYS}
    n_values = rng.choice([2, 4, 9])
    if rng.random() < 0.3:  # few groups with many values each
        drift, spread, n_values = dict.fromkeys(KEYS, 0.0), dict.fromkeys(KEYS, 2), 40
    null, hub, dirt = rng.choice([0, 0.1, 0.3]), rng.choice([0, 0.05, 0.3]), rng.choice([0.03, 0.1, 0.5])
    calm = rng.choice([0, 0, 20, 60])  # this number of clean tuples, then as many with dirt: groups calm down
    moves = rng.choice([0, 0, 15, 40])  # after this many tuples the truth is another one

    begin = dt.datetime(2020, 2, 28, 23, 59)
    gap, late = rng.choice([0, 0, 0.02]), rng.choice([0, 0.2])

    def row(position: int) -> dict[str, Any]:
        nonlocal begin
        t: dict[str, Any] = {"n": 1}
        if "t" in types:
            if rng.random() < gap:
                begin += dt.timedelta(seconds=rng.randrange(5 * slide))
            behind = rng.randrange(3 * slide) if rng.random() < late else 0
            t["t"] = None if rng.random() < null else begin + dt.timedelta(seconds=position - behind)
        for key in KEYS:
            # A key moves on with the stream; now and then one from the beginning is back.
            now = int(position * drift[key]) + rng.randrange(spread[key])
            t[key] = None if rng.random() < null else 0 if rng.random() < hub else now
        true = ((t["k0"] or 0) + (position // moves if moves else 0)) % n_values
        wrong = rng.randrange(n_values) if not calm or position // calm % 2 else true
        t["v"] = None if rng.random() < null else f"v{wrong if rng.random() < dirt else true}"
        t["w"] = wrong if rng.random() < dirt else true
        return t

    position = updates = 0
    while position < n_tuples:
        size = min(rng.choice([1, 2, 5, 13, 50]), n_tuples - position)
        pair.step(("tuples", [row(position + i) for i in range(size)]))
        position += size
        chance = rng.random()
        if chance < 0.02:
            pair.step(("delete", rng.randrange(9)))
        elif chance < 0.04:
            updates += 1
            mode = rng.choice(["live", "live", "shadow"])
            pair.step(("add", rule_pair(f"s{updates}", rng.choice(lhs_choices), "v", "ignore", mode)))
        elif chance < 0.05:
            pair.step(("promote", rng.randrange(9)))
        elif chance < 0.07:
            pair.step(("restore",))
