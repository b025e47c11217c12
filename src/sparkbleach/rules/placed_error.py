"""What is wrong with a rule, and where in it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NoReturn

from ..errors import RuleError


class PlacedError(ValueError):
    """One thing that is wrong with a rule; `error` makes it the RuleError that users see."""

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(place, problem, remedy)
        self.place = place
        self.problem = problem
        self.remedy = remedy

    def error(self, id: object, origin: str | None = None) -> RuleError:
        """Return the error, which names the rule, the place, the file and line if known, and the remedy."""
        head = "" if origin is None else f"{origin}: "
        return RuleError(f"{head}rule {id!r}, {self.place}: {self.problem}; {self.remedy}")


def refuse(place: str, problem: str, remedy: str) -> NoReturn:
    """Raise a fault."""
    raise PlacedError(place, problem, remedy)


def check_text(place: str, text: str) -> None:
    """Check that a text is valid Unicode: half of a surrogate pair can be neither written nor compared."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        refuse(
            place, f"the text has {half!r}, which is half of a character", "write whole characters of Unicode"
        )


def near_matches(name: str, names: Sequence[str]) -> str:
    """Return a hint at the names nearest to a wrong one, or at all names if none is near."""
    near = [other for other in names if other.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if len(names) <= 12:
        return f"there are {', '.join(map(repr, names))}"
    return f"there are {', '.join(map(repr, names[:12]))} and {len(names) - 12} more"
