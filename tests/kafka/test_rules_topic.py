"""Rules that change while records flow: control records from a topic, outcomes in another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sparkbleach import ConfigError, RuleController, clean, open_log, read_control
from sparkbleach.kafka import Broker, Topic, TopicLog, TopicWriter, read_topic, topic_order
from sparkbleach.kafka.client import read, size
from sparkbleach.rules.update import RuleUpdate
from tests.support.profiles import NIGHTLY
from tests.support.records import COLUMNS, DDL, RULES, audit_rows, new_topic, origin, rows, send, values
from tests.support.streams import WINDOW, cleaned_by_engine, tuples

DEADLINE_SECONDS = 1_800 if NIGHTLY else 300
N_TUPLES = 500_000 if NIGHTLY else 3_000
BATCH_TUPLES = 50_000 if NIGHTLY else 750
ADDED = {"id": "zip_client", "lhs": ["zipcode"], "rhs": "client"}


class Stream:
    """A topic that is cleaned into another while rules change."""

    def __init__(self, spark: SparkSession, broker: Broker, here: Path) -> None:
        self.spark = spark
        self.here = here
        self.dirty = new_topic(broker, "dirty")
        self.clean = self.dirty.beside("clean")
        self.audit = self.clean.beside("audit")
        self.log = TopicLog(self.dirty.beside("rules"))
        self.controller = RuleController(self.log, by="an engineer")

    def start(self) -> StreamingQuery:
        """Start the query, which waits for more."""
        writer = TopicWriter(self.clean, self.audit, source=self.dirty, control=self.log)
        source = read_topic(self.spark, self.dirty, DDL, id="id", records_per_batch=BATCH_TUPLES)
        cleaned = clean(
            source,
            RULES,
            id="id",
            order_by=topic_order(),
            window=WINDOW,
            look_ahead=1,
            quarantine=True,
            control=read_control(self.spark, self.log),
            egress_partitions=1,
        )
        stream = cleaned.writeStream.foreachBatch(writer)
        return stream.option("checkpointLocation", str(self.here / "checkpoint")).start()

    def wait(self, query: StreamingQuery, n_records: int, n_outcomes: int = 0) -> None:
        """Wait until the output has this number of records, and the log this number of outcomes."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while size(self.clean) < n_records or len(self.log.outcomes()) < n_outcomes:
            assert query.exception() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def updates(self) -> list[dict[str, Any]]:
        """Return the updates that took effect, at the positions that the outcomes have."""
        return [
            {**outcome.update, "at": outcome.position}
            for outcome in self.log.outcomes()
            if outcome.kind == "applied" and outcome.update
        ]


def test_rules_change_and_the_broker_restarts_while_records_flow(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Updates take effect without a restart; the output is the engine's for the positions at which they did.

    In between the query is stopped and started again, and so is the broker: nothing is lost or doubled.
    """
    table = tuples(N_TUPLES, seed=5).select(COLUMNS)
    given = values(table)
    parts = [given[begin : begin + N_TUPLES // 4] for begin in range(0, N_TUPLES, N_TUPLES // 4)]
    stream = Stream(spark, broker, tmp_path)
    query = stream.start()
    try:
        send(stream.dirty, parts[0])
        stream.wait(query, N_TUPLES // 8, n_outcomes=1)
        stream.controller.delete("client_city")
        stream.controller.add(ADDED)
        stream.wait(query, N_TUPLES // 4, n_outcomes=3)
        send(stream.dirty, parts[1], first=N_TUPLES // 4)
        stream.wait(query, N_TUPLES // 4 + 1)
        query.stop()
        send(stream.dirty, parts[2], first=N_TUPLES // 2)
        query = stream.start()
        stream.wait(query, N_TUPLES // 2 + 1)
        broker.stop()
        broker.start()
        send(stream.dirty, parts[3], first=3 * N_TUPLES // 4)
        stream.controller.delete("zip_client")
        # What the controller would refuse can still be written to the topic.
        stream.log.publish(RuleUpdate(delete="nobody"), by="a script")
        stream.wait(query, N_TUPLES, n_outcomes=5)
    finally:
        query.stop()

    outcomes = stream.log.outcomes()
    kinds = [outcome.kind for outcome in outcomes]
    assert kinds == ["started", "applied", "applied", "applied", "refused"]
    assert "nobody" in (outcomes[-1].reason or "")
    updates = stream.updates()
    assert updates[0]["at"] > 0
    expected, audit = cleaned_by_engine(table, updates, rules=RULES, look_ahead=1)
    assert rows(stream.clean) == expected
    assert audit_rows(stream.audit) == audit
    assert [origin(record)[1] for record in read(stream.clean)] == list(range(N_TUPLES))
    assert {repair["version"] for repair in audit} >= {outcomes[0].version, outcomes[2].version}
    assert [change.state for change in stream.controller.history()] == kinds
    assert [one.rule.id for one in stream.controller.rules()] == ["zip_city"]


def test_outcomes_of_a_micro_batch_are_kept_once(broker: Broker) -> None:
    """A micro-batch that is recorded again adds nothing; an empty one says nothing."""
    log = open_log(broker.url("kept-once-rules"))
    assert isinstance(log, TopicLog)
    assert (log.published(), log.outcomes()) == ([], [])
    schema = pa.schema([("id", pa.int64())])
    stream_log = _outcomes(schema)
    log.record(0, [])
    log.record(0, stream_log[:1])
    log.record(0, stream_log)
    log.record(1, stream_log[:1])
    assert log.outcomes() == [*stream_log, stream_log[0]]
    assert log.publish(RuleUpdate(delete="r"), by="me") == "000000000000"
    assert log.publish(RuleUpdate(delete="s"), by="me") == "000000000001"
    assert [(one.number, one.by) for one in log.published()] == [
        ("000000000000", "me"),
        ("000000000001", "me"),
    ]


def _outcomes(schema: pa.Schema) -> list[Any]:
    from sparkbleach.control.outcome import Outcome

    return [Outcome(index, "started", 0, 0, [], str(schema), ["id"], "id") for index in range(2)]


def test_a_log_has_one_partition(broker: Broker) -> None:
    """Updates have one order: a topic with several partitions is refused."""
    topic: Topic = new_topic(broker, "wide", 2)
    with pytest.raises(ConfigError, match="this topic has several partitions"):
        TopicLog(topic).create()
