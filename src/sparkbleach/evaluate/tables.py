"""Two real dirty tables with ground truth, hospital and flights, and the scores of other systems on them.

They come from BigDaMa/raha (Apache-2.0); the header of hospital's dirty table was made equal to that of the
clean one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from ..rules.file import load_rules
from ..rules.rule import Rule

_DATA = Path(__file__).parent / "data"
#: by table: the texts that mean null
NULLS = {"hospital": ["", "empty"], "flights": [""]}
#: by table and system: precision, recall and F1 as rerun on the same cells by Uniclean's benchmark
PUBLISHED = {
    "hospital": {
        "BigDansing": (0.475, 0.833, 0.605),
        "Holistic": (0.488, 0.794, 0.604),
        "HoloClean": (1.0, 0.456, 0.626),
        "Raha+Baran": (0.930, 0.417, 0.575),
        "Uniclean": (0.948, 0.829, 0.885),
    },
    "flights": {
        "BigDansing": (0.338, 0.452, 0.387),
        "HoloClean": (0.741, 0.351, 0.476),
        "Raha+Baran": (0.703, 0.567, 0.628),
        "Uniclean": (0.673, 0.635, 0.654),
    },
}
#: what published systems knew of where errors are, if it was not nothing: labels came from the truth
KNOWS_ERRORS = {"Raha+Baran": "in some tuples", "Uniclean": "not known"}


@dataclass(frozen=True)
class RealTable:
    """A dirty table, the clean one, and the rules that the literature has for it."""

    dirty: pa.Table
    truth: pa.Table
    rules: list[Rule]


def real_table(name: str) -> RealTable:
    """Return `hospital` (1,000 x 20, 509 wrong cells) or `flights` (2,376 x 7, 4,920 wrong cells)."""
    return RealTable(_read(name, "dirty"), _read(name, "clean"), list(load_rules(_DATA / name / "rules.yml")))


def _read(table: str, name: str) -> pa.Table:
    """Read a CSV file: all columns are text."""
    path = _DATA / table / f"{name}.csv"
    names = path.read_text(encoding="utf-8").partition("\n")[0].strip().split(",")
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=NULLS[table],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    return pa.csv.read_csv(path, convert_options=options).combine_chunks()
