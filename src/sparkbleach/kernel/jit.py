"""How the kernel is compiled: four decorators for all of it.

This file and refs.py have all that the package uses of Numba beyond its public API. Here it is: where
machine code is kept (`_CacheLocator`, `CacheImpl._locator_classes`), the stamp by which it is discarded
(`_source_stamp`), the list of what is there (`_load_index`) and the option `_nrt`. Seen in Numba 0.62 to
0.68; `tests/unit/kernel/test_numba.py` fails when they move.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
import numpy as np
from numba.core import caching
from numba.misc import appdirs

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:

    def i64(number: Any) -> int:
        """Return a 64-bit integer: the one type of integers that functions of the kernel are called with.

        Numba compiles a function anew for each type of an argument: for a literal, for a 32-bit field of a
        record, for a 64-bit number. One type for all took the time to compile from 71 s to 46 s.
        """
else:
    i64 = np.int64


def _kernel_stamp(kernel: Traversable) -> str:
    digest = hashlib.sha256()
    for source in sorted(kernel.iterdir(), key=lambda source: source.name):
        if source.name.endswith(".py"):
            content = source.read_bytes()
            digest.update(f"{source.name} {len(content)} ".encode() + content)
        elif source.name == "bayes":
            digest.update(f"{source.name} {_kernel_stamp(source)} ".encode())
    return digest.hexdigest()


_STAMP = _kernel_stamp(files(__package__))


class _ArchiveLocator(caching._CacheLocator):
    """Says where machine code is kept when the package lies in an archive: in the user's cache.

    Numba would go by the path of the archive, which is a new one for each executor: each would compile all.
    """

    def __init__(self, package: str, line: int) -> None:
        self._package = package
        self._line = line

    def get_cache_path(self) -> str:
        """Return a directory that all archives with the same kernel share, one for each package of it."""
        user = cast(Any, appdirs.AppDirs)("sparkbleach")
        return os.path.join(user.user_cache_dir, f"kernel-{_STAMP[:16]}", *self._package.split(".")[2:])

    def get_source_stamp(self) -> str:
        """Return the stamp of all kernel files."""
        return _STAMP

    def get_disambiguator(self) -> str:
        """Return what distinguishes functions of the same name."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, _: str) -> _ArchiveLocator | None:
        """Return a locator for a function of the kernel; None for all others.

        Raises:
            RuntimeError: If the directory cannot be written.
        """
        if not py_func.__module__.startswith(f"{__package__}."):
            return None
        locator = cls(py_func.__module__.rpartition(".")[0], py_func.__code__.co_firstlineno)
        try:
            cast(Any, locator).ensure_cache_path()
        except OSError as error:
            raise RuntimeError(f"{locator.get_cache_path()} cannot be written") from error
        return locator


if not Path(__file__).exists():
    cast(Any, caching.CacheImpl)._locator_classes.insert(0, _ArchiveLocator)


def entry(function: F) -> F:
    """Compile a function that is called from Python, and keep the machine code on disk."""
    return _compile(function)


def jit(function: F) -> F:
    """Compile a function that is called from compiled ones only.

    It does without what Python would need to call it, which takes about as long to compile as the function.
    """
    return _compile(function, no_cpython_wrapper=True)


def apart(function: F) -> F:
    """Compile a function that is called from compiled ones only, and leave it a function of its own.

    Numba compiles what `jit` has into a caller that `inline` has, too. That pays where a store is passed by
    value; where it is passed by reference (refs.py), a call costs little, and less code is compiled sooner.
    """
    return _compile(function, no_cpython_wrapper=True, forceinline=False)


def inline(function: F) -> F:
    """Compile a function into its callers.

    For what runs for every tuple: a call costs more than most of these functions do. What runs now and then
    is left to `jit`, and keeps the callers small.
    """
    return _compile(function, no_cpython_wrapper=True, forceinline=True)


def is_compiled(function: Any) -> bool:
    """Return whether the machine code of a function is on disk, or is not needed because the JIT is off."""
    cache_file = _cache_file(function)
    return cache_file is None or bool(cache_file._load_index())


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
    cache_file = _cache_file(compiled)
    if cache_file is not None:
        cache_file._source_stamp = _STAMP
    return cast(F, compiled)


def _cache_file(compiled: Any) -> Any:
    """Return what keeps the machine code of a function; None if the JIT is off."""
    return getattr(getattr(compiled, "_cache", None), "_cache_file", None)
