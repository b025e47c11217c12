"""A state store in a dictionary, for a replica without a query."""

from __future__ import annotations

from typing import Any

from sparkbleach.spark.state_store import ReplicaStore


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
        self.entries = Map()

    @property
    def state(self) -> ReplicaStore:
        """The state of a replica in it."""
        return ReplicaStore(self.entries)

    def copy(self) -> Store:
        """Return a version to go back to."""
        store = Store()
        store.entries.values = dict(self.entries.values)
        return store
