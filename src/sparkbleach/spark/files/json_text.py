"""The text of a JSON object, in which single members are changed and all others stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,}\]]+")
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_GAP = re.compile(r"[\s:,]*")


def put_members(text: str, cells: str, dropped: Collection[str] = ()) -> str:
    """Return a JSON object with the members of another in place of its own, and without the dropped ones.

    Members that the object does not have come at its end. Both texts are valid JSON objects.
    """
    new = {name: cells[begin:end] for name, _, begin, end in _members(cells)}
    kept: list[str] = []
    last = start = text.index("{") + 1
    for name, at, begin, end in _members(text):
        if name not in dropped:
            lead = text[last:at] if kept else text[last:at].replace(",", "")
            kept.append(lead + text[at:begin] + new.pop(name, text[begin:end]))
        last = end
    kept += [("," if kept else "") + f"{json.dumps(name)}:{value}" for name, value in new.items()]
    return text[:start] + "".join(kept) + text[last:]


def _members(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, place of the name, and begin and end of the value of each member."""
    at = _after(_GAP, text, text.index("{") + 1)
    while text[at] != "}":
        name_end = _after(_STRING, text, at)
        begin = _after(_GAP, text, name_end)
        end = _value_end(text, begin)
        yield json.loads(text[at:name_end]), at, begin, end
        at = _after(_GAP, text, end)


def _value_end(text: str, begin: int) -> int:
    if text[begin] == '"':
        return _after(_STRING, text, begin)
    if text[begin] not in "{[":
        return _after(_SCALAR, text, begin)
    depth = 0
    for token in _BRACKET.finditer(text, begin):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError("a JSON object that does not end")


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError(f"no valid JSON at character {at + 1}")
    return found.end()
