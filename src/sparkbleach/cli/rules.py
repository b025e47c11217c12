"""`sparkbleach rules`: change the rules of a running stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from . import options
from .failure import reported_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..control.controller import RuleController

app = typer.Typer(
    name="rules",
    no_args_is_help=True,
    help="Change the rules of a stream while it runs, see which are active, and who changed what when.",
)

Target = Annotated[
    str,
    typer.Option(
        "--target",
        help="Where `clean --rules-target` reads rule updates from: a directory, or a topic such as "
        "kafka://host:port/topic.",
        metavar="DIR|TOPIC",
        show_default=False,
    ),
]
Kafka = options.KafkaOption
By = Annotated[
    str | None,
    typer.Option("--by", help="Who makes the change, for the history.", show_default="user@host"),
]
Id = Annotated[str, typer.Argument(help="The id of the rule.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, an object per line.")]


@app.command("add")
def add(
    target: Target,
    rule: Annotated[
        list[str] | None,
        typer.Argument(help="Rules such as 'r7: zipcode -> city'.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="A YAML file with rules to add.", metavar="FILE", show_default=False),
    ] = None,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="They change nothing; what they would repair is in the audit."),
    ] = False,
    by: By = None,
    kafka_option: Kafka = None,
    debug: options.Debug = False,
) -> None:
    """Add rules: all that are given, or none if one is wrong.

    Example: `sparkbleach rules add 'r7: zipcode -> city' --target clean-rules`
    """
    with reported_errors(debug=debug):
        from ..rules.file import load_rules
        from ..rules.rule import Rule

        rules = [Rule.parse(text) for text in rule or ()]
        if file is not None:
            rules += load_rules(file)
        if not rules:
            raise ConfigError("rules add: there is nothing to add; give a rule, or --file")
        if shadow:
            rules = [one.with_mode("shadow") for one in rules]
        _echo_published(_controller(target, kafka_option, by).add(*rules), target)


@app.command("delete")
def delete(
    id: Id, target: Target, by: By = None, kafka_option: Kafka = None, debug: options.Debug = False
) -> None:
    """Delete a rule.

    Example: `sparkbleach rules delete r5 --target clean-rules`
    """
    with reported_errors(debug=debug):
        _echo_published([_controller(target, kafka_option, by).delete(id)], target)


@app.command("promote")
def promote(
    id: Id, target: Target, by: By = None, kafka_option: Kafka = None, debug: options.Debug = False
) -> None:
    """Let a shadow rule become a live one, with all it has learnt.

    Example: `sparkbleach rules promote r7 --target clean-rules`
    """
    with reported_errors(debug=debug):
        _echo_published([_controller(target, kafka_option, by).promote(id)], target)


@app.command("list")
def list_(
    target: Target, as_json: AsJson = False, kafka_option: Kafka = None, debug: options.Debug = False
) -> None:
    """Show the active rules: their mode, since which position and which version of the rule set."""
    with reported_errors(debug=debug):
        found = _controller(target, kafka_option).rules()
        if as_json:
            for one in found:
                _echo_json({"rule": one.rule.to_dict(), "since": one.since, "version": one.version})
            return
        if not found:
            typer.echo("no rules are active, or no stream has begun with this log")
            return
        rows = [(one.rule.mode, f"{one.since:,}", str(one.version), str(one.rule)) for one in found]
        _echo_table(("mode", "since", "version", "rule"), rows)


@app.command("history")
def history(
    target: Target, as_json: AsJson = False, kafka_option: Kafka = None, debug: options.Debug = False
) -> None:
    """Show who changed what and when, from which position it is active, or why it was refused."""
    with reported_errors(debug=debug):
        from dataclasses import asdict

        changes = _controller(target, kafka_option).history()
        if as_json:
            for change in changes:
                _echo_json(asdict(change))
            return
        if not changes:
            typer.echo("nothing was published, and no stream has begun with this log")
            return
        rows = []
        for change in changes:
            became = "waits to be read" if change.state == "published" else change.state
            if change.position is not None:
                became += f" at position {change.position:,}, version {change.version}"
            rows.append((change.published or "-", change.by or "-", change.what, became))
            if change.reason:
                rows.append(("", "", "", f"  {change.reason}"))
        _echo_table(("when", "who", "what", "what became of it"), rows)


def _controller(target: str, kafka_option: list[str] | None, by: str | None = None) -> RuleController:
    from ..control.controller import RuleController
    from ..control.rule_log import open_log

    return RuleController(open_log(target, options.kafka_options_of(kafka_option)), by)


def _echo_published(numbers: Sequence[str], target: str) -> None:
    n = "update" if len(numbers) == 1 else "updates"
    typer.echo(
        f"published {n} {', '.join(numbers)}; "
        f"`sparkbleach rules history --target {target}` shows what becomes of it"
    )


def _echo_json(data: object) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False))


def _echo_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())
