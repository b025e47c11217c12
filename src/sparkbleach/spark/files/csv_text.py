"""The text of a CSV record: its cells, and how a cell is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: a cell: in quotes, which are doubled inside, or without a quote at its beginning. The quantifiers are
#: possessive: with others, Java's regular expressions recurse at each character.
CELL = r'"(?:[^"]|"")*+"|(?!")[^,]*+'
#: a text that is one record
RECORD_PATTERN = rf"\A(?:{CELL})(?:,(?:{CELL}))*+\z"

_CELL = re.compile(CELL)


def cells_of(text: str) -> list[str] | None:
    """Return the cells of a record without their quotes; None if the text is not one record."""
    cells = []
    at = 0
    while True:
        found = _CELL.match(text, at)
        if found is None:
            return None
        at = found.end()
        cell = found[0]
        cells.append(cell[1:-1].replace('""', '"') if cell.startswith('"') else cell)
        if at == len(text):
            return cells
        if text[at] != ",":
            return None
        at += 1


def record_of(cells: Iterable[str]) -> str:
    """Return a record with these cells; those that need quotes get them."""
    return ",".join(
        '"' + cell.replace('"', '""') + '"' if cell != cell.strip() or re.search(r'[",\r\n]', cell) else cell
        for cell in cells
    )
