"""Tables of what a report says of rules and sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .text import percent

#: how wide tables are at the most, unless a name is longer
_WIDTH = 100
_NUMBERS = ("violations", "repairs", "flags", "trust", "error rate", "confidence", "doubtful")
_NOTES = (
    "trust: how far the rule is trusted; error rate: of the cells on its right side; "
    "flags: cells not\nchanged, because a key may be wrong; confidence: the mean of its repairs; "
    "doubtful: those below 80%"
)


def table_lines(report: Mapping[str, Any]) -> list[str]:
    """Return what a report says of rules and sources as lines of text."""
    violations: dict[str, int] = report.get("violations", {})
    repairs: dict[str, int] = report.get("repairs", {})
    if not violations:
        return []
    if "rule_quality" not in report:
        counts = [(rule, f"{n:,}", f"{repairs.get(rule, 0):,}") for rule, n in violations.items()]
        return list(_lines(("rule", "violations", "repairs"), counts, narrowest=12))
    quality: dict[str, dict[str, Any]] = report["rule_quality"]
    rows = [
        (
            rule,
            f"{violations[rule]:,}",
            f"{repairs.get(rule, 0):,}",
            f"{one['flags']:,}",
            _percent(one["trust"]),
            _percent(one["error_rate"]),
            _percent(one["confidence"]),
            _percent(one["doubtful"]),
        )
        for rule, one in quality.items()
        if rule in violations
    ]
    return [*_lines(("rule", *_NUMBERS), rows), *_NOTES.splitlines(), *_source_lines(report)]


def _source_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a report says of sources, if anything."""
    sources: dict[str, Any] = report.get("sources", {})
    if not sources or not sources["accuracy"]:
        return
    copies: dict[str, list[str]] = {}
    for one, other in sources["copies"]:
        copies.setdefault(one, []).append(other)
        copies.setdefault(other, []).append(one)
    rows = [
        (_named(source), percent(accuracy), _some(copies.get(source, ())))
        for source, accuracy in sources["accuracy"].items()
    ]
    if copies:
        yield from _lines(("source", "accuracy", "says the same as"), rows, left_last=True)
    else:
        yield from _lines(("source", "accuracy"), [row[:2] for row in rows])
    n_more = sources["n_sources"] - len(rows)
    if n_more:
        yield f"and {n_more:,} more with fewer votes"


def _named(source: str) -> str:
    return source or "(null)"


def _some(sources: Sequence[str]) -> str:
    """Return the first sources, and how many more there are."""
    text = ", ".join(map(_named, sources[:3]))
    return text if len(sources) <= 3 else f"{text} and {len(sources) - 3} more"


def _percent(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, narrowest: int = 0, left_last: bool = False
) -> Iterator[str]:
    """Yield a table whose first column is on the left; a name that is too long has its own line."""
    widths = [max(narrowest, *map(len, column)) for column in zip(header, *rows, strict=True)][1:]
    room = max(8, _WIDTH - sum(widths) - 2 * len(widths))
    first = min(room, max(len(row[0]) for row in (header, *rows)))
    for name, *cells in (header, *rows):
        shown = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)]
        if left_last:
            shown[-1] = cells[-1]
        if len(name) > first:
            yield name
        label = name if len(name) <= first else ""
        yield "  ".join([f"{label:<{first}}", *shown]).rstrip()
