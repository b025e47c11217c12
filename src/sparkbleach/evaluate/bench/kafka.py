"""How many tuples per second go from a topic to a topic, with audit: `make bench-kafka`."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from sparkbleach.cli.session import spark_session
from sparkbleach.cli.shopping import RULES, shopping
from sparkbleach.kafka import Broker, Topic, TopicWriter, read_topic, spark_jars, topic_order
from sparkbleach.kafka.client import create, publish, read, size

from ...spark.clean import clean

_DDL = (
    "id long, store string, zipcode string, city string, item int, category string, customer int, "
    "email string"
)


def main() -> None:
    """Fill a topic, clean it some times, and print what each time took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuples", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=50_000, help="records in a micro-batch")
    parser.add_argument("--egress-partitions", type=int, default=1)
    given = parser.parse_args()
    settings = {"spark.jars": spark_jars(print)}
    with (
        tempfile.TemporaryDirectory(prefix="sparkbleach-bench-") as directory,
        Broker(Path(directory) / "broker", notify=print) as broker,
        spark_session("local[2]", debug=False, settings=settings) as session,
    ):
        dirty = Topic.parse(broker.url("dirty"))
        create([dirty], 1)
        rows = shopping(given.tuples, seed=1, dirt=0.1).dirty.to_pylist()
        begun = time.monotonic()
        publish(dirty, [(str(row["id"]).encode(), json.dumps(row).encode(), ()) for row in rows])
        print(
            f"sent {len(rows):,} tuples, {len(rows) / (time.monotonic() - begun):,.0f} tuples/s", flush=True
        )
        rates = []
        for number in range(given.rounds + 1):
            told = run(session, dirty, Path(directory) / f"checkpoint-{number}", given, number)
            print(f"{'warm-up' if number == 0 else f'round {number}'}: {told:,.0f} tuples/s", flush=True)
            rates += [told] if number else []
        print(
            f"topic to topic, with audit, median of {given.rounds}: {statistics.median(rates):,.0f} tuples/s"
        )


def run(
    session: SparkSession, dirty: Topic, checkpoint: Path, given: argparse.Namespace, number: int
) -> float:
    """Clean the topic; return the rate over the second half of the micro-batches, where all is warm."""
    output = dirty.beside(f"clean-{number}")
    writer = TopicWriter(output, output.beside("audit"), source=dirty)
    stream = read_topic(session, dirty, _DDL, id="id", records_per_batch=given.batch)
    cleaned = clean(
        stream,
        RULES,
        id="id",
        order_by=topic_order(),
        quarantine=True,
        egress_partitions=given.egress_partitions,
    )
    sink = cleaned.writeStream.foreachBatch(writer).trigger(availableNow=True)
    query = sink.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    batches = [one for one in query.recentProgress if one.numInputRows]
    if size(output) != given.tuples or not read(output.beside("audit")):
        raise SystemExit("records are missing; this is no measurement")
    half = batches[len(batches) // 2 :]
    seconds = sum(one.durationMs["triggerExecution"] for one in half) / 1000
    return sum(one.numInputRows for one in half) / seconds


if __name__ == "__main__":
    main()
