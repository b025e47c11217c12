"""A plugin of pytest: arrays of the kernel have exactly the room that was reserved.

Interpreted code that writes beyond it then fails, which compiled code does not.
"""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

import sparkbleach.engine.engine
from sparkbleach.kernel import table

_grow = table.grow


def grow(array: NDArray[Any], rows: int) -> None:
    """Lengthen an array to some rows, and no more."""
    if rows > array.shape[0]:
        array.resize((rows, *array.shape[1:]), refcheck=False)


assert sparkbleach.engine.engine  # has loaded all of the kernel
for name, module in list(sys.modules.items()):
    if name.startswith("sparkbleach.kernel.") and getattr(module, "grow", None) is _grow:
        module.grow = grow  # type: ignore[attr-defined]
