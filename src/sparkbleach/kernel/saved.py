"""A store as a list of arrays, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .cells import Store
from .solo import Solo
from .table import pool_used, table_buckets
from .values import arena_used

Nested = TypeVar("Nested")


def arrays_of(nested: Any) -> list[NDArray[Any]]:
    """Return all arrays in nested named tuples, in order."""
    if isinstance(nested, np.ndarray):
        return [nested]
    return [array for part in nested for array in arrays_of(part)]


def used_rows(store: Store | Solo) -> dict[int, int]:
    """Return by `id` of each array of a store that grows how many rows of it are in use."""
    n_values = pool_used(store.values.pool)
    n_cells = pool_used(store.cell_pool)
    used = {
        id(store.groups.records): pool_used(store.groups.pool),
        id(store.values.records): n_values,
        id(store.values.arena): arena_used(store.values),
        id(store.values.scratch_count): n_values,
        id(store.values.scratch_stamp): n_values,
        id(store.values.scratch_list): n_values,
        id(store.cells): n_cells,
        id(store.panes): pool_used(store.pane_pool),
    }
    if isinstance(store, Store):
        used[id(store.members)] = n_cells
    for table in (store.groups.table, store.values.table, store.cell_table):
        used[id(table.heads)] = table_buckets(table)
    return used


def save(store: Store | Solo) -> list[NDArray[Any]]:
    """Return the arrays of a store, without the room at their ends."""
    used = used_rows(store)
    return [array[: used.get(id(array), len(array))] for array in arrays_of(store)]


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that owns its memory: byte by byte, three times as fast as NumPy, field by field."""
    array = np.ascontiguousarray(array)
    copy = np.empty(array.shape, array.dtype)
    copy.reshape(-1).view(np.uint8)[:] = array.reshape(-1).view(np.uint8)
    return copy


def load(template: Nested, arrays: list[NDArray[Any]]) -> Nested:
    """Return a store like the template with copies of the arrays that `save` returned.

    What they say is not looked at; see check.py.

    Raises:
        ValueError: If they are not of the types of such arrays.
    """
    types = [(array.dtype, array.ndim) for array in arrays_of(template)]
    if [(array.dtype, array.ndim) for array in arrays] != types:
        raise ValueError("these are not the arrays of a store")
    loaded: Nested = _filled(template, iter(arrays))
    return loaded


def _filled(template: Any, arrays: Iterator[NDArray[Any]]) -> Any:
    if isinstance(template, np.ndarray):
        # An array must own its memory to grow. And files lose that records are aligned: all would be
        # compiled anew for arrays that were read from one.
        return copied(next(arrays).view(template.dtype))
    return type(template)(*(_filled(part, arrays) for part in template))
