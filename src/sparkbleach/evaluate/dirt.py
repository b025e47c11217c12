"""Error processes: what goes wrong, in which attributes, how often and when.

The kinds are those that people know from BART and Icewafl. `spoil.py` lets them happen.
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
    """One error process.

    Attributes:
        kind: What happens.
        p: How probable it is, for each cell (or tuple) that the rest of this allows.
        attributes: Where: columns; none for duplicates and delays.
        burst: Only from one position to before another.
        period: Only in the first tuples of each so many: `(1000, 100)` is the first 100 of each 1,000.
        where: Only where an SQL predicate on the clean tuple is true.
        together: Whether all attributes of a tuple are hit, or none: errors that are correlated.
        lag: Duplicates and delays: at most so many tuples later.
    """

    kind: Kind
    p: float
    attributes: tuple[str, ...] = ()
    burst: tuple[int, int] | None = None
    period: tuple[int, int] | None = None
    where: str | None = None
    together: bool = False
    lag: int = 100

    def __post_init__(self) -> None:
        place = f"error {self.kind}"
        if not 0 <= self.p <= 1:
            raise ConfigError(f"{place}: p is {self.p}; give a probability from 0 to 1")
        if (self.kind in OF_TUPLES) == bool(self.attributes):
            needed = "it is about whole tuples: leave attributes out"
            raise ConfigError(
                f"{place}: {needed if self.attributes else 'attributes are missing: name the columns to hit'}"
            )
        if self.kind is Kind.swap_attributes and len(self.attributes) != 2:
            raise ConfigError(f"{place}: it exchanges two attributes; name exactly two")
        if self.burst is not None and not 0 <= self.burst[0] < self.burst[1]:
            raise ConfigError(f"{place}: burst is {list(self.burst)}; give the first position and the end")
        if self.period is not None and not 0 < self.period[1] <= self.period[0]:
            raise ConfigError(f"{place}: period is {list(self.period)}; give a length and a part of it")
        if self.lag < 1:
            raise ConfigError(f"{place}: lag is {self.lag}; give a number of tuples, 1 or more")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Error:
        """Return the process that a mapping, such as an entry of a YAML file, describes.

        Raises:
            ConfigError: If it is wrong.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"error {data!r}: it is not a mapping; give kind, p and attributes")
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
    """Return the processes in a YAML file: a list under `errors`.

    Raises:
        ConfigError: If it cannot be read or is wrong.
    """
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML ({error}); give a file of errors") from error
    if not isinstance(data, Mapping) or not isinstance(data.get("errors"), list):
        raise ConfigError(f"{path}: there is no list `errors` in it; write errors:, then - kind: typo …")
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
    """Return the paper's process: each RHS cell of a rule is replaced, each LHS cell set to null.

    Args:
        rules: Whose cells.
        p: The probability of both.
        burst: From which position to which the probability of RHS cells is `burst_p` instead.
        burst_p: That probability.
        kind: How RHS cells are replaced.
    """
    rules = list(rules)
    rhs = tuple(dict.fromkeys(rule.rhs for rule in rules))
    lhs = tuple(dict.fromkeys(name for rule in rules for name in rule.lhs))
    found = [Error(kind, p, rhs), Error(Kind.missing, p, lhs)]
    if burst is not None:
        # A cell is hit once: of those that p has left, so many more make it burst_p.
        found.append(Error(kind, (burst_p - p) / (1 - p), rhs, burst=burst))
    return found
