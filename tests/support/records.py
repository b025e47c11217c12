"""Dirty streams as records of topics, and records of topics as rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from sparkbleach.kafka import Broker, Topic
from sparkbleach.kafka.client import Record, create, publish, read

COLUMNS = ["id", "client", "zipcode", "city"]
DDL = "id long, client int, zipcode string, city string"
RULES = ["zip_city: zipcode -> city", "client_city: client -> city"]
#: values that are no tuples, and the beginning of the reason
MALFORMED: list[tuple[bytes | None, str]] = [
    (b'{"id": 1, "zipcode"', "malformed: not valid JSON"),
    (b'{"id": "x", "zipcode": "1", "city": "Rome"}', "id: 'x' is not of type bigint"),
    (b'{"zipcode": "1", "city": "Rome"}', "id: the id is null"),
    (b'[{"id": 1}, {"id": 2}]', "malformed: a JSON object is needed"),
    (b'{"id": 1, "city": "\xff"}', "malformed: not valid UTF-8"),
    (b'{"id": 1} {"id": 2}, 3', "malformed: not valid JSON"),
    (b"", "malformed: the record is empty"),
    (None, "malformed: the record is empty"),
    (b"null", "malformed: a JSON object is needed"),
]


def new_topic(broker: Broker, name: str, n_partitions: int = 1) -> Topic:
    """Create a topic of a name that no other test has."""
    topic = Topic.parse(broker.url(f"{name}-{uuid.uuid4().hex[:8]}"))
    create([topic], n_partitions)
    return topic


def values(table: pa.Table) -> list[bytes]:
    """Return the rows of a stream as JSON."""
    return [json.dumps(row).encode() for row in table.select(COLUMNS).to_pylist()]


def send(topic: Topic, given: Sequence[bytes | None], first: int = 0) -> None:
    """Append values to a topic, with keys and headers that say which they are."""
    publish(
        topic,
        [
            (str(number).encode(), value, [("trace", b"t%d" % number)])
            for number, value in enumerate(given, start=first)
        ],
    )


def rows(topic: Topic) -> list[dict[str, Any]]:
    """Return the values of a topic."""
    return [json.loads(record.value or b"null") for record in read(topic)]


def audit_rows(topic: Topic) -> list[dict[str, Any]]:
    """Return the audit in a topic, in the order of the stream."""
    return sorted(rows(topic), key=lambda row: int(row["position"]))


def run(cleaned: DataFrame, writer: Any, checkpoint: Path) -> None:
    """Run a query over all that is there."""
    query = cleaned.writeStream.foreachBatch(writer).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


def origin(record: Record) -> tuple[int, int]:
    """Return the partition and the offset that a record came from."""
    _, partition, offset = (record.header("sparkbleach-source") or "").split("/")[:3]
    return int(partition), int(offset)
