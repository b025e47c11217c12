"""`sparkbleach check`: what rules would do, without doing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ..config import Options
from ..errors import ConfigError, RuleError
from ..kafka.topic import is_topic
from ..rules.check import check_rules
from ..rules.file import load_options, load_rules
from ..rules.trial import try_conditions
from . import options
from .failure import reported_errors
from .groups import grouped
from .text import count, percent, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Observation, Row, SparkSession

    from ..config import OptionValues
    from ..rules.rule import Rule
    from ..rules.update import RuleUpdate

_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What rules are tried on."""

    panel: ClassVar = "Input"
    input: Annotated[
        str | None,
        typer.Option(
            help="What to try the rules on: a file, a directory, or a pattern in quotes, such as 'in/*.csv'.",
            metavar="PATH",
        ),
    ] = None
    id: Annotated[
        str | None,
        typer.Option(help="The column with each tuple's unique id; needed with --input.", metavar="COL"),
    ] = None


@grouped
def check(
    rules: options.Rules,
    trial: Trial,
    parsing: options.Parsing,
    cleaning: options.Cleaning,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Check rules against a schema or an input, and show what they would repair; nothing is written.

    With only `--rules` the file itself is checked. With `--schema` columns, types and conditions are checked,
    too. With `--input` the rules are tried: you see violations and repairs per rule, how far each is trusted,
    the least certain and the most frequent repairs, and how many rows would be quarantined.

    Example: `sparkbleach check --rules rules.yml --input 'in/*.csv' --id id`
    """
    with reported_errors(debug=debug):
        loaded = load_rules(rules)
        how = cleaning.over(load_options(rules))
        Options(**how)  # checks them
        updates = cleaning.updates()
        if trial.input is None and parsing.schema is None:
            n_rules = count(len(loaded), "rule")
            typer.echo(f"{n_rules}: well formed; give --schema or --input to check names and types")
            return
        if trial.input is not None and trial.id is None:
            raise ConfigError("id: a trial needs the column with each tuple's unique id; give --id")
        if trial.input is not None and is_topic(trial.input):
            raise ConfigError(
                f"input: {trial.input} is a topic, and rules are tried on files; give only --schema, "
                "or add them to the stream with `sparkbleach rules add --shadow`"
            )
        from .progress import Steps
        from .session import spark_session

        with Steps() as say, spark_session(master, debug=debug, say=say) as session:
            if trial.input is None or trial.id is None:
                _check_schema(session, loaded, updates, how, parsing.schema or "", trial.id)
                return
            from pyspark.sql import Observation

            from ..spark.clean import clean

            say(f"reading {trial.input}")
            source = parsing.open(session, options.absolute(trial.input), trial.id)
            observation = Observation()
            cleaned = clean(
                source.static(),
                loaded,
                id=trial.id,
                order_by=parsing.order_by,
                rule_updates=updates,
                quarantine=True,
                observation=observation,
                **how,
            )
            tried = [*loaded, *(update.rule for update in updates if update.rule is not None)]
            shadow = {rule.id for rule in tried if rule.is_shadow}
            say("trying the rules")
            _echo_trial(cleaned.select(trial.id, "_repairs", "_quarantine"), observation, shadow)


def _check_schema(
    session: SparkSession,
    rules: Sequence[Rule],
    updates: Sequence[RuleUpdate],
    how: OptionValues,
    schema: str,
    id: str | None,
) -> None:
    from ..spark.clean import clean
    from ..spark.compat import arrow_schema
    from ..spark.files.schema import parse_schema

    parsed = parse_schema(schema)
    empty = session.createDataFrame([], parsed)
    clean(empty, rules, id=id or parsed.names[0], rule_updates=updates, **how)
    arrow = arrow_schema(parsed)
    for rule in [*rules, *(update.rule for update in updates if update.rule is not None)]:
        try_conditions(check_rules([rule], arrow), arrow)
    typer.echo(f"{count(len(rules), 'rule')}: no errors with this schema")
    for rule in rules:
        typer.echo(f"  {rule}")


def _echo_trial(cleaned: DataFrame, observation: Observation, shadow: set[str]) -> None:
    """Print what rules would do, of which some are shadow rules."""
    from pyspark.sql import functions as F

    from ..spark.plan import QUARANTINE, REPAIRS
    from ..spark.report import read_reports
    from .progress import echo_rules

    cleaned = cleaned.persist()
    repairs = F.size(F.filter(REPAIRS, lambda repair: repair["applied"]))
    try:
        counted = cleaned.agg(
            F.count("*").alias("rows"),
            F.count(QUARANTINE).alias("quarantined"),
            F.coalesce(F.sum(repairs), F.lit(0)).alias("repairs"),
        ).first()
        examples = _examples(cleaned, counted["repairs"] if counted else 0, shadow)
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
        f"{count(counted['rows'], 'row')}: {count(counted['repairs'], 'cell')} would be repaired, "
        f"{count(counted['quarantined'], 'row')} would be quarantined; nothing was written"
    )
    report = read_reports(observation.get)
    if report:
        echo_rules(report)
    for line in examples:
        typer.echo(line)
    if reasons:
        typer.echo("reasons for the quarantine:")
    for row in reasons:
        typer.echo(f"  {row['count']:,} x {row[QUARANTINE]}")
    withdrawn = [line for line in (report or {}).get("updates", ()) if line.startswith("withdrawn: ")]
    if withdrawn:
        raise RuleError("; ".join(withdrawn))


def _examples(cleaned: DataFrame, n_repairs: int, shadow: set[str]) -> list[str]:
    """Return some repairs as lines: the least certain ones, and the most frequent ones.

    Then some cells that would not be changed: by shadow rules, or because a key may be wrong.
    """
    from pyspark.sql import functions as F

    from ..spark.clean import audit

    rows = audit(cleaned)
    made = rows.where("applied").orderBy("confidence", "position").take(_EXAMPLES)
    lines = []
    if made:
        lines.append("repairs:" if n_repairs <= _EXAMPLES else "the least certain repairs:")
        lines += [_example(row) for row in made]
    if n_repairs > _EXAMPLES:
        cells = ["attribute", "old_value", "new_value"]
        frequent = rows.where("applied").groupBy(*cells).count().where("count > 1")
        often = frequent.orderBy(F.desc("count"), *cells).take(_EXAMPLES)
        lines += ["the most frequent repairs:"] if often else []
        lines += [f"  {row['count']:,} x {_change(row)}" for row in often]
    by_shadow = F.arrays_overlap("rules", F.array(*map(F.lit, sorted(shadow)))) if shadow else F.lit(False)
    for header, which in (
        ("flagged, not changed: a key may be wrong:", ~by_shadow),
        ("shadow rules would repair:", by_shadow),
    ):
        kept = rows.where(~F.col("applied") & which).orderBy("position", "attribute").take(_EXAMPLES)
        lines += [header] if kept else []
        lines += [_example(row) for row in kept]
    return lines


def _example(row: Row) -> str:
    return f"  {row['id']}: {_change(row)} ({', '.join(row['rules'])}; {percent(row['confidence'])})"


def _change(row: Row) -> str:
    """Return a changed cell as text, in which long values are shortened."""
    old = "null" if row["old_value"] is None else repr(shortened(row["old_value"]))
    new = "unknown" if row["new_value"] is None else repr(shortened(row["new_value"]))
    return f"{row['attribute']} {old} -> {new}"
