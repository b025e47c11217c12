"""What a checkpoint has to remember beyond what Spark keeps in it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ..errors import ConfigError
from ..spark.hadoop import FileSystem

_FILE = "sparkbleach.json"


@dataclass(frozen=True)
class Memory:
    """What the runs of one stream have in common.

    Attributes:
        schema: Of the rows; what was inferred once stays.
        id: The id column.
        output: The directory for clean rows.
        output_format: Their format.
        multiline: Whether a record of the input may go over several lines.
        rules_target: Where rule updates come from, if anywhere.
        topology: How the work is spread: which stages with state there are.
        lanes: The attributes of each lane, so that none moves when rules change.
    """

    schema: StructType
    id: str
    output: str
    output_format: str
    multiline: bool
    rules_target: str | None = None
    topology: str = "fused"
    lanes: list[list[str]] | None = None


class Checkpoint:
    """A checkpoint directory."""

    def __init__(self, session: SparkSession, directory: str) -> None:
        self.directory = directory.rstrip("/")
        self._file = f"{self.directory}/{_FILE}"
        self._file_system = FileSystem(session, directory)

    def read(self) -> Memory | None:
        """Return what an earlier run has left; None if there was none.

        Raises:
            ConfigError: If the directory is something else.
        """
        if self._file_system.find(self._file) is None:
            self._check_foreign()
            return None
        if not self._file_system.children(f"{self.directory}/offsets"):
            return None  # the run ended before its first micro-batch began
        data = json.loads(self._file_system.read(self._file))
        data["schema"] = StructType.fromJson(data["schema"])
        return Memory(**data)

    def write(self, memory: Memory) -> None:
        """Leave something for the next run."""
        data = {**memory.__dict__, "schema": memory.schema.jsonValue()}
        self._file_system.write(self._file, json.dumps(data).encode())

    def _check_foreign(self) -> None:
        found = self._file_system.find(self.directory)
        if found and (not found.is_directory or self._file_system.children(self.directory)):
            raise ConfigError(
                f"checkpoint: {self.directory} is not a checkpoint of sparkbleach clean; "
                "choose another directory"
            )


def check_topology(memory: Memory | None, topology: str, checkpoint: str) -> None:
    """Check that the work is spread as in earlier runs.

    Raises:
        ConfigError: If it is not.
    """
    if memory is not None and memory.topology != topology:
        raise ConfigError(
            f"topology: the checkpoint {checkpoint} was made with {memory.topology}, not with {topology}; "
            f"go on with {memory.topology}, or begin with a new checkpoint"
        )


def lanes_of(
    memory: Memory | None, n_lanes: int, columns: Collection[str], checkpoint: str
) -> int | list[list[str]]:
    """Return so many lanes as earlier runs have had them, but for columns that are gone.

    Raises:
        ConfigError: If there were more or fewer.
    """
    if memory is None:
        return n_lanes
    lanes = memory.lanes or [[]]
    if len(lanes) != n_lanes:
        raise ConfigError(
            f"lanes: the checkpoint {checkpoint} was made with {len(lanes)}, not with {n_lanes}; "
            f"go on with {len(lanes)}, or begin with a new checkpoint"
        )
    return [[name for name in names if name in columns] for names in lanes]


def check_output_is_new(session: SparkSession, directory: str, checkpoint: str) -> None:
    """Check that a directory has no files of another stream, which a new one would replace.

    Raises:
        ConfigError: If it has.
    """
    file_system = FileSystem(session, directory)
    found = file_system.find(directory)
    if found and not found.is_directory:
        raise ConfigError(f"{directory}: it is a file, but a directory is needed; choose another name")
    if file_system.children(directory, "part-*"):
        raise ConfigError(
            f"{directory}: it has files of another run, but the checkpoint {checkpoint} is new; "
            "give the checkpoint of that run to go on with it, or choose another directory"
        )
