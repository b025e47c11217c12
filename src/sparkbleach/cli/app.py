"""The command `sparkbleach`, and the commands below it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..kafka.topic import secrets_among
from . import bench, broker, check, clean, demo, demo_kafka, dirty, explain, rules
from .failure import hidden_usage, hide


class _Commands(TyperGroup):
    """The commands. No error about their arguments shows a secret."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        hide(secrets_among(args))
        with hidden_usage():
            return super().make_context(info_name, args, *rest, **extra)

    def invoke(self, ctx: Any) -> Any:
        with hidden_usage():
            return super().invoke(ctx)


app = typer.Typer(
    name="sparkbleach",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("clean")(clean.clean)
app.command("check")(check.check)
app.command("explain")(explain.explain)
app.add_typer(rules.app)
app.command("demo")(demo.demo)
app.command("demo-kafka")(demo_kafka.demo_kafka)
app.command("broker")(broker.broker)
app.command("dirty")(dirty.dirty)
app.command("bench")(bench.bench)


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"sparkbleach {version('sparkbleach')}")
    except PackageNotFoundError:
        typer.echo("sparkbleach (not installed)")
    raise typer.Exit


@app.callback()
def sparkbleach(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end."),
    ] = False,
) -> None:
    """Clean data streams by rules such as `zipcode -> city`.

    A cell that breaks a rule is repaired, tuple by tuple, from what the stream has shown before. Start with
    `check`, which writes nothing; then run `clean`; then ask `explain` why a cell was changed. `rules`
    changes the rules of a running stream.
    """
