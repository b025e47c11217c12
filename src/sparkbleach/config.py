"""How a stream is cleaned, beside its rules: the options, checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import Any, Literal, TypedDict

from .errors import ConfigError

WINDOWINGS = ("bleach", "basic")
#: the repair algorithms that count; several lanes, and the paper's topology, take no other
COUNTING_REPAIRS = ("class", "vote")
REPAIR_ALGORITHMS = ("bayes", *COUNTING_REPAIRS)
DEFAULT_REPAIR = "bayes"
#: what is done with a cell that stands on left-hand sides only and seems wrong
LEFTS = ("flag", "repair")
#: how long Bleach windowing keeps a count, if nothing is said
DEFAULT_REMEMBER: Literal["4 windows"] = "4 windows"
_REMEMBERED_WINDOWS = 4
#: the kernel counts in 16 bits
ACCEPT_AFTER_MAX = 30_000
#: by option: what None is in a file of rules, on the command line, and in JSON
TEXT_OF_NONE = {"accept_after": "never", "remember": "forever"}
#: the options that `repair="bayes"` alone reads
BAYES_OPTIONS = ("look_ahead", "confidence", "trust", "implied", "left")


#: the kernel adds a few of these in 64 bits
_COUNT_MAX = 1 << 60


def check_count(option: str, count: int) -> int:
    """Return a positive integer."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _COUNT_MAX:
        raise ConfigError(f"{option}: {count!r} must be a positive integer, at most 2**60")
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


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of the choices."""
    if value not in choices:
        raise ConfigError(f"{option}: {value!r} is unknown; choose one of {', '.join(choices)}")
    return value


def is_accept_after(value: object) -> bool:
    """Return whether this is a lead that a value may need to be accepted: an integer, 2 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and 2 <= value <= ACCEPT_AFTER_MAX


#: tuples, or a duration for a window in time; None is for ever
Remember = int | str | timedelta | None


