"""Odd texts, and damage to bytes."""

from __future__ import annotations

import random

#: cells that another program would write, or read, in another way
TEXTS = [
    "", " ", "01234", "1.10", "+3", "007", "1e5", "NaN", "-0", "Infinity", "True", "null", "NULL", "\\N",
    " a ",
    "\ta", "a\rb", "a\x00b", "\x00", "\x01", "\x1f", "\x7f", "\x85", "\xa0", "é", "e\u0301", "a, b",
    'a "b"', '"',
    '""', "'", "`", "#", "\\", "\\\\", '\\"',
    "a\\", "2024-01-31T10:00:00.123456+02:00", "12/31/24", "\ufeffa",
    "\u2028", "\u2029", "𝄞", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "{}", "[1]", "${x}", "%s", "$1",
    "<b>",
    "ß", "İ", "_record", "=1+1", "-", "  ", ",", ";",
]  # fmt: skip
_LETTERS = "aaab01 ,;\"'\\\t\x00\x1f\x85é\u2028\ufeff\ufffd\uffff𝄞{}[]:$"
#: by type, texts that are certainly of it, and are written back as they are
PLAIN = {
    "INT": ["1", "-7", "2147483647", "0"],
    "BIGINT": ["1", "9223372036854775807", "-3"],
    "DOUBLE": ["1.5", "-0.25", "3.0"],
    "DECIMAL(20,2)": ["1.50", "-0.25", "123456789012345678.99"],
    "DATE": ["2024-01-31", "1999-12-01"],
    "TIMESTAMP": ["2024-01-31 10:00:00", "2024-01-31T10:00:00.123456Z"],
    "TIMESTAMP_NTZ": ["2024-01-31T10:00:00", "2024-01-31T10:00:00.123456"],
    "BOOLEAN": ["true", "false"],
}
_NUMBERS = [
    "01",
    "1.10",
    "+3",
    "1e5",
    " 7 ",
    "7 ",
    "1.",
    ".5",
    "-0",
    "1e400",
    "0x1",
    "1_0",
    "٣",
    "9" * 40,
    "1,5",
]
_TIMES = [
    "2024-1-3", "2024-01-31T10:00:00.1234567+02:00", "2024-01-31T10:00:00.123+0530", "0001-01-01", "10:00",
    "9999-12-31T23:59:60Z", "2024-02-30", "+12024-01-01", "2024-01-31 10:00:00 Europe/Paris", "24",
    "1582-10-10",
]  # fmt: skip
_BYTES = [
    b'"',
    b",",
    b"\r",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\\",
    b"\n",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"[",
    b":",
]


def text(draw: random.Random) -> str:
    """Return a text: mostly short, odd in a third of all cases, now and then very long."""
    kind = draw.random()
    if kind < 0.5:
        return draw.choice(["Paris", "Rome", "a", "b c", "x1", "Genève"])
    if kind < 0.8:
        return draw.choice(TEXTS)
    if kind < 0.998:
        return "".join(draw.choices(_LETTERS, k=draw.randrange(9)))
    return draw.choice(["x", '"', "é", ",", " ", "\\", "𝄞", "\x00"]) * draw.choice([1_000, 30_000])


def typed(draw: random.Random, type: str) -> str:
    """Return a text that is, or nearly is, of a type."""
    if type == "STRING":
        return text(draw)
    if draw.random() < 0.7:
        return draw.choice(PLAIN[type])
    if draw.random() < 0.2:
        return text(draw)
    return draw.choice(
        [*(_NUMBERS if type in ("INT", "BIGINT", "DOUBLE", "DECIMAL(20,2)") else _TIMES), "TRUE"]
    )


def damaged(draw: random.Random, data: bytes) -> bytes:
    """Return bytes after some cuts, repetitions and insertions."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4])):
        begin = draw.randint(0, len(changed))
        end = min(len(changed), begin + draw.randint(0, 12))
        kind = draw.randrange(4)
        if kind == 0:
            del changed[begin:end]
        elif kind == 1:
            changed[begin:begin] = changed[begin:end] * draw.randint(1, 3)
        elif kind == 2:
            changed[begin:end] = draw.choice(_BYTES)
        else:
            changed[begin:begin] = draw.choice(_BYTES)
    return bytes(changed)
