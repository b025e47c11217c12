"""What the command remembers in a checkpoint directory, beyond what Spark and the lanes keep there."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ..errors import ConfigError, SparkbleachError
from ..spark.compat import JVM_ERRORS
from ..spark.hadoop import FileSystem
from ..spark.resume import check_options
from .failure import is_known

_FILE = "sparkbleach.json"
#: where Spark keeps JSON in a checkpoint directory: which query it is, and what was read and done
_LOGS = ("metadata", "offsets/*", "commits/*", "sources/*/*", "state/*/_metadata/*", "state/*/_metadata/*/*")
#: where it keeps the schema of its state: a version, and JSON at the end
_STATE_SCHEMAS = "state/*/_stateSchema/*/*"
#: lines of these files that are not JSON: the version of a log, and a source without an offset
_NOT_JSON = re.compile(r"v\d+|-|")


@dataclass(frozen=True)
class Memory:
    """What the runs of one stream have in common."""

    schema: StructType  #: of the rows; what was inferred once stays
    id: str  #: the id column
    output: str  #: the directory for clean rows
    output_format: str  #: their format
    multiline: bool  #: whether a record of the input may go over several lines
    rules_target: str | None = None  #: where rule updates come from, if anywhere
    topology: str = "fused"  #: how the work is spread: which stages with state there are
    #: the attributes of each lane, so that none moves when rules change
    lanes: list[list[str]] = field(default_factory=lambda: [[]])
    #: how rows are cleaned, beside the rules: `Options` as JSON values
    options: dict[str, Any] = field(default_factory=dict)

    def check(self, checkpoint: str, **given: Any) -> None:
        """Check that options, by name (of lanes the number), are given as in earlier runs.

        An option that an earlier release did not remember here is left to the lanes.
        """
        made = {**self.options, **self.__dict__, "lanes": len(self.lanes)}
        check_options(
            {option.replace("_", " "): made[option] for option in given if option in made},
            {option.replace("_", " "): value for option, value in given.items() if option in made},
            checkpoint,
        )

    def lanes_among(self, columns: Collection[str]) -> list[list[str]]:
        """Return the attributes of each lane, without those that are no columns any more."""
        return [[name for name in names if name in columns] for names in self.lanes]


class Checkpoint:
    """A checkpoint directory."""

    def __init__(self, session: SparkSession, directory: str) -> None:
        self.directory = directory.rstrip("/")
        self._file = f"{self.directory}/{_FILE}"
        self._file_system = FileSystem(session, directory)

    def read(self) -> Memory | None:
        """Return what an earlier run has left; None if there was none."""
        if self._file_system.find(self._file) is None:
            self._check_foreign()
            return None
        if not self._file_system.children(f"{self.directory}/offsets"):
            return None  # the run ended before its first micro-batch began
        try:
            data = json.loads(self._file_system.read(self._file))
            data["schema"] = StructType.fromJson(data["schema"])
            return Memory(**data)
        except (*JVM_ERRORS, ValueError, TypeError, LookupError) as error:
            raise _damaged(self._file) from error

    def write(self, memory: Memory) -> None:
        """Leave something for the next run."""
        data = {**memory.__dict__, "schema": memory.schema.jsonValue()}
        self._file_system.write(self._file, json.dumps(data).encode())

    @contextmanager
    def examined(self) -> Iterator[None]:
        """If the `with` block fails for no known reason, name the damaged file that explains it."""
        try:
            yield
        except Exception as error:
            damaged = None if is_known(error) else self._find_damaged()
            if damaged is None:
                raise
            raise _damaged(damaged) from error

    def _find_damaged(self) -> str | None:
        """Return the path of a file of Spark's that cannot be read; None if none is damaged.

        Spark's own errors do not name it. What the state store has is left to Spark.
        """
        for place in _LOGS:
            for file in self._file_system.match(f"{self.directory}/{place}"):
                is_hidden = file.path.rpartition("/")[2].startswith(".")  # as a crash may leave it
                if not (file.is_directory or is_hidden or self._is_log(file.path)):
                    return str(file)
        for file in self._file_system.match(f"{self.directory}/{_STATE_SCHEMAS}"):
            if not self._is_state_schema(file.path):
                return str(file)
        return None

    def _is_log(self, path: str) -> bool:
        """Return whether a file has a version in its first line and JSON in others, as Spark's logs do."""
        try:
            # Before the first offsets of a topic there is a zero, for old releases of Spark.
            lines = self._file_system.read(path).removeprefix(b"\0").decode().splitlines()
            for line in lines:
                if not _NOT_JSON.fullmatch(line):
                    json.loads(line)
        except (*JVM_ERRORS, ValueError):
            return False
        return bool(lines)

    def _is_state_schema(self, path: str) -> bool:
        """Return whether a file begins with a version, as Java writes a text, and ends with a JSON object."""
        try:
            data = self._file_system.read(path)
        except JVM_ERRORS:
            return False
        return data[:3] == b"\0\2v" and data.endswith(b"}")

    def _check_foreign(self) -> None:
        found = self._file_system.find(self.directory)
        if found and (not found.is_directory or self._file_system.children(self.directory, "[^.]*")):
            raise ConfigError(
                f"checkpoint: {self.directory} is not a checkpoint of sparkbleach clean; "
                "choose another directory"
            )


def _damaged(path: str) -> SparkbleachError:
    return SparkbleachError(
        f"checkpoint: {path} is damaged; restore the checkpoint directory from a copy, "
        "or begin with a new checkpoint and a new output"
    )


def check_output_is_new(session: SparkSession, directory: str, checkpoint: str) -> None:
    """Check that a directory has no files of another stream, which a new one would replace."""
    file_system = FileSystem(session, directory)
    found = file_system.find(directory)
    if found and not found.is_directory:
        raise ConfigError(f"{directory}: it is a file, but a directory is needed; choose another name")
    if file_system.children(directory, "part-*"):
        raise ConfigError(
            f"{directory}: it has files of another run, but the checkpoint {checkpoint} is new; "
            "give the checkpoint of that run to go on with it, or choose another directory"
        )
