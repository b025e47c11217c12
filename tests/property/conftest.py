"""Random streams run without coverage: tracing doubles their time, and other tests reach the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the properties of this directory; tests by hand are measured."""
    for item in items:
        if item.path.parent == HERE and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)
