"""A topic is cleaned into a topic as the engine has it; nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from sparkbleach import ConfigError, clean
from sparkbleach.kafka import Broker, Topic, TopicWriter, read_topic, topic_order
from sparkbleach.kafka.client import Record, number_of_partitions, read
from tests.support.records import (
    COLUMNS,
    DDL,
    MALFORMED,
    RULES,
    audit_rows,
    new_topic,
    origin,
    rows,
    run,
    send,
    values,
)
from tests.support.streams import WINDOW, cleaned_by_engine, tuples


def cleaned(spark: SparkSession, topic: Topic, per_batch: int = 10_000) -> DataFrame:
    """Return a topic, cleaned."""
    stream = read_topic(spark, topic, DDL, id="id", records_per_batch=per_batch)
    # Decisions that wait for no other tuple do not depend on where micro-batches end.
    return clean(
        stream,
        RULES,
        id="id",
        order_by=topic_order(),
        window=WINDOW,
        look_ahead=1,
        quarantine=True,
        egress_partitions=1,
    )


def by_engine(table: pa.Table) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what the engine makes of a stream, with nothing quarantined."""
    return cleaned_by_engine(table.select(COLUMNS), rules=RULES, look_ahead=1)


def headers(record: Record) -> dict[str, bytes | None]:
    """Return the headers of a record."""
    return dict(record.headers)


