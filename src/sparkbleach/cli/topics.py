"""From a topic to a topic."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from ..errors import ConfigError, KafkaError
from ..kafka.client import Watch, check_exists, number_of_partitions, tail_record
from ..kafka.jars import spark_jars
from ..kafka.rule_log import BATCH, TopicLog
from ..kafka.topic import Topic, is_topic
from . import options
from .checkpoint import Memory
from .progress import Trouble
from .route import Opened, check_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..kafka import TopicWriter
    from .clean_options import Control, Output, Stream

#: has Spark show no option by which its clients prove who they are: of itself it hides only some
_REDACTION = {"spark.sql.redaction.options.regex": "(?i)url|^kafka[.](sasl|ssl)[.]"}
#: for how many seconds a cluster may be silent before that is said
_AWAY_S = 10.0
#: how long it may take at the start before that is said
_SOON_S = 5.0


@dataclass(frozen=True)
class TopicRoute:
    """A topic that is read, and topics of one cluster that are written."""

    input: Topic  #: the topic with dirty records
    output: Topic  #: the topic for clean ones
    audit: Topic | None  #: the topic for the audit, if one is wanted
    quarantine: Topic  #: the topic for quarantined records
    checkpoint: str  #: the directory that remembers what is done
    log: TopicLog | None  #: where rule updates come from
    schema: str | None  #: names and types of the members of a value, or a file with them, if given
    records_per_batch: int | None  #: how many records a micro-batch takes, if given

    @classmethod
    def from_options(
        cls, stream: Stream, parsing: options.Parsing, output: Output, control: Control
    ) -> TopicRoute:
        """Return the topics that options name, or their defaults."""
        options.refuse(
            "is for files; records of a topic are JSON objects, in the order of partition and offset",
            input_format=parsing.input_format,
            multiline=parsing.multiline,
            order_by=parsing.order_by,
            files_per_batch=stream.files_per_batch,
            output_format=output.output_format,
        )
        for name, place in {
            "input": stream.input,
            "output": output.output,
            "audit": output.audit,
            "quarantine": output.quarantine,
        }.items():
            if place is not None and not is_topic(place):
                raise ConfigError(
                    f"{name}: {place} is a path, but another place is a topic; "
                    "give topics for all of them, such as kafka://host:port/topic, or paths"
                )
        log, kafka = control.log, control.kafka
        if log is not None and not isinstance(log, TopicLog):
            raise ConfigError(
                f"rules target: {log.target} is a directory, but the output is a topic; "
                "give a topic of the same cluster"
            )
        clean = Topic.parse(output.output, kafka)
        audit = Topic.parse(output.audit, kafka) if output.audit else clean.beside("audit")
        return cls(
            Topic.parse(stream.input, kafka),
            clean,
            None if output.no_audit else audit,
            Topic.parse(output.quarantine, kafka) if output.quarantine else clean.beside("quarantine"),
            options.absolute(output.checkpoint or f"{clean.name}-checkpoint"),
            log,
            parsing.schema,
            stream.records_per_batch,
        )

    def settings(self) -> dict[str, str]:
        """Return what the Spark session needs: discretion, and the connector unless SPARK_HOME has it."""
        home = os.environ.get("SPARK_HOME")
        if home and any(
            name.startswith("spark-sql-kafka-0-10") for name in _listed(os.path.join(home, "jars"))
        ):
            return _REDACTION
        return {**_REDACTION, "spark.jars": spark_jars(lambda line: typer.echo(line, err=True))}

    def open(self, session: SparkSession, id: str, memory: Memory | None) -> Opened:
        """Open the topic, after checking that it goes on with what earlier runs have begun."""
        from ..kafka.source import RECORDS_PER_BATCH, read_topic, topic_order
        from ..spark.files.schema import parse_schema

        await_input(self.input)
        if self.schema is not None:
            fields = parse_schema(self.schema)
        elif memory is not None:
            fields = memory.schema
        else:
            raise ConfigError(
                'schema: a topic does not have one; give --schema, such as "id INT, city STRING", or a file'
            )
        wanted = Memory(
            fields,
            id,
            str(self.output),
            "kafka",
            multiline=False,
            rules_target=self.log.target if self.log else None,
        )
        check_memory(self.checkpoint, memory, wanted, self.log)
        if memory is None:
            self._check_new()
        stream = read_topic(
            session, self.input, fields, id=id, records_per_batch=self.records_per_batch or RECORDS_PER_BATCH
        )

        def make_sink() -> TopicWriter:
            from ..kafka import TopicWriter

            return TopicWriter(self.output, self.audit, self.quarantine, source=self.input, control=self.log)

        watches = [Watch(topic) for topic in {one.servers: one for one in (self.output, self.input)}.values()]

        def trouble() -> Trouble | None:
            away = [(watch.away_s(), watch.servers) for watch in watches]
            seconds, servers = max(away)
            return Trouble(f"Kafka at {servers}", seconds) if seconds > _AWAY_S else None

        # One task writes, so that the records of a partition keep their order.
        return Opened(stream, [topic_order()], wanted, make_sink, egress_partitions=1, trouble=trouble)

    def _check_new(self) -> None:
        """Check that the output has no records of another run, which would come twice."""
        last = tail_record(self.output) if number_of_partitions(self.output) else None
        if last is not None and last.header(BATCH) is not None:
            raise ConfigError(
                f"output: {self.output} has records of another run, but the checkpoint {self.checkpoint} is "
                "new; give the checkpoint of that run to go on with it, or choose another topic"
            )


def await_input(topic: Topic) -> None:
    """Check that a topic exists; say so when its cluster takes long to answer."""
    try:
        check_exists(replace(topic, timeout_s=_SOON_S))
    except KafkaError:
        left_s = topic.timeout_s - _SOON_S
        typer.echo(
            f"Kafka at {topic.servers} has not answered for {_SOON_S:.0f} s; waiting {left_s:.0f} s more",
            err=True,
        )
        check_exists(replace(topic, timeout_s=left_s))


def _listed(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []
