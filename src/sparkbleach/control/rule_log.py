"""The rule log: where control records wait for a stream, and where their outcomes are kept.

A control record is an update that somebody published. The stream reads it, applies or refuses it, and
writes an outcome back. A log belongs to one stream: it is read and written with one checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ..errors import ConfigError, SparkbleachError
from ..rules.update import RuleUpdate
from .openers import OPENERS
from .outcome import Outcome
from .record import ControlRecord, record_text

_OUTCOMES = "_outcomes"  # Spark's file source reads nothing below a name that begins with _
_NUMBER = re.compile(r"([0-9]{8})\.json")
#: how long a control record may be; a tableau of a million rows is shorter
RECORD_BYTES_MAX = 64 << 20
#: why a file is no record for good; another error may pass
_NO_RECORD = {
    errno.EACCES,
    errno.EFBIG,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENOENT,
    errno.ENXIO,
    errno.EPERM,
}


class RuleLog(Protocol):
    """Where control records and outcomes are kept."""

    @property
    def target(self) -> str:
        """The target that `open_log` opens the log by."""

    def publish(self, update: RuleUpdate, by: str) -> str:
        """Append an update for the stream to read; return its number."""

    def published(self) -> list[ControlRecord]:
        """Return all control records in the order of their numbers."""

    def outcomes(self) -> list[Outcome]:
        """Return all outcomes in the order in which they came about."""

    def record(self, batch_id: int, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a micro-batch, instead of those that an earlier attempt of it left."""


OPENERS[""] = lambda target, _: DirectoryLog(target)
OPENERS["file"] = lambda target, _: DirectoryLog(target.removeprefix("file://"))


def open_log(target: str, options: Mapping[str, str] | None = None) -> RuleLog:
    """Return the log at a target: a directory, or a topic such as `kafka://host:port/topic`.

    Args:
        target: The target.
        options: The options that Kafka's clients need to connect.

    Raises:
        ConfigError: If the target cannot be that of a log.
    """
    before, separator, _ = target.partition("://")
    scheme = before if separator else ""
    if scheme not in OPENERS:
        raise ConfigError(
            f"rules target: {target!r} has the unknown scheme {scheme!r}; "
            "give a directory, or a topic such as kafka://host:port/topic"
        )
    return OPENERS[scheme](target, options)


class DirectoryLog:
    """A rule log in a directory: a file for each control record, and the outcomes in `_outcomes`.

    Publishers and the stream must see the directory, which is made when needed, and be the same user: only
    the owner of a file can read it. Who may write the directory may publish.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(os.path.abspath(directory))
        if self.directory.exists() and not self.directory.is_dir():
            raise ConfigError(f"rules target: {directory} is a file; choose a directory")

    @property
    def target(self) -> str:
        """The path of the directory."""
        return str(self.directory)

    def create(self) -> None:
        """Make the directory if it does not exist.

        Raises:
            SparkbleachError: If the directory cannot be written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def publish(self, update: RuleUpdate, by: str) -> str:
        """Append an update for the stream to read; return its number.

        Raises:
            SparkbleachError: If the directory cannot be written.
        """
        self.create()
        try:
            hidden = _write_hidden(self.directory, record_text(update, by) + "\n")
            try:
                return self._link(hidden)
            finally:
                hidden.unlink()
        except OSError as error:
            raise self._unwritable(error) from error

    def _link(self, hidden: Path) -> str:
        """Give a file the next free number; if another process takes that number first, try the next one."""
        number = max((int(name) for name in self._numbers()), default=0) + 1
        while True:
            try:
                os.link(hidden, self.directory / f"{number:08}.json")
            except FileExistsError:
                number += 1
            else:
                return f"{number:08}"

    def published(self) -> list[ControlRecord]:
        """Return all control records in the order of their numbers."""
        return [ControlRecord.read(number, self.text_of(number)) for number in self._numbers()]

    def text_of(self, number: str) -> str | None:
        """Return the text of a control record; None if its file is not a plain one that may be read.

        Raises:
            SparkbleachError: If it cannot be read for another reason, which may pass.
        """
        path = self.directory / f"{number}.json"
        try:
            return _read_plain(path, RECORD_BYTES_MAX)
        except OSError as error:
            if error.errno in _NO_RECORD:
                return None
            raise SparkbleachError(
                f"rules target: {path} cannot be read ({error.strerror}); try again when it can"
            ) from error

    def outcomes(self) -> list[Outcome]:
        """Return all outcomes in the order in which they came about.

        Raises:
            SparkbleachError: If one is damaged.
        """
        found: list[Outcome] = []
        try:
            for path in sorted(self._outcomes().glob("batch-*.jsonl")):
                with contextlib.suppress(FileNotFoundError):  # a micro-batch that runs again has removed it
                    for number, line in enumerate(_read_plain(path).splitlines(), start=1):
                        found.append(Outcome.from_json(line, f"{path}:{number}"))
        except OSError as error:
            raise SparkbleachError(
                f"rules target: the outcomes in {self.directory} cannot be read ({error.strerror}); "
                "only the user that the stream runs as can read them"
            ) from error
        return found

    def record(self, batch_id: int, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a micro-batch, instead of those that an earlier attempt of it left.

        Raises:
            SparkbleachError: If the directory cannot be written.
        """
        try:
            path = self._outcomes() / f"batch-{batch_id:012}.jsonl"
            if outcomes:
                path.parent.mkdir(parents=True, exist_ok=True)
                lines = "".join(f"{outcome.to_json()}\n" for outcome in outcomes)
                _write_hidden(path.parent, lines).replace(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def _outcomes(self) -> Path:
        """Return the directory of the outcomes; OSError if it is a link to somewhere else."""
        path = self.directory / _OUTCOMES
        if path.is_symlink():
            raise OSError(errno.ELOOP, f"{_OUTCOMES} is a symbolic link")
        return path

    def _numbers(self) -> list[str]:
        if not self.directory.is_dir():
            return []
        return sorted(match[1] for name in os.listdir(self.directory) if (match := _NUMBER.fullmatch(name)))

    def _unwritable(self, error: OSError) -> SparkbleachError:
        return SparkbleachError(
            f"rules target: {self.directory} cannot be written ({error.strerror}); "
            "check its permissions and free space"
        )


def _read_plain(path: Path, n_bytes_max: int | None = None) -> str:
    """Return the text of a file; OSError if it is no plain file, or too long.

    A symbolic link might lead anywhere.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        if n_bytes_max is not None and found.st_size > n_bytes_max:
            raise OSError(errno.EFBIG, "it is too long")
        with open(descriptor, encoding="utf-8", errors="replace", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _write_hidden(directory: Path, text: str) -> Path:
    """Write a text to a hidden file that only its owner can read, to be renamed when it is complete."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=directory, prefix=".", suffix=".new", delete=False
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return Path(file.name)
