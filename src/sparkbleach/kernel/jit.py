"""How the kernel is compiled: one decorator for all of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _kernel_stamp() -> tuple[tuple[str, int, int], ...]:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sources)


_STAMP = _kernel_stamp()


def jit(function: F) -> F:
    """Compile a function without the interpreter, and keep the machine code on disk.

    Numba throws a cached function away when the file of the function itself changes, but not when a
    function that it calls does, in another file. The stamp of all kernel files does both.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    cache = getattr(compiled, "_cache", None)  # absent when the JIT is off
    if cache is not None:
        cache._cache_file._source_stamp = _STAMP
    return cast(F, compiled)
