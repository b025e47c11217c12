"""Errors as users see them: one sentence and an exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

from .. import errors
from ..errors import RuleWarning, SessionWarning, SparkbleachError
from .signals import exit_at_sigterm, exit_code, say_interrupted

#: wrong usage, configuration or rules
USAGE = 2
#: a failure at run time
FAILED = 1

_secrets: set[str] = set()
#: who somebody is, and his password, in an address; a number and a slash are a port, not a password
_USER = re.compile(r"(?<=://)(?:[^/\s@:]*:(?!\d{1,5}/)\S*@|[^/\s]+@)")
#: what is shorter would hide half of a message
_SECRET_LENGTH_MIN = 3
_USAGE_ERRORS = (errors.ConfigError, errors.RuleError, errors.SchemaError)
_AGAIN = "and run the same command again"
_RAISED_IN_WORKER = re.compile(r"sparkbleach\.errors\.(\w+): (.+)")
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[^\]]*\] Encountered error while reading file (\S+?)\.?\s")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_WRITTEN = re.compile(r"while writing rows to (\S+?)(?:/_staging\S*)?\.?\s")
_BAD_STATE = re.compile(r"\[CANNOT_LOAD_STATE_STORE")
_STATE_FILE = re.compile(r"(?:state file of|Checksum error:) (\S+/state/\S+)")
_CHECKPOINT = re.compile(r"\[checkpointLocation=([^\],]+)")
_WORKER_GONE = re.compile(r"Python worker exited unexpectedly|PythonWorkerFactory\.\S*stopWorker")
#: classes of Spark's errors that only wrap another one
_WRAPPERS = ("[STREAM_FAILED]", "[FOREACH_BATCH")
_CAUSE = re.compile(r"\[[A-Z][A-Z0-9_.]+\] [^\n]+")
#: the line that names an exception in a stack trace of Java's, and the line that ends a traceback of Python's
_RAISED = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)*([A-Z]\w*(?:Error|Exception)): (.*\S)", re.MULTILINE)
_LAST_LINE = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*((?:[\w<>]+\.)*\w+)(?:: *(.*))?$", re.MULTILINE
)
_SAYS_NOTHING = ("Traceback (most recent", "An error occurred while calling", "Job aborted due to")


@contextmanager
def reported_errors(*, debug: bool) -> Iterator[None]:
    """Turn errors and signals into an exit code and a line on standard error, and warnings into lines.

    With `debug` the traceback is shown. The secrets that `hide` was given are hidden.
    """
    with warnings.catch_warnings(), exit_at_sigterm():
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
            say_interrupted(signal.SIGINT)
            raise typer.Exit(exit_code(signal.SIGINT)) from None
        except Exception as error:
            if isinstance(error, OSError) and _is_of_output(error):
                raise typer.Exit(_given_up_output(error)) from None
            message, code = explained(error)
            text = traceback.format_exc() if debug else f"error: {message}\n"
            typer.echo(_hidden(text), err=True, nl=False)
            raise typer.Exit(code) from None


def _is_of_output(error: OSError) -> bool:
    """Return whether it is standard output that cannot be written."""
    return any(frame.f_code is typer.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _given_up_output(error: OSError) -> int:
    """Say why standard output cannot be written, unless its reader has ended; return the exit code."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:  # where the rest of it goes at the end
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return exit_code(signal.SIGPIPE)
    typer.echo(
        f"error: standard output: it cannot be written ({error.strerror}); "
        "make room there, or send it elsewhere",
        err=True,
    )
    return FAILED


def hide(secrets: Iterable[str]) -> None:
    """Have no error and no warning of this process show these texts."""
    _secrets.update(secret for secret in secrets if len(secret) >= _SECRET_LENGTH_MIN)


@contextmanager
def hidden_usage() -> Iterator[None]:
    """Hide the secrets in what Typer says about wrong arguments."""
    try:
        yield
    except Exception as error:
        # Typer has a Click of its own, or the package: there is no one class for these errors.
        if isinstance(getattr(error, "message", None), str):
            error.message = _hidden(error.message)  # type: ignore[attr-defined]
        raise


def _hidden(text: str) -> str:
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _USER.sub("***@", text)


def explained(error: Exception) -> tuple[str, int]:
    """Return what an error means to the user, and the exit code for it."""
    known = _known(error)
    if known is not None:
        return known
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    return f"{_root_cause(error)}{notes}; --debug shows everything", FAILED


def _root_cause(error: Exception) -> str:
    """Return what led to an error, as far as its text shows it."""
    text = str(error)
    for cause in _CAUSE.findall(text):
        if not cause.startswith(_WRAPPERS):
            return str(cause.strip())
    raised = {match.start(1): match for trace in (_RAISED, _LAST_LINE) for match in trace.finditer(text)}
    for _, match in sorted(raised.items(), reverse=True):
        name, message = match[1], (match[2] or "").strip()
        if not message.startswith(_SAYS_NOTHING):
            return f"{message or 'an error without a message'} ({name})"
    first = next((line for line in text.splitlines() if line.strip()), "")
    message = re.sub(r"SQLSTATE: \w+$", "", first.rpartition("terminated with exception: ")[2]).strip()
    return f"{message or 'an error without a message'} ({type(error).__name__})"


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
            f"nothing of its micro-batch was written; correct or remove it, {_AGAIN}",
            FAILED,
        )
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        return (
            f"{without_scheme(unreadable[1])}: cannot read it, it may be damaged or of another schema; "
            f"nothing of its micro-batch was written; correct or remove it, {_AGAIN}",
            FAILED,
        )
    broken = _broken(error, text)
    return None if broken is None else (broken, FAILED)


def _broken(error: Exception, text: str) -> str | None:
    """Return which part of the machine or of the checkpoint has let Spark down; None if none has."""
    from ..spark.compat import JVM_GONE
    from ..spark.hadoop import without_scheme

    if isinstance(error, JVM_GONE):
        return f"Spark: its JVM has ended, perhaps killed for want of memory; free some memory, {_AGAIN}"
    checkpoint = _CHECKPOINT.search(text)
    if _NO_SPACE.search(text):
        full = _WRITTEN.search(text) or ("STATE_STORE" in text and checkpoint)
        where = without_scheme(full[1]) if full else "output, checkpoint or Spark's temporary files"
        return f"{where}: no space is left to write to; make room there, {_AGAIN}"
    if _BAD_STATE.search(text):
        found = _STATE_FILE.search(text)
        path = found[1] if found else f"a file in {checkpoint[1] if checkpoint else '.'}/state"
        return (
            f"checkpoint: {without_scheme(path)} is missing or damaged; restore the checkpoint directory "
            'from a copy, or go back a micro-batch: see "When something fails" in docs/spark.md'
        )
    if _WORKER_GONE.search(text):
        return (
            "Spark: a Python worker has ended, perhaps killed for want of memory; "
            f"free some memory, or remember less (a smaller --window), {_AGAIN}"
        )
    return None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(_hidden(f"warning: {message}\n"))
