"""What is asked of a Kafka cluster beside the streams themselves: topics, and single records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, KafkaError
from .topic import Topic

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

Headers = Sequence[tuple[str, bytes | None]]

_TIMEOUT_SECONDS = 60
_MESSAGES_AT_ONCE = 10_000
_LIBRARY = "sparkbleach: Kafka needs a package that is not installed; pip install 'sparkbleach[kafka]'"
#: errors are told by exceptions; the library's own lines on standard error say less
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
    """Return how many partitions a topic has; 0 if there is no such topic.

    Raises:
        KafkaError: If the cluster cannot be reached.
    """
    from confluent_kafka import KafkaException

    try:
        # All topics: asking for one would have some brokers make it.
        found = _admin(topic).list_topics(timeout=_TIMEOUT_SECONDS).topics.get(topic.name)
    except KafkaException as error:
        raise _failed(topic, error) from error
    return 0 if found is None or found.error is not None else len(found.partitions)


def check_exists(topic: Topic) -> int:
    """Return how many partitions a topic has.

    Raises:
        ConfigError: If there is no such topic.
        KafkaError: If the cluster cannot be reached.
    """
    n = number_of_partitions(topic)
    if n == 0:
        raise ConfigError(f"{topic}: there is no such topic; create it, or correct the name")
    return n


def create(topics: Iterable[Topic], n_partitions: int) -> None:
    """Create those of these topics that do not exist.

    Raises:
        KafkaError: If the cluster cannot be reached or refuses.
    """
    from confluent_kafka import KafkaError as Code
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    for topic in topics:
        if number_of_partitions(topic):
            continue
        admin = _admin(topic)
        (creation,) = admin.create_topics([NewTopic(topic.name, n_partitions)]).values()
        try:
            creation.result(_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != Code.TOPIC_ALREADY_EXISTS:
                raise _failed(topic, error) from error
        _await_leader(topic)


def publish(topic: Topic, records: Iterable[tuple[bytes | None, bytes | None, Headers]]) -> list[int]:
    """Append records (key, value, headers) to a topic; return their offsets when they are safe there.

    Raises:
        KafkaError: If they are not.
    """
    _check_library()
    from confluent_kafka import KafkaException, Producer

    failed: list[Any] = []
    offsets: list[int] = []
    producer = Producer({**topic.client_options(), **_QUIET, "enable.idempotence": True})

    def delivered(error: Any, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            offsets.append(message.offset() or 0)

    try:
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
        left = producer.flush(_TIMEOUT_SECONDS)
    except KafkaException as error:
        raise _failed(topic, error) from error
    if failed or left:
        raise KafkaError(
            f"{topic}: the record was not taken ({failed[0] if failed else 'no answer'}); "
            "check that the cluster is well, and try again"
        )
    return offsets


def read(topic: Topic, begin: dict[int, int] | None = None) -> list[Record]:
    """Return the records that a topic has now, partition by partition.

    Args:
        topic: The topic; nothing is returned if there is none.
        begin: By partition: the offset to begin at; at the first if not given.

    Raises:
        KafkaError: If the cluster cannot be reached.
    """
    with _Reader(topic) as reader:
        return [
            record
            for partition in range(number_of_partitions(topic))
            for record in reader.read(partition, (begin or {}).get(partition))
        ]


def size(topic: Topic) -> int:
    """Return how many records a topic has ever been given: the sum of its end offsets.

    Raises:
        KafkaError: If the cluster cannot be reached.
    """
    with _Reader(topic) as reader:
        return sum(reader.bounds(partition)[1] for partition in range(number_of_partitions(topic)))


def tail(topic: Topic, header: str, value: str) -> Iterator[Record]:
    """Yield the records at the end of a topic whose header has a value; they are together in each partition.

    Args:
        topic: The topic.
        header: The name of the header.
        value: Its value.

    Raises:
        KafkaError: If the cluster cannot be reached.
    """
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
    """Return one of the last records of a topic; None if it has none.

    Raises:
        KafkaError: If the cluster cannot be reached.
    """
    with _Reader(topic) as reader:
        for partition in range(number_of_partitions(topic)):
            last = reader.read(partition, reader.bounds(partition)[1] - 1)
            if last:
                return last[0]
    return None


class _Reader:
    """A consumer that reads parts of a topic and belongs to no group."""

    def __init__(self, topic: Topic) -> None:
        _check_library()
        from confluent_kafka import Consumer

        self._topic = topic
        self._consumer: Consumer = Consumer(
            {
                **topic.client_options(),
                **_QUIET,
                "group.id": "sparkbleach",  # the library asks for one; it is not used
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
        from confluent_kafka import KafkaException, TopicPartition

        try:
            found = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic.name, partition), timeout=_TIMEOUT_SECONDS
            )
        except KafkaException as error:
            raise _failed(self._topic, error) from error
        if found is None:
            raise KafkaError(f"{self._topic}: the cluster does not answer; check that it is well")
        return found[0], found[1]

    def read(self, partition: int, begin: int | None = None, end: int | None = None) -> list[Record]:
        """Return the records of a partition between two offsets."""
        from confluent_kafka import KafkaError as Code
        from confluent_kafka import KafkaException, TopicPartition

        low, high = self.bounds(partition)
        begin, end = max(low, low if begin is None else begin), high if end is None else min(end, high)
        records: list[Record] = []
        if begin >= end:
            return records
        self._consumer.assign([TopicPartition(self._topic.name, partition, begin)])
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        try:
            while True:
                for message in self._consumer.consume(_MESSAGES_AT_ONCE, timeout=0.1):
                    deadline = time.monotonic() + _TIMEOUT_SECONDS
                    problem = message.error()
                    if problem is not None and problem.code() == Code._PARTITION_EOF:
                        return records
                    if problem is not None:
                        raise _failed(self._topic, problem)
                    if (message.offset() or 0) >= end:
                        return records
                    records.append(_record(message))
                if records and records[-1].offset + 1 >= end:
                    return records
                if time.monotonic() > deadline:
                    raise KafkaError(f"{self._topic}: the cluster does not answer; check that it is well")
        except KafkaException as error:
            raise _failed(self._topic, error) from error
        finally:
            self._consumer.unassign()


def _record(message: Message) -> Record:
    headers: Any = message.headers() or []
    key: Any = message.key()
    value: Any = message.value()
    return Record(
        message.partition() or 0, message.offset() or 0, message.timestamp()[1], key, value, headers
    )


def _admin(topic: Topic) -> AdminClient:
    _check_library()
    from confluent_kafka.admin import AdminClient

    return AdminClient({**topic.client_options(), **_QUIET})


def _await_leader(topic: Topic) -> None:
    """Wait until a topic that was created can be asked for."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not number_of_partitions(topic):
        if time.monotonic() > deadline:
            raise KafkaError(f"{topic}: it was created, but it is not there; check that the cluster is well")
        time.sleep(0.05)


def _check_library() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise ConfigError(_LIBRARY) from error


def _failed(topic: Topic, problem: Any) -> KafkaError:
    detail = problem.args[0] if getattr(problem, "args", None) else problem
    told = detail.str() if hasattr(detail, "str") else str(detail)
    return KafkaError(f"{topic}: {told}; check the address, that the cluster is well, and --kafka-option")
