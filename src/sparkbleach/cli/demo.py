"""`sparkbleach demo`: a dirty stream through Spark, with the truth known."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .failure import reported_errors
from .signals import exit_code

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ..evaluate.spoil import Spoilt

_DIRT = 0.1
_WINDOW_TUPLES = 100_000


def demo(
    tuples: Annotated[
        int, typer.Option(help="How many transactions to stream.", metavar="N", min=1_000)
    ] = 300_000,
    files: Annotated[
        int, typer.Option(help="In how many files, one per micro-batch.", metavar="N", min=2)
    ] = 15,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Clean a built-in stream of shopping transactions, and measure how clean it has become.

    Ten percent of the cells that the rules are about are wrong. A few rows are shown dirty and clean; then
    the whole stream runs through Spark, and the result is compared with the truth. Nothing is left behind.
    """
    with reported_errors(debug=debug):
        from ..config import Window
        from ..evaluate.streams import write_files
        from ..spark.clean import clean
        from ..spark.files.writer import Writer
        from .progress import Progress, Steps, follow_query
        from .session import spark_session
        from .shopping import RULES, shopping

        stream = shopping(tuples, seed=1, dirt=_DIRT)
        compile_kernel(stream.dirty.slice(0, 2_000))
        with tempfile.TemporaryDirectory(prefix="sparkbleach-demo-") as directory:
            here = Path(directory)
            with Steps() as say, spark_session(master, debug=debug, say=say) as session:
                say.end()
                _show_example(session)
                typer.echo(f"Now {tuples:,} of them as a stream, window {_WINDOW_TUPLES:,} tuples:")
                write_files(stream.dirty, here / "in", -(-tuples // files))
                schema = session.read.parquet(str(here / "in")).schema
                source = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
                cleaned = clean(
                    source.parquet(str(here / "in")),
                    RULES,
                    id="id",
                    order_by="id",
                    window=Window.tuples(_WINDOW_TUPLES, slide=_WINDOW_TUPLES // 2),
                )
                writer = Writer(str(here / "out"), audit=str(here / "audit"))
                query = cleaned.writeStream.foreachBatch(writer)
                query = query.option("checkpointLocation", str(here / "checkpoint")).trigger(
                    availableNow=True
                )
                progress = Progress()
                interrupted_by = follow_query(query.start(), progress, waiting=False)
            if interrupted_by is not None:
                raise typer.Exit(exit_code(interrupted_by))
            _show_result(stream, here / "out", progress)


def compile_kernel(tuples: pa.Table) -> None:
    """Compile the kernel, so that the workers find it ready."""
    from ..engine.engine import Engine
    from .shopping import RULES

    typer.echo("compiling the kernel (half a minute, the first time only) ...", err=True)
    Engine(tuples.schema, RULES, id="id").process(tuples.combine_chunks().to_batches()[0])


def _show_example(session: SparkSession) -> None:
    """Show a dirty table, the rules, and the clean table."""
    import pyarrow as pa

    from ..spark.clean import clean
    from .shopping import RULES, SCHEMA

    columns = {
        "id": [1, 2, 3, 4, 5, 6],
        "store": ["S01", "S01", None, "S01", "S02", "S02"],
        "zipcode": ["75001", "75001", "75001", "75002", "69001", "69001"],
        "city": ["Paris", "Paris", "Pariss", "Lyon", "Lyon", "Lyon"],
        "item": [7, 7, 7, 8, 8, 7],
        "category": ["Books", "Books", "Books", "Shoes", "Shoes", "Music"],
        "customer": [1, 2, 1, 1, 2, 2],
        "email": [
            "ann@example.org",
            "bob@example.org",
            "an@example.org",
            "ann@example.org",
            None,
            "bob@example.org",
        ],
    }
    table = pa.table(columns, SCHEMA)
    dirty = table.to_pylist()
    rows = clean(session.createDataFrame(table).coalesce(1), RULES, id="id", order_by="id").collect()
    cleaned = [row.asDict(recursive=True) for row in sorted(rows, key=lambda row: row["id"])]
    _echo_table("A dirty table", list(columns), dirty, {})
    typer.echo("The rules\n" + "".join(f"  {rule}\n" for rule in RULES))
    changed = {(row["id"], repair["attribute"]): repair for row in cleaned for repair in row["_repairs"]}
    _echo_table("The clean table", list(columns), cleaned, changed)
    for (id, attribute), repair in changed.items():
        candidates = ", ".join(f"{one['value']} {one['count']}" for one in repair["candidates"])
        typer.echo(
            f"  tuple {id}: {attribute} {repair['old_value']} -> {repair['new_value']}, "
            f"by {', '.join(repair['rules'])}; seen so far: {candidates}"
        )
    typer.echo()


def _echo_table(
    title: str, names: Sequence[str], rows: Sequence[dict[str, Any]], changed: dict[tuple[int, str], Any]
) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*names, title=title, title_justify="left")
    for row in rows:
        cells = ["" if row[name] is None else str(row[name]) for name in names]
        table.add_row(
            *(
                f"[bold green]{cell}*[/]" if (row["id"], name) in changed else cell
                for name, cell in zip(names, cells, strict=True)
            )
        )
    Console().print(table)


def _show_result(stream: Spoilt, output: Path, progress: Any) -> None:
    """Compare the output with the truth."""
    import pyarrow.dataset as ds
    from rich.console import Console
    from rich.table import Table

    from ..errors import SparkbleachError
    from ..evaluate.measures import applies, dirty_ratios, ratio
    from ..rules.rule import Rule
    from .shopping import RULES

    cleaned = ds.dataset(str(output)).to_table().sort_by("id")
    if cleaned.column("id").to_pylist() != stream.truth.column("id").to_pylist():
        raise SparkbleachError("demo: rows were lost or doubled; please report this")
    table = Table("rule", "applies to", "dirty before", "dirty after", "repairs", title="Against the truth")
    table.title_justify = "left"
    for column in table.columns[1:]:
        column.justify = "right"
    rules = [Rule.parse(text) for text in RULES]
    ratios = dirty_ratios(stream.truth, stream.dirty, cleaned, rules, stream.truth.num_rows)
    for rule in rules:
        found = ratio(ratios, rule.id)
        table.add_row(
            f"{rule.lhs[0]} -> {rule.rhs}",
            f"{int(applies(rule, stream.dirty).sum()):,} tuples",
            f"{found.before:.2%}",
            f"{found.after:.2%}",
            f"{progress.repairs[rule.id]:,}",
        )
    Console().print(table)
    typer.echo(progress.pace())
