"""What `kernel/jit.py` and `kernel/refs.py` use of Numba beyond its public API is still there."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numba
import pytest


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("numba.core.caching", "_CacheLocator.ensure_cache_path"),
        ("numba.core.caching", "_CacheLocator.get_cache_path"),
        ("numba.core.caching", "_CacheLocator.get_source_stamp"),
        ("numba.core.caching", "_CacheLocator.get_disambiguator"),
        ("numba.core.caching", "_CacheLocator.from_function"),
        ("numba.core.caching", "CacheImpl._locator_classes"),
        ("numba.core.caching", "IndexDataCacheFile._load_index"),
        ("numba.core.dispatcher", "Dispatcher.enable_caching"),
        ("numba.misc.appdirs", "AppDirs.user_cache_dir"),
        ("numba.core.cgutils", "alloca_once_value"),
        ("numba.core.cgutils", "gep_inbounds"),
        ("numba.core.types", "BaseNamedTuple"),
        ("numba.core.typing.templates", "AttributeTemplate"),
    ],
)
def test_private_parts_are_where_they_were(module: str, path: str) -> None:
    """Each private part of Numba that the package uses is there."""
    moved = f"Numba {numba.__version__} moved {module}.{path}; see kernel/jit.py and refs.py"
    try:
        found = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        pytest.fail(moved)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="the JIT is off")
def test_a_compiled_function_has_a_stamp() -> None:
    """A cached function has the stamp by which it is thrown away, and `_nrt` is an option."""

    def one() -> int:
        return 1

    moved = f"Numba {numba.__version__} moved"
    njit: Any = numba.njit
    try:
        compiled = njit(cache=True, _nrt=False)(one)
    except Exception as error:
        pytest.fail(f"{moved} the option _nrt; see kernel/jit.py: {error}")
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    assert hasattr(cache_file, "_source_stamp"), (
        f"{moved} Dispatcher._cache._cache_file._source_stamp; see kernel/jit.py"
    )
