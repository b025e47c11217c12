"""`sparkbleach bench`: the experiments of the paper and more, with a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import ConfigError
from . import options
from .failure import reported_errors

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="The experiments to run; all if not given."),
    ] = None,
    profile: Annotated[
        Literal["tiny", "small", "full"],
        typer.Option(
            help="tiny: a minute, to see that it works; small: TPC-DS, under 15 minutes on two cores; "
            "full: all of TPC-DS at scale factor 1, or more."
        ),
    ] = "small",
    scale_factor: Annotated[
        float | None,
        typer.Option(
            help="The scale factor of TPC-DS, instead of the profile's; 1 has 2.88 million tuples.",
            metavar="SF",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="The directory for the report and the numbers.", metavar="DIR")
    ] = Path("evaluation"),
    seed: Annotated[int, typer.Option(help="The seed of all random numbers.", metavar="N", min=0)] = 1,
    show: Annotated[bool, typer.Option("--list", help="Show the names of experiments and end.")] = False,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Run the experiments of the paper, and some more; write a report with figures.

    Results of earlier calls with the same output stay in the report, so that experiments can be run one by
    one. Needs `pip install 'sparkbleach[evaluate]'`. TPC-DS is generated once, which takes a minute, and kept
    below `~/.cache`.

    Example: `sparkbleach bench accuracy windowing --profile small --output evaluation`
    """
    with reported_errors(debug=debug):
        from dataclasses import replace

        from ..evaluate.experiments import EXPERIMENTS
        from ..evaluate.figures import check_matplotlib
        from ..evaluate.laboratory import PROFILES, Laboratory, circumstances
        from ..evaluate.report import write_report
        from ..evaluate.result import save
        from .session import spark_session

        if show:
            typer.echo("\n".join(EXPERIMENTS))
            return
        unknown = [name for name in names or () if name not in EXPERIMENTS]
        if unknown:
            raise ConfigError(
                f"bench: there is no experiment {unknown[0]!r}; choose from {', '.join(EXPERIMENTS)}"
            )
        check_matplotlib()

        def open_spark(its_master: str | None) -> AbstractContextManager[SparkSession]:
            return spark_session(its_master or master, debug=debug)

        size = PROFILES[profile]
        if scale_factor is not None:
            size = replace(size, scale_factor=scale_factor, tuples=None)
        about = circumstances(profile if scale_factor is None else f"{profile}, SF {scale_factor:g}")
        with Laboratory(size, open_spark, seed=seed) as laboratory:
            for name in names or EXPERIMENTS:
                typer.echo(f"{name} ...", err=True)
                began = time.monotonic()
                result = EXPERIMENTS[name](laboratory)
                save(result, name, output, about)
                typer.echo(f"{name}: {result.title} ({time.monotonic() - began:.0f} s)")
                for claim in result.claims:
                    word = {True: "holds", False: "does not hold", None: "cannot be said"}[claim.holds]
                    typer.echo(f"  {word}: {claim.says}\n    measured: {claim.measured}")
        typer.echo(f"report      {write_report(output, list(EXPERIMENTS))}")
