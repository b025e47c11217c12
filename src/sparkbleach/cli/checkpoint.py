"""What the command remembers in a checkpoint directory, beyond what Spark and the lanes keep there."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ..errors import ConfigError
from ..spark.hadoop import FileSystem
from ..spark.resume import check_options

_FILE = "sparkbleach.json"


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