def test_one_partition_gives_what_the_engine_gives(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Rows come out in order, repaired as by the engine, however micro-batches are cut; with key and headers.

    What cannot be read goes to the quarantine topic as it came, with the reason and the place, and keeps its
    position: the position of a tuple is its offset.
    """
    table = tuples(500, seed=1).select(COLUMNS)
    given: list[bytes | None] = list(values(table))
    bad = {7 + 50 * number: malformed for number, malformed in enumerate(MALFORMED)}
    for offset, (value, _) in bad.items():
        given[offset] = value
    topic = new_topic(broker, "dirty")
    send(topic, given)
    output = topic.beside("clean")
    writer = TopicWriter(output, audit=output.beside("audit"), source=topic)
    run(cleaned(spark, topic, per_batch=173), writer, tmp_path / "checkpoint")

    nulls = pa.table({name: pa.nulls(1, table.schema.field(name).type) for name in COLUMNS}, table.schema)
    seen = pa.concat_tables([nulls if at in bad else table.slice(at, 1) for at in range(500)])
    all_rows, audit = by_engine(seen)
    records = read(output)
    good = [offset for offset in range(500) if offset not in bad]
    assert rows(output) == [all_rows[offset] for offset in good]
    assert audit_rows(output.beside("audit")) == audit
    assert audit
    assert [origin(record) for record in records] == [(0, offset) for offset in good]
    assert [record.key for record in records] == [str(offset).encode() for offset in good]
    came = read(topic)
    for record in records:
        found = headers(record)
        assert found["trace"] == f"t{origin(record)[1]}".encode()
        assert found["sparkbleach-timestamp"] == str(came[origin(record)[1]].timestamp_ms).encode()

    quarantined = read(output.beside("quarantine"))
    assert [(origin(record)[1], record.value) for record in quarantined] == [
        (offset, value) for offset, (value, _) in bad.items()
    ]
    for record, (offset, (_, reason)) in zip(quarantined, bad.items(), strict=True):
        assert record.key == str(offset).encode()
        assert headers(record)["sparkbleach-source"] == f"{topic.name}/0/{offset}".encode()
        assert headers(record)["trace"] == f"t{offset}".encode()
        assert (record.header("sparkbleach-reason") or "").startswith(reason)
    assert (writer.rows, writer.quarantined, writer.repairs) == (len(good), len(bad), len(audit))


def test_several_partitions_come_one_after_the_other(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The order of a micro-batch is by partition, then by offset; records keep their partition."""
    table = tuples(400, seed=2).select(COLUMNS)
    topic = new_topic(broker, "many", 3)
    send(topic, values(table))
    output = topic.beside("clean")
    writer = TopicWriter(output, audit=output.beside("audit"), source=topic)
    run(cleaned(spark, topic), writer, tmp_path / "checkpoint")
    assert number_of_partitions(output) == 3
    order = [int((record.key or b"").decode()) for record in read(topic)]
    expected, audit = by_engine(table.take(pa.array(order)))
    assert sorted(order) == list(range(400))
    assert rows(output) == expected
    assert audit_rows(output.beside("audit")) == audit
    assert [(record.partition, record.offset) for record in read(output)] == [
        origin(record) for record in read(output)
    ]


def test_a_micro_batch_that_was_written_in_part_is_completed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """What a crash has left of a micro-batch is not written again; what is missing is."""
    table = tuples(300, seed=3).select(COLUMNS)
    given: list[bytes | None] = list(values(table))
    given[60] = given[160] = given[260] = b"?"
    topic = new_topic(broker, "crash")
    send(topic, given)
    output = topic.beside("clean")

    def go_on(fail_at: int | None) -> None:
        writer = TopicWriter(output, audit=output.beside("audit"), source=topic)

        def write(batch: DataFrame, batch_id: int) -> None:
            if batch_id == fail_at:
                writer(batch.where("_kafka.offset % 100 < 70 AND _kafka.offset % 5 != 2"), batch_id)
                raise RuntimeError("crash")
            writer(batch, batch_id)

        run(cleaned(spark, topic, per_batch=100), write, tmp_path / "checkpoint")

    for fail_at in (0, 2):
        with pytest.raises(StreamingQueryException, match="crash"):
            go_on(fail_at)
    assert 200 < len(read(output)) < 297
    go_on(None)
    go_on(None)
    nulls = pa.table({name: pa.nulls(1, table.schema.field(name).type) for name in COLUMNS}, table.schema)
    seen = pa.concat_tables([nulls if at in (60, 160, 260) else table.slice(at, 1) for at in range(300)])
    expected, audit = by_engine(seen)
    assert sorted(rows(output), key=lambda row: row["id"]) == [
        row for row in expected if row["id"] is not None
    ]
    assert audit_rows(output.beside("audit")) == audit
    assert sorted(origin(record)[1] for record in read(output.beside("quarantine"))) == [60, 160, 260]


def test_what_no_rule_changed_stays_byte_for_byte(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Members without a column, formats of numbers, spaces and missing members leave as they came.

    A repaired cell is the only text that differs. A name that is there twice, half a character and text after
    the object are quarantined, and the stream goes on.
    """
    good = b'{ "more": {"x": [1.10, 1E2, "}\\""]}, "id": %d,\t"zipcode": 75001, "city": "%s"'
    good += b', "pr\\u0069ce": 1.10}\n'
    given: list[bytes] = [good % (number, city) for number, city in enumerate([b"Rome"] * 9 + [b"Rom"])]
    given.append(b'{"id": 10, "n": 12345678901234567890123456789.10, "zipcode": "2"}')
    bad = {
        b'{"id": 11, "city": "a", "city": "b"}': "the name 'city' is there twice",
        b'{"id": 12, "more": {"k": 1, "k": 2}}': "the name 'k' is there twice",
        b'{"id": 13, "city": "\\ud800"}': "half a character",
        b'{"id": 14} {"id": 15}': "Extra data",
        b'{"id": 16}] {}': "Extra data",
        b'{"id": 17},0] {}': "Extra data",
    }
    topic = new_topic(broker, "bytes")
    send(topic, [*given, *bad])
    stream = read_topic(
        spark, topic, "id long, zipcode string, city string, price double, gone string", id="id"
    )
    rules = ["zip_city: zipcode -> city"]
    rows = clean(stream, rules, id="id", order_by=topic_order(), repair="class", quarantine=True, audit=False)
    output = topic.beside("clean")
    run(rows, TopicWriter(output, source=topic), tmp_path / "checkpoint")
    assert sorted(record.value or b"" for record in read(output)) == sorted(
        [*given[:9], good % (9, b"Rome"), given[10]]
    )
    quarantined = {
        record.value: record.header("sparkbleach-reason") for record in read(output.beside("quarantine"))
    }
    assert quarantined.keys() == bad.keys()
    for value, reason in bad.items():
        assert reason in (quarantined[value] or "")


def test_what_is_wrong_is_refused_before_anything_is_written(spark: SparkSession, broker: Broker) -> None:
    """A missing topic, a schema without the id, topics that are one: each is reported with a remedy."""
    missing = Topic.parse(broker.url("nowhere"))
    with pytest.raises(ConfigError, match=r"nowhere: there is no such topic; create it"):
        read_topic(spark, missing, DDL, id="id")
    assert number_of_partitions(missing) == 0
    topic = new_topic(broker, "wrong")
    with pytest.raises(ConfigError, match="id: the schema has no column 'key'"):
        read_topic(spark, topic, DDL, id="key")
    with pytest.raises(ConfigError, match="'_kafka' is reserved"):
        read_topic(spark, topic, f"{DDL}, _kafka int", id="id")
    with pytest.raises(ConfigError, match="this topic is used twice"):
        TopicWriter(topic, source=topic)
    with pytest.raises(ConfigError, match="not on the cluster of the output"):
        TopicWriter(topic, audit="kafka://elsewhere:1/audit")
    rows = spark.createDataFrame([(1,)], "id int")
    with pytest.raises(ConfigError, match="the rows have no column _kafka"):
        TopicWriter(topic.beside("clean"))(rows, 0)
