"""A source whose tuples arrive at a steady rate, whatever the query does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

Offset = dict[str, float]


class SteadySource(DataSource):
    """Tuples of an Arrow file, over and over again, at a steady rate.

    A backlog is there from the start. The clock starts when the backlog is cleaned: tuple n arrives
    `(n - backlog) / rate` seconds later. An offset has the number of tuples (`n`) and the start of the clock
    (`begin`, in seconds since the epoch, 0 before).

    Options: `path` (of the file), `rate` (tuples per second), `backlog` (in tuples), `schema`.
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


class SteadyReader(DataSourceStreamReader):
    """Reads the tuples that have arrived."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.path = options["path"]
        self.rate = float(options["rate"])
        self.backlog = int(options["backlog"])
        self._begin = 0.0
        self._asked = False

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of the first tuple."""
        return {"n": 0, "begin": 0.0}

    def latestOffset(self, *_: Any) -> Offset:  # noqa: N802
        """Return the offset after all tuples that have arrived."""
        if not self._asked and self.backlog:
            self._asked = True
            return {"n": self.backlog, "begin": 0.0}
        if not self._begin:
            self._begin = time.time()
        return {"n": self.backlog + int((time.time() - self._begin) * self.rate), "begin": self._begin}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the tuples between two offsets as one partition."""
        return [InputPartition((int(start["n"]), int(end["n"])))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the tuples of a partition; after the last tuple of the file comes the first."""
        at, end = partition.value
        with pa.memory_map(self.path) as file:
            table = pa.ipc.open_file(file).read_all()
            while at < end:
                row = at % table.num_rows
                part = table.slice(row, min(end - at, table.num_rows - row))
                yield from part.to_batches()
                at += part.num_rows

    def commit(self, end: Offset) -> None:
        """Do nothing: the file stays."""
