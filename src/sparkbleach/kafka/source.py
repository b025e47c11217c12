"""A topic as a streaming DataFrame: JSON values as columns, and beside them what else a record has."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..errors import ConfigError
from ..spark.files.quarantine import TEXT_FORMAT
from ..spark.files.sources import parse_schema
from .client import check_exists
from .topic import Topic

#: the column with key, headers, time and place of a record, and its value if it was set aside
KAFKA = "_kafka"

#: a micro-batch takes so many records, unless told otherwise
RECORDS_PER_BATCH = 200_000
#: for every topic that is read from its beginning
SOURCE_OPTIONS = {
    "includeHeaders": "true",
    "startingOffsets": "earliest",
    # Kafka waits so long for more at the end of what it has, and each micro-batch reads to the end.
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

    Each value is a JSON object; members that the schema does not have are dropped. A value that does not
    fit has its text in the column `_corrupt_record`, so that `clean(…, quarantine=True)` sets it aside.

    Args:
        session: The session to read with; it has to have Spark's Kafka connector.
        topic: The topic, or its address, such as `kafka://host:port/topic`.
        schema: Names and types of the members, such as `id INT, city STRING`.
        id: The column with each tuple's unique id.
        records_per_batch: How many records a micro-batch takes at most.
        options: Further options of Spark's Kafka source.

    Raises:
        ConfigError: If there is no such topic, the schema is wrong, or the session lacks the connector.
        KafkaError: If the cluster cannot be reached.
    """
    topic = Topic.parse(topic)
    check_exists(topic)
    fields = parse_schema(schema) if isinstance(schema, str) else schema
    corrupt = session.conf.get("spark.sql.columnNameOfCorruptRecord") or "_corrupt_record"
    _check_names(fields, id, corrupt)
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
    return _parsed(records, fields, id, corrupt)


def _parsed(records: DataFrame, fields: StructType, id: str, corrupt: str) -> DataFrame:
    """Return records with the members of their values as columns."""
    whole = StructType([*fields.fields, StructField(corrupt, StringType())])
    text = F.col("record.value").cast("string")
    options = {"columnNameOfCorruptRecord": corrupt}
    rows = records.select(F.struct("*").alias("record")).select(
        "record", text.alias("text"), F.from_json(text, whole, options).alias("parsed")
    )
    # Spark reads a list of objects as the first of them, drops what follows, and puts ? for broken bytes.
    trimmed = F.trim("text")
    read = F.is_valid_utf8("text") & trimmed.startswith("{") & trimmed.endswith("}")
    unread = F.col("parsed").isNull() | ~read
    broken = F.coalesce(
        F.when(unread, F.coalesce(F.col("text"), F.lit(""))), F.col(f"parsed.{_quoted(corrupt)}")
    )
    aside = F.col("broken").isNotNull() | F.col(f"parsed.{_quoted(id)}").isNull()
    kafka = F.struct(
        "record.topic",
        "record.partition",
        "record.offset",
        F.unix_millis("record.timestamp").alias("timestamp_ms"),
        "record.key",
        "record.headers",
        F.when(aside, F.col("record.value")).alias("value"),
    )
    return rows.select("*", F.make_valid_utf8(broken).alias("broken")).select(
        *(F.col(f"parsed.{_quoted(name)}").alias(name) for name in fields.names),
        F.col("broken").alias(corrupt, metadata={TEXT_FORMAT: "json"}),
        kafka.alias(KAFKA),
    )


def topic_order() -> Column:
    """Return what puts the records of a micro-batch in order: by partition, and then by offset."""
    partition = F.shiftleft(F.col(f"{KAFKA}.partition").cast("long"), _OFFSET_BITS)
    return partition + F.col(f"{KAFKA}.offset")


def _check_names(schema: StructType, id: str, corrupt: str) -> None:
    if id not in schema.names:
        raise ConfigError(f"id: the schema has no column {id!r}; choose one of {', '.join(schema.names)}")
    seen = {corrupt.lower(), KAFKA}
    for name in schema.names:
        if name.lower() in seen:
            raise ConfigError(
                f"schema: the name {name!r} is taken or there twice (case does not count); rename the column"
            )
        seen.add(name.lower())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
