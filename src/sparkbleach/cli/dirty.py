"""`sparkbleach dirty`: make a clean file dirty, and say what was changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from . import options
from .failure import reported_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from ..evaluate.dirt import Error

_SUFFIXES = (".csv", ".json", ".jsonl", ".parquet")


def dirty(
    input: Annotated[Path, typer.Option(help="The clean file: CSV, JSON lines or Parquet.", metavar="FILE")],
    output: Annotated[Path, typer.Option(help="The dirty file: CSV, JSON lines or Parquet.", metavar="FILE")],
    rules: Annotated[
        Path | None,
        typer.Option(
            help="The paper's process: cells on the right of these rules get another value of their column, "
            "cells on the left are set to null, both with probability --p.",
            metavar="FILE",
            rich_help_panel="Dirt",
        ),
    ] = None,
    p: Annotated[
        float,
        typer.Option(
            help="The probability of an error in a cell.", metavar="P", min=0, max=1, rich_help_panel="Dirt"
        ),
    ] = 0.1,
    errors: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file of error processes; docs/evaluate.md has them all.",
            metavar="FILE",
            rich_help_panel="Dirt",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="The same seed gives the same dirt.", metavar="N", min=0, rich_help_panel="Dirt"),
    ] = 1,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the change log, the ground truth: JSON lines, CSV or Parquet.",
            metavar="FILE",
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Make a clean file dirty, by rules or by error processes, and keep a log of every change.

    The log has a row for each changed cell: position in the dirty file, position in the clean one, attribute,
    kind of error, old and new value. With both `--rules` and `--errors`, the rules' errors happen first.

    Example: `sparkbleach dirty --input clean.csv --output dirty.csv --rules rules.yml --log log.jsonl`
    """
    with reported_errors(debug=debug):
        from rich.console import Console

        from ..evaluate.spoil import spoil

        _check_suffix("output", output)
        if log is not None:
            _check_suffix("log", log)
        processes = _processes(rules, p, errors)
        with Console(stderr=True).status("making it dirty"):
            spoilt = spoil(_read(input), processes, seed)
            changes = spoilt.log()
            _write(spoilt.dirty, output)
            if log is not None:
                _write(changes, log)
        typer.echo(
            f"{spoilt.dirty.num_rows:,} tuples, {changes.num_rows:,} changes: "
            + (", ".join(f"{kind} {n:,}" for kind, n in _counts(changes)) or "none")
        )


def _processes(rules: Path | None, p: float, errors: Path | None) -> list[Error]:
    from ..evaluate.dirt import load_errors, paper_errors
    from ..rules.file import load_rules

    if rules is None and errors is None:
        raise ConfigError("dirty: nothing says what should go wrong; give --rules, --errors or both")
    found = [] if rules is None else paper_errors(load_rules(rules), p)
    return found if errors is None else found + load_errors(errors)


def _check_suffix(option: str, path: Path) -> None:
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"{option}: {path} ends with none of {', '.join(_SUFFIXES)}; name it so")


def _read(path: Path) -> pa.Table:
    """Read a file; of a CSV file all columns are text, and an empty cell without quotes is null."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet as pq

    _check_suffix("input", path)
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        if path.suffix != ".csv":
            return pa.json.read_json(path)
        with pa.csv.open_csv(path) as reader:  # which reads no more than it must
            names = reader.schema.names
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = pa.csv.ParseOptions(newlines_in_values=True)
        return pa.csv.read_csv(path, parse_options=parse, convert_options=convert)
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"input: {path} cannot be read ({error}); give a file of its format") from error


def _write(table: pa.Table, path: Path) -> None:
    import json

    import duckdb
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        duckdb.from_arrow(table).write_csv(str(path))  # Arrow would put all texts in quotes
    else:
        with path.open("w", encoding="utf-8") as file:
            for row in table.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


def _counts(changes: pa.Table) -> list[tuple[str, int]]:
    counted = changes.group_by("kind", use_threads=False).aggregate([([], "count_all")])
    return list(zip(counted["kind"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
