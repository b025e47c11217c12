"""Fixtures of tests of the command."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Give a file with one rule."""
    path = tmp_path / "rules.yml"
    path.write_text('rules:\n  - "zip_city: zip -> city"\n')
    return path
