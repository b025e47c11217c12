"""The formats of files: how each is recognised, read and written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ...errors import ConfigError
from ..hadoop import Entry

FORMATS = ("csv", "json", "parquet")

#: all six decimals that Spark has
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: a quote in a cell is doubled, as RFC 4180 has it, and no other character means anything: without the second
#: option Spark drops U+0000 from cells in quotes
CSV_QUOTES = {"escape": '"', "charToEscapeQuoteEscaping": '"'}
#: how files are written so that reading them gives the same cells back
WRITE_OPTIONS: dict[str, dict[str, Any]] = {
    "csv": {
        "header": True,
        **CSV_QUOTES,
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
        **_TIMES,
    },
    "json": {"ignoreNullFields": False, **_TIMES},
    "parquet": {},
}
#: how the cells of a CSV record are read
CSV_CELLS: dict[str, Any] = {**CSV_QUOTES, "lineSep": "\n", "mode": "PERMISSIVE"}

_FORMAT_BY_ENDING = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


def guess_format(path: str, files: Sequence[Entry]) -> str:
    """Return the format that the names of files have in common."""
    formats: dict[str, Entry] = {}
    for file in files:
        name = file.name.lower()
        for ending in _COMPRESSIONS:
            name = name.removesuffix(ending)
        format = _FORMAT_BY_ENDING.get(os.path.splitext(name)[1])
        if format is None:
            raise ConfigError(
                f"input: the name of {file} does not show its format; give --input-format, "
                "or a pattern that leaves this file out, such as 'DIR/*.csv'"
            )
        formats.setdefault(format, file)
    if len(formats) > 1:
        first, second = list(formats.values())[:2]
        raise ConfigError(
            f"input: {path} has files of several formats, such as {first} and {second}; "
            "give a pattern for those of one format, such as 'DIR/*.csv'"
        )
    return next(iter(formats))
