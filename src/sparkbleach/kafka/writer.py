"""The sink: clean rows, audit and dead letters as records of topics, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..errors import ConfigError
from ..spark.plan import CONTROL, QUARANTINE, REPAIRS
from .client import create, number_of_partitions, size, tail
from .rule_log import BATCH, TopicLog
from .source import KAFKA
from .topic import Topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: the headers that a record gets, beside those that it came with
SOURCE, TIMESTAMP, REASON = (f"sparkbleach-{name}" for name in ("source", "timestamp", "reason"))

#: with the places after the decimal point that Spark's timestamps have
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_STREAM_CHARS = 16
_HEADERS = "array<struct<key: string, value: binary>>"


class TopicWriter:
    """Writes micro-batches to topics; give it to `foreachBatch`.

    Clean rows become JSON values with the key and the headers that their records came with. A record that
    was set aside goes to the dead-letter topic as it came. Every record gets headers: `sparkbleach-source`
    is the topic, the partition and the offset that it came from, `sparkbleach-timestamp` its time there in
    milliseconds, `sparkbleach-batch` the stream and the micro-batch, `sparkbleach-reason` why it is a dead
    letter. A micro-batch that does not follow one that this writer has written to its end may have been
    written in part before a crash: what the topics already have of it is not written again.

    Args:
        output: The topic for clean rows; it is created if it does not exist, like the others.
        audit: The topic for the audit, one JSON value for each changed cell; None for no audit.
        dead_letters: The topic for records that were set aside; OUTPUT-dead-letters if not given.
        source: The topic that the rows come from. Topics are created with as many partitions; records keep
            theirs if the topic has as many, and are otherwise distributed by key.
        control: The rule log in topics of the same cluster, or its address; needed if `clean(…, control=…)`
            made the rows.

    Raises:
        ConfigError: If the topics are not those of one cluster, or not all different.
        KafkaError: If the cluster cannot be reached or refuses to create a topic.
    """

    def __init__(
        self,
        output: str | Topic,
        audit: str | Topic | None = None,
        dead_letters: str | Topic | None = None,
        source: str | Topic | None = None,
        control: str | TopicLog | None = None,
    ) -> None:
        self.output = Topic.parse(output)
        self.audit = Topic.parse(audit) if audit is not None else None
        self.dead_letters = (
            self.output.beside("dead-letters") if dead_letters is None else Topic.parse(dead_letters)
        )
        self.control = TopicLog(control) if isinstance(control, str) else control
        self.topics = [topic for topic in (self.output, self.audit, self.dead_letters) if topic]
        came_from = [Topic.parse(source)] if source is not None else []
        n_partitions = sum(map(number_of_partitions, came_from))
        if self.control is not None:
            came_from.append(self.control.topic)
            self.topics.append(self.control.outcomes_topic)
        _check_apart(self.topics, came_from)
        if self.control is not None:
            self.control.create()
        create(self.topics, n_partitions or 1)
        self._same_partitions = [
            topic.name for topic in self.topics if number_of_partitions(topic) == n_partitions
        ]
        self._n_partitions = n_partitions
        self._records: Column | None = None
        self._columns: list[str] = []
        #: the stamp of the last micro-batch that was written to its end
        self._done = ""
        self._sizes = {topic.name: size(topic) for topic in self.topics}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch.

        Raises:
            ConfigError: If the rows do not come from a topic, or lack what an audit is made of.
            KafkaError: If the cluster cannot be reached.
        """
        if self._records is None or batch.columns != self._columns:
            self._check(batch)
            self._records, self._columns = self._record_column(batch), batch.columns
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        stream = query.replace("-", "")[:_STREAM_CHARS]
        stamp = f"{stream}/{batch_id}"
        records = batch.select(F.explode(self._records).alias("record")).select("record.*")
        if self._done != f"{stream}/{batch_id - 1}":
            records = self._without_written(records, stamp)
        written = records.select(
            "topic",
            "partition",
            "key",
            "value",
            F.concat("headers", _headers({BATCH: F.lit(stamp)})).alias("headers"),
        )
        written.write.format("kafka").options(**self.output.spark_options()).mode("append").save()
        self._done = stamp

    @property
    def rows(self) -> int:
        """Return how many clean rows the topic has got since this writer was made."""
        return self._gained(self.output)

    @property
    def repairs(self) -> int:
        """Return how many audit rows the topic has got since this writer was made."""
        return self._gained(self.audit) if self.audit else 0

    @property
    def quarantined(self) -> int:
        """Return how many dead letters the topic has got since this writer was made."""
        return self._gained(self.dead_letters)

    def _gained(self, topic: Topic) -> int:
        return size(topic) - self._sizes[topic.name]

    def places(self) -> list[tuple[str, str]]:
        """Return what was written where, as far as anything was."""
        places = [("output", str(self.output))]
        if self.audit and self.repairs:
            places.append(("audit", str(self.audit)))
        if self.quarantined:
            places.append(("quarantine", str(self.dead_letters)))
        return places

    def _check(self, batch: DataFrame) -> None:
        if KAFKA not in batch.columns:
            raise ConfigError(
                f"TopicWriter: the rows have no column {KAFKA}; read them with sparkbleach.kafka.read_topic"
            )
        if self.audit is not None and REPAIRS not in batch.columns:
            raise ConfigError(
                f"TopicWriter: the rows have no column {REPAIRS} to make an audit of; "
                "leave audit out, or call clean(…, audit=True)"
            )
        if CONTROL in batch.columns and self.control is None:
            raise ConfigError(
                f"TopicWriter: the rows have the column {CONTROL}, but no log for what became of rule "
                "updates; give control=…"
            )

    def _record_column(self, batch: DataFrame) -> Column:
        """Return the records that a row becomes, as an array."""
        aside = _aside(batch)
        corrupt = batch.sparkSession.conf.get("spark.sql.columnNameOfCorruptRecord")
        hidden = (KAFKA, REPAIRS, QUARANTINE, CONTROL, corrupt)
        data = [name for name in batch.columns if name not in hidden]
        source = F.concat_ws(
            "/", *(F.col(f"{KAFKA}.{name}").cast("string") for name in ("topic", "partition", "offset"))
        )
        came = F.coalesce(F.col(f"{KAFKA}.headers"), F.array().cast(_HEADERS))
        since = {TIMESTAMP: F.col(f"{KAFKA}.timestamp_ms").cast("string")}
        clean = self._record(
            self.output,
            source,
            F.to_json(F.struct(*map(_quoted, data)), _JSON).cast("binary"),
            F.concat(came, _headers({SOURCE: source, **since})),
        )
        record = clean
        if QUARANTINE in batch.columns:
            dead = self._record(
                self.dead_letters,
                source,
                F.col(f"{KAFKA}.value"),
                F.concat(came, _headers({SOURCE: source, **since, REASON: F.col(QUARANTINE)})),
            )
            record = F.when(aside, dead).otherwise(record)
        if CONTROL in batch.columns and self.control is not None:
            place = F.concat(F.lit("outcome/"), F.get_json_object(CONTROL, "$.index"))
            outcome = self._record(
                self.control.outcomes_topic,
                place,
                F.col(CONTROL).cast("binary"),
                _headers({SOURCE: place}),
            )
            record = F.when(F.col(CONTROL).isNotNull(), outcome).otherwise(record)
        records = F.array(record)
        if self.audit is None:
            return records
        topic = self.audit

        def explained(repair: Column, number: Column) -> Column:
            place = F.concat_ws("/", source, number.cast("string"))
            value = F.to_json(repair, _JSON).cast("binary")
            return self._record(topic, place, value, _headers({SOURCE: place, **since}))

        return F.concat(records, F.transform(REPAIRS, explained))

    def _record(self, topic: Topic, source: Column, value: Column, headers: Column) -> Column:
        partition = F.lit(None).cast("int")
        if topic.name in self._same_partitions:
            own = F.col(f"{KAFKA}.partition")
            partition = F.when(own < self._n_partitions, own)
        return F.struct(
            F.lit(topic.name).alias("topic"),
            partition.alias("partition"),
            F.col(f"{KAFKA}.key").alias("key"),
            value.alias("value"),
            headers.alias("headers"),
            source.alias("source"),
        )

    def _without_written(self, records: DataFrame, stamp: str) -> DataFrame:
        """Leave out what the topics have of a micro-batch."""
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


def _aside(batch: DataFrame) -> Column:
    return F.col(QUARANTINE).isNotNull() if QUARANTINE in batch.columns else F.lit(False)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check_apart(topics: Sequence[Topic], read: Sequence[Topic]) -> None:
    """Check that the topics that are written are on one cluster, and all different, also from those read.

    Raises:
        ConfigError: If not.
    """
    output = topics[0]
    seen = {(topic.servers, topic.name) for topic in read}
    for topic in topics:
        if topic.servers != output.servers:
            raise ConfigError(f"{topic}: it is not on the cluster of the output {output}; give a topic there")
        if (topic.servers, topic.name) in seen:
            raise ConfigError(
                f"{topic}: it is used twice; give input, output, audit, dead letters and rules one each"
            )
        seen.add((topic.servers, topic.name))
