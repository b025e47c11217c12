"""Loaded by every Python process of a disturbed run: stops it, or kills it, at a given place.

`CRASH_AT` is the place and the how-many-eth time it is passed, such as `lane:3`; `CRASH_MARK` the file that
says that it was reached. With `CRASH_SELF` the process kills itself there; otherwise it waits to be killed
with all others.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: by place: module, class (if any) and function; and whether the crash comes after it
PLACES = {
    # Functions of their own modules: Spark ships those by name, others would not be seen here.
    "ingress": ("sparkbleach.spark.ingress", None, "_typed", False),
    "lane": ("sparkbleach.engine.engine", "Engine", "decide_all", False),
    "delta": ("sparkbleach.spark.state_store", "ReplicaStore", "write_delta", True),
    "snapshot": ("sparkbleach.spark.state_store", "ReplicaStore", "write_chunk", True),
    "deletion": ("sparkbleach.spark.state_store", "ReplicaStore", "delete_some", True),
    "head": ("sparkbleach.spark.state_store", "ReplicaStore", "write_head", True),
    "detect": ("sparkbleach.paper.detect_worker", "DetectWorker", "process", False),
    "repair": ("sparkbleach.paper.repair_worker", "RepairWorker", "process", False),
    "aggregator": ("sparkbleach.paper.aggregator", "Aggregator", "process", True),
    "egress": ("sparkbleach.spark.egress", None, "_clean_rows", False),
    "writer": ("sparkbleach.spark.files.writer", "Writer", "_publish", True),
    "written": ("sparkbleach.spark.files.writer", "Writer", "__call__", True),
}


def arm(at: str, mark: Path) -> None:
    """Put the crash in its place."""
    place, times = at.split(":")
    module, owner, name, after = PLACES[place]
    __import__(module)
    holder: Any = sys.modules[module]
    if owner:
        holder = getattr(holder, owner)
    function: Callable[..., Any] = getattr(holder, name)
    left = int(times)

    def crash() -> None:
        nonlocal left
        left -= 1
        if left or mark.exists():
            return
        mark.write_text(str(os.getpid()))
        if os.environ.get("CRASH_SELF"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)

    # Under the name of the original: otherwise Spark ships a copy to each task, which counts from the start.
    @functools.wraps(function)
    def disturbed(*args: Any, **options: Any) -> Any:
        if not after:
            crash()
        result = function(*args, **options)
        if after:
            crash()
        return result

    setattr(holder, name, disturbed)


if "CRASH_AT" in os.environ:
    arm(os.environ["CRASH_AT"], Path(os.environ["CRASH_MARK"]))
