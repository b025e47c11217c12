"""`sparkbleach broker`: a Kafka broker on this machine, to try things out."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from . import options
from .failure import reported_errors


def broker(
    port: Annotated[
        int, typer.Option(help="The port on the loopback interface.", metavar="N", min=1, max=65535)
    ] = 9092,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Where the broker keeps its data between runs.",
            metavar="DIR",
            show_default="a temporary one, deleted at the end",
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Run a Kafka broker of one node until Ctrl-C, to try things out. It is not for production.

    Its jars are fetched from Maven Central the first time; nothing else is needed but Java.

    Example: `sparkbleach broker --port 9092`
    """
    with reported_errors(debug=debug):
        from ..kafka.broker import Broker
        from .session import check_java

        check_java()
        signal.signal(signal.SIGTERM, _interrupt)
        with (
            contextlib.suppress(KeyboardInterrupt),  # the way to end it, at any moment
            tempfile.TemporaryDirectory(prefix="sparkbleach-broker-") as temporary,
        ):
            here = directory or Path(temporary)
            with Broker(here, port, notify=lambda line: typer.echo(line, err=True)) as running:
                typer.echo(f"a Kafka broker is at {running.servers}, its topics at {running.url('TOPIC')}")
                signal.pause()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Let SIGTERM end the broker as Ctrl-C does."""
    raise KeyboardInterrupt
