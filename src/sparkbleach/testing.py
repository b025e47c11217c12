"""Tools to test rules and recovery: a preview of what rules change, and crash points."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# Every part of the package may import this module, so this module imports the package inside functions only.
if TYPE_CHECKING:
    import pyarrow as pa

    from .rules.rule import RuleLike

#: the places where a process can be killed, and what has happened there
CRASH_POINTS = {
    "ingress.read": "a partition's rows are read and not yet encoded",
    "lane.decide": "a lane has its state and its blobs, and has not yet decided",
    "state.delta": "the changes of a micro-batch are in the state store",
    "state.snapshot": "a chunk of a snapshot is in the state store",
    "state.deletion": "some entries that nobody needs any more are deleted from the state store",
    "state.head": "the state of a lane or of a worker is complete in the state store",
    "paper.detect": "a detect worker of the paper's topology has its state, and has not read its messages",
    "paper.link": "the same of a link worker",
    "paper.repair": "the same of a repair worker",
    "paper.aggregate": "the aggregator of the paper's topology has put the decisions together",
    "egress.write": "a partition's clean rows are not yet made",
    "writer.publish": "the rows, the audit or the quarantine of a micro-batch is in its directory",
    "writer.end": "a micro-batch is written, and Spark has not yet committed it",
}
_AT, _MARK, _HOLD = "SPARKBLEACH_CRASH_AT", "SPARKBLEACH_CRASH_MARK", "SPARKBLEACH_CRASH_HOLD"
_crash_point, _, _times = os.environ.get(_AT, "").partition(":")
_times_left = int(_times or 1)


def crash_at(
    point: str, times: int = 1, *, mark: str | os.PathLike[str], hold: bool = False
) -> dict[str, str]:
    """Return the environment variables that kill a process at a crash point, once for each mark.

    Start the program that cleans with them: its Python workers inherit them. On a cluster, set each as
    `spark.executorEnv.<name>`, too.

    Args:
        point: One of `CRASH_POINTS`.
        times: The process dies when it reaches the point for this time.
        mark: A file that is written at that moment. While it exists, no process is killed; delete it, and the
            next process that comes to the point for this time, or for one more, dies, too.
        hold: Whether the process only stops there and waits, so that the test can kill all processes at once.

    Raises:
        ConfigError: If there is no such point.
    """
    from .errors import ConfigError

    if point not in CRASH_POINTS:
        raise ConfigError(f"point: {point!r} is unknown; choose one of {', '.join(CRASH_POINTS)}")
    if times < 1:
        raise ConfigError(f"times: {times} must be a positive integer")
    return {_AT: f"{point}:{times}", _MARK: os.fspath(mark), **({_HOLD: "1"} if hold else {})}


def reach(point: str) -> None:
    """Kill this process if the environment says that it crashes at this point; otherwise do nothing."""
    if point == _crash_point:
        _crash()


def _crash() -> None:
    global _times_left
    _times_left -= 1
    if _times_left > 0:
        return
    try:
        with open(os.environ[_MARK], "x") as mark:
            mark.write(str(os.getpid()))
    except FileExistsError:
        return
    while _HOLD in os.environ:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Change:
    """A cell that rules change, or that shadow rules would change.

    Attributes:
        row: The number of the row, from 0 on.
        column: The name of the column.
        before: The value that came.
        after: The value that the rules put in its place; as text if the change is not applied.
        rules: The rules that the cell violates.
        applied: False if only shadow rules would make the change.
    """

    row: int
    column: str
    before: Any
    after: Any
    rules: tuple[str, ...]
    applied: bool


@dataclass(frozen=True)
class Preview:
    """What rules do with some rows; printed, it shows the changed cells by rule.

    Attributes:
        before: The rows that came.
        after: The rows as the rules leave them.
        changes: The cells that differ, in the order of the rows.
        violations: By rule, the number of rows that violate it.
        repairs: By rule, the number of cells that violate it and are changed.
    """

    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    changes: list[Change]
    violations: dict[str, int]
    repairs: dict[str, int]

    def __str__(self) -> str:
        changed = sum(change.applied for change in self.changes)
        lines = [f"{_count(changed, 'changed cell')} in {_count(len(self.before), 'row')}"]
        for rule, violations in self.violations.items():
            counts = f"{_count(violations, 'violation')}, {_count(self.repairs[rule], 'repair')}"
            lines.append(f"{rule}: {counts}")
            changes = [change for change in self.changes if rule in change.rules]
            lines += _aligned(
                ("row", "column", "before", "after"),
                *((str(c.row), c.column, repr(c.before), _after_text(c)) for c in changes[:_SHOWN_MAX]),
            )
            if len(changes) > _SHOWN_MAX:
                lines.append(f"  and {len(changes) - _SHOWN_MAX:,} more")
        return "\n".join(lines)


_SHOWN_MAX = 10


def preview(
    rules: Iterable[RuleLike], rows: Any, *, schema: pa.Schema | None = None, **options: Any
) -> Preview:
    """Return what rules change in some rows, without Spark.

    The rows are a stream: a row is repaired by what came before it.

    Args:
        rules: The rules: objects, texts, or mappings as in a file of rules.
        rows: A list of dictionaries, or a table: pandas, Arrow, or another that Arrow can read.
        schema: The types of the columns, if the rows do not show them.
        options: More options of `Engine`, such as `window`.

    Raises:
        RuleError: If a rule is wrong or does not fit the rows.
    """
    from .engine.engine import Engine

    batch = _as_batch(rows, schema)
    engine = Engine(batch.schema, rules, **options)
    clean, audit = engine.process(batch)
    before, after = batch.to_pylist(), clean.to_pylist()
    changes = []
    for repair in audit.to_pylist():
        row, column, applied = repair["position"], repair["attribute"], repair["applied"]
        new = after[row][column] if applied else repair["new_value"]
        changes.append(Change(row, column, before[row][column], new, tuple(repair["rules"]), applied))
    return Preview(before, after, changes, engine.violations, engine.repairs)


def _as_batch(rows: Any, schema: pa.Schema | None) -> pa.RecordBatch:
    import pyarrow as pa

    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        names = schema.names if schema else dict.fromkeys(name for row in rows for name in row)
        rows = {name: [row.get(name) for row in rows] for name in names}
    table = pa.table(rows, schema=schema)
    batches = table.replace_schema_metadata(None).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _after_text(change: Change) -> str:
    return repr(change.after) if change.applied else f"{change.after!r} (by shadow rules, not applied)"


def _aligned(*table: tuple[str, ...]) -> list[str]:
    if len(table) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return [f"  {line.rstrip()}" for line in lines]
