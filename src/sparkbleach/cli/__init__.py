"""The command `sparkbleach`."""

import signal

from .signals import end_at_once, handled


def main() -> None:
    """Run the command. What it needs is imported here: that takes a second, in which a signal may come."""
    with handled(end_at_once, signal.SIGINT, signal.SIGTERM):
        from typer.main import get_command

        from .app import app

        command = get_command(app)
    command()
