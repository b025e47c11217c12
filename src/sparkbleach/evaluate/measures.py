"""What is measured: dirty ratios, precision and recall, latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..rules.condition import Condition
from ..rules.condition_evaluator import ConditionEvaluator
from ..rules.rule import Rule

Mask = NDArray[np.bool_]

RATIO_SCHEMA = pa.schema(
    [
        ("rule", pa.string()),
        ("first", pa.int64()),  # position
        ("end", pa.int64()),
        ("tuples", pa.int64()),
        ("applies", pa.int64()),  # tuples that the rule applies to as they arrived
        ("dirty_in", pa.int64()),  # of these, with a wrong RHS cell as they arrived
        ("dirty_out", pa.int64()),  # and with one as they left
        ("dirty_out_all", pa.int64()),  # of all tuples
    ]
)


def differ(one: pa.ChunkedArray | pa.Array, other: pa.ChunkedArray | pa.Array) -> Mask:
    """Return where two columns differ; null equals null."""
    same = pc.or_(pc.and_(pc.is_null(one), pc.is_null(other)), pc.fill_null(pc.equal(one, other), False))
    return np.asarray(pc.invert(same))


def applies(rule: Rule, arrived: pa.Table) -> Mask:
    """Return to which tuples a rule applies; pattern tableaux are ignored."""
    may = np.ones(arrived.num_rows, bool)
    for name in rule.lhs if rule.nulls == "fill" else (*rule.lhs, rule.rhs):
        may &= np.asarray(arrived.column(name).is_valid())
    if rule.when is not None and arrived.num_rows:
        conditions = ConditionEvaluator(arrived.schema, [Condition.compile(rule.when, arrived.schema)])
        may &= np.concatenate([conditions.evaluate(batch)[0] for batch in arrived.to_batches()])
    return may


def dirty_ratios(
    truth: pa.Table, arrived: pa.Table, cleaned: pa.Table, rules: Sequence[Rule], bin_tuples: int
) -> pa.Table:
    """Return how many tuples are dirty, as they arrived and as they left, by rule and stretch of a stream."""
    n = truth.num_rows
    starts = np.arange(0, max(n, 1), bin_tuples)
    ends = np.minimum(starts + bin_tuples, n)
    parts = []
    for rule in rules:
        may = applies(rule, arrived)
        was_wrong = differ(arrived.column(rule.rhs), truth.column(rule.rhs))
        is_wrong = differ(cleaned.column(rule.rhs), truth.column(rule.rhs))
        counted = [
            np.add.reduceat(mask.astype(np.int64), starts) if n else np.zeros(1, np.int64)
            for mask in (may, may & was_wrong, may & is_wrong, is_wrong)
        ]
        columns = [pa.repeat(rule.id, starts.size), starts, ends, ends - starts, *counted]
        parts.append(pa.Table.from_arrays([pa.array(column) for column in columns], schema=RATIO_SCHEMA))
    return pa.concat_tables(parts)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The share of dirty tuples among those that a rule applies to, as they arrived and as they left."""

    before: float
    after: float
    #: the share of all tuples
    after_all: float


def ratio(ratios: pa.Table, rule: str, first: int = 0, end: int | None = None) -> Ratio:
    """Return the dirty ratio by a rule over a part of the stream, in whole stretches."""
    mine = pc.and_(pc.equal(ratios["rule"], rule), pc.greater_equal(ratios["first"], first))
    if end is not None:
        mine = pc.and_(mine, pc.less_equal(ratios["end"], end))
    part = ratios.filter(mine)
    total = {name: pc.sum(part[name]).as_py() or 0 for name in part.column_names[3:]}
    n = max(1, total["applies"])
    return Ratio(
        total["dirty_in"] / n, total["dirty_out"] / n, total["dirty_out_all"] / max(1, total["tuples"])
    )


@dataclass(frozen=True, slots=True)
class Score:
    """How good repairs are: the number of wrong cells, of repairs, and of repairs that give the truth."""

    wrong: int
    repairs: int
    right: int

    @property
    def precision(self) -> float:
        """The share of repairs that are right; 1 if there are none."""
        return self.right / self.repairs if self.repairs else 1.0

    @property
    def recall(self) -> float:
        """The share of wrong cells that were repaired to the truth; 1 if there are none."""
        return self.right / self.wrong if self.wrong else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    @property
    def values(self) -> tuple[float, float, float]:
        """Precision, recall and F1."""
        return self.precision, self.recall, self.f1

    def to_dict(self) -> dict[str, float]:
        """Return the row of a table."""
        names = ("wrong_cells", "repairs", "precision", "recall", "f1")
        return dict(zip(names, (self.wrong, self.repairs, *self.values), strict=True))


def score(truth: pa.Table, arrived: pa.Table, cleaned: pa.Table, attributes: Sequence[str]) -> Score:
    """Return precision and recall of the repairs of some attributes."""
    wrong = repairs = right = 0
    for name in attributes:
        true, old, new = truth.column(name), arrived.column(name), cleaned.column(name)
        changed = differ(old, new)
        wrong += int(differ(old, true).sum())
        repairs += int(changed.sum())
        right += int((changed & ~differ(new, true)).sum())
    return Score(wrong, repairs, right)


@dataclass(frozen=True, slots=True)
class Latency:
    """The distribution of latencies, in milliseconds."""

    samples: int
    mean_ms: float
    median_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, ms: NDArray[np.float64]) -> Latency:
        """Return the distribution of samples; there must be some."""
        return cls(
            ms.size, float(ms.mean()), float(np.median(ms)), float(np.quantile(ms, 0.99)), float(ms.max())
        )


def cdf(ms: NDArray[np.float64], points: int = 200) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return some latencies, and for each the share of samples below it."""
    shares = np.linspace(0, 1, points)
    return np.quantile(ms, shares), shares
