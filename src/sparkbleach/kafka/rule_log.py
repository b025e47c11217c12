"""The rule log in two topics: control records in one, outcomes in the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..control.outcome import Outcome
from ..control.record import ControlRecord, record_text
from ..errors import ConfigError
from ..rules.update import RuleUpdate
from .client import create, number_of_partitions, publish, read, tail
from .topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .client import Record

#: the header with the stream and the micro-batch of a record; see writer.py
BATCH = "sparkbleach-batch"
#: a number is an offset with leading zeros, so that later numbers are greater as text
_DIGITS = 12


class TopicLog:
    """A rule log in a topic, with the outcomes in the topic TOPIC-outcomes; both have one partition.

    Args:
        topic: The topic, or its address; it is created when needed.

    Raises:
        ConfigError: If it is not the address of a topic.
    """

    def __init__(self, topic: str | Topic) -> None:
        self.topic = Topic.parse(topic)
        self.outcomes_topic = self.topic.beside("outcomes")

    @property
    def target(self) -> str:
        """The address of the topic."""
        return str(self.topic)

    def create(self) -> None:
        """Create the topics if they do not exist.

        Raises:
            ConfigError: If one has several partitions.
            KafkaError: If the cluster cannot be reached or refuses.
        """
        topics = (self.topic, self.outcomes_topic)
        create(topics, 1)
        for topic in topics:
            if number_of_partitions(topic) != 1:
                raise ConfigError(
                    f"{topic}: this topic has several partitions, but rule updates have one order; "
                    "give a topic with one partition"
                )

    def publish(self, update: RuleUpdate, by: str) -> str:
        """Append an update for the stream to read; return its number."""
        self.create()
        (offset,) = publish(self.topic, [(None, record_text(update, by).encode(), ())])
        return _number(offset)

    def published(self) -> list[ControlRecord]:
        """Return all control records in the order of their numbers."""
        return [
            ControlRecord.read(_number(record.offset), (record.value or b"").decode(errors="replace"))
            for record in read(self.topic)
        ]

    def outcomes(self) -> list[Outcome]:
        """Return all outcomes in the order in which they came about."""
        topic = self.outcomes_topic
        found = [
            (_batch(record), Outcome.from_json(_text(record), f"{topic}, offset {record.offset}"))
            for record in read(topic)
        ]
        return [outcome for _, outcome in sorted(found, key=lambda one: (one[0], one[1].order))]

    def record(self, batch_id: int, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a micro-batch, without those that an earlier attempt of it has kept."""
        if not outcomes:
            return
        self.create()
        stamp = f"/{batch_id}"
        written = {
            Outcome.from_json(_text(record)).index for record in tail(self.outcomes_topic, BATCH, stamp)
        }
        missing = [outcome for outcome in outcomes if outcome.index not in written]
        publish(
            self.outcomes_topic,
            [(None, outcome.to_json().encode(), [(BATCH, stamp.encode())]) for outcome in missing],
        )

    def stream(self, session: SparkSession) -> DataFrame:
        """Return the control records as a streaming DataFrame with the columns `number` and `value`."""
        from .source import SOURCE_OPTIONS

        self.create()
        reader = session.readStream.format("kafka")
        reader = reader.options(**{**SOURCE_OPTIONS, **self.topic.spark_options()})
        records = reader.option("subscribe", self.topic.name).load()
        return records.selectExpr(
            f"lpad(string(offset), {_DIGITS}, '0') AS number", "make_valid_utf8(string(value)) AS value"
        )


def _number(offset: int) -> str:
    return f"{offset:0{_DIGITS}}"


def _batch(record: Record) -> int:
    return int((record.header(BATCH) or "/0").rpartition("/")[2])


def _text(record: Record) -> str:
    return (record.value or b"").decode(errors="replace")
