"""The Python process that Spark runs a stage in."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Have the garbage collector leave alone what is loaded by now.

    Spark calls it after each task, and a full collection over the modules that a worker has loaded takes
    50 ms and more: as long as a small micro-batch itself.
    """
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
