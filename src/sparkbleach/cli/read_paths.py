"""Which paths an input reads: a file, a directory with all below it, or a pattern; through symlinks, too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_SPECIAL = re.compile(r"[*?\[{\\]")
#: names as they are written in the directories of a stream
_WRITTEN = (
    *(f"part-000000-0000.{format}" for format in ("csv", "json", "parquet")),
    "sparkbleach.json", "offsets/0", "commits/0", "00000001.json",
)  # fmt: skip


class ReadPaths:
    """The paths that an input reads."""

    def __init__(self, input: str) -> None:
        self._input = without_scheme(input)
        is_local = "://" not in self._input
        is_pattern = bool(_SPECIAL.search(self._input)) and not (is_local and os.path.exists(self._input))
        pattern = _regex(self._input) if is_pattern else re.escape(self._input.rstrip("/"))
        self._read = re.compile(f"(?:{pattern})(?:/.*)?", re.DOTALL)
        #: directories as the input names them, and where they really are
        self._links = list(self._follow(is_pattern)) if is_local else []

    def covers(self, path: str) -> bool:
        """Return whether something that is written to a directory is read, now or later."""
        path = real(path)
        found = [path]
        for named, place in self._links:
            if within(place, path) and self._read.fullmatch(named):
                return True
            if within(path, place):
                found.append(named.rstrip("/") + path[len(place.rstrip("/")) :])
        return any(
            self._read.fullmatch(one) or any(self._read.fullmatch(f"{one}/{name}") for name in _WRITTEN)
            for one in found
        )

    def _follow(self, is_pattern: bool) -> Iterator[tuple[str, str]]:
        """Yield the directory where reading begins, and all symlinks that are met from there."""
        begin = os.path.dirname(_SPECIAL.split(self._input)[0]) if is_pattern else self._input
        depth_max = self._input.count("/")
        yield begin, os.path.realpath(begin)
        seen: set[str] = set()
        left = [begin]
        while left:
            directory = left.pop()
            place = os.path.realpath(directory)
            too_deep = directory.count("/") >= depth_max and not self._read.fullmatch(directory)
            if place in seen or too_deep or not os.path.isdir(directory) or not os.access(directory, os.R_OK):
                continue
            seen.add(place)
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield entry.path, os.path.realpath(entry.path)
                    if entry.is_dir():
                        left.append(entry.path)


def real(path: str) -> str:
    """Return where a path really is; one of a remote file system is left as it is."""
    path = without_scheme(path)
    return path if "://" in path else os.path.realpath(path)


def without_scheme(path: str) -> str:
    """Return a path without `file:`."""
    return re.sub(r"^file:(//)?(?=/)", "", path)


def within(path: str, directory: str) -> bool:
    """Return whether a path is a directory or in it."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _regex(pattern: str) -> str:
    """Return one of Hadoop's patterns as a regular expression."""
    found = ""
    depth = 0
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        at += 1
        closing = pattern.find("]", at + 1) if letter == "[" else -1
        if letter == "\\" and at < len(pattern):
            found += re.escape(pattern[at])
            at += 1
        elif closing > 0:
            chosen = pattern[at:closing].replace("\\", "\\\\").replace("[", "\\[")
            found += f"[^/{chosen[1:]}]" if chosen[0] in "!^" else f"[{chosen}]"
            at = closing + 1
        elif letter == "{":
            found += "(?:"
            depth += 1
        elif letter == "}" and depth:
            found += ")"
            depth -= 1
        elif letter == "," and depth:
            found += "|"
        else:
            found += {"*": "[^/]*", "?": "[^/]"}.get(letter) or re.escape(letter)
    return found + ")" * depth
