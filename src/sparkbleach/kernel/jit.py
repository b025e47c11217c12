"""How the kernel is compiled: three decorators for all of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:

    def i64(number: Any) -> int:
        """Return a 64-bit integer: the one type of integers that functions of the kernel are called with.

        Numba compiles a function anew for each type of an argument: for a literal, for a 32-bit field of a
        record, for a 64-bit number. One type for all took the time to compile from 71 s to 46 s.
        """
else:
    i64 = np.int64


def _kernel_stamp() -> tuple[tuple[str, int, int], ...]:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sources)


_STAMP = _kernel_stamp()


def entry(function: F) -> F:
    """Compile a function that is called from Python, and keep the machine code on disk."""
    return _compile(function)


def jit(function: F) -> F:
    """Compile a function that is called from compiled ones only.

    It does without what Python would need to call it, which takes about as long to compile as the function.
    """
    return _compile(function, no_cpython_wrapper=True)


def inline(function: F) -> F:
    """Compile a function into its callers.

    For what runs for every tuple: a call passes every array of a store by value, which costs more than
    most of these functions do. What runs now and then is left to `jit`, and keeps the callers small.
    """
    return _compile(function, no_cpython_wrapper=True, forceinline=True)


def _compile(function: F, **options: Any) -> F:
    # Kernel functions make no arrays, so they do without Numba's reference counts (_nrt): to count the
    # arrays of a whole store at each call took ten times as long as the work itself.
    njit = cast(Any, numba.njit)
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False, **options}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written: slow to start, but works
        compiled = njit(**options)(function)
    # Numba throws a cached function away when the file of the function itself changes, but not when a
    # function that it calls does, in another file. The stamp of all kernel files does both.
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:  # there is none when the JIT is off
        cache_file._source_stamp = _STAMP
    return cast(F, compiled)
