"""Single requests to a Kafka cluster, beside the streams: topics are created, records written and read.

All of them raise a KafkaError if the cluster cannot be reached, or refuses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, KafkaError
from .topic import Topic

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

Headers = Sequence[tuple[str, bytes | None]]

_MESSAGES_AT_ONCE = 10_000
#: for how many seconds a watch goes on that nobody asks
_WANTED_S = 30.0
#: errors are raised as exceptions; the lines that the client prints beside them say less
_QUIET = {"log_level": 0}


@dataclass(frozen=True)
class Record:
    """A record of a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def header(self, name: str) -> str | None:
        """Return the last header of a name, which is the one that counts."""
        for key, value in reversed(self.headers):
            if key == name:
                return None if value is None else value.decode(errors="replace")
        return None


def number_of_partitions(topic: Topic) -> int:
    """Return how many partitions a topic has; 0 if the topic does not exist."""
    with _client_errors(topic):
        # A request for one topic would make some brokers create it.
        found = _admin(topic).list_topics(timeout=topic.timeout_s).topics.get(topic.name)
    return 0 if found is None or found.error is not None else len(found.partitions)


def check_exists(topic: Topic) -> int:
    """Return how many partitions a topic has."""
    n = number_of_partitions(topic)
    if n == 0:
        raise ConfigError(f"{topic}: there is no such topic; create it, or correct the name")
    return n


def create(topics: Iterable[Topic], n_partitions: int) -> None:
    """Create those of these topics that do not exist."""
    for topic in topics:
        if number_of_partitions(topic):
            continue
        from confluent_kafka import KafkaError as Code
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        with _client_errors(topic):
            admin = _admin(topic)  # a client without a name would end before its answer comes
            (creation,) = admin.create_topics([NewTopic(topic.name, n_partitions)]).values()
            try:
                creation.result(topic.timeout_s)
            except KafkaException as error:
                if error.args[0].code() != Code.TOPIC_ALREADY_EXISTS:
                    raise
        deadline = time.monotonic() + topic.timeout_s
        while not number_of_partitions(topic):
            if time.monotonic() > deadline:
                raise KafkaError(
                    f"{topic}: it was created, but it is not there; check that the cluster is well"
                )
            time.sleep(0.05)


