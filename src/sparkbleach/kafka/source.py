"""A topic as a streaming DataFrame: JSON values as columns, and the rest of the record beside them."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..errors import ConfigError
from ..spark.files.quarantine import TEXT_FORMAT, unreadable_column
from ..spark.files.record_text import MEMBERS, RECORD, parse
from ..spark.files.schema import parse_schema
from ..spark.plan import CONTROL, QUARANTINE, REPAIRS, quoted
from .client import check_exists
from .topic import Topic

#: the column with key, value, headers, time and place of a record
KAFKA = "_kafka"

#: how many records a micro-batch takes at most
RECORDS_PER_BATCH = 200_000
#: for every topic that is read from its beginning
SOURCE_OPTIONS = {
    "includeHeaders": "true",
    "startingOffsets": "earliest",
    # At the end of a topic, which each micro-batch reaches, Kafka waits this long for more records.
    "kafka.fetch.max.wait.ms": "10",
}
#: above all offsets, below the sign: a partition's records stay together in the order of a micro-batch
_OFFSET_BITS = 47


def read_topic(
    session: SparkSession,
    topic: str | Topic,
    schema: str | StructType,
    *,
    id: str,
    records_per_batch: int = RECORDS_PER_BATCH,
    options: dict[str, str] | None = None,
) -> DataFrame:
    """Return a topic as a streaming DataFrame, from its first record on.

    Each value is a JSON object; members that the schema does not have stay in its text, which `TopicWriter`
    writes. A value that does not fit, has a name twice, or half a character has its text in the
    column `_corrupt_record`, so that `clean(…, quarantine=True)` quarantines the row.

    Args:
        session: The session; it needs Spark's Kafka connector.
        topic: The topic, or its address, such as `kafka://host:port/topic`.
        schema: Names and types of the members, such as `id INT, city STRING`.
        id: The column with each tuple's unique id.
        records_per_batch: How many records a micro-batch takes at most.
        options: Further options of Spark's Kafka source.

    Raises:
        ConfigError: If the topic does not exist, the schema is wrong, or the session lacks the connector.
        KafkaError: If the cluster cannot be reached.
    """
    topic = Topic.parse(topic)
    check_exists(topic)
    fields = parse_schema(schema) if isinstance(schema, str) else schema
    unreadable = unreadable_column(session)
    _check_names(fields, id, unreadable)
    reader = session.readStream.format("kafka").options(
        **{
            **SOURCE_OPTIONS,
            **topic.spark_options(),
            "subscribe": topic.name,
            "maxOffsetsPerTrigger": str(records_per_batch),
            **(options or {}),
        }
    )
    try:
        records = reader.load()
    except PySparkException as error:
        if "kafka" not in str(error).lower():
            raise
        raise ConfigError(
            f"{topic}: the Spark session has no Kafka connector; build it with "
            '.config("spark.jars", sparkbleach.kafka.spark_jars())'
        ) from error
    return _parsed(records, fields, unreadable)


def _parsed(records: DataFrame, fields: StructType, unreadable: str) -> DataFrame:
    """Return records with the members of their JSON values as columns."""
    text = F.col("record.value").cast("string")
    rows = records.select(F.struct("*").alias("record")).select("record", text.alias("text"))
    kafka = F.struct(
        "record.topic",
        "record.partition",
        "record.offset",
        F.unix_millis("record.timestamp").alias("timestamp_ms"),
        "record.key",
        "record.headers",
        "record.value",
    )
    return parse(rows, "json", fields, unreadable).select(
        *(F.col(f"parsed.{quoted(name)}").alias(name) for name in fields.names),
        F.col("broken").alias(unreadable, metadata={TEXT_FORMAT: "json"}),
        kafka.alias(KAFKA, metadata={MEMBERS: fields.names}),
    )


def topic_order() -> Column:
    """Return the order of the records in a micro-batch: by partition, then by offset."""
    partition = F.shiftleft(F.col(f"{KAFKA}.partition").cast("long"), _OFFSET_BITS)
    return partition + F.col(f"{KAFKA}.offset")


def _check_names(schema: StructType, id: str, unreadable: str) -> None:
    if id not in schema.names:
        raise ConfigError(f"id: the schema has no column {id!r}; choose one of {', '.join(schema.names)}")
    seen = {unreadable.lower(), KAFKA, RECORD, REPAIRS, QUARANTINE, CONTROL}
    for name in schema.names:
        if name.lower() in seen:
            raise ConfigError(
                f"schema: the name {name!r} is reserved or used twice (case is ignored); rename the column"
            )
        seen.add(name.lower())
