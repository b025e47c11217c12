"""Errors as users see them: one sentence and an exit code."""

from __future__ import annotations

import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from .. import errors
from ..errors import RuleWarning, SessionWarning, SparkbleachError

#: wrong usage, configuration or rules
USAGE = 2
#: a failure at run time
FAILED = 1

_USAGE_ERRORS = (errors.ConfigError, errors.RuleError, errors.SchemaError)
_RAISED_IN_WORKER = re.compile(r"sparkbleach\.errors\.(\w+): (.+)")
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[^\]]*\] Encountered error while reading file (\S+?)\.?\s")
_WRAPPERS = ("[STREAM_FAILED]", "[FOREACH_BATCH")
_CAUSE = re.compile(r"\[[A-Z][A-Z0-9_.]+\] [^\n]+")


@contextmanager
def reported_errors(*, debug: bool) -> Iterator[None]:
    """Turn errors and signals into an exit code and a line on standard error, and warnings into lines.

    With `debug` errors keep their traceback.
    """
    with warnings.catch_warnings(), _exit_at_sigterm():
        if not debug:
            warnings.simplefilter("ignore")
            for category in (RuleWarning, SessionWarning):
                warnings.simplefilter("default", category)
            warnings.showwarning = _show_warning
        try:
            yield
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(exit_code(signal.SIGINT)) from None
        except Exception as error:
            if debug:
                raise
            message, code = explained(error)
            typer.echo(f"error: {message}", err=True)
            raise typer.Exit(code) from None


def exit_code(number: signal.Signals) -> int:
    """Return the exit code for an end by a signal, as shells have it."""
    return 128 + number


@contextmanager
def _exit_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that Spark is stopped and its log deleted."""

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(exit_code(signal.Signals(number)))

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def explained(error: Exception) -> tuple[str, int]:
    """Return what an error means to the user, and the exit code for it."""
    known = _known(error)
    if known is not None:
        return known
    text = str(error)
    causes = [cause for cause in _CAUSE.findall(text) if not cause.startswith(_WRAPPERS)]
    message = causes[0] if causes else next(iter(text.splitlines()), type(error).__name__)
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    return f"{message.strip()}{notes}; --debug shows everything", FAILED


def is_known(error: Exception) -> bool:
    """Return whether the cause of an error is clear without a log."""
    return _known(error) is not None


def _known(error: Exception) -> tuple[str, int] | None:
    if isinstance(error, SparkbleachError):
        return str(error), USAGE if isinstance(error, _USAGE_ERRORS) else FAILED
    text = str(error)
    raised = _RAISED_IN_WORKER.findall(text)
    if raised:
        name, message = raised[-1]
        usage = issubclass(getattr(errors, name, SparkbleachError), _USAGE_ERRORS)
        return message.strip(), USAGE if usage else FAILED
    from ..spark.hadoop import without_scheme

    if "CSV header" in text:
        path = re.search(r"CSV file: (\S+)", text)
        where = without_scheme(path[1]) if path else "a CSV file"
        return (
            f"{where}: its header does not have the columns of the schema, in their order; "
            "nothing of its micro-batch was written; correct or remove it, and run the same command again",
            FAILED,
        )
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        return (
            f"{without_scheme(unreadable[1])}: cannot read it, it may be damaged or of another schema; "
            "nothing of its micro-batch was written; correct or remove it, and run the same command again",
            FAILED,
        )
    return None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"warning: {message}\n")
