"""The options of an engine, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .errors import ConfigError

WINDOWINGS = ("bleach", "basic")
#: the repair algorithms of kernel/repair.py
REPAIR_ALGORITHMS = ("class", "vote")
#: how long Bleach windowing keeps a count, if nothing is said
DEFAULT_REMEMBER = "4 windows"
_REMEMBERED_WINDOWS = 4
#: the kernel counts in 16 bits
ACCEPT_AFTER_MAX = 30_000


def check_count(option: str, count: int) -> int:
    """Return a positive integer."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError(f"{option}: {count!r} must be a positive integer")
    return count


_MICROSECOND = timedelta(microseconds=1)
_DURATION = re.compile(r"(\d+) (microsecond|millisecond|second|minute|hour|day|week)s?")


def microseconds(option: str, duration: timedelta | str) -> int:
    """Return a duration, or a text such as `10 minutes`, in microseconds."""
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration.strip())
        if match is not None and int(match[1]) <= _DURATION_MAX:
            duration = timedelta(**{f"{match[2]}s": int(match[1])})
    if not isinstance(duration, timedelta) or duration < _MICROSECOND:
        raise ConfigError(
            f"{option}: {duration!r} must be a positive duration: a timedelta, or a text such as '10 minutes'"
        )
    return duration // _MICROSECOND


#: of any unit
_DURATION_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window that is counted in tuples, or in time.

    Attributes:
        size: How many tuples it holds; or how many microseconds.
        slide: How many of them it moves by; `size` is a multiple of it.
        column: The column with the time of each tuple; None for a window in tuples.
    """

    size: int
    slide: int
    column: str | None = None

    def __post_init__(self) -> None:
        check_count("window, size", self.size)
        check_count("window, slide", self.slide)
        if self.column is not None and not isinstance(self.column, str):
            raise ConfigError(f"window: {self.column!r} must be the name of a column")
        if self.size % self.slide:
            raise ConfigError(
                f"window: size {self.size} is not a multiple of slide {self.slide}; "
                "give a slide that divides it"
            )

    @classmethod
    def tuples(cls, size: int, slide: int | None = None) -> Window:
        """Return a window of `size` tuples that moves by `slide`, or by its whole size."""
        return cls(size, size if slide is None else slide)

    @classmethod
    def time(cls, column: str, size: timedelta | str, slide: timedelta | str | None = None) -> Window:
        """Return a window of the last `size`, by the time in a column; it moves by `slide`, or by its size.

        Durations are timedeltas, or texts such as `10 minutes`, `1 hour` and `2 days`.
        """
        if not isinstance(column, str):
            raise ConfigError(f"window: {column!r} must be the name of a column")
        length = microseconds("window, size", size)
        return cls(length, length if slide is None else microseconds("window, slide", slide), column)

    def to_list(self) -> list[Any]:
        """Return the window as its arguments, fit for JSON."""
        return [self.size, self.slide] if self.column is None else [self.size, self.slide, self.column]


DEFAULT_WINDOW = Window.tuples(2_000_000, slide=1_000_000)


def check_window(window: Window | None) -> Window | None:
    """Return a window, or None."""
    if window is not None and not isinstance(window, Window):
        raise ConfigError(
            f"window: {window!r} is not a window; write Window.tuples(1000, slide=500), "
            "Window.time('at', '1 hour', '10 minutes') or None"
        )
    return window


def check_accept_after(count: int | None) -> int | None:
    """Return how often a group must meet another value to accept it, None for never."""
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= ACCEPT_AFTER_MAX:
        raise ConfigError(
            f"accept_after: {count!r} must be an integer from 2 to {ACCEPT_AFTER_MAX:,}; None for never"
        )
    return count


Remember = int | str | timedelta | None


def remember_panes(remember: Remember, window: Window | None) -> int | None:
    """Return for how many panes Bleach windowing keeps a count; None for ever."""
    if remember is None or window is None:
        return None
    if remember == DEFAULT_REMEMBER:
        return _REMEMBERED_WINDOWS * (window.size // window.slide)
    if window.column is not None:
        if isinstance(remember, int):
            raise ConfigError(f"remember: {remember} must be a duration, as the window is; or None for ever")
        remember = microseconds("remember", remember)
    if not isinstance(remember, int):
        raise ConfigError(f"remember: {remember!r} must be a positive integer, or None for ever")
    check_count("remember", remember)
    if remember % window.slide or remember < window.size:
        raise ConfigError(
            f"remember: {remember} must be a multiple of the window's slide {window.slide}, "
            f"and at least its size {window.size}"
        )
    return remember // window.slide


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of the choices."""
    if value not in choices:
        raise ConfigError(f"{option}: {value!r} is unknown; choose one of {', '.join(choices)}")
    return value


def check_windowing(windowing: str) -> str:
    """Return a known windowing strategy."""
    return check_choice("windowing", windowing, WINDOWINGS)


def check_repair(repair: str) -> str:
    """Return a known repair algorithm."""
    return check_choice("repair", repair, REPAIR_ALGORITHMS)
