"""Measure what was or may become a cliff: `python -m sparkbleach.evaluate.bench.cliffs`.

A cliff is input that makes a tuple, or a rule, cost many times what it costs elsewhere. Each has a line with
its bound. All run on one core, without Spark.

To add one, write a function that returns a figure, and add it to `CLIFFS`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...config import Window
from ...engine.engine import Engine
from ...rules.file import load_rules
from ...rules.rule import Rule
from .workbench import show

BATCH_TUPLES = 10_000


@dataclass(frozen=True)
class Cliff:
    """A figure with its bound."""

    name: str
    measure: Callable[[], float]  #: returns the figure; compiles before it looks at the clock
    goal: float  #: the figure is to be no more than this
    unit: str = "µs a tuple"


def hubs(repair: str) -> float:
    """Measure groups with tens of thousands of values: two rules with 20 keys each, 100,000 values."""
    random = np.random.default_rng(1)

    def batches(n: int) -> Iterator[pa.RecordBatch]:
        for _ in range(n):
            yield record_batch(
                a=random.integers(20, size=BATCH_TUPLES),
                b=random.integers(20, size=BATCH_TUPLES),
                c=random.integers(100_000, size=BATCH_TUPLES),
            )

    def engine() -> Engine:
        names = ("a", "b", "c")
        return Engine(integers(*names), ["a -> c", "b -> c"], window=None, repair=repair, accept_after=None)

    clean(engine(), batches(2))
    return clean(engine(), batches(30), n_last=5)


def slides(n_rules: int, repair: str = "class") -> float:
    """Measure a window of 10 tuples that slides by one."""
    random = np.random.default_rng(2)
    rules = ["a -> c", "b -> c"][:n_rules]

    def batches(n: int) -> Iterator[pa.RecordBatch]:
        for _ in range(n):
            keys = random.integers(5, size=BATCH_TUPLES)
            yield record_batch(
                a=keys,
                b=random.integers(5, size=BATCH_TUPLES),
                c=np.where(random.random(BATCH_TUPLES) < 0.1, random.integers(5, size=BATCH_TUPLES), keys),
            )

    engine = Engine(integers("a", "b", "c"), rules, window=Window.tuples(10, slide=1), repair=repair)
    clean(engine, batches(1))
    return clean(engine, batches(3))


def rules_on_one_attribute(n_rules: int, repair: str = "class") -> float:
    """Measure many rules on one attribute: each has 1,000 keys that go with those of no other."""
    random = np.random.default_rng(3)
    keys = [f"k{j}" for j in range(n_rules)]

    def batches(n: int) -> Iterator[pa.RecordBatch]:
        for _ in range(n):
            columns = {key: random.integers(1_000, size=BATCH_TUPLES) for key in keys}
            yield record_batch(**columns, v=random.integers(100, size=BATCH_TUPLES))

    def engine() -> Engine:
        window = Window.tuples(50_000, slide=25_000)
        return Engine(integers(*keys, "v"), [f"{key} -> v" for key in keys], window=window, repair=repair)

    clean(engine(), batches(1))
    return clean(engine(), batches(20), n_last=10)


def constants(repair: str) -> float:
    """Measure a tableau of 100,000 rows with a constant on the right; half of them have a wildcard."""
    random = np.random.default_rng(4)
    n_rows = 100_000
    tableau = [[n, n % 7 if n % 2 else "_", n] for n in range(n_rows)]
    rule = Rule("r", ["a", "b"], "c", tableau=tableau)

    def batches(n: int) -> Iterator[pa.RecordBatch]:
        for _ in range(n):
            keys = random.integers(n_rows, size=BATCH_TUPLES)
            is_wrong = random.random(BATCH_TUPLES) < 0.1
            yield record_batch(a=keys, b=keys % 7, c=keys + is_wrong)

    engine = Engine(integers("a", "b", "c"), [rule], repair=repair)
    clean(engine, batches(2))
    return clean(engine, batches(10))


def load_file() -> float:
    """Measure how long it takes to load a file of 20,000 rules."""
    with TemporaryDirectory(prefix="sparkbleach-bench-") as directory:
        path = Path(directory) / "rules.yml"
        rules = (f"  - {{id: r{n}, lhs: [a{n}, b], rhs: c, when: n > {n}}}\n" for n in range(20_000))
        path.write_text("rules:\n" + "".join(rules))
        began = time.process_time()
        load_rules(path)
        return time.process_time() - began


CLIFFS = [
    Cliff("vote, 20 x 20 hubs, 100,000 values", lambda: hubs("vote"), 5.0),
    Cliff("class, the same", lambda: hubs("class"), 5.0),
    Cliff("window 10, slide 1, one rule", lambda: slides(1), 2.0),
    Cliff("window 10, slide 1, two rules", lambda: slides(2), 2.0),
    Cliff("window 10, slide 1, bayes", lambda: slides(2, "bayes"), 20.0),
    Cliff("64 rules on one attribute", lambda: rules_on_one_attribute(64), 20.0),
    Cliff("1 rule on one attribute", lambda: rules_on_one_attribute(1), 20.0),
    Cliff("class, tableau of 100,000 rows", lambda: constants("class"), 1.0),
    Cliff("bayes, tableau of 100,000 rows", lambda: constants("bayes"), 1.0),
    Cliff("load a file of 20,000 rules", load_file, 2.0, "s"),
]


def integers(*names: str) -> pa.Schema:
    """Return a schema of columns with whole numbers."""
    return pa.schema([(name, pa.int64()) for name in names])


def record_batch(**columns: NDArray[np.int64]) -> pa.RecordBatch:
    """Return a batch of columns with whole numbers."""
    return pa.record_batch([pa.array(column) for column in columns.values()], integers(*columns))


def clean(engine: Engine, batches: Iterator[pa.RecordBatch], n_last: int = 0) -> float:
    """Clean batches; return the CPU time of the last ones (all unless said) in microseconds a tuple."""
    taken = []
    for batch in batches:
        began = time.process_time()
        engine.process(batch)
        taken.append((time.process_time() - began) / batch.num_rows * 1e6)
    return float(np.mean(taken[-n_last:]))


def main() -> None:
    """Measure each cliff and print the figure with its bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only the cliffs whose name has one of these words")
    words = parser.parse_args().words
    for cliff in CLIFFS:
        if not words or any(word in cliff.name for word in words):
            figure = cliff.measure()
            show(
                cliff.name,
                f"{figure:.2f}",
                f"{cliff.unit};",
                goal=f"{cliff.goal:g}",
                reached=figure <= cliff.goal,
            )


if __name__ == "__main__":
    main()