class OptionValues(TypedDict, total=False):
    """Options as keywords of a function; `Options` says what they are."""

    window: Window | None
    windowing: str
    repair: str
    accept_after: int | None
    remember: Remember
    look_ahead: int
    confidence: float
    trust: str | None
    implied: bool
    left: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How a stream is cleaned, beside its rules.

    Attributes:
        window: The window that bounds the state; None keeps everything.
        windowing: `basic` (only what is in the window counts) or `bleach` (older counts do, too: with `bayes`
            all that are remembered, else those of groups that had violations).
        repair: `bayes` (the most probable reading of the tuple), `class` (the most frequent value of the
            whole subgraph), or `vote` (of the tuple's own groups).
        accept_after: A value that leads over the one that its group holds by this many is accepted as the new
            truth; None: never.
        remember: For how many tuples Bleach windowing keeps a count: a multiple of the window's slide, and at
            least its size; None: for ever.
        look_ahead: With `bayes`: how many tuples are counted before the first of them is decided; fewer at
            the end of a batch, so that no row waits for a later one.
        confidence: With `bayes`: the probability from which a cell is changed, from 0.5 to below 1.
        trust: With `bayes`: the column that names each tuple's source; how often each is right, and who
            copies whom, is estimated.
        implied: With `bayes`: whether to use rules `X -> A` for attributes A that no rule mentions, where the
            data bear them out.
        left: With `bayes`: what to do with a cell that stands on left-hand sides only and seems wrong: `flag`
            it in the audit, or `repair` it.

    Raises:
        ConfigError: If one of them is wrong, or does not go with the others.
    """

    window: Window | None = DEFAULT_WINDOW
    windowing: str = "bleach"
    repair: str = DEFAULT_REPAIR
    accept_after: int | None = 10
    remember: Remember = DEFAULT_REMEMBER
    look_ahead: int = 1000
    confidence: float = 0.6
    trust: str | None = None
    implied: bool = False
    left: str = "flag"

    def __post_init__(self) -> None:
        for option in fields(self):
            check_option(option.name, getattr(self, option.name))
        self._check_remember()
        for option in fields(self):
            given = getattr(self, option.name) != option.default
            if given and option.name in BAYES_OPTIONS and self.repair != "bayes":
                raise ConfigError(
                    f"{option.name}: it is for repair='bayes', this is {self.repair!r}; "
                    "leave it out, or choose repair='bayes'"
                )

    def _check_remember(self) -> None:
        """Check that counts are kept for whole panes, and no shorter than the window."""
        if self.remember is None or self.remember == DEFAULT_REMEMBER:
            return
        if self.windowing != "bleach":
            raise ConfigError(
                f"remember: it is for windowing='bleach', this is {self.windowing!r}; leave it out"
            )
        if self.window is None:
            raise ConfigError("remember: without a window all counts stay; leave it out, or give a window")
        if (self.window.column is None) != isinstance(self.remember, int):
            kind = "a number of tuples" if self.window.column is None else "a duration such as '1 hour'"
            raise ConfigError(f"remember: {self.remember!r} must be {kind}, as the window is; or forever")
        length = _length(self.remember)
        if length % self.window.slide:
            raise ConfigError(
                f"remember: {length} is not a multiple of the window's slide {self.window.slide}; "
                "give a multiple of it"
            )
        if length < self.window.size:
            raise ConfigError(
                f"remember: {length} is less than the window's size {self.window.size}; "
                f"give at least {self.window.size}"
            )

    @property
    def remember_panes(self) -> int | None:
        """For how many panes Bleach windowing keeps a count; None for ever."""
        if self.window is None or self.remember is None:
            return None
        if self.remember == DEFAULT_REMEMBER:
            return _REMEMBERED_WINDOWS * (self.window.size // self.window.slide)
        return _length(self.remember) // self.window.slide

    def to_dict(self) -> dict[str, Any]:
        """Return the options as values that JSON has."""
        window = self.window and self.window.to_list()
        rest = {
            name: TEXT_OF_NONE.get(name) if value is None else value for name, value in asdict(self).items()
        }
        if isinstance(self.remember, timedelta):
            rest["remember"] = {"microseconds": _length(self.remember)}
        return {**rest, "window": window}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Options:
        """Return the options that `to_dict` has written."""
        values = {option.name: read_option(option.name, saved[option.name]) for option in fields(cls)}
        if isinstance(values["remember"], dict):
            values["remember"] = timedelta(**values["remember"])
        return cls(**{**values, "window": Window(*saved["window"]) if saved["window"] else None})


def _length(remember: Remember) -> int:
    """Return for how many tuples, or microseconds, counts are kept."""
    if isinstance(remember, int):
        return remember
    return microseconds("remember", remember) if remember is not None else 0


def read_option(name: str, value: Any) -> Any:
    """Return the value of an option from how a file or JSON has it: `never` and `forever` are None."""
    return None if value == TEXT_OF_NONE.get(name) else value


def check_option(name: str, value: Any) -> None:
    """Check the value of one option, whatever the others are."""
    _CHECKS[name](value)


def _check_accept_after(value: Any) -> None:
    if value is not None and not is_accept_after(value):
        raise ConfigError(
            f"accept_after: {value!r} must be an integer from 2 to {ACCEPT_AFTER_MAX:,}, "
            "or never (in Python: None)"
        )


def _check_remember(value: Any) -> None:
    if value is None or value == DEFAULT_REMEMBER:
        return
    if isinstance(value, timedelta | str):
        microseconds("remember", value)
    elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _COUNT_MAX:
        raise ConfigError(f"remember: {value!r} must be a positive integer, or forever (in Python: None)")


def _check_confidence(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value < 1:
        raise ConfigError(f"confidence: {value!r} must be a number from 0.5 to below 1")


def _check_trust(value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(f"trust: {value!r} must be the name of a column; leave it out if there is none")


def _check_implied(value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"implied: {value!r} must be true or false")


#: by option: what checks its value
_CHECKS: dict[str, Callable[[Any], object]] = {
    "window": check_window,
    "windowing": lambda value: check_choice("windowing", value, WINDOWINGS),
    "repair": lambda value: check_choice("repair", value, REPAIR_ALGORITHMS),
    "accept_after": _check_accept_after,
    "remember": _check_remember,
    "look_ahead": lambda value: check_count("look_ahead", value),
    "confidence": _check_confidence,
    "trust": _check_trust,
    "implied": _check_implied,
    "left": lambda value: check_choice("left", value, LEFTS),
}
#: the options that a file of rules may give
FILE_OPTIONS = tuple(name for name in _CHECKS if name != "window")


def lane_options(given: OptionValues, n_lanes: int) -> Options:
    """Return the options of a stream in a number of lanes; above one the default of `repair` is `class`."""
    if n_lanes == 1:
        return Options(**given)
    values: OptionValues = {"repair": "class", **given}
    chosen = Options(**values)
    if chosen.repair not in COUNTING_REPAIRS:
        raise ConfigError(
            f"repair: {chosen.repair!r} needs a single lane, there are {n_lanes}; "
            f"give lanes=1, or choose one of {', '.join(COUNTING_REPAIRS)}"
        )
    return chosen
