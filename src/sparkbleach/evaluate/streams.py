"""Dirty streams of sales, and how Spark reads a stream: as files, or at a steady rate."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from .dirt import paper_errors
from .sales import SALES_RULES, SalesStream
from .spoil import spoil

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def dirty_batches(n_tuples: int, batch_tuples: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield generated sales in batches; a tenth of the cells is dirty."""
    errors = paper_errors(SALES_RULES, 0.1)
    first = 0
    for batch in SalesStream(seed).batches(n_tuples, batch_tuples):
        dirty = spoil(pa.Table.from_batches([batch]), errors, seed, first).dirty
        (part,) = dirty.combine_chunks().to_batches()
        yield part
        first += batch.num_rows


def dirty_table(n_tuples: int, batch_tuples: int = 50_000) -> pa.Table:
    """Return generated sales; a tenth of the cells is dirty."""
    return pa.Table.from_batches(dirty_batches(n_tuples, batch_tuples))


def repeated(stream: pa.Table, n_tuples: int) -> pa.Table:
    """Return the first tuples of a stream that begins again after its last tuple."""
    return pa.concat_tables([stream] * -(-n_tuples // stream.num_rows)).slice(0, n_tuples)


def write_files(stream: pa.Table, directory: Path, file_tuples: int) -> None:
    """Write a stream as Parquet files that Spark reads in order."""
    firsts = range(0, stream.num_rows, file_tuples)
    write_parts((stream.slice(first, file_tuples) for first in firsts), directory)


def write_parts(parts: Iterable[pa.Table], directory: Path) -> None:
    """Write each part of a stream as a Parquet file."""
    directory.mkdir(parents=True)
    for number, part in enumerate(parts):
        path = directory / f"{number:05}.parquet"
        pq.write_table(part, path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark takes older files first


def read_files(
    spark: SparkSession, directory: Path, schema: pa.Schema, files_per_batch: int = 1
) -> DataFrame:
    """Return the files of a directory as a stream."""
    from ..spark.compat import spark_schema

    reader = spark.readStream.schema(spark_schema(schema))
    return reader.option("maxFilesPerTrigger", files_per_batch).parquet(str(directory))


def write_steady(stream: pa.Table, path: Path) -> None:
    """Write a stream for `read_steady`."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, stream.schema) as writer:
        writer.write_table(stream.combine_chunks(), max_chunksize=50_000)


def read_steady(spark: SparkSession, path: Path, *, rate: int, backlog: int) -> DataFrame:
    """Return the stream of a file; tuples arrive at a steady rate after a backlog: see `SteadySource`."""
    from ..spark.compat import spark_schema
    from .arrive import SteadySource

    spark.dataSource.register(SteadySource)
    with pa.memory_map(str(path)) as file:
        schema = spark_schema(pa.ipc.open_file(file).schema).toDDL()
    reader = spark.readStream.format("steady").options(path=str(path), rate=rate, backlog=backlog)
    return reader.option("schema", schema).load()
