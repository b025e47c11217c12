"""Ctrl-C and SIGTERM: how a command ends, and where it must not."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


def exit_code(number: signal.Signals) -> int:
    """Return the exit code for an end by a signal, as shells have it."""
    return 128 + number


def say_interrupted(number: signal.Signals) -> None:
    """Say which signal ends the command; there is no summary yet that says it."""
    sys.stderr.write(f"interrupted by {number.name}\n")
    sys.stderr.flush()


def end_at_once(number: int) -> NoReturn:
    """End the command while nothing has begun that must be ended, too; an import may lose an exception."""
    say_interrupted(signal.Signals(number))
    os._exit(exit_code(signal.Signals(number)))


@contextmanager
def exit_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that Spark is stopped and its log deleted."""

    def leave(number: int) -> NoReturn:
        say_interrupted(signal.Signals(number))
        raise SystemExit(exit_code(signal.Signals(number)))

    with handled(leave, signal.SIGTERM):
        yield


@contextmanager
def put_off() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM take effect at the end of the `with` block only."""
    seen: list[int] = []
    try:
        with handled(seen.append, signal.SIGINT, signal.SIGTERM):
            yield
    finally:
        if seen:
            signal.raise_signal(signal.Signals(seen[0]))


@contextmanager
def handled(handle: Callable[[int], object], *numbers: signal.Signals) -> Iterator[None]:
    """Have a function called with the number of each such signal in the `with` block.

    Only the main thread can: elsewhere all stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda number, _: handle(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
