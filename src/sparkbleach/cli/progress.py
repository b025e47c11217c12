"""The progress of a query: a live display on a terminal, lines otherwise."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..spark.report import new_progress
from ..spark.report import report as report_of
from .quality import table_lines
from .signals import handled
from .text import count

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from ..spark.sink import Sink

_POLL_SECONDS = 0.25
_LINE_SECONDS = 1.0
_UPDATES_SHOWN = 5


@dataclass(frozen=True)
class Trouble:
    """What keeps a query waiting."""

    place: str  #: what does not answer
    seconds: float  #: for how long

    def __str__(self) -> str:
        return (
            f"{self.place} has not answered for {self.seconds:.0f} s; "
            "cleaning goes on by itself when it is back"
        )


class TroubleLines:
    """Makes lines of troubles: one when a trouble begins, when its length has doubled, and at its end."""

    def __init__(self) -> None:
        self._last: Trouble | None = None  #: that of the last look
        self._next_s = 0.0  #: the length from which there is another line

    def next(self, trouble: Trouble | None) -> list[str]:
        """Return what is new since the last look."""
        lines = []
        if trouble is None:
            if self._last is not None:
                lines.append(f"{self._last.place} answers again, after {self._last.seconds:.0f} s")
            self._next_s = 0.0
        elif trouble.seconds >= self._next_s:
            lines.append(str(trouble))
            self._next_s = 2 * trouble.seconds
        self._last = trouble
        return lines


class Steps:
    """Says what a command does before there is progress to show, from a `with` block.

    On a terminal the newest step is shown; elsewhere each is a line on standard error.
    """

    def __init__(self) -> None:
        self._status = Console(stderr=True).status("") if sys.stderr.isatty() else None

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __call__(self, step: str) -> None:
        """Say which step begins."""
        if self._status is None:
            typer.echo(f"{step} ...", err=True)
        else:
            self._status.update(step)
            self._status.start()

    def end(self) -> None:
        """Leave the terminal to others."""
        if self._status is not None:
            self._status.stop()


class Progress:
    """What a query has done so far.

    Args:
        first: What the first micro-batch has to do beside its tuples, if anything.
        trouble: Returns what keeps the query waiting, None if nothing does.
    """

    def __init__(self, first: str = "", trouble: Callable[[], Trouble | None] = lambda: None) -> None:
        self.first = f"waiting for the first micro-batch{first and ', '}{first}"
        self.trouble = trouble
        self.tuples = 0  #: rows read in this run
        self.batches = 0  #: micro-batches that had rows
        self.report: dict[str, Any] = {}  #: the last report of the lane
        self.updates: list[str] = []  #: rule updates, withdrawn rules and accepted changes, as text
        self._begun = time.monotonic()
        self._seconds = 0.0
        self._batch_seconds = 0.0
        self._batch_tuples = 0
        self._last_batch = -1
        self._all: list[tuple[int, float]] = []

    @property
    def violations(self) -> dict[str, int]:
        """By rule: how many tuples have violated it, in this run and those before."""
        found: dict[str, int] = self.report.get("violations", {})
        return found

    @property
    def repairs(self) -> dict[str, int]:
        """By rule: how many cells that violated it were changed, in this run and those before."""
        found: dict[str, int] = self.report.get("repairs", {})
        return found

    def take_in(self, query: StreamingQuery) -> bool:
        """Count the micro-batches that have ended since the last call; return whether there are any."""
        before = self.batches
        for batch in new_progress(query, self._last_batch):
            self._note(batch)
        return self.batches > before

    def _note(self, batch: StreamingQueryProgress) -> None:
        report = report_of({"observedMetrics": batch.observedMetrics})
        if batch.numInputRows == 0 and report is None:
            return
        self._last_batch = batch.batchId
        self._batch_tuples = batch.numInputRows
        if report is not None:
            self.report = report
            self.updates += report.get("updates", ())
            self._batch_tuples = report.get("tuples", batch.numInputRows)  # without control records
        self.batches += 1
        self.tuples += self._batch_tuples
        self._batch_seconds = batch.durationMs.get("triggerExecution", 0) / 1000
        self._seconds += self._batch_seconds
        self._all.append((self._batch_tuples, self._batch_seconds))

    def line(self) -> str:
        """Return a line on the last micro-batch."""
        return (
            f"batch {self._last_batch}: {count(self._batch_tuples, 'tuple')} "
            f"in {_duration(self._batch_seconds)}, "
            f"{_rate(self._batch_tuples, self._batch_seconds)}; {self.tuples:,} so far; "
            f"{sum(self.violations.values()):,} violations, {sum(self.repairs.values()):,} repairs"
        )

    def display(self, *, waiting: bool) -> Group:
        """Return the live display."""
        seconds = time.monotonic() - self._begun
        state = f"micro-batch {self._last_batch}" if self.batches else self.first
        if waiting and self.batches:
            state += ", waiting for more (Ctrl-C ends it)"
        mean = self._seconds / self.batches if self.batches else 0.0
        head = Text(
            f"{self.tuples:,} tuples | now {_rate(self._batch_tuples, self._batch_seconds)}, "
            f"overall {_rate(self.tuples, seconds)} | "
            f"latency {_duration(self._batch_seconds)}, mean {_duration(mean)} | {state}"
        )
        table = Table("rule", "violations", "repairs", box=None, header_style="bold")
        for column in table.columns[1:]:
            column.justify = "right"
        for rule, n in self.violations.items():
            table.add_row(rule, f"{n:,}", f"{self.repairs.get(rule, 0):,}")
        updates = [Text(_update_line(line)) for line in self.updates[-_UPDATES_SHOWN:]]
        trouble = self.trouble()
        waits = [Text(str(trouble), style="bold")] if trouble else []
        return Group(head, *([table] if self.violations else []), *updates, *waits)

    def pace(self) -> str:
        """Return throughput and latency once Spark is warm: over the second half of the micro-batches."""
        half = self._all[len(self._all) // 2 :]
        tuples, seconds = sum(n for n, _ in half), sum(seconds for _, seconds in half)
        return (
            f"{self.tuples:,} tuples in {self.batches} micro-batches; second half: {_rate(tuples, seconds)}, "
            f"latency of a micro-batch {_duration(seconds / max(1, len(half)))} on average, "
            f"{_duration(max((seconds for _, seconds in half), default=0.0))} at most"
        )

    def print_summary(
        self, sink: Sink, checkpoint: str, interrupted_by: signal.Signals | None = None
    ) -> None:
        """Print what was done, where the results are, and which signal came before all was done."""
        seconds = time.monotonic() - self._begun
        away = self.trouble()
        if interrupted_by is not None:
            typer.echo(
                f"interrupted by {interrupted_by.name}, so there may be input that is not cleaned; "
                "run the same command again to go on"
            )
        if away is not None:  # it would be asked what was written
            typer.echo(f"{count(self.tuples, 'tuple')} in {seconds:.1f} s; {away.place} does not answer now")
            places = []
        else:
            self._print_counts(sink, seconds, is_whole=interrupted_by is None)
            places = sink.places()
        echo_rules(self.report)
        for name, place in [*places, ("checkpoint", checkpoint)]:
            typer.echo(f"{name:<11} {place}")

    def _print_counts(self, sink: Sink, seconds: float, *, is_whole: bool) -> None:
        tuples = sink.rows + sink.quarantined
        if tuples == 0 and is_whole:
            typer.echo("nothing new to clean")
            return
        repaired = f"{count(sink.repairs, 'cell')} repaired, " if sink.audit else ""
        typer.echo(
            f"{count(tuples, 'tuple')} in {seconds:.1f} s ({_rate(tuples, seconds)}), {repaired}"
            f"{count(sink.quarantined, 'row')} in quarantine"
        )


def echo_rules(report: Mapping[str, Any]) -> None:
    """Print what a report says of rules and sources."""
    for line in table_lines(report):
        typer.echo(line)


class _Stop(threading.Event):
    """Set by the first signal that asks the command to end."""

    signal: signal.Signals | None = None

    def ask(self, number: int) -> None:
        """Take note of a signal."""
        self.signal = self.signal or signal.Signals(number)
        self.set()


def follow_query(query: StreamingQuery, progress: Progress, *, waiting: bool) -> signal.Signals | None:
    """Show the progress of a query until it ends, or until Ctrl-C or SIGTERM ends it.

    If it is `waiting`, it waits for more input at the end.

    Returns:
        The signal, if one has ended the query.
    """
    stop = _Stop()
    try:
        # An exception would break a call to the JVM.
        with handled(stop.ask, signal.SIGINT, signal.SIGTERM):
            if sys.stderr.isatty():
                _show_live(query, progress, stop, waiting=waiting)
            else:
                _show_lines(query, progress, stop)
        interrupted = query.isActive
        if interrupted:
            query.stop()
        progress.take_in(query)
    except Exception:
        # A signal to a whole group of processes ends the JVM, too, and the query fails. And one that waits
        # for a broker does not stop in time.
        if stop.signal is None:
            raise
        interrupted = True
    return stop.signal if interrupted else None


def _show_live(query: StreamingQuery, progress: Progress, stop: threading.Event, *, waiting: bool) -> None:
    with Live(progress.display(waiting=waiting), console=Console(stderr=True), transient=True) as live:
        for _ in _until_end(query, stop):
            progress.take_in(query)
            live.update(progress.display(waiting=waiting))


def _show_lines(query: StreamingQuery, progress: Progress, stop: threading.Event) -> None:
    typer.echo(f"{progress.first} ...", err=True)
    shown_at = 0.0
    pending = False
    n_updates = 0
    troubles = TroubleLines()

    def show_updates() -> int:
        for line in progress.updates[n_updates:]:
            typer.echo(_update_line(line), err=True)
        return len(progress.updates)

    for _ in _until_end(query, stop):
        pending = progress.take_in(query) or pending
        n_updates = show_updates()
        for line in troubles.next(progress.trouble()):
            typer.echo(line, err=True)
        if pending and time.monotonic() - shown_at >= _LINE_SECONDS:
            typer.echo(progress.line(), err=True)
            shown_at, pending = time.monotonic(), False
    pending = progress.take_in(query) or pending
    show_updates()
    if pending:
        typer.echo(progress.line(), err=True)


def _update_line(text: str) -> str:
    """Return what is shown of a rule update, a withdrawn rule or an accepted change."""
    return text if text.startswith(("accepted: ", "withdrawn: ")) else f"rule update {text}"


def _until_end(query: StreamingQuery, stop: threading.Event) -> Iterator[None]:
    """Yield every quarter of a second until a query has ended or must stop; raise its error."""
    while not stop.is_set():
        ended = query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]
        yield
        if ended:
            return


def _rate(n: int, seconds: float) -> str:
    return f"{n / seconds:,.0f} tuples/s" if seconds > 0 else "0 tuples/s"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else f"{seconds:,.1f} s"
