"""Processes that tests start and kill."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def unmeasured_environment() -> dict[str, str]:
    """Return the environment without coverage, for programs that are killed: they leave damaged files."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def kill_tree(pid: int) -> None:
    """Kill a process and all that it has started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    tree = [pid]
    for one in tree:
        tree += children.get(one, [])
    for one in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
