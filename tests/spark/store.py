"""A state store in a dictionary, for a lane without a query."""

from __future__ import annotations

import copy
from typing import Any

from sparkbleach.spark.state import LaneState


class Value:
    """A value state."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        """Return the value."""
        return self.value

    def update(self, newValue: tuple[Any, ...]) -> None:
        """Set the value."""
        self.value = newValue


class Map:
    """A map state."""

    def __init__(self) -> None:
        self.values: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802
        """Return a value."""
        return self.values.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        """Set a value."""
        self.values[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        """Remove a value."""
        self.values.pop(key, None)


class Store:
    """A state store whose versions can be kept and gone back to, as Spark's can."""

    def __init__(self) -> None:
        self.head, self.deltas, self.snapshots = Value(), Map(), Map()

    @property
    def state(self) -> LaneState:
        """The state of a lane in it."""
        return LaneState(self.head, self.deltas, self.snapshots)

    def copy(self) -> Store:
        """Return a version to go back to."""
        store = Store()
        store.head = copy.copy(self.head)
        store.deltas.values = dict(self.deltas.values)
        store.snapshots.values = dict(self.snapshots.values)
        return store
