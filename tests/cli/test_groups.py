"""Options in groups are options of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import typer
from typer.testing import CliRunner

from sparkbleach.cli.groups import grouped


@dataclass(frozen=True, kw_only=True)
class Fruit:
    """What to eat."""

    panel: ClassVar = "Fruit"
    count: Annotated[int, typer.Option(help="How many.")]
    kind: Annotated[Literal["apple", "pear"], typer.Option(help="Which.")] = "apple"
    ripe: Annotated[bool, typer.Option("--ripe", help="Whether it is ripe.")] = False


@grouped
def eat(who: str, fruit: Fruit, debug: bool = False) -> None:
    """Eat fruit."""
    typer.echo(f"{who}: {fruit} {debug}")


app = typer.Typer()
app.command()(eat)


def test_fields_are_options() -> None:
    """Each field is an option with its default, and the command gets the dataclass."""
    result = CliRunner().invoke(app, ["ann", "--count", "3", "--kind", "pear", "--debug"])
    assert result.stdout == "ann: Fruit(count=3, kind='pear', ripe=False) True\n"
    assert CliRunner().invoke(app, ["ann", "--count", "3", "--kind", "plum"]).exit_code == 2
    assert CliRunner().invoke(app, ["ann"]).exit_code == 2


def test_help_has_a_panel_for_each_group() -> None:
    """The help text has the options of a group under its name."""
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"})
    assert "─ Fruit ─" in result.stdout
    assert "How many." in result.stdout.partition("─ Fruit ─")[2]
