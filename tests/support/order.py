"""A pytest plugin: the order of the tests, so that two processes take as little time as they can.

pytest-xdist gives the first half of the tests to one process and the second half to the other one; whoever
has no more takes the last ones of the other. So each half begins with what takes long, and ends with what is
short:

- The kernel is compiled once. While one process compiles what `bayes` needs, the other one compiles the rest,
  and then runs the kernel without compiling it. What comes later finds all machine code on disk.
- One process has the tests on its Spark session and its broker, the other one those that start programs,
  which have sessions of their own.
"""

from __future__ import annotations

import pytest

#: what comes first in each half, by the beginnings of names
FIRST = "tests/unit/kernel/test_jit.py::TestSignatures::test_one_signature_each_for_bayes"
SECOND = (
    "tests/unit/kernel/test_jit.py::TestSignatures::test_one_signature_each",
    "tests/unit/kernel/test_jit.py::TestInterpreted",
    "tests/evaluate/test_bayes_experiments.py",
    "tests/evaluate/test_bench.py",
    "tests/spark/test_crash.py",
    "tests/spark/test_cluster.py",
    "tests/cli/test_process.py",
    "tests/property/",
    "tests/unit/test_bayes_reference.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests; those of the same kind stay as they were."""
    items.sort(key=_rank)  # which keeps the order of equals
    n_first = sum(_rank(item)[0] == 0 for item in items)
    n_short = sum(_rank(item)[0] == 1 for item in items)
    # As many short ones go to the end of the first half as it has room for.
    n_more = min(max(len(items) // 2 - n_first, 0), n_short)
    first, short, second = items[:n_first], items[n_first : n_first + n_short], items[n_first + n_short :]
    items[:] = [*first, *short[:n_more], *second, *short[n_more:]]


def _rank(item: pytest.Item) -> tuple[int, int]:
    """Return a test's part, the first half (0), either (1) or the second (2), and its place there."""
    if item.nodeid.startswith(FIRST):
        return 0, 0
    if not {"spark", "broker"}.isdisjoint(getattr(item, "fixturenames", ())):
        return 0, 1
    for place, name in enumerate(SECOND):
        if item.nodeid.startswith(name):
            return 2, place
    return 1, 0
