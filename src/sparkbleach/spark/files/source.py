"""Files as streaming or static DataFrames, checked before the first row is read."""

from __future__ import annotations

import dataclasses
import os
import re

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ...config import check_choice
from ...errors import ConfigError, SchemaError
from ..compat import JVM_ERRORS, error_message
from ..hadoop import Entry, FileSystem
from .formats import FORMATS, guess_format, read_options
from .parquet_schema import check_parquet
from .quarantine import TEXT_FORMAT, unreadable_column
from .schema import check_schema

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
    _checked: set[str] = dataclasses.field(default_factory=set)

    @property
    def schema(self) -> StructType:
        """The columns of the rows: for text formats also the one for records that cannot be read."""
        if self.format == "parquet":
            return self.columns
        metadata = {TEXT_FORMAT: self.format}
        text = StructField(unreadable_column(self.session), StringType(), True, metadata)
        return StructType([*self.columns, text])

    @property
    def order(self) -> list[Column]:
        """What puts rows in the order of their files' paths, and then of their places in a file."""
        return [F.col("_metadata.file_path"), F.col("_metadata.file_block_start")]

    def stream(self, files_per_batch: int | None = None) -> DataFrame:
        """Return the files, and those that come later, as a streaming DataFrame."""
        reader = self.session.readStream.format(self.format).schema(self.schema)
        reader = reader.options(**read_options(self.format, self.multiline), recursiveFileLookup=True)
        # Spark silently skips a new file whose date is older than this.
        reader = reader.option("maxFileAge", "36500d")
        if files_per_batch is None:
            reader = reader.option("maxBytesPerTrigger", _BYTES_PER_BATCH)
        else:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        return reader.load(_as_pattern(self.session, self.path))

    def static(self) -> DataFrame:
        """Return the files that exist at the start as a static DataFrame, sorted by `order`."""
        reader = self.session.read.format(self.format).schema(self.schema)
        options = read_options(self.format, self.multiline)
        rows = reader.options(**options).load([file.path for file in self.files])
        # Spark's sort does not keep the order of the rows of a block.
        order = [*self.order, F.monotonically_increasing_id()]
        names = [f"_sort_{number}" for number in range(len(order))]
        hidden = [column.alias(name) for column, name in zip(order, names, strict=True)]
        return rows.select("*", *hidden).orderBy(*names).drop(*names)

    def check_new(self) -> None:
        """Check Parquet files that have come since the last call.

        Spark reads a column that a Parquet file lacks as nulls; all other problems it reports itself.
        """
        if self.format != "parquet":
            return
        file_system = FileSystem(self.session, self.path)
        for path in file_system.paths(self.path):
            if path not in self._checked:
                check_parquet(self.session, list(file_system.walk(path)), self.columns)
                self._checked.add(path)


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
    format = check_choice("input format", format, FORMATS) if format else guess_format(path, files)
    unreadable = unreadable_column(session)
    if schema is not None and unreadable in schema.names:
        raise ConfigError(f"schema: the name {unreadable} is taken; leave this column out")
    columns = check_schema(session, files, format, schema, multiline)
    source = Source(session, path, format, columns, tuple(files), multiline, {file.path for file in files})
    try:
        source.stream().schema  # noqa: B018 (Spark looks at the schema here)
    except AnalysisException as error:
        raise SchemaError(f"schema: {error_message(error)}") from error
    return source


def _list_files(session: SparkSession, path: str) -> list[Entry]:
    try:
        file_system = FileSystem(session, path)
        files = sorted(file_system.walk(path), key=lambda file: file.path)
        if not files and file_system.find(path) is None:
            raise ConfigError(f"input: {path} does not exist; check the path")
    except JVM_ERRORS as error:
        raise ConfigError(f"input: cannot list {path} ({error_message(error)}); check the path") from error
    return files


def _as_pattern(session: SparkSession, path: str) -> str:
    """Return a path as Spark's file stream takes it: a single file only as a pattern that matches it."""
    found = FileSystem(session, path).find(path)
    if found is None or found.is_directory:
        return path
    directory, name = os.path.split(path)
    name = re.sub(r"([{}\[\]*?\\])", r"\\\1", name)
    return os.path.join(directory, f"{name[:-1]}[{name[-1]}]")
