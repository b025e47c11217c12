"""Hadoop's file systems, through the JVM of a Spark session.

PySpark has no public way to list, move and delete files wherever Spark can read and write them (HDFS, object
stores, local disks). Hadoop's Java classes can, and a session reaches them by two private attributes, `_jvm`
and `_jsparkSession`. Seen in PySpark 4.1, 4.2 and 4.3 (Hadoop 3.4). `tests/spark/test_compat.py` fails when
they move.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import SchemaError
from .compat import JVM_ERRORS, error_message, moved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the names that Spark reads in a directory; a directory such as `_year=2024` is one of a partitioned table
_VISIBLE = "{[^_.]*,_*=*}"
#: but for files that are being written
_COPYING = "._COPYING_"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a directory that was listed."""

    path: str  #: the whole path, with the scheme of its file system
    size: int  #: of a file, in bytes
    is_directory: bool = False  #: whether this is a directory
    modified_ms: int = 0  #: when it was changed last

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return without_scheme(self.path)


def without_scheme(path: str) -> str:
    """Return a path without `file:`, as users write local ones."""
    return re.sub(r"^file:(//)?(?=/)", "", path)


def is_visible(name: str) -> bool:
    """Return whether Spark reads a file of this name."""
    return not (name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith(_COPYING))


def as_plain(path: str) -> str:
    """Return the pattern that matches a path, and nothing else."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


class FileSystem:
    """The file system that a path is on, by the Hadoop settings of a session; methods take paths on it."""

    def __init__(self, session: SparkSession, path: str) -> None:
        inner: Any = session
        try:
            self._jvm = inner._jvm
            self._conf = inner._jsparkSession.sessionState().newHadoopConf()
            self._path = self._jvm.org.apache.hadoop.fs.Path
            self._fs = self._path(path).getFileSystem(self._conf)
        except (AttributeError, TypeError) as error:
            raise moved("SparkSession._jvm or SparkSession._jsparkSession") from error

    def find(self, path: str) -> Entry | None:
        """Return the file or directory at a path; None if there is none."""
        where = self._path(path)
        return _entry(self._fs.getFileStatus(where)) if self._fs.exists(where) else None

    def children(self, directory: str, names: str = "*") -> list[Entry]:
        """Return what a directory has under names of a pattern, by path; nothing if it does not exist."""
        where = self._path(directory)
        return self._list(where, names) if self._fs.exists(where) else []

    def match(self, pattern: str) -> list[Entry]:
        """Return the file or directory at a path, or what matches the path as a pattern."""
        found = self.find(pattern)
        return [found] if found else _sorted(self._fs.globStatus(self._path(pattern)) or ())

    def walk(self, pattern: str) -> Iterator[Entry]:
        """Yield all files at a path, a pattern, or below it; hidden ones are left out."""
        found = [entry for entry in self.match(pattern) if entry.is_directory or is_visible(entry.name)]
        while found:
            entry = found.pop()
            if entry.is_directory:
                found += self._list(self._path(entry.path), _VISIBLE)
            else:
                yield entry

    def paths(self, pattern: str) -> list[str]:
        """Return the paths in a directory, or those that match a pattern; hidden ones are left out.

        This asks the JVM for nothing but paths: with many files it is several times as fast as `match`.
        """
        found = self.find(pattern)
        if found and found.is_directory:
            statuses = self._fs.listStatus(self._path(pattern), self._filter(_VISIBLE))
        else:
            statuses = self._fs.globStatus(self._path(pattern), self._filter(_VISIBLE)) or ()
        paths = (status.getPath().toString() for status in statuses)
        return [path for path in paths if not path.endswith(_COPYING)]

    def read(self, path: str, n_bytes: int | None = None, *, decompress: bool = False) -> bytes:
        """Return the first bytes of a file, or all; decompressed on request if its name says so (`.gz`)."""
        where = self._path(path)
        codec = None
        if decompress:
            factory = self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(self._conf)
            codec = factory.getCodec(where)
        with ExitStack() as streams:
            stream = streams.enter_context(closing(self._fs.open(where)))
            if codec is not None:
                stream = streams.enter_context(closing(codec.createInputStream(stream)))
            return bytes(stream.readAllBytes() if n_bytes is None else stream.readNBytes(n_bytes))

    def read_end(self, file: Entry, n_bytes: int) -> bytes:
        """Return the last bytes of a file."""
        with closing(self._fs.open(self._path(file.path))) as stream:
            stream.seek(max(0, file.size - n_bytes))
            return bytes(stream.readNBytes(n_bytes))

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file: whoever reads the path finds what was there before, or all of the data."""
        target = self._path(path)
        hidden = self._path(target.getParent(), f".{target.getName()}.new")
        fs = self._unchecked()
        with closing(fs.create(hidden, True)) as stream:
            stream.write(bytearray(data))
            if stream.hasCapability("hsync"):
                stream.hsync()
        if not (fs.rename(hidden, target) or self._replace(hidden, target)):
            raise OSError(f"{path}: cannot move {hidden.getName()} there")

    def rename(self, path: str, target: str) -> bool:
        """Move a file without its checksum, and return whether the file system did so.

        The checksum of a local file is a hidden file that is wrong as soon as somebody edits the data.
        """
        return bool(self._unchecked().rename(self._path(path), self._path(target)))

    def _unchecked(self) -> Any:
        """Return the file system without the checksums that Hadoop has for local files."""
        checksummed = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.ChecksumFileSystem")
        return self._fs.getRawFileSystem() if checksummed.isInstance(self._fs) else self._fs

    def _replace(self, path: Any, target: Any) -> bool:
        """Move a file to where another one is, on a file system whose `rename` refuses that, as HDFS does."""
        hadoop = self._jvm.org.apache.hadoop.fs
        replacing = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename")
        options = self._jvm.java.lang.reflect.Array.newInstance(replacing, 1)
        self._jvm.java.lang.reflect.Array.set(options, 0, replacing.getEnumConstants()[1])
        hadoop.FileContext.getFileContext(target.toUri(), self._conf).rename(path, target, options)
        return True

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it."""
        self._fs.delete(self._path(path), True)

    def _list(self, directory: Any, names: str) -> list[Entry]:
        found = _sorted(self._fs.listStatus(directory, self._filter(names)))
        return [entry for entry in found if not entry.name.endswith(_COPYING)]

    def _filter(self, names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.GlobFilter(names)


def read_part(session: SparkSession, file: Entry, n_bytes: int, *, at_end: bool = False) -> bytes:
    """Return the beginning of a file, decompressed, or the end of it as it is."""
    try:
        file_system = FileSystem(session, file.path)
        if at_end:
            return file_system.read_end(file, n_bytes)
        return file_system.read(file.path, n_bytes, decompress=True)
    except JVM_ERRORS as error:
        raise SchemaError(
            f"{file}: cannot read it ({error_message(error)}); check its permissions, or leave it out"
        ) from error


def _sorted(statuses: Any) -> list[Entry]:
    return sorted(map(_entry, statuses), key=lambda entry: entry.path)


def _entry(status: Any) -> Entry:
    return Entry(
        status.getPath().toString(), status.getLen(), status.isDirectory(), status.getModificationTime()
    )
