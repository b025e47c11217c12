"""The short form of a rule: `[name:] zipcode, street -> city [WHERE country = 'FR']`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .placed_error import PlacedError

_QUOTED = r'"((?:[^"]|"")+)"'
_BARE_NAME = r"[\w.-]+"
_BARE_ATTRIBUTE = r"[^\W\d]\w*"
_NAME = re.compile(rf"\s*(?:{_QUOTED}|({_BARE_NAME}))\s*:")
_ATTRIBUTE = re.compile(rf"\s*(?:{_QUOTED}|({_BARE_ATTRIBUTE}))")
_NEXT = re.compile(r"\s*(->|,)")
_WHERE = re.compile(r"\s*where\b", re.IGNORECASE)


def parse_short_form(text: str) -> tuple[str | None, list[str], str, str | None]:
    """Split the short form into name, LHS, RHS and condition."""
    name, at = None, 0
    if match := _NAME.match(text):
        name, at = _unquote(match), match.end()
    lhs = []
    while True:
        attribute, at = _read_attribute(text, at)
        lhs.append(attribute)
        following = _NEXT.match(text, at)
        if following is None:
            raise _fault(text, at, "',' or '->' is expected")
        at = following.end()
        if following[1] == "->":
            break
    rhs, at = _read_attribute(text, at)
    if not text[at:].strip():
        return name, lhs, rhs, None
    match = _WHERE.match(text, at)
    if match is None:
        raise _fault(text, at, "WHERE or the end is expected")
    if not text[match.end() :].strip():
        raise _fault(text, match.end(), "a predicate is expected after WHERE")
    return name, lhs, rhs, text[match.end() :].strip()


def format_short_form(lhs: Sequence[str], rhs: str, when: str | None) -> str:
    """Return a rule in the short form, without its name."""
    left = ", ".join(_attribute_text(name) for name in lhs)
    return f"{left} -> {_attribute_text(rhs)}{'' if when is None else f' WHERE {when}'}"


def format_name(id: str) -> str:
    """Return the id of a rule as the short form has it."""
    return id if re.fullmatch(_BARE_NAME, id) else _quote(id)


def _attribute_text(name: str) -> str:
    bare = re.fullmatch(_BARE_ATTRIBUTE, name) and name.lower() != "where"
    return name if bare else _quote(name)


def _read_attribute(text: str, at: int) -> tuple[str, int]:
    match = _ATTRIBUTE.match(text, at)
    if match is None or (match[2] is not None and match[2].lower() == "where"):
        raise _fault(text, at, "an attribute is expected")
    return _unquote(match), match.end()


def _fault(text: str, at: int, problem: str) -> PlacedError:
    at = len(text) - len(text[at:].lstrip())
    remedy = 'write [name:] a, b -> c [WHERE predicate], with names such as "my col" in double quotes'
    return PlacedError(f"text, column {at + 1}", problem, remedy)


def _unquote(match: re.Match[str]) -> str:
    return match[1].replace('""', '"') if match[1] is not None else match[2]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
