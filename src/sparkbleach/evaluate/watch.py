"""What a run costs while it runs: CPU and memory of this process and all that it started."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """A sample.

    Attributes:
        at: Seconds since the epoch.
        cores: How many cores were busy since the sample before.
        memory_mb: Resident memory of all processes; pages that they share count several times.
    """

    at: float
    cores: float
    memory_mb: float


class Watch:
    """Take a sample now and then, while a `with` block runs.

    Attributes:
        samples: What was seen.
    """

    def __init__(self, interval_s: float = 0.5) -> None:
        self.samples: list[Usage] = []
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        before, at = _processes(), time.time()
        while not self._stop.wait(self._interval_s):
            now, later = _processes(), time.time()
            # A process that has ended since takes its ticks along; one that is new brings all it has.
            ticks = sum(count - before.get(pid, (0, 0))[0] for pid, (count, _) in now.items())
            cores = max(0, ticks) / _TICKS_PER_S / (later - at)
            memory = sum(pages for _, pages in now.values()) * _PAGE_BYTES
            self.samples.append(Usage(later, cores, memory / (1 << 20)))
            before, at = now, later


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
            continue  # it has ended
        pid = int(entry.name)
        parents[pid] = int(stat[1])
        found[pid] = int(stat[11]) + int(stat[12]), int(stat[21])
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine and pid not in mine}:
        mine |= more
    return {pid: counted for pid, counted in found.items() if pid in mine}
