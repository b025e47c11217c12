"""Threads that share the work on the attributes of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """A number of threads, started when first needed; with one, the calling thread does the work."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function for each item; return the results in the order of the items."""
        if self.n == 1:
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n, "sparkbleach")
        calls = [self._pool.submit(function, item) for item in items]
        wait(calls)  # for all of them, even when one fails: none may go on behind the caller's back
        return [call.result() for call in calls]

    def close(self) -> None:
        """End the threads; the next call of `map` starts new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