def publish(topic: Topic, records: Iterable[tuple[bytes | None, bytes | None, Headers]]) -> list[int]:
    """Append records (key, value, headers) to a topic; return their offsets when they are stored."""
    failed: list[Any] = []
    offsets: list[int] = []

    def delivered(error: Any, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            offsets.append(message.offset() or 0)

    with _client_errors(topic):
        from confluent_kafka import Producer

        producer = Producer({**topic.client_options(), **_QUIET, "enable.idempotence": True})
        for key, value, headers in records:
            while True:
                try:
                    producer.produce(
                        topic.name, value, key, headers=list(headers) or None, on_delivery=delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        left = producer.flush(topic.timeout_s)
    if failed or left:
        raise KafkaError(
            f"{topic}: the record was not stored ({failed[0] if failed else 'no answer'}); "
            "check that the cluster is well, and try again"
        )
    return offsets


def read(topic: Topic, begin: dict[int, int] | None = None) -> list[Record]:
    """Return the records that a topic has now, partition by partition; none if it does not exist.

    `begin` has by partition the offset to begin at; the first one if not given.
    """
    with _Reader(topic) as reader:
        return [
            record
            for partition in range(number_of_partitions(topic))
            for record in reader.read(partition, (begin or {}).get(partition))
        ]


def size(topic: Topic) -> int:
    """Return how many records a topic has ever been given: the sum of its end offsets."""
    with _Reader(topic) as reader:
        return sum(reader.bounds(partition)[1] for partition in range(number_of_partitions(topic)))


def tail(topic: Topic, header: str, value: str) -> Iterator[Record]:
    """Yield the records at the end of each partition whose header has a value; no other is between them."""
    with _Reader(topic) as reader:
        for partition in range(number_of_partitions(topic)):
            low, end = reader.bounds(partition)
            step = _MESSAGES_AT_ONCE
            while end > low:
                begin = max(low, end - step)
                found = reader.read(partition, begin, end)
                fitting = [record for record in found if record.header(header) == value]
                yield from fitting
                if not fitting or found[0] is not fitting[0]:
                    break
                end, step = begin, 2 * step


def tail_record(topic: Topic) -> Record | None:
    """Return one of the last records of a topic; None if it has none."""
    with _Reader(topic) as reader:
        for partition in range(number_of_partitions(topic)):
            last = reader.read(partition, reader.bounds(partition)[1] - 1)
            if last:
                return last[0]
    return None


class Watch:
    """Asks a cluster every few seconds whether it is there, in a thread, as long as somebody wants to know.

    Spark's connector tries again for minutes without a word.
    """

    def __init__(self, topic: Topic, every_s: float = 3.0) -> None:
        self.servers = topic.servers  #: the brokers that it asks
        self._topic = topic
        self._every_s = every_s
        self._answered_at = self._wanted_at = time.monotonic()
        self._thread: threading.Thread | None = None

    def away_s(self) -> float:
        """Return for how many seconds there has been no answer."""
        self._wanted_at = time.monotonic()
        if self._thread is None or not self._thread.is_alive():
            self._answered_at = self._wanted_at
            self._thread = threading.Thread(target=self._ask, name="watch", daemon=True)
            self._thread.start()
        return self._wanted_at - self._answered_at

    def _ask(self) -> None:
        with _client_errors(self._topic):
            from confluent_kafka import KafkaException

            admin = _admin(self._topic)
        while time.monotonic() - self._wanted_at < _WANTED_S:
            with suppress(KafkaException):
                admin.list_topics(timeout=self._every_s)
                self._answered_at = time.monotonic()
            time.sleep(self._every_s)


class _Reader:
    """A consumer that reads parts of a topic and belongs to no group."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        with _client_errors(topic):
            from confluent_kafka import Consumer

            self._consumer: Consumer = Consumer(
                {
                    **topic.client_options(),
                    **_QUIET,
                    "group.id": "sparkbleach",  # the client needs one, but does not use it here
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                }
            )

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition and the one after the last."""
        from confluent_kafka import TopicPartition

        with _client_errors(self._topic):
            found = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic.name, partition), timeout=self._topic.timeout_s
            )
        if found is None:
            raise self._no_answer()
        return found[0], found[1]

    def read(self, partition: int, begin: int | None = None, end: int | None = None) -> list[Record]:
        """Return the records of a partition between two offsets."""
        from confluent_kafka import KafkaError as Code
        from confluent_kafka import TopicPartition

        low, high = self.bounds(partition)
        begin, end = max(low, low if begin is None else begin), high if end is None else min(end, high)
        records: list[Record] = []
        if begin >= end:
            return records
        self._consumer.assign([TopicPartition(self._topic.name, partition, begin)])
        deadline = time.monotonic() + self._topic.timeout_s
        try:
            while True:
                with _client_errors(self._topic):
                    messages = self._consumer.consume(_MESSAGES_AT_ONCE, timeout=0.1)
                for message in messages:
                    deadline = time.monotonic() + self._topic.timeout_s
                    problem = message.error()
                    if problem is not None and problem.code() == Code._PARTITION_EOF:
                        return records
                    if problem is not None:
                        raise _failure(self._topic, problem)
                    if (message.offset() or 0) >= end:
                        return records
                    records.append(_record(message))
                if records and records[-1].offset + 1 >= end:
                    return records
                if time.monotonic() > deadline:
                    raise self._no_answer()
        finally:
            self._consumer.unassign()

    def _no_answer(self) -> KafkaError:
        return KafkaError(f"{self._topic}: the cluster does not answer; check that it is well")


def _record(message: Message) -> Record:
    headers: Any = message.headers() or []
    key: Any = message.key()
    value: Any = message.value()
    return Record(
        message.partition() or 0, message.offset() or 0, message.timestamp()[1], key, value, headers
    )


def _admin(topic: Topic) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    return AdminClient({**topic.client_options(), **_QUIET})


@contextmanager
def _client_errors(topic: Topic) -> Iterator[None]:
    """Raise what the client raises as a KafkaError, and a ConfigError if the client is not installed."""
    try:
        from confluent_kafka import KafkaException
    except ImportError as error:
        raise ConfigError(
            "sparkbleach: Kafka needs a package that is not installed; pip install 'sparkbleach[kafka]'"
        ) from error
    try:
        yield
    except KafkaException as error:
        raise _failure(topic, error.args[0]) from error


def _failure(topic: Topic, problem: Any) -> KafkaError:
    detail = problem.str() if hasattr(problem, "str") else str(problem)
    return KafkaError(f"{topic}: {detail}; check the address, that the cluster is well, and --kafka-config")
