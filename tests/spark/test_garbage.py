"""What a Python process of Spark does between tasks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from sparkbleach.spark import garbage as garbage_module


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
    garbage_module.collect_garbage()
    assert gc.get_freeze_count() > 1_000
    kept = Node()
    garbage_module.collect_garbage()
    assert not any(one is kept for one in gc.get_objects())


def test_garbage_of_a_task_is_freed_at_once() -> None:
    """What a task has left behind is gone when it has ended."""
    garbage_module.collect_garbage()
    garbage = weakref.ref(Node())
    garbage_module.collect_garbage()
    assert garbage() is None


def test_what_was_kept_is_freed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """What outlived a task and became garbage later is freed when the time has come, and not before."""
    kept = Node()
    garbage = weakref.ref(kept)
    garbage_module.collect_garbage()
    del kept
    garbage_module.collect_garbage()
    assert garbage() is not None
    monkeypatch.setattr(garbage_module, "_all_collected_at", -garbage_module._SECONDS_MAX)
    garbage_module.collect_garbage()
    assert garbage() is None
