"""The Python process that Spark runs a stage in."""

from __future__ import annotations

import gc
import math
import time

from .limits import Limits

_all_collected_at = -math.inf


def collect_garbage(limits: Limits) -> None:
    """Free the garbage of a task, and exclude all objects that are left from later collections.

    It is called after each task, also after one that has no state. A full collection over the modules that
    a process has loaded takes 50 to 150 ms, as long as a small micro-batch itself; over the graphs of the
    paper's workers it takes several times that. What was made since the last task is little.
    """
    global _all_collected_at
    now = time.monotonic()
    if now - _all_collected_at >= limits.garbage_seconds_max:
        _all_collected_at = now
        gc.unfreeze()
    gc.collect()
    gc.freeze()
