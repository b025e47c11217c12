"""What a run costs: CPU and memory of this process and its descendants, and space on disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """A sample of CPU and memory."""

    at: float  #: seconds since the epoch
    cores: float  #: how many cores these processes kept busy since the sample before
    others: float  #: how many cores all other processes of the machine kept busy meanwhile
    memory_mb: float  #: resident memory of all processes; pages that they share count several times


class Watch:
    """Takes samples of CPU and memory while a `with` block runs."""

    def __init__(self, interval_s: float = 0.5) -> None:
        self.samples: list[Usage] = []
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        before, all_before, at = _processes(), _busy_ticks(), time.time()
        while not self._stop.wait(self._interval_s):
            now, all_now, later = _processes(), _busy_ticks(), time.time()
            # The ticks of a process that has ended are gone; those of a new one all count.
            ticks = max(0, sum(count - before.get(pid, (0, 0))[0] for pid, (count, _) in now.items()))
            others = max(0, all_now - all_before - ticks)
            per_core = _TICKS_PER_S * (later - at)
            memory = sum(pages for _, pages in now.values()) * _PAGE_BYTES
            self.samples.append(Usage(later, ticks / per_core, others / per_core, memory / (1 << 20)))
            before, all_before, at = now, all_now, later


def summary(samples: Sequence[Usage]) -> dict[str, float | None]:
    """Return the row of a summary: busy cores, and memory in MB."""
    if not samples:
        return {"busy_cores": None, "busy_cores_of_others": None, "memory_mb_max": None}
    return {
        "busy_cores": fmean(one.cores for one in samples),
        "busy_cores_of_others": fmean(one.others for one in samples),
        "memory_mb_max": max(one.memory_mb for one in samples),
    }


def describe_others(samples: Sequence[Usage]) -> str:
    """Return a sentence that says how busy other programs kept the machine."""
    others = fmean(one.others for one in samples) if samples else 0.0
    return f"Meanwhile other programs kept {others:.1f} of {os.cpu_count()} cores busy."


def size_bytes(directory: Path) -> int:
    """Return the size of all files below a directory."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue  # a query that runs deletes old files
    return total


def largest_worker_mb() -> int:
    """Return the memory of Spark's largest Python worker, in MB."""
    largest = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                largest = max(largest, int((entry / "statm").read_text().split()[1]) * _PAGE_BYTES >> 20)
        except OSError:
            continue  # the process has ended
    return largest


def _busy_ticks() -> int:
    """Return the CPU ticks that the machine was busy, including those that a hypervisor took."""
    user, nice, system, _idle, _wait, *rest = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    )
    return user + nice + system + sum(rest)


def _processes() -> dict[int, tuple[int, int]]:
    """Return ticks of CPU and pages of memory, of this process and its descendants."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of the program, in brackets, may have blanks.
            stat = (entry / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # the process has ended
        pid = int(entry.name)
        parents[pid] = int(stat[1])
        found[pid] = int(stat[11]) + int(stat[12]), int(stat[21])
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine and pid not in mine}:
        mine |= more
    return {pid: counted for pid, counted in found.items() if pid in mine}
