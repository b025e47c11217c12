"""Odd CSV files."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.fuzz import odd

#: further columns
_NAMES = [
    "note", "a b", "a.b", 'Q"q', "x,y", "back`tick", "é", "SELECT", "_c0", "#", "a'b", "\\", "n:1", "$",
    "1", " pad ",
    "Ünï", "value", "text", "parsed", "broken", "read", "null", "c0",
]  # fmt: skip
_TYPES = [
    "STRING",
    "STRING",
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(20,2)",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "BOOLEAN",
]
_N_KEYS = 6


@dataclass(frozen=True)
class Table:
    """Columns of a stream, and what is mostly in them."""

    columns: tuple[tuple[str, str], ...]
    usual: tuple[str, ...]  #: the right value of `v` by key

    @classmethod
    def draw(cls, draw: random.Random, names: list[str] | None = None) -> Table:
        """Return columns: an id, a key, a value that the key determines, and more."""
        more = draw.sample(names or _NAMES, draw.randint(1, 4))
        columns = [("id", draw.choice(["INT", "BIGINT", "STRING"])), ("k", draw.choice(["INT", "STRING"]))]
        columns += [("v", "STRING"), *((name, draw.choice(_TYPES)) for name in more)]
        return cls(tuple(columns), tuple(odd.text(draw) for _ in range(_N_KEYS)))

    @property
    def ddl(self) -> str:
        """The columns as a schema."""
        return ", ".join(f"`{name.replace('`', '``')}` {type}" for name, type in self.columns)

    def cells(self, draw: random.Random, number: int, *, tame: bool) -> list[str]:
        """Return the cells of a row; tame ones are of their types."""
        key = draw.randrange(_N_KEYS)
        cells = [str(number), str(key)]
        cells.append(self.usual[key] if draw.random() < 0.85 else odd.text(draw))
        for _, type in self.columns[3:]:
            plain = tame and type != "STRING"
            cells.append(draw.choice(odd.PLAIN[type]) if plain else odd.typed(draw, type))
        return cells


def header(draw: random.Random, table: Table) -> bytes:
    """Return the header of a file, with what may be before it."""
    lead = draw.choice([b"", b"", b"\xef\xbb\xbf", b"\n", b" \r\n", b"\xef\xbb\xbf\n"])
    names = ",".join(quoted(draw, name) for name, _ in table.columns).encode()
    return lead + names + line_end(draw)


def record(draw: random.Random, table: Table, number: int, *, tame: bool) -> bytes:
    """Return a record with the end of its line; if not a tame one, it may be damaged."""
    data = ",".join(quoted(draw, cell) for cell in table.cells(draw, number, tame=tame)).encode(
        "utf-8", "surrogatepass"
    )
    if not tame:
        kind = draw.random()
        if kind < 0.10:
            data = odd.damaged(draw, data)
        elif kind < 0.11:
            data = draw.choice(
                [
                    b"",
                    b" ",
                    b"\t",
                    b",",
                    b'"',
                    b"\x00",
                    b"," * 25_000,
                    b'"' + b"x" * 40_000,
                    b"\xff",
                    data + b"\r",
                ]
            )
    return data + line_end(draw)


def multiline_record(draw: random.Random, table: Table, number: int) -> bytes:
    """Return a record that may go over several lines; now and then a quote in it does not end."""
    kind = draw.random()
    if kind < 0.005:
        return record(draw, table, number, tame=False)
    cells = table.cells(draw, number, tame=draw.random() < 0.5)
    if draw.random() < 0.4:
        place = draw.randrange(2, len(cells))
        cells[place] = draw.choice(["a\nb", "\n", "a\r\nb", "a\rb", 'x\n"y"\n', "\n\n", "a,\nb"])
    if draw.random() < 0.03:
        cells = draw.choice([cells[:-1], [*cells, "more"]])
    data = ",".join(quoted(draw, cell) for cell in cells)
    if kind < 0.007:
        data += draw.choice(['"', ',"', '"x'])
    return data.encode() + line_end(draw)


def quoted(draw: random.Random, cell: str) -> str:
    """Return a cell with quotes if it needs them, or now and then."""
    if cell.startswith('"') or "," in cell or "\n" in cell or draw.random() < 0.2:
        return '"' + cell.replace('"', '""') + '"'
    if "\r" in cell and cell.endswith("\r"):
        return f'"{cell}"'
    return cell


def line_end(draw: random.Random) -> bytes:
    """Return the end of a line."""
    return draw.choice([b"\n"] * 6 + [b"\r\n", b"\n\n"])
