"""What a Python process of Spark does between tasks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from sparkbleach import Limits
from sparkbleach.spark.garbage import collect_garbage

LIMITS = Limits(garbage_seconds_max=1e9)


class Node:
    """Refers to itself, so that only the garbage collector can free it."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    gc.disable()  # it might come in between
    yield
    gc.enable()
    gc.unfreeze()


def test_what_there_is_is_left_alone() -> None:
    """After a task a collection goes over nothing that was there before."""
    collect_garbage(LIMITS)
    assert gc.get_freeze_count() > 1_000
    kept = Node()
    collect_garbage(LIMITS)
    assert not any(one is kept for one in gc.get_objects())


def test_garbage_of_a_task_is_freed_at_once() -> None:
    """What a task has left behind is gone when it has ended."""
    collect_garbage(LIMITS)
    garbage = weakref.ref(Node())
    collect_garbage(LIMITS)
    assert garbage() is None


def test_what_was_kept_is_freed_after_a_while() -> None:
    """What outlived a task and became garbage later is freed when the time has come, and not before."""
    kept = Node()
    garbage = weakref.ref(kept)
    collect_garbage(LIMITS)
    del kept
    collect_garbage(LIMITS)
    assert garbage() is not None
    collect_garbage(Limits(garbage_seconds_max=0))
    assert garbage() is None
