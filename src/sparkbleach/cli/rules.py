"""`sparkbleach rules`: change the rules of a running stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ..control.controller import RuleController
from ..control.rule_log import open_log
from ..errors import ConfigError
from ..rules.file import load_rules
from ..rules.rule import Rule
from . import options
from .failure import reported_errors
from .groups import grouped

app = typer.Typer(
    name="rules",
    no_args_is_help=True,
    help="Change the rules of a running stream, and see which are active and who changed what when.",
)

Id = Annotated[str, typer.Argument(help="The id of the rule.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, an object per line.")]


@dataclass(frozen=True, kw_only=True)
class Log(options.Kafka):
    """The rule log of a stream."""

    panel: ClassVar = None
    target: Annotated[
        str,
        typer.Option(
            help="Where `clean --rules-target` reads rule updates from: a directory, or a topic such as "
            "kafka://host:port/topic.",
            metavar="DIR|TOPIC",
        ),
    ]
    debug: options.Debug = False

    def controller(self, by: str | None = None) -> RuleController:
        """Return what changes and shows the rules."""
        return RuleController(open_log(self.target, self.kafka), by)


@dataclass(frozen=True, kw_only=True)
class ChangedLog(Log):
    """The rule log of a stream, and who changes it."""

    by: Annotated[
        str | None, typer.Option(help="Who makes the change, for the history.", show_default="user@host")
    ] = None

    def publish(self, change: Callable[[RuleController], Sequence[str]]) -> None:
        """Make a change, and print the numbers of its updates."""
        with reported_errors(debug=self.debug):
            numbers = change(self.controller(self.by))
            noun = "update" if len(numbers) == 1 else "updates"
            typer.echo(
                f"published {noun} {', '.join(numbers)}; "
                f"`sparkbleach rules history --target {self.target}` shows what becomes of it"
            )


@app.command("add")
@grouped
def add(
    log: ChangedLog,
    rule: Annotated[
        list[str] | None, typer.Argument(help="Rules such as 'r7: zipcode -> city'.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A YAML file with rules to add.", metavar="FILE")] = None,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            help="Add them as shadow rules: they repair nothing, and the audit shows what they would repair.",
        ),
    ] = False,
) -> None:
    """Add rules: all that are given, or none if one is wrong.

    Example: `sparkbleach rules add 'r7: zipcode -> city' --target clean-rules`
    """

    def add_all(controller: RuleController) -> Sequence[str]:
        rules = [*map(Rule.parse, rule or ()), *(load_rules(file) if file is not None else ())]
        if not rules:
            raise ConfigError("rules add: there is nothing to add; give a rule, or --file")
        return controller.add(*(one.with_mode("shadow") if shadow else one for one in rules))

    log.publish(add_all)


@app.command("delete")
@grouped
def delete(id: Id, log: ChangedLog) -> None:
    """Delete a rule.

    Example: `sparkbleach rules delete r5 --target clean-rules`
    """
    log.publish(lambda controller: [controller.delete(id)])


@app.command("promote")
@grouped
def promote(id: Id, log: ChangedLog) -> None:
    """Turn a shadow rule into a live one, which keeps all that it has learnt.

    Example: `sparkbleach rules promote r7 --target clean-rules`
    """
    log.publish(lambda controller: [controller.promote(id)])


@app.command("list")
@grouped
def list_(log: Log, as_json: AsJson = False) -> None:
    """Show the active rules: their mode, and since which position and version of the rule set."""
    with reported_errors(debug=log.debug):
        found = log.controller().rules()
        if as_json:
            for one in found:
                status = {"since": one.since, "version": one.version, "withdrawn": one.withdrawn}
                _echo_json({"rule": one.rule.to_dict(), **status})
            return
        if not found:
            typer.echo("no rules are active, or no stream has begun with this log")
            return
        modes = ["withdrawn" if one.withdrawn else one.rule.mode for one in found]
        rows = [
            (mode, f"{one.since:,}", str(one.version), str(one.rule))
            for mode, one in zip(modes, found, strict=True)
        ]
        _echo_table(("mode", "since", "version", "rule"), rows)


@app.command("history")
@grouped
def history(log: Log, as_json: AsJson = False) -> None:
    """Show who changed what and when, at which position it was applied, or why it was refused."""
    with reported_errors(debug=log.debug):
        changes = log.controller().history()
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


def _echo_json(data: object) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False))


def _echo_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())
