"""The records of text files, read by code that shares nothing with the package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: a name and the bytes that belong to it; None for what belongs to no cell
Piece = tuple[str | None, str]
#: texts that any reader takes as a value of a type
_CERTAIN = {
    "integer": r"-?[1-9]\d{0,8}|0",
    "long": r"-?[1-9]\d{0,17}|0",
    "double": r"-?(?:[1-9]\d{0,8}|0)(?:\.\d{1,6})?",
    "decimal(20,2)": r"-?(?:[1-9]\d{0,8}|0)(?:\.\d{1,2})?",
    "date": r"20[0-2]\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])",
    "boolean": r"true|false",
    "string": r"[\s\S]*",
}


@dataclass(frozen=True)
class Reading:
    """What a record is.

    Attributes:
        fits: True if it must come out, False if it must be quarantined, None if either is right.
        id: Its id, as far as there is one.
        pieces: Its text in pieces, if it may come out.
        values: The values of its cells that are texts.
    """

    fits: bool | None
    id: str | None = None
    pieces: tuple[Piece, ...] = ()
    values: tuple[tuple[str, str | None], ...] = ()


def lines_of(data: bytes, blank: bytes) -> list[bytes]:
    """Return the lines of a file that are not blank, without their ends."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [line.removesuffix(b"\r") for line in lines if line.strip(blank)]


def raw_cells(text: str) -> list[str] | None:
    """Return the cells of a CSV record with their quotes; None if it is not one."""
    cells, cell, state = [], "", "begin"
    for letter in text:
        if state == "begin" and letter == '"':
            state = "quoted"
        elif state == "quoted":
            state = "closing" if letter == '"' else "quoted"
        elif state == "closing" and letter == '"':
            state = "quoted"
        elif letter == ",":
            cells.append(cell)
            cell, state = "", "begin"
            continue
        elif state == "closing":
            return None
        else:
            state = "bare"
        cell += letter
    return None if state == "quoted" else [*cells, cell]


def value_of(cell: str) -> str | None:
    """Return the value of a CSV cell; None if it is null, which an empty cell is, with quotes or without."""
    return (cell[1:-1].replace('""', '"') if cell.startswith('"') else cell) or None


def csv_file(data: bytes) -> list[bytes]:
    """Return the records of a CSV file with a header."""
    return lines_of(data, bytes(range(33)))[1:]


def multiline_csv_file(data: bytes) -> list[bytes]:
    """Return the records of a CSV file with a header whose quoted cells may have line breaks."""
    after = {
        b'"': {"begin": "quoted", "quoted": "closing", "closing": "quoted", "bare": "bare"},
        b",": {"begin": "begin", "quoted": "quoted", "closing": "begin", "bare": "begin"},
    }
    other = {"begin": "bare", "quoted": "quoted", "closing": "bare", "bare": "bare"}
    data = data.removeprefix(b"\xef\xbb\xbf")
    records, begin, state = [], 0, "begin"
    for at in range(len(data)):
        letter = data[at : at + 1]
        if letter == b"\n" and state != "quoted":
            records.append(data[begin:at].removesuffix(b"\r"))
            begin, state = at + 1, "begin"
        else:
            state = after.get(letter, other)[state]
    rest = data[begin:]
    records.append(rest.removesuffix(b"\n") if state == "quoted" else rest.removesuffix(b"\r"))
    return [record for record in records if record.strip(bytes(range(33)))][1:]


_TOKENS = re.compile(
    r'"(?:[^"\\]|\\.)*"|[\[\]{},"]|[ \t\r\n]+|[\x0b\x0c]|[^ \t\r\n\x0b\x0c\[\]{},"]+', re.DOTALL
)


