"""The commands of documents, run by a shell, but with the `sparkbleach` of this process.

A shell finds a `sparkbleach` on its path that asks this process to run the command, so that all of them share
one Spark session instead of starting a JVM each.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner, Result

from sparkbleach.cli.app import app

#: runs the command in this process
Run = Callable[..., Result]
_CLIENT = """#!{python}
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect({address!r})
    peer.sendall(json.dumps([os.getcwd(), sys.argv[1:]]).encode())
    peer.shutdown(socket.SHUT_WR)
    code, stdout, stderr = json.load(peer.makefile())
sys.stdout.write(stdout)
sys.stderr.write(stderr)
sys.exit(code)
"""
_SECONDS_MAX = 600.0


def run_command(*arguments: object) -> Result:
    """Run the command in this process; raise what it does not handle.

    What it prints is printed again: pytest shows it if the test fails. The `stderr` of the result goes
    without the lines that say what the command is about to do, which end with three dots.
    """
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words)
    sys.stdout.write(
        f"$ {shlex.join(['sparkbleach', *words])}\n{result.output}exit code {result.exit_code}\n"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    lines = result.stderr_bytes.splitlines(keepends=True)
    result.stderr_bytes = b"".join(line for line in lines if not line.rstrip().endswith(b" ..."))
    return result


def read_csv(directory: Path) -> list[dict[str, str]]:
    """Return the rows of all part files of a directory, by file name."""
    rows: list[dict[str, str]] = []
    for path in sorted(directory.glob("part-*.csv")):
        with path.open(newline="") as file:
            rows += csv.DictReader(file)
    return rows


def run_commands(script: str, directory: Path, bin: Path) -> str:
    """Run shell commands in a directory; return what they print.

    Args:
        script: The commands.
        directory: Where they run.
        bin: A directory for the program that stands for `sparkbleach`.
    """
    address = bin / "socket"
    client = bin / "sparkbleach"
    client.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
    client.chmod(0o755)
    path = os.pathsep.join([str(bin), str(Path(sys.executable).parent), os.environ["PATH"]])
    with socket.socket(socket.AF_UNIX) as server, (bin / "printed").open("w+") as printed:
        server.bind(str(address))
        server.listen()
        server.settimeout(0.1)
        shell = subprocess.Popen(  # noqa: S603
            ["/bin/bash", "-euc", script],
            cwd=directory,
            env={**os.environ, "PATH": path},
            stdout=printed,
            stderr=printed,
            text=True,
        )
        try:
            while shell.poll() is None:
                # In this thread: Spark's session is that of the thread.
                with contextlib.suppress(TimeoutError):
                    _answer(server)
        finally:
            shell.kill()
            shell.wait()
            address.unlink()
        printed.seek(0)
        text = printed.read()
    assert shell.returncode == 0, text
    return text


def _answer(server: socket.socket) -> None:
    """Run one command for a client."""
    peer, _ = server.accept()
    with peer, peer.makefile() as asked:
        peer.settimeout(_SECONDS_MAX)
        directory, arguments = json.load(asked)
        with contextlib.chdir(directory):
            result = CliRunner().invoke(app, arguments)
        stderr = result.stderr
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            stderr += f"{result.exception!r}\n"
        peer.sendall(json.dumps([result.exit_code, result.stdout, stderr]).encode())
