"""The display of progress."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from sparkbleach.cli.progress import Progress, Trouble, TroubleLines, follow_query
from sparkbleach.cli.quality import table_lines
from sparkbleach.spark.sink import Sink


def batch(number: int, rows: int, milliseconds: int, report: str | None) -> SimpleNamespace:
    """Return the progress of a micro-batch as Spark gives it."""
    return SimpleNamespace(
        batchId=number,
        numInputRows=rows,
        durationMs={"triggerExecution": milliseconds},
        observedMetrics={"sparkbleach": {"report": report}},
    )


def query(*batches: SimpleNamespace) -> StreamingQuery:
    """Return a query that has done some micro-batches."""
    return cast(StreamingQuery, SimpleNamespace(lastProgress=batches[-1], recentProgress=list(batches)))


def test_micro_batches_count_once() -> None:
    """Each micro-batch is taken in once, also if several have ended since the last look, or none."""
    progress = Progress()
    first, second = batch(4, 10, 500, None), batch(5, 30, 100, '{"violations": {"r": 7}}')
    assert progress.take_in(query(first))
    assert not progress.take_in(query(first))
    assert not progress.take_in(query(first, batch(5, 0, 1, None)))
    assert progress.take_in(query(first, second, batch(6, 2, 100, None)))
    assert progress.tuples == 42
    assert progress.batches == 3
    assert progress.violations == {"r": 7}


def test_the_live_display() -> None:
    """The display shows tuples, rates, latencies, and violations and repairs of each rule."""
    progress = Progress()
    report = '{"violations": {"zip_city": 20}, "repairs": {"zip_city": 1234}}'
    assert "waiting for the first" in shown(progress)
    progress.take_in(query(batch(0, 1_000, 300, None), batch(1, 1_000, 100, report)))
    text = shown(progress)
    assert "2,000 tuples" in text
    assert "now 10,000 tuples/s" in text
    assert "latency 100 ms, mean 200 ms" in text
    assert ["zip_city", "20", "1,234"] in [line.split() for line in text.splitlines()]


def test_troubles() -> None:
    """What keeps a query waiting is shown when it begins, when its length has doubled, and at its end."""
    troubles = TroubleLines()
    away = [Trouble("Kafka at h:1", seconds) for seconds in (10, 11, 19, 20, 39, 41)]
    lines = [troubles.next(trouble) for trouble in (None, *away, None, None)]
    waits = "has not answered for {} s; cleaning goes on by itself when it is back"
    assert [line for found in lines for line in found] == [
        *(f"Kafka at h:1 {waits.format(seconds)}" for seconds in (10, 20, 41)),
        "Kafka at h:1 answers again, after 41 s",
    ]
    assert "h:1 has not answered for 7 s" in shown(Progress("", lambda: Trouble("Kafka at h:1", 7)))


def test_an_end_while_the_sink_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    """A query that does not stop in time ends with its signal; a sink that is away is not asked anything."""
    waiting = query(batch(0, 20, 100, None))
    waiting.isActive = True  # type: ignore[misc]

    def await_termination(_: float) -> bool:
        signal.raise_signal(signal.SIGTERM)
        return False

    def stop() -> None:
        raise RuntimeError("timed out")

    waiting.awaitTermination, waiting.stop = await_termination, stop  # type: ignore[method-assign, assignment]
    progress = Progress(trouble=lambda: Trouble("Kafka at h:1", 60))
    assert follow_query(waiting, progress, waiting=True) is signal.SIGTERM
    progress.print_summary(cast(Sink, None), "there", signal.SIGTERM)
    interrupted, counted, place = capsys.readouterr().out.splitlines()
    assert interrupted.startswith("interrupted by SIGTERM")
    assert counted.startswith("20 tuples in ")
    assert counted.endswith("; Kafka at h:1 does not answer now")
    assert place == "checkpoint  there"


def test_rule_updates_are_shown() -> None:
    """What became of rule updates is shown, also of a micro-batch that had no tuples."""
    progress = Progress()
    report = '{"tuples": 0, "updates": ["applied: delete r; active from position 10 on"]}'
    assert progress.take_in(query(batch(0, 1, 100, report)))
    assert (progress.tuples, progress.batches) == (0, 1)
    assert "rule update applied: delete r; active" in shown(progress)


QUALITY = {
    "trust": 0.98,
    "error_rate": 0.05,
    "repairs": 12,
    "flags": 3,
    "confidence": 0.99996,
    "doubtful": 0.25,
}


def test_the_quality_of_rules() -> None:
    """A table has all that a report says of rules, in 100 columns; a long id has a line of its own."""
    id = "x" * 60
    report = {
        "violations": {"short": 1_234_567, id: 0},
        "repairs": {"short": 12, id: 0},
        "rule_quality": {"short": QUALITY, id: QUALITY | {"confidence": None, "doubtful": None}},
    }
    lines = table_lines(report)
    assert lines[1].split() == ["short", "1,234,567", "12", "3", "98.0%", "5.0%", ">99.9%", "25.0%"]
    assert lines[2] == id
    assert lines[3].split() == ["0", "0", "3", "98.0%", "5.0%", "-", "-"]
    assert max(map(len, lines)) <= 100
    assert len({len(line) for line in (*lines[:2], lines[3])}) == 1


def test_sources() -> None:
    """Sources come with their accuracy and their copies, and how many more there are."""
    sources = {
        "n_sources": 22,
        "accuracy": {"": 0.9, "a": 0.8, "b": 0.7},
        "n_copies": 1,
        "copies": [["", "b"]],
    }
    report = {"violations": {"r": 1}, "repairs": {"r": 1}, "rule_quality": {"r": QUALITY}, "sources": sources}
    assert table_lines(report)[-5:] == [
        "source  accuracy  says the same as",
        "(null)     90.0%  b",
        "a          80.0%",
        "b          70.0%  (null)",
        "and 19 more with fewer votes",
    ]


def test_without_quality() -> None:
    """Where only violations and repairs are counted, only these are shown."""
    assert table_lines({}) == []
    assert table_lines({"violations": {"zip_city": 20}, "repairs": {"zip_city": 7}}) == [
        "rule        violations       repairs",
        "zip_city            20             7",
    ]


def shown(progress: Progress) -> str:
    """Return what the display looks like."""
    console: Any = Console(width=200, record=True, quiet=False, file=None)
    with console.capture() as capture:
        console.print(progress.display(waiting=True))
    return str(capture.get())
