"""Odd JSON objects."""

from __future__ import annotations

import json
import random

from tests.support.fuzz import odd
from tests.support.fuzz.csv_files import Table

NAMES = ["note", "a b", "a.b", "back`tick", "é", "value", "text", "parsed", "x", "SELECT", "$", "nested"]
_UNKNOWN = ["more", "", 'a"b', "𝄞", "_repairs", "record", "\u2028", "x" * 300]
_NUMBERS = [
    "1.10",
    "1e5",
    "1E400",
    "-0",
    "0.1000",
    "9" * 40,
    "1" + "0" * 2_000,
    "3.0",
    "1e-7",
    "12345678901234567890.5",
]
_OTHERS = [
    b"null", b"[]", b"1", b'"x"', b'[{"id": 1}]', b"{}", b"{} {}", b'{"id": 1} {"id": 2}',
    b'{"id": 1}, {"id": 2}', b"{", b"}", b"{'id': 1}", b"{id: 1}", b'{"id": 01}', b'{"id": NaN}',
    b'{"id": 1,}', b"// x", b"\xef\xbb\xbf{}", b'{"id":\xa01}', b"[" * 3_000, b'{"a":' * 3_000, b'{"id":1}]',
    b'{"id":1} x', b'{"id":"\\x"}', b'{"id":1,"id":1}', b"\x00", b"\x0b",
]  # fmt: skip


def record(draw: random.Random, table: Table, number: int, *, tame: bool, gap: str = " \t") -> bytes:
    """Return an object, with letters of `gap` between tokens; if not a tame one, it may be damaged."""
    kind = 1.0 if tame else draw.random()
    if kind < 0.03:
        return draw.choice(_OTHERS)
    cells = table.cells(draw, number, tame=tame)
    members = [
        # Audit rows are found by their ids: a text is what it is, while `true` or `1e5` may read otherwise.
        (name, _value(draw, cell, type, tame=tame or (name == "id" and type == "STRING")))
        for (name, type), cell in zip(table.columns, cells, strict=True)
    ]
    if draw.random() < 0.2 and not tame:
        members[draw.randrange(1, len(members))] = (draw.choice([table.columns[1][0], "v"]), "null")
        members = list(dict(members).items())
    if draw.random() < 0.3:
        members += [
            (name, _any(draw, 2, tame=tame))
            for name in draw.sample(["more"] if tame else _UNKNOWN, 1 if tame else draw.randint(1, 3))
        ]
    if draw.random() < 0.3:
        draw.shuffle(members)
    if kind < 0.05:
        members.append(draw.choice(members))
    elif kind < 0.07:
        members.append(
            (
                draw.choice(["v", "half"]),
                draw.choice(['"\\ud800"', '"\\udc00x"', '["\\ud83d"]', '"\\ud83d\\ude00"']),
            )
        )
        members = list(dict(members).items())

    def space() -> str:
        return "".join(draw.choices(gap, k=draw.choice([0, 0, 1, 2]))) if draw.random() < 0.3 else ""

    inner = ",".join(
        f"{space()}{_string(draw, name)}{space()}:{space()}{value}{space()}" for name, value in members
    )
    data = f"{space()}{{{inner}}}{space()}".encode("utf-8", "surrogatepass")
    return odd.damaged(draw, data) if 0.07 <= kind < 0.15 else data


def _value(draw: random.Random, cell: str, type: str, *, tame: bool) -> str:
    if type in ("INT", "BIGINT", "DOUBLE", "DECIMAL(20,2)") and (tame or draw.random() < 0.9):
        try:
            json.loads(cell)
        except ValueError:
            return cell if draw.random() < 0.2 and cell.strip() else "7"
        return cell if cell[:1] in "-0123456789" else "7"
    if type == "BOOLEAN" and cell in ("true", "false"):
        return cell
    if type == "STRING" and not tame and draw.random() < 0.05:
        return draw.choice([*_NUMBERS, "true", "null", '{"a": [1.0, 2]}', "[1, 2]"])
    return _string(draw, cell)


def _string(draw: random.Random, text: str) -> str:
    written = json.dumps(text, ensure_ascii=draw.random() < 0.5)
    kind = draw.random()
    if kind < 0.05:
        return '"' + "".join(f"\\u{ord(letter):04X}" for letter in text if ord(letter) < 65_536) + '"'
    return written.replace("/", "\\/") if kind < 0.1 else written


def _any(draw: random.Random, depth: int, *, tame: bool) -> str:
    kind = draw.randrange(6)
    if kind == 0 and depth:
        return "[" + ", ".join(_any(draw, depth - 1, tame=tame) for _ in range(draw.randrange(3))) + " ]"
    if kind == 1 and depth:
        names = draw.sample(["a", "b", "id", "v", ""], draw.randrange(3))
        return "{" + ",".join(f'"{name}": {_any(draw, depth - 1, tame=tame)}' for name in names) + "}"
    if kind == 2:
        return draw.choice(["null", "true", "false"])
    if kind == 3:
        return draw.choice(_NUMBERS[:1] if tame else _NUMBERS)
    return _string(draw, odd.text(draw))
