"""`sparkbleach check`: what rules would do, without doing it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from . import options
from .failure import reported_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Observation, SparkSession

    from ..rules.rule import Rule
    from ..rules.update import RuleUpdate

_EXAMPLES = 5


def check(
    rules: options.Rules,
    input: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="What to try the rules on: a file, a directory, or a pattern in quotes, such as 'in/*.csv'.",
            metavar="PATH",
            rich_help_panel="Input",
            show_default=False,
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="The column with each tuple's unique id; needed with --input.",
            metavar="COL",
            rich_help_panel="Input",
            show_default=False,
        ),
    ] = None,
    input_format: options.InputFormat = None,
    schema: options.Schema = None,
    multiline: options.Multiline = False,
    order_by: options.OrderBy = None,
    window: options.WindowSize = None,
    slide: options.WindowSlide = None,
    no_window: options.NoWindow = False,
    windowing: options.WindowingOption = options.Windowing.bleach,
    repair: options.RepairOption = options.Repair.by_class,
    rule_updates: options.RuleUpdates = None,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Check rules against a schema or an input, and show what they would repair, without writing anything.

    With only `--rules` the file itself is checked; with `--schema` also whether columns, types and conditions
    fit; with `--input` the rules are tried on it: violations and repairs per rule, some examples, and
    how many rows would be set aside.

    Example: `sparkbleach check --rules rules.yml --input 'in/*.csv' --id id`
    """
    with reported_errors(debug=debug):
        from ..rules.file import load_rules

        loaded = load_rules(rules)
        updates = options.updates_of(rule_updates)
        the_window = options.window_of(window, slide, no_window)
        if input is None and schema is None:
            typer.echo(f"{_count(loaded)}: well formed; give --schema or --input to check names and types")
            return
        if input is not None and id is None:
            raise ConfigError("id: a trial needs to know the column with each tuple's unique id; give --id")
        if input is not None and options.is_topic(input):
            raise ConfigError(
                f"input: {input} is a topic, and rules are tried on files; give only --schema, "
                "or add them to the stream with `sparkbleach rules add --shadow`"
            )
        from .session import spark_session

        with spark_session(master, debug=debug) as session:
            if input is None or id is None:
                _check_schema(session, loaded, updates, schema or "", id)
                return
            from pyspark.sql import Observation

            from ..spark.clean import clean
            from .input import check_columns, open_input

            path = options.absolute(input)
            source = open_input(session, path, input_format, schema, None, multiline=multiline)
            check_columns(source, id, order_by)
            observation = Observation()
            cleaned = clean(
                source.static(),
                loaded,
                id=id,
                order_by=order_by,
                window=the_window,
                windowing=str(windowing),
                repair=str(repair),
                rule_updates=updates,
                quarantine=True,
                observation=observation,
            )
            _echo_trial(cleaned.select(id, "_repairs", "_quarantine"), observation)


def _check_schema(
    session: SparkSession,
    rules: Sequence[Rule],
    updates: Sequence[RuleUpdate],
    schema: str,
    id: str | None,
) -> None:
    from ..spark.clean import clean
    from ..spark.files.schema import parse_schema

    parsed = parse_schema(schema)
    clean(session.createDataFrame([], parsed), rules, id=id or parsed.names[0], rule_updates=updates)
    typer.echo(f"{_count(rules)}: they fit the schema")
    for rule in rules:
        typer.echo(f"  {rule}")


def _echo_trial(cleaned: DataFrame, observation: Observation) -> None:
    from pyspark.sql import functions as F

    from ..spark.clean import audit
    from ..spark.plan import QUARANTINE, REPAIRS
    from .progress import echo_rules

    cleaned = cleaned.persist()
    repairs = F.size(F.filter(REPAIRS, lambda repair: repair["applied"]))
    try:
        counted = cleaned.agg(
            F.count("*").alias("rows"),
            F.count(QUARANTINE).alias("aside"),
            F.coalesce(F.sum(repairs), F.lit(0)).alias("repairs"),
        ).first()
        examples = audit(cleaned).orderBy("position").limit(_EXAMPLES).collect()
        reasons = (
            cleaned.where(F.col(QUARANTINE).isNotNull())
            .groupBy(QUARANTINE)
            .count()
            .orderBy(F.desc("count"), QUARANTINE)
        ).take(_EXAMPLES)
    finally:
        cleaned.unpersist()
    if counted is None or counted["rows"] == 0:
        typer.echo("the input has no rows")
        return
    typer.echo(
        f"{counted['rows']:,} rows: {counted['repairs']:,} cells would be repaired, "
        f"{counted['aside']:,} rows would go to the quarantine; nothing was written"
    )
    told_report = observation.get["report"]
    if told_report:
        report = json.loads(told_report.partition(" ")[2])
        echo_rules(report["violations"], report["repairs"])
    if examples:
        typer.echo("some repairs:")
    for row in examples:
        old = "null" if row["old_value"] is None else repr(row["old_value"])
        typer.echo(
            f"  {row['id']}: {row['attribute']} {old} -> {row['new_value']!r} ({', '.join(row['rules'])})"
            f"{'' if row['applied'] else ', by shadow rules'}"
        )
    if reasons:
        typer.echo("reasons for the quarantine:")
    for row in reasons:
        typer.echo(f"  {row['count']:,} x {row[QUARANTINE]}")


def _count(rules: Sequence[Rule]) -> str:
    return "1 rule" if len(rules) == 1 else f"{len(rules)} rules"
