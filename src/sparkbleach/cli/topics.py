"""From a topic to a topic."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from ..errors import ConfigError
from ..kafka.client import check_exists, number_of_partitions, tail_record
from ..kafka.jars import spark_jars
from ..kafka.rule_log import BATCH, TopicLog
from ..kafka.topic import Topic, is_topic
from . import options
from .checkpoint import Memory
from .route import Opened, check_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..control.rule_log import RuleLog
    from ..kafka import TopicWriter


@dataclass(frozen=True)
class TopicRoute:
    """A topic that is read, and topics of one cluster that are written.

    Attributes:
        input: The topic with dirty records.
        output: The topic for clean ones.
        audit: The topic for the audit, if one is wanted.
        quarantine: The topic for quarantined records.
        checkpoint: The directory that remembers what is done.
        log: Where rule updates come from.
        schema: Names and types of the members of a value, or a file with them, if given.
        records_per_batch: How many records a micro-batch takes, if told.
    """

    input: Topic
    output: Topic
    audit: Topic | None
    quarantine: Topic
    checkpoint: str
    log: TopicLog | None
    schema: str | None
    records_per_batch: int | None

    @classmethod
    def of(
        cls,
        input: str,
        output: str,
        checkpoint: str | None,
        audit: str | None,
        quarantine: str | None,
        log: RuleLog | None,
        kafka: Mapping[str, str],
        schema: str | None,
        records_per_batch: int | None,
        with_audit: bool,
    ) -> TopicRoute:
        """Return the topics that options name, or their defaults.

        Raises:
            ConfigError: If one of them is a path.
        """
        for name, place in {
            "input": input,
            "output": output,
            "audit": audit,
            "quarantine": quarantine,
        }.items():
            if place is not None and not is_topic(place):
                raise ConfigError(
                    f"{name}: {place} is a path, but another place is a topic; "
                    "give topics for all of them, such as kafka://host:port/topic, or paths"
                )
        if log is not None and not isinstance(log, TopicLog):
            raise ConfigError(
                f"rules target: {log.target} is a directory, but the output is a topic; "
                "give a topic of the same cluster"
            )
        to = Topic.parse(output, kafka)
        explains = Topic.parse(audit, kafka) if audit else to.beside("audit")
        return cls(
            Topic.parse(input, kafka),
            to,
            explains if with_audit else None,
            Topic.parse(quarantine, kafka) if quarantine else to.beside("quarantine"),
            options.absolute(checkpoint or f"{to.name}-checkpoint"),
            log,
            schema,
            records_per_batch,
        )

    def settings(self) -> dict[str, str]:
        """Return what the Spark session needs: the connector, unless SPARK_HOME has it."""
        home = os.environ.get("SPARK_HOME")
        if home and any(
            name.startswith("spark-sql-kafka-0-10") for name in _listed(os.path.join(home, "jars"))
        ):
            return {}
        return {"spark.jars": spark_jars(lambda line: typer.echo(line, err=True))}

    def open(self, session: SparkSession, id: str, memory: Memory | None) -> Opened:
        """Open the topic, after checking that it goes on with what earlier runs have begun.

        Raises:
            ConfigError: If it does not, or an option is wrong.
            KafkaError: If the cluster cannot be reached.
        """
        from ..kafka.source import RECORDS_PER_BATCH, read_topic, topic_order
        from ..spark.files.schema import parse_schema

        check_exists(self.input)
        if self.schema is None and memory is None:
            raise ConfigError(
                'schema: records do not tell it; give --schema, such as "id INT, city STRING", or a file'
            )
        fields = parse_schema(self.schema) if self.schema is not None else None
        if fields is None and memory is not None:
            fields = memory.schema
        assert fields is not None  # noqa: S101 -- one of the two is given
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

        def make_writer() -> TopicWriter:
            from ..kafka import TopicWriter

            return TopicWriter(self.output, self.audit, self.quarantine, source=self.input, control=self.log)

        # One task writes, so that the records of a partition keep their order.
        return Opened(stream, [topic_order()], wanted, make_writer, egress_partitions=1)

    def _check_new(self) -> None:
        """Check that the output has no records of another run, which would come twice."""
        last = tail_record(self.output) if number_of_partitions(self.output) else None
        if last is not None and last.header(BATCH) is not None:
            raise ConfigError(
                f"output: {self.output} has records of another run, but the checkpoint {self.checkpoint} is "
                "new; give the checkpoint of that run to go on with it, or choose another topic"
            )


def check_file_options(**given: object) -> None:
    """Check that no option was given that is for files only.

    Raises:
        ConfigError: If one was.
    """
    for name, value in given.items():
        if value:
            option = name.replace("_", "-")
            raise ConfigError(
                f"{name.replace('_', ' ')}: --{option} is for files; records of a topic are JSON objects, in "
                "the order of partition and offset; leave it out"
            )


def _listed(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []
