"""How many tuples per second go from a topic to a topic, with audit: `make bench-kafka`."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from ...cli.session import spark_session
from ...cli.shopping import RULES, SCHEMA, shopping
from ...kafka import Broker, Topic, TopicWriter, read_topic, spark_jars, topic_order
from ...kafka.client import create, publish, read, size
from ...spark.clean import clean
from ...spark.compat import spark_schema
from ..spark_run import MicroBatch, tuples_per_s
from .workbench import show


def main() -> None:
    """Fill a topic, clean it some times, and print the throughput of each time."""
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
        show(f"sent {len(rows):,} tuples", f"{len(rows) / (time.monotonic() - begun):,.0f}", "tuples/s")
        rates = []
        for number in range(given.rounds + 1):
            rate = run(session, dirty, Path(directory) / f"checkpoint-{number}", given, number)
            show(f"round {number}" if number else "warm-up", f"{rate:,.0f}", "tuples/s")
            rates += [rate] if number else []
        print(f"topic to topic, with audit, median of {given.rounds}:")
        show("throughput", f"{statistics.median(rates):,.0f}", "tuples/s")


def run(
    session: SparkSession, dirty: Topic, checkpoint: Path, given: argparse.Namespace, number: int
) -> float:
    """Clean the topic; return the throughput of the second half of the micro-batches, when all is warm."""
    output = dirty.beside(f"clean-{number}")
    writer = TopicWriter(output, output.beside("audit"), source=dirty)
    stream = read_topic(session, dirty, spark_schema(SCHEMA), id="id", records_per_batch=given.batch)
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
    batches = [MicroBatch.from_progress(one, 0) for one in query.recentProgress if one.numInputRows]
    if size(output) != given.tuples or not read(output.beside("audit")):
        raise SystemExit("records are missing; this is no measurement")
    return tuples_per_s(batches[len(batches) // 2 :])


if __name__ == "__main__":
    main()
