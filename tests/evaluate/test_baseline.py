"""The micro-batch baseline, compared with the same thing written with dictionaries and loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import Rule
from sparkbleach.evaluate.baseline import clean_window, clean_windows, window_cleaner

RULES = [Rule.parse("a -> c"), Rule.parse("b -> c"), Rule.parse("a, b -> d")]
ROW = st.tuples(
    st.sampled_from([None, 1, 2, 3, 4]),
    st.sampled_from([None, "p", "q", "r"]),
    st.sampled_from([None, "x", "y", "z", ""]),
    st.sampled_from([None, "x", "y", "z"]),
)


def as_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows as a table."""
    types = {"a": pa.int64(), "b": pa.string(), "c": pa.string(), "d": pa.string()}
    return pa.table(
        {name: pa.array([row[i] for row in rows], type) for i, (name, type) in enumerate(types.items())}
    )


def naive(rows: list[dict[str, Any]], rhs: str, rules: Sequence[Rule]) -> list[Any]:
    """Return the cells of an attribute, cleaned as a batch."""
    groups: dict[tuple[int, tuple[Any, ...]], set[int]] = {}
    for n, row in enumerate(rows):
        for j, rule in enumerate(rules):
            key = tuple(row[name] for name in rule.lhs)
            if row[rhs] is not None and None not in key:
                groups.setdefault((j, key), set()).add(n)
    classes = [set(cells) for cells in groups.values() if len({rows[n][rhs] for n in cells}) > 1]
    merged = True
    while merged:
        merged = False
        for one in classes:
            for other in classes:
                if one is not other and one & other:
                    one |= other
                    classes.remove(other)
                    merged = True
                    break
            if merged:
                break
    cells = [row[rhs] for row in rows]
    for one in classes:
        counts = Counter(rows[n][rhs] for n in one)
        most = max(counts.values())
        for n in one:
            if counts[rows[n][rhs]] < most:
                cells[n] = min(value for value, count in counts.items() if count == most)
    return cells


@given(st.lists(ROW, max_size=25))
def test_a_window_is_cleaned_as_a_batch(rows: list[tuple[Any, ...]]) -> None:
    """Each equivalence class of a window gets its most frequent value; a tie keeps a cell."""
    table = as_table(rows)
    cleaned = clean_window(table, RULES)
    assert cleaned.schema == table.schema
    assert cleaned["c"].to_pylist() == naive(table.to_pylist(), "c", RULES[:2])
    assert cleaned["d"].to_pylist() == naive(table.to_pylist(), "d", RULES[2:])
    assert cleaned.select(["a", "b"]).equals(table.select(["a", "b"]))


def test_nothing_is_kept_across_windows() -> None:
    """A window is cleaned as if there were no other; a micro-batch is a window."""
    table = as_table([(1, None, "x", None)] * 3 + [(1, None, "y", None)] * 2 + [(1, None, "x", None)])
    assert clean_windows(table, RULES, 3)["c"].to_pylist() == ["x", "x", "x", "y", "y", "y"]
    assert clean_windows(table, RULES, 6)["c"].to_pylist() == ["x"] * 6
    batches = list(window_cleaner(RULES)(iter(table.to_batches(max_chunksize=2))))
    assert pa.Table.from_batches(batches)["c"].to_pylist() == ["x"] * 6
    assert list(window_cleaner(RULES)(iter([]))) == []
