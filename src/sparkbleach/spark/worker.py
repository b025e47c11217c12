"""The Python process that Spark runs a stage in."""

from __future__ import annotations

import gc
import time

#: how long garbage that refers to itself may lie about
_SECONDS_MAX = 10.0

_collected_at = -_SECONDS_MAX


def settle() -> None:
    """Have the garbage collector leave alone what there is by now.

    Spark calls it after each task, also after one that has no state. A full collection over the modules that
    a process has loaded takes 50 ms, as long as a small micro-batch itself; over the graphs of the paper's
    workers it takes several times that.
    """
    global _collected_at
    now = time.monotonic()
    if now - _collected_at >= _SECONDS_MAX:
        _collected_at = now
        gc.unfreeze()
        gc.collect()
    gc.freeze()
