"""Processes that tests start and kill."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


def let_jvms_start_quickly() -> None:
    """Have the JVMs that start from now on optimise little: in tests they live for seconds."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def unmeasured_environment() -> dict[str, str]:
    """Return the environment without coverage, for programs that are killed: they leave damaged files."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


@contextlib.contextmanager
def unmeasured_processes() -> Iterator[None]:
    """Start processes in the `with` block, and all that they start, without coverage.

    It is for Spark: its Python workers end without writing what they have measured, but measure all the same.
    """
    measured = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COVERAGE_")}
    try:
        yield
    finally:
        os.environ.update(measured)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    return _children().get(pid, [])


def process_tree(pid: int) -> list[int]:
    """Return a process and all that it has started, parents first."""
    by_parent = _children()
    tree = [pid]
    for one in tree:
        tree += by_parent.get(one, [])
    return tree


def kill_tree(pid: int) -> None:
    """Kill a process and all that it has started."""
    for one in process_tree(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.setdefault(parent, []).append(int(entry.name))
    return found
