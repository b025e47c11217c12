"""A failing stream with as few records as fail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.fuzz.streams import Case, InputFile, check_case

_TRIES_MAX = 30


def smallest(case: Case, problems: list[str], directory: Path) -> tuple[Case, list[str]]:
    """Return a case with fewer records that fails, too, and what is wrong then."""
    tries = 0

    def fails(files: Sequence[InputFile]) -> bool:
        nonlocal tries, case, problems
        if tries == _TRIES_MAX or not files:
            return False
        tries += 1
        found = check_case(case.shrunk(files), directory)
        if found and _kind(found[0]) == _kind(problems[0]):
            case, problems = case.shrunk(files), found
            return True
        return False

    _halve(list(case.files), fails)
    places = [(file.name, at) for file in case.files for at in range(len(file.records))]

    def fails_with(kept: Sequence[tuple[str, int]]) -> bool:
        return fails(_only(files, set(kept)))

    files = case.files
    _halve(places, fails_with)
    return case, problems


def _kind(problem: str) -> str:
    """Return what a problem has in common with others of its kind: of an error its text without paths."""
    if not problem.startswith("exit code"):
        return ""
    return re.sub(r"\S*/\S*", "", problem.partition("error: ")[2])[:60]


def _only(files: Sequence[InputFile], kept: set[tuple[str, int]]) -> list[InputFile]:
    return [
        replace(file, records=tuple(one for at, one in enumerate(file.records) if (file.name, at) in kept))
        for file in files
    ]


def _halve(items: list[Any], fails: Any) -> None:
    """Leave out ever smaller parts of a list, as long as the rest fails."""
    step = len(items) // 2
    while step:
        at = 0
        while at < len(items):
            rest = items[:at] + items[at + step :]
            if rest and fails(rest):
                items[:] = rest
            else:
                at += step
        step //= 2
