"""Files as streaming or static DataFrames, checked before the first row is read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from ...config import check_choice
from ...errors import ConfigError, SchemaError
from ..compat import JVM_ERRORS, error_message
from ..hadoop import Entry, FileSystem, as_plain, without_scheme
from ..plan import CONTROL, QUARANTINE, REPAIRS, fresh, quoted
from .exact import inferred_names
from .formats import FORMATS, guess_format
from .quarantine import EXACT, TEXT_FORMAT, unreadable_column
from .record_text import MEMBERS, RECORD, parse
from .records import read_texts
from .schema import check_schema
from .whole_files import keep_files_whole

#: how many bytes of files a micro-batch takes, unless a number of files is given
_BYTES_PER_BATCH = 256 << 20


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that fit a schema."""

    session: SparkSession  #: the session to read them with
    path: str  #: a file, a directory or a glob
    format: str  #: `csv`, `json` or `parquet`
    columns: StructType  #: the columns of the files
    files: tuple[Entry, ...]  #: the files that exist at the start
    multiline: bool = False  #: whether a record may go over several lines
    _checked: dict[str, int] = dataclasses.field(default_factory=dict)  # the files, with their sizes

    @property
    def order(self) -> list[Column]:
        """What puts rows in the order of their files' paths, and then of their places in a file."""
        return [F.col("_metadata.file_path"), F.col("_metadata.file_block_start")]

    def stream(self, files_per_batch: int | None = None, output_format: str | None = None) -> DataFrame:
        """Return the files, and those that come later, as a streaming DataFrame.

        If they are written in another format, a record that would lose something is quarantined.
        """
        # Spark silently skips a new file whose date is older than this.
        reader = self.session.readStream.options(recursiveFileLookup=True, maxFileAge="36500d")
        if files_per_batch is None:
            reader = reader.option("maxBytesPerTrigger", _BYTES_PER_BATCH)
        else:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        path = _as_pattern(self.session, self.path)
        return self._read(reader, path, exact=output_format not in (None, self.format))

    def static(self) -> DataFrame:
        """Return the files that exist at the start as a static DataFrame, sorted by `order`."""
        rows = self._read(self.session.read, [as_plain(file.path) for file in self.files])
        # Spark's sort does not keep the order of the rows of a block.
        order = [*self.order, F.monotonically_increasing_id()]
        names = [fresh(f"_sort_{number}", rows.columns) for number in range(len(order))]
        hidden = [column.alias(name) for column, name in zip(order, names, strict=True)]
        return rows.select("*", *hidden).orderBy(*names).drop(*names)

    def check_new(self) -> None:
        """Check the files that have come since the last call: their headers, or footers."""
        file_system = FileSystem(self.session, self.path)
        for path in file_system.paths(self.path):
            if path in self._checked:
                continue
            for file in file_system.walk(path):  # of a directory more may come
                if file.path not in self._checked:
                    _check_no_partition(self.path, file)
                    check_schema(self.session, [file], self.format, self.columns, self.multiline)
                    self._checked[file.path] = file.size

    def changed_since_read(self, checkpoint: str) -> list[Entry]:
        """Return the files that have changed since an earlier run of a checkpoint read them.

        Spark does not read a file again, so that rows which were appended to it are not cleaned.
        """
        file_system = FileSystem(self.session, checkpoint)
        read, sizes = _read_at(file_system, checkpoint), _known_sizes(file_system, checkpoint)
        return [
            file
            for file in self.files
            if str(file) in read
            and (file.modified_ms, file.size) != (read[str(file)], sizes.get(file.path, file.size))
        ]

    def remember_sizes(self, checkpoint: str) -> None:
        """Remember how large the files were that were read: whoever adds to one may keep its time."""
        file_system = FileSystem(self.session, checkpoint)
        known = _known_sizes(file_system, checkpoint)
        if self._checked.keys() <= known.keys():
            return
        read = _read_at(file_system, checkpoint)
        sizes = {path: size for path, size in self._checked.items() if without_scheme(path) in read}
        file_system.write(_sizes_of(checkpoint), json.dumps({**sizes, **known}).encode())

    def _read(
        self, reader: DataFrameReader | DataStreamReader, path: Any, *, exact: bool = False
    ) -> DataFrame:
        unreadable = unreadable_column(self.session)
        if self.format == "parquet":
            return reader.format("parquet").schema(self.columns).load(path)
        texts = read_texts(reader, path, self.format, self.multiline)
        rows = parse(texts, self.format, self.columns, unreadable)
        metadata = {TEXT_FORMAT: self.format}
        notes = {**metadata, EXACT: inferred_names(self.columns)} if exact else metadata
        return rows.select(
            *(
                F.col(f"parsed.{quoted(field.name)}").alias(field.name, metadata=field.metadata)
                for field in self.columns
            ),
            F.col("broken").alias(unreadable, metadata=notes),
            F.col("text").cast("binary").alias(RECORD, metadata={**metadata, MEMBERS: self.columns.names}),
        )


