"""The measures: what is known to be clean scores 0, what is known to be dirty its dirt."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparkbleach import Rule, Window
from sparkbleach.evaluate.dirt import paper_errors
from sparkbleach.evaluate.engine_run import run_engine
from sparkbleach.evaluate.measures import Latency, applies, cdf, dirty_ratios, ratio, score
from sparkbleach.evaluate.spoil import spoil
from tests.support.sales import SALES_RULES, sales

N = 20_000
TRUTH = sales(N)
DIRT = spoil(TRUTH, paper_errors(SALES_RULES, 0.1), seed=2)
RHS = sorted({rule.rhs for rule in SALES_RULES})


def test_clean_data_is_left_alone() -> None:
    """Without dirt there is no repair and every dirty ratio is 0, null cells included."""
    run = run_engine(TRUTH, SALES_RULES, Window.tuples(8_000, 4_000))
    assert run.cleaned.equals(TRUTH)
    ratios = dirty_ratios(TRUTH, TRUTH, run.cleaned, SALES_RULES, 1_000)
    for rule in SALES_RULES:
        found = ratio(ratios, rule.id)
        assert (found.before, found.after, found.after_all) == (0, 0, 0)
    assert score(TRUTH, TRUTH, run.cleaned, RHS).repairs == 0


def test_the_log_is_what_is_measured() -> None:
    """The log, counted by hand, gives the dirty ratio of the input, rule by rule and stretch by stretch."""
    log = DIRT.log().to_pylist()
    ratios = dirty_ratios(DIRT.truth, DIRT.dirty, DIRT.dirty, SALES_RULES, 3_000).to_pylist()
    rows = DIRT.dirty.to_pylist()
    for rule in SALES_RULES:
        wrong = {entry["position"] for entry in log if entry["attribute"] == rule.rhs}
        for part in [part for part in ratios if part["rule"] == rule.id]:
            where = range(part["first"], part["end"])
            may = [n for n in where if all(rows[n][name] is not None for name in (*rule.lhs, rule.rhs))]
            assert part["applies"] == len(may)
            assert part["dirty_in"] == sum(n in wrong for n in may)
            assert part["tuples"] == len(where)
            assert part["dirty_out_all"] == sum(n in wrong for n in where)


def test_an_idle_cleaner_scores_the_dirt_and_an_oracle_none() -> None:
    """A cleaner that returns its input has the ratio of the input; one that returns the truth has 0."""
    idle = dirty_ratios(DIRT.truth, DIRT.dirty, DIRT.dirty, SALES_RULES, 2_500)
    oracle = dirty_ratios(DIRT.truth, DIRT.dirty, DIRT.truth, SALES_RULES, 2_500)
    for rule in SALES_RULES:
        before = ratio(idle, rule.id)
        assert before.after == before.before == pytest.approx(0.1, abs=0.02)
        assert ratio(oracle, rule.id).after == ratio(oracle, rule.id).after_all == 0
        assert ratio(oracle, rule.id).before == before.before
    assert score(DIRT.truth, DIRT.dirty, DIRT.dirty, RHS).recall == 0
    perfect = score(DIRT.truth, DIRT.dirty, DIRT.truth, RHS)
    assert (perfect.precision, perfect.recall, perfect.f1) == (1, 1, 1)


def test_cleaning_helps() -> None:
    """The engine leaves far fewer dirty cells than there were, wherever groups have several tuples."""
    run = run_engine(DIRT.dirty, SALES_RULES, None)
    ratios = dirty_ratios(DIRT.truth, DIRT.dirty, run.cleaned, SALES_RULES, 1_000)
    for id in ("r3", "r4"):
        assert ratio(ratios, id, first=10_000).after < 0.002
    assert score(DIRT.truth, DIRT.dirty, run.cleaned, RHS).f1 > 0.4
    assert run.reports[-1]["position"] == N


def test_a_part_of_the_stream() -> None:
    """A ratio is over the stretches that are wholly inside."""
    ratios = dirty_ratios(DIRT.truth, DIRT.dirty, DIRT.dirty, SALES_RULES[:1], 7_000)
    assert ratios["end"].to_pylist() == [7_000, 14_000, 20_000]
    middle = ratios.to_pylist()[1]
    assert ratio(ratios, "r0", 7_000, 14_000).before == middle["dirty_in"] / middle["applies"]
    assert ratio(ratios, "r0", 7_001, 13_999).before == 0


def test_applies() -> None:
    """A rule applies where its left side is there, its condition holds, and, without fill, its right side."""
    table = pa.table({"a": [1, None, 1, 2], "b": ["x", "x", None, "y"]})
    assert applies(Rule.parse("a -> b"), table).tolist() == [True, False, False, True]
    assert applies(Rule(id="r", lhs=["a"], rhs="b", nulls="fill"), table).tolist() == [
        True,
        False,
        True,
        True,
    ]
    assert applies(Rule(id="r", lhs=["a"], rhs="b", when="a > 1"), table).tolist() == [
        False,
        False,
        False,
        True,
    ]


def test_latencies() -> None:
    """A distribution has its mean, its quantiles and its largest sample."""
    ms = np.arange(1.0, 101.0)
    found = Latency.of(ms)
    assert (found.samples, found.mean_ms, found.median_ms, found.max_ms) == (100, 50.5, 50.5, 100)
    at, share = cdf(ms, 5)
    assert at.tolist() == [1, 25.75, 50.5, 75.25, 100]
    assert share.tolist() == [0, 0.25, 0.5, 0.75, 1]
