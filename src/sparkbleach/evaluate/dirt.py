"""Error processes: what goes wrong, in which attributes, how often and when.

The kinds are those of BART and Icewafl. `spoil.py` applies them to a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigError
from ..rules.rule import Rule


class Kind(StrEnum):
    """What happens to a cell or to a tuple."""

    #: a letter is doubled, lost, replaced, or exchanged with the next
    typo = "typo"
    #: another value of the attribute's active domain, drawn anew each time
    domain = "domain"
    #: another value of the active domain, always the same for the same true value
    systematic = "systematic"
    #: null
    missing = "missing"
    #: two tuples exchange their cells
    swap_tuples = "swap_tuples"
    #: two attributes of a tuple exchange their cells
    swap_attributes = "swap_attributes"
    #: the tuple arrives a second time, a little later
    duplicate = "duplicate"
    #: the tuple arrives later than it should
    delay = "delay"


OF_TUPLES = (Kind.duplicate, Kind.delay)


@dataclass(frozen=True, slots=True)
class Error:
    """One error process."""

    kind: Kind  #: what happens
    p: float  #: the probability for each cell (or tuple) that the other attributes allow
    attributes: tuple[str, ...] = ()  #: the columns that are hit; none for duplicates and delays
    #: if given, errors happen only from this position to before that one
    burst: tuple[int, int] | None = None
    #: if given, errors happen only in a part of it: `(1000, 100)` is the first 100 of each 1,000
    period: tuple[int, int] | None = None
    #: if given, errors happen only where this SQL predicate on the clean tuple is true
    where: str | None = None
    together: bool = False  #: whether all attributes of a tuple are hit, or none: correlated errors
    lag: int = 100  #: how many tuples later duplicates and delayed tuples come, at most

    def __post_init__(self) -> None:
        place = f"error {self.kind}"
        if not 0 <= self.p <= 1:
            raise ConfigError(f"{place}: p is {self.p}; give a probability from 0 to 1")
        if (self.kind in OF_TUPLES) == bool(self.attributes):
            needed = "this kind is about whole tuples: leave attributes out"
            raise ConfigError(
                f"{place}: {needed if self.attributes else 'attributes are missing: name the columns to hit'}"
            )
        if self.kind is Kind.swap_attributes and len(self.attributes) != 2:
            raise ConfigError(f"{place}: this kind exchanges two attributes; name exactly two")
        if self.burst is not None and not 0 <= self.burst[0] < self.burst[1]:
            raise ConfigError(f"{place}: burst is {list(self.burst)}; give the first position and the end")
        if self.period is not None and not 0 < self.period[1] <= self.period[0]:
            raise ConfigError(f"{place}: period is {list(self.period)}; give a length and a part of it")
        if self.lag < 1:
            raise ConfigError(f"{place}: lag is {self.lag}; give a number of tuples, 1 or more")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Error:
        """Return the process that a mapping, such as an entry of a YAML file, describes."""
        if not isinstance(data, Mapping):
            raise ConfigError(f"error {data!r}: must be a mapping; give kind, p and attributes")
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(data) - set(known))
        if unknown:
            raise ConfigError(f"error: {unknown[0]!r} is unknown; choose from {', '.join(known)}")
        if data.get("kind") not in list(Kind):
            raise ConfigError(f"error: kind is {data.get('kind')!r}; choose one of {', '.join(Kind)}")
        values = dict(data)
        try:
            return cls(
                kind=Kind(values.pop("kind")),
                p=float(values.pop("p")),
                attributes=tuple(values.pop("attributes", ())),
                burst=_pair(values.pop("burst", None)),
                period=_pair(values.pop("period", None)),
                **values,
            )
        except (KeyError, TypeError, ValueError) as error:
            problem = "p is missing" if isinstance(error, KeyError) else str(error)
            raise ConfigError(
                f"error {data['kind']}: {problem}; p is a number, burst and period are pairs"
            ) from error


def _pair(value: Sequence[int] | None) -> tuple[int, int] | None:
    if value is None:
        return None
    first, second = value
    return int(first), int(second)


def load_errors(path: str | Path) -> list[Error]:
    """Return the processes in a YAML file: a list under `errors`."""
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML ({error}); give a file of errors") from error
    if not isinstance(data, Mapping) or not isinstance(data.get("errors"), list):
        raise ConfigError(f"{path}: must have a list `errors`; write errors:, then - kind: typo …")
    try:
        return [Error.from_dict(one) for one in data["errors"]]
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def paper_errors(
    rules: Iterable[Rule],
    p: float,
    *,
    burst: tuple[int, int] | None = None,
    burst_p: float = 0.5,
    kind: Kind = Kind.domain,
) -> list[Error]:
    """Return the paper's process: each RHS cell of a rule is replaced, by `kind`, each LHS cell set to null.

    Both have the probability `p`; between the two positions of a burst, RHS cells have `burst_p`.
    """
    rules = list(rules)
    rhs = tuple(dict.fromkeys(rule.rhs for rule in rules))
    lhs = tuple(dict.fromkeys(name for rule in rules for name in rule.lhs))
    found = [Error(kind, p, rhs), Error(Kind.missing, p, lhs)]
    if burst is not None:
        # A cell is hit at most once, so this is the share of the cells that p has spared.
        found.append(Error(kind, (burst_p - p) / (1 - p), rhs, burst=burst))
    return found