def open_source(
    session: SparkSession,
    path: str,
    format: str | None = None,
    schema: StructType | None = None,
    *,
    multiline: bool = False,
    may_be_empty: bool = False,
) -> Source:
    """Return the files at a path, after checking that those which exist can be read.

    Args:
        session: The session to read them with.
        path: A file, a directory or a glob.
        format: `csv`, `json` or `parquet`; guessed from the names of the files if not given.
        schema: Of the rows; inferred if not given, which reads everything.
        multiline: Whether quoted CSV cells may have line breaks, and JSON files are whole documents.
        may_be_empty: Whether there may be no files yet.
    """
    files = _list_files(session, path)
    if not files and not may_be_empty:
        raise ConfigError(f"input: {path} has no files; check the path")
    if not files and (format is None or schema is None):
        raise ConfigError(
            f"input: {path} has no files that show the format and the schema; "
            "give --input-format and --schema"
        )
    for file in files:
        _check_no_partition(path, file)
    format = check_choice("input format", format, FORMATS) if format else guess_format(path, files)
    if multiline:
        keep_files_whole(session)
    columns = check_schema(session, files, format, schema, multiline)
    # The last one is Spark's, for the path of a row's file.
    taken = (unreadable_column(session), RECORD, REPAIRS, QUARANTINE, CONTROL, "_metadata")
    for name in columns.names:
        if name.lower() in taken:
            raise ConfigError(f"schema: the name {name} is taken; rename the column")
    source = Source(
        session, path, format, columns, tuple(files), multiline, {file.path: file.size for file in files}
    )
    try:
        source.stream().schema  # noqa: B018 (Spark looks at the schema here)
    except AnalysisException as error:
        raise SchemaError(f"schema: {error_message(error)}") from error
    return source


def _read_at(file_system: FileSystem, checkpoint: str) -> dict[str, int]:
    """Return by path the times that the files had which Spark has read."""
    read: dict[str, int] = {}
    sources = file_system.children(f"{checkpoint.rstrip('/')}/sources")
    for log in (log for source in sources for log in file_system.children(source.path)):
        for line in file_system.read(log.path).decode().splitlines():
            if line.startswith('{"path":'):
                entry = json.loads(line)
                read[without_scheme(unquote(entry["path"]))] = entry["timestamp"]
    return read


def _sizes_of(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/sparkbleach-sizes.json"


def _known_sizes(file_system: FileSystem, checkpoint: str) -> dict[str, int]:
    """Return by path the sizes that earlier runs have remembered; none if they cannot be read."""
    path = _sizes_of(checkpoint)
    try:
        known = json.loads(file_system.read(path)) if file_system.find(path) else {}
    except (*JVM_ERRORS, ValueError):  # without them, times show most changes
        known = {}
    return known if isinstance(known, dict) else {}


def _list_files(session: SparkSession, path: str) -> list[Entry]:
    try:
        file_system = FileSystem(session, path)
        files = sorted(file_system.walk(path), key=lambda file: file.path)
        found = [] if files else file_system.match(path)
        if not files and not found:
            raise ConfigError(f"input: {path} does not exist; check the path")
        if found and not any(entry.is_directory for entry in found):
            raise ConfigError(
                f"input: Spark reads no files whose names begin with _ or a dot, as in {path}; rename them"
            )
    except JVM_ERRORS as error:
        raise ConfigError(f"input: cannot list {path} ({error_message(error)}); check the path") from error
    return files


def _check_no_partition(path: str, file: Entry) -> None:
    """Check that a file is in no directory whose name has a cell of all its rows, such as `year=2024`."""
    given = path.split("/")
    for directory in str(file).split("/")[:-1]:
        name, equals, _ = directory.partition("=")
        if name and equals and directory not in given:
            raise SchemaError(
                f"{file}: the column {name!r} is only in the name of the directory {directory}, and would be "
                "lost; write it into the files, or give one such directory as the input"
            )


def _as_pattern(session: SparkSession, path: str) -> str:
    """Return a path as Spark's file stream takes it, which has patterns for directories, too.

    It takes a single file only as a pattern that matches it.
    """
    found = FileSystem(session, path).find(path)
    if found is None:
        return path
    return as_plain(path) if found.is_directory else f"{as_plain(path[:-1])}[{path[-1]}]"
