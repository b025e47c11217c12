"""The Python process that Spark runs a stage in."""

from __future__ import annotations

import gc
import time

#: how long something that refers to itself may lie about when it was kept for a while and then dropped
_SECONDS_MAX = 300.0

_all_collected_at = -_SECONDS_MAX


def settle() -> None:
    """Free the garbage of a task, and have the garbage collector leave alone what there is by now.

    Spark calls it after each task, also after one that has no state. A full collection over the modules that
    a process has loaded takes 50 to 150 ms, as long as a small micro-batch itself; over the graphs of the
    paper's workers it takes several times that. What was made since the last task is little.
    """
    global _all_collected_at
    now = time.monotonic()
    if now - _all_collected_at >= _SECONDS_MAX:
        _all_collected_at = now
        gc.unfreeze()
    gc.collect()
    gc.freeze()
