"""The sink: clean rows, audit and quarantined records as records of topics, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..errors import ConfigError
from ..spark.files.formats import WRITE_OPTIONS
from ..spark.files.quarantine import unreadable_column
from ..spark.files.record_text import MEMBERS, with_changes
from ..spark.plan import CONTROL, QUARANTINE, REPAIRS
from ..spark.sink import check_columns
from .client import create, number_of_partitions, size, tail
from .rule_log import BATCH, TopicLog
from .source import KAFKA
from .topic import Topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: the headers that a record gets, beside its own
SOURCE, TIMESTAMP, REASON = (f"sparkbleach-{name}" for name in ("source", "timestamp", "reason"))

_STREAM_CHARS = 16
#: the column with the value of a clean row
_VALUE = "_sparkbleach_value"
_HEADERS = "array<struct<key: string, value: binary>>"


class TopicWriter:
    """Writes micro-batches to topics; give it to `foreachBatch`.

    A clean row becomes a record with the key, the value and the headers of the record it was read from: the
    text of the JSON value stays, but for the members whose cells have changed or whose columns are gone. A
    quarantined record goes to the quarantine topic unchanged. Every record gets headers:
    `sparkbleach-source` is the topic, the partition and the offset of the record it was read from,
    `sparkbleach-timestamp` the time of that record in milliseconds, `sparkbleach-batch` the stream and the
    micro-batch, `sparkbleach-reason` why the record is quarantined. The first micro-batch of a writer, or
    one after a failure, may have been written in part before: its records that are in the topics are not
    written again.

    Args:
        output: The topic for clean rows; it is created if it does not exist, like the others.
        audit: The topic for the audit, one JSON value for each changed cell; None for no audit.
        quarantine: The topic for quarantined records; OUTPUT-quarantine if not given.
        source: The topic that the rows come from. Topics are created with the same number of partitions;
            a record keeps its partition if the numbers are equal, and is otherwise distributed by key.
        control: The rule log in topics of the same cluster, or its address; required if `clean(…, control=…)`
            made the rows.

    Raises:
        ConfigError: If the topics are not all different, or not on one cluster.
        KafkaError: If the cluster cannot be reached or refuses to create a topic.
    """

    def __init__(
        self,
        output: str | Topic,
        audit: str | Topic | None = None,
        quarantine: str | Topic | None = None,
        source: str | Topic | None = None,
        control: str | TopicLog | None = None,
    ) -> None:
        self.output = Topic.parse(output)
        self.audit = Topic.parse(audit) if audit is not None else None
        self.quarantine = Topic.parse(quarantine or self.output.beside("quarantine"))
        self.control = TopicLog(control) if isinstance(control, str) else control
        self.topics = [topic for topic in (self.output, self.audit, self.quarantine) if topic]
        read_from = [Topic.parse(source)] if source is not None else []
        n_partitions = sum(map(number_of_partitions, read_from))
        if self.control is not None:
            read_from.append(self.control.topic)
            self.topics.append(self.control.outcomes_topic)
        _check_distinct(self.topics, read_from)
        if self.control is not None:
            self.control.create()
        create(self.topics, n_partitions or 1)
        self._same_partitions = [
            topic.name for topic in self.topics if number_of_partitions(topic) == n_partitions
        ]
        self._n_partitions = n_partitions
        self._records: Column | None = None
        self._columns: list[str] = []
        #: the stamp of the last micro-batch that was written completely
        self._last_stamp = ""
        self._sizes = {topic.name: size(topic) for topic in self.topics}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch."""
        if self._records is None or batch.columns != self._columns:
            self._check(batch)
            self._records, self._columns = self._record_column(batch), batch.columns
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        stream = query.replace("-", "")[:_STREAM_CHARS]
        stamp = f"{stream}/{batch_id}"
        hidden = (KAFKA, REPAIRS, QUARANTINE, CONTROL, unreadable_column(batch.sparkSession))
        members = batch.schema[KAFKA].metadata.get(MEMBERS, [])
        value = with_changes(batch, F.col(f"{KAFKA}.value"), "json", members, hidden)
        rows = batch.withColumn(_VALUE, value)
        records = rows.select(F.explode(self._records).alias("record")).select("record.*")
        if self._last_stamp != f"{stream}/{batch_id - 1}":
            records = self._without_written(records, stamp)
        written = records.select(
            "topic",
            "partition",
            "key",
            "value",
            F.concat("headers", _headers({BATCH: F.lit(stamp)})).alias("headers"),
        )
        written.write.format("kafka").options(**self.output.spark_options()).mode("append").save()
        self._last_stamp = stamp

    @property
    def rows(self) -> int:
        """How many clean rows were written since this writer was made."""
        return self._n_written(self.output)

    @property
    def repairs(self) -> int:
        """How many audit rows were written since this writer was made."""
        return self._n_written(self.audit) if self.audit else 0

    @property
    def quarantined(self) -> int:
        """How many quarantined records were written since this writer was made."""
        return self._n_written(self.quarantine)

    def _n_written(self, topic: Topic) -> int:
        return size(topic) - self._sizes[topic.name]

    def places(self) -> list[tuple[str, str]]:
        """Return by name the topics that something was written to."""
        places = [("output", str(self.output))]
        if self.audit and self.repairs:
            places.append(("audit", str(self.audit)))
        if self.quarantined:
            places.append(("quarantine", str(self.quarantine)))
        return places

    def _check(self, batch: DataFrame) -> None:
        if KAFKA not in batch.columns:
            raise ConfigError(
                f"TopicWriter: the rows have no column {KAFKA}; read them with sparkbleach.kafka.read_topic"
            )
        check_columns("TopicWriter", batch, self.audit, self.control)

    def _record_column(self, batch: DataFrame) -> Column:
        """Return the records that a row becomes, as an array."""
        source = F.concat_ws(
            "/", *(F.col(f"{KAFKA}.{name}").cast("string") for name in ("topic", "partition", "offset"))
        )
        own_headers = F.coalesce(F.col(f"{KAFKA}.headers"), F.array().cast(_HEADERS))
        timestamp = {TIMESTAMP: F.col(f"{KAFKA}.timestamp_ms").cast("string")}
        record = self._record(
            self.output, source, F.col(_VALUE), F.concat(own_headers, _headers({SOURCE: source, **timestamp}))
        )
        if QUARANTINE in batch.columns:
            quarantined = self._record(
                self.quarantine,
                source,
                F.col(f"{KAFKA}.value"),
                F.concat(own_headers, _headers({SOURCE: source, **timestamp, REASON: F.col(QUARANTINE)})),
            )
            record = F.when(F.col(QUARANTINE).isNotNull(), quarantined).otherwise(record)
        if CONTROL in batch.columns and self.control is not None:
            place = F.concat(F.lit("outcome/"), F.get_json_object(CONTROL, "$.index"))
            outcome = self._record(
                self.control.outcomes_topic, place, F.col(CONTROL).cast("binary"), _headers({SOURCE: place})
            )
            record = F.when(F.col(CONTROL).isNotNull(), outcome).otherwise(record)
        records = F.array(record)
        if self.audit is None:
            return records
        audit = self.audit

        def audit_record(repair: Column, number: Column) -> Column:
            place = F.concat_ws("/", source, number.cast("string"))
            value = F.to_json(repair, WRITE_OPTIONS["json"]).cast("binary")
            return self._record(audit, place, value, _headers({SOURCE: place, **timestamp}))

        return F.concat(records, F.transform(REPAIRS, audit_record))

    def _record(self, topic: Topic, source: Column, value: Column, headers: Column) -> Column:
        partition = F.lit(None).cast("int")
        if topic.name in self._same_partitions:
            source_partition = F.col(f"{KAFKA}.partition")
            partition = F.when(source_partition < self._n_partitions, source_partition)
        return F.struct(
            F.lit(topic.name).alias("topic"),
            partition.alias("partition"),
            F.col(f"{KAFKA}.key").alias("key"),
            value.alias("value"),
            headers.alias("headers"),
            source.alias("source"),
        )

    def _without_written(self, records: DataFrame, stamp: str) -> DataFrame:
        """Leave out the records of a micro-batch that the topics already have."""
        written = [
            (topic.name, record.header(SOURCE))
            for topic in self.topics
            for record in tail(topic, BATCH, stamp)
        ]
        if not written:
            return records
        known = records.sparkSession.createDataFrame(written, "topic string, source string")
        return records.join(F.broadcast(known), ["topic", "source"], "left_anti")


def _headers(values: Mapping[str, Column]) -> Column:
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
            for name, value in values.items()
        )
    )


def _check_distinct(topics: Sequence[Topic], read: Sequence[Topic]) -> None:
    """Check that the written topics are on one cluster, and that no topic is used twice."""
    output = topics[0]
    seen = {(topic.servers, topic.name) for topic in read}
    for topic in topics:
        if topic.servers != output.servers:
            raise ConfigError(
                f"{topic}: this topic is not on the cluster of the output {output}; give a topic there"
            )
        if (topic.servers, topic.name) in seen:
            raise ConfigError(
                f"{topic}: this topic is used twice; give input, output, audit, quarantine and rules one each"
            )
        seen.add((topic.servers, topic.name))
