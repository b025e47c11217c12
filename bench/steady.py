"""A source that lets tuples arrive at a steady rate, whatever the query does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class SteadySource(DataSource):
    """Tuples of an Arrow file; tuple n arrives `(n - backlog) / rate` seconds after `begin`.

    Options: `path` (of the file), `rate` (tuples per second), `begin` (seconds since the epoch), `backlog`
    (how many tuples are there at the beginning), `schema`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "steady"

    def schema(self) -> str:
        """Return the schema of the tuples."""
        return str(self.options["schema"])

    def streamReader(self, schema: Any) -> SteadyReader:  # noqa: ARG002, N802
        """Return the reader of the stream."""
        return SteadyReader(dict(self.options))


class Range(InputPartition):
    """The tuples from one number to another."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__(None)
        self.begin = begin
        self.end = end


class SteadyReader(DataSourceStreamReader):
    """Reads what has arrived."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.path = options["path"]
        self.rate = float(options["rate"])
        self.begin = float(options["begin"])
        self.backlog = int(options["backlog"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Begin with the first tuple."""
        return {"n": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802
        """Return how many tuples have arrived."""
        return {"n": self.backlog + max(0, int((time.time() - self.begin) * self.rate))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return what is to be read."""
        return [Range(start["n"], end["n"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read it."""
        assert isinstance(partition, Range)  # noqa: S101
        with pa.memory_map(self.path) as file:
            table = pa.ipc.open_file(file).read_all()
            yield from table.slice(partition.begin, partition.end - partition.begin).to_batches()

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: the file stays."""