def document_file(data: bytes) -> list[bytes]:
    """Return the records of a file that is to be a JSON document: its values, or all of it."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    values = document_values(data)
    return [data] if values is None else values


def document_values(data: bytes) -> list[bytes] | None:
    """Return the values of a JSON document, each on a line; None if their brackets do not fit."""
    tokens = _bare(_TOKENS.findall(data.decode("latin-1")))
    is_list = tokens[:1] == ["["]
    if is_list and (tokens[-1] != "]" or len(tokens) == 1):
        return None
    if is_list:
        tokens = tokens[1:-1]
    parts: list[list[str]] = [[]]
    depth = 0
    for one in tokens:
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(one, 0)
        if depth < 0 or one == '"':
            return None
        if one == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(one)
    parts = [_bare(part) for part in parts]
    if parts == [[]]:
        return []
    if depth or not all(map(_is_one_value, parts)) or (len(parts) > 1 and not is_list):
        return None
    return ["".join(map(_without_break, part)).encode("latin-1") for part in parts]


def _bare(tokens: list[str]) -> list[str]:
    """Return tokens without the gaps before and after them."""
    places = [at for at, token in enumerate(tokens) if token.strip(" \t\r\n")]
    return tokens[places[0] : places[-1] + 1] if places else []


def _is_one_value(tokens: list[str]) -> bool:
    depth, ends = 0, []
    for at, token in enumerate(tokens):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)
        if depth == 0:
            ends.append(at)
    return ends == [len(tokens) - 1] and tokens[0] not in ("\x0b", "\x0c")


def _without_break(token: str) -> str:
    return token if token.strip(" \t\r\n") else re.split(r"[\r\n]", token)[0]


def json_file(data: bytes) -> list[bytes]:
    """Return the records of a file of JSON lines."""
    return lines_of(data, b" \t\r")


def read_csv_record(record: bytes, names: list[str], types: list[str], id: str) -> Reading:
    """Read a CSV record."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        return Reading(False)
    cells = raw_cells(text)
    if cells is None or len(cells) != len(names):
        return Reading(False)
    values = dict(zip(names, map(value_of, cells), strict=True))
    certain = all(
        value is None or re.fullmatch(_CERTAIN.get(type, "(?!)"), value)
        for value, type in zip(values.values(), types, strict=True)
    )
    pieces: list[Piece] = []
    for name, cell in zip(names, cells, strict=True):
        pieces += [(None, ","), (name, cell)]
    fits = False if values[id] is None or re.search("[\ufffe\uffff]", text) else (True if certain else None)
    strings = tuple((n, values[n]) for n, type in zip(names, types, strict=True) if type == "string")
    return Reading(fits, values[id], tuple(pieces[1:]), strings)


class _NotStrictError(ValueError):
    pass


def _strict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _NotStrictError
    return dict(pairs)


def _no_constant(_: str) -> None:
    raise _NotStrictError


_STRICT: dict[str, Any] = {
    "object_pairs_hook": _strict,
    "parse_constant": _no_constant,
    "parse_float": str,
    "parse_int": str,
}
_DECODER = json.JSONDecoder(**_STRICT)
_GAP = re.compile(r"[ \t\r\n]*")


def read_json_record(record: bytes, names: list[str], types: list[str], id: str) -> Reading:
    """Read a JSON object."""
    try:
        text = record.decode()
        found = json.loads(text, **_STRICT)
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        return Reading(None)
    except ValueError:
        return Reading(False)
    if not isinstance(found, dict):
        return Reading(False)
    exact = json.loads(text)
    certain = len(text) < 10_000 and _depth(text) < 100 and not re.search(r"\d{17}|\d[eE]", text)
    lower = [name.lower() for name in names]
    certain &= not any(name.lower() in lower and name not in names for name in found)
    for name, type in zip(names, types, strict=True):
        value = exact.get(name)
        if value is None:
            continue
        if type == "string":
            certain &= isinstance(value, str)
        elif type in ("integer", "long"):
            certain &= type_is(value, int) and bool(re.fullmatch(_CERTAIN[type], str(value)))
        elif type == "double":
            certain &= type_is(value, int) or isinstance(value, float)
        else:
            certain &= type == "boolean" and isinstance(value, bool)
    null_id = id in found and found[id] is None
    missing = id not in found and id.lower() not in map(str.lower, found)
    fits = False if null_id or missing else (True if certain else None)
    strings = tuple(
        (name, exact.get(name))
        for name, type in zip(names, types, strict=True)
        if type == "string" and isinstance(exact.get(name), str | None)
    )
    got = found.get(id)
    return Reading(fits, None if got is None else str(got), tuple(_members(text)), strings)


def type_is(value: Any, type: type) -> bool:
    """Return whether a value is of a type, and not of a derived one, as a truth value is."""
    return value.__class__ is type


def _depth(text: str) -> int:
    return max(text.count("["), text.count("{"))


def _members(text: str) -> Iterator[Piece]:
    at = text.index("{") + 1
    yield None, text[:at]
    while True:
        gap = _GAP.match(text, at)
        assert gap
        at = gap.end()
        if text[at] == "}":
            yield None, gap[0] + text[at:]
            return
        if text[at] == ",":
            more = _GAP.match(text, at + 1)
            assert more
            yield None, text[gap.start() : more.end()]
            at = more.end()
        elif gap[0]:
            yield None, gap[0]
        name, end = _DECODER.raw_decode(text, at)
        colon = re.compile(r"\s*:\s*").match(text, end)
        assert colon
        _, end_of_value = _DECODER.raw_decode(text, colon.end())
        yield None, text[at : colon.end()]
        yield name, text[colon.end() : end_of_value]
        at = end_of_value
