"""Clean a topic into a topic, with Spark: `python examples/kafka.py [HOST:PORT]`.

It needs a Kafka broker. `sparkbleach broker --port 9092` runs one in another terminal.
"""

import os
import sys
import tempfile
import uuid

from pyspark.sql import SparkSession

from sparkbleach import SPARK_SETTINGS, clean
from sparkbleach.kafka import Topic, TopicWriter, read_topic, spark_jars, topic_order
from sparkbleach.kafka.client import create, publish, read

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for Spark's workers: it has sparkbleach
server = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
name = f"cities-{uuid.uuid4().hex[:8]}"  # a new name, so that the program can run again
dirty = f"kafka://{server}/{name}"

# Some records to clean; the last one is no JSON.
topic = Topic.parse(dirty)
create([topic], n_partitions=1)
for id, city in enumerate(["Paris", "Paris", "Pariss"]):
    publish(topic, [(b"75001", b'{"id": %d, "zipcode": "75001", "city": "%s"}' % (id, city.encode()), [])])
publish(topic, [(None, b"{", [])])

# The jars of Spark's Kafka connector are fetched once and kept.
settings = {**SPARK_SETTINGS, "spark.jars": spark_jars()}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

stream = read_topic(spark, dirty, "id INT, zipcode STRING, city STRING", id="id")
cleaned = clean(
    stream,
    ["zip_city: zipcode -> city"],
    id="id",
    order_by=topic_order(),  # by partition and offset
    quarantine=True,  # records that cannot be read go to a topic of their own
    egress_partitions=1,  # the order of a partition is kept
)
writer = TopicWriter(f"{dirty}-clean", audit=f"{dirty}-audit", source=dirty)
sink = cleaned.writeStream.foreachBatch(writer).option("checkpointLocation", tempfile.mkdtemp())
sink.trigger(availableNow=True).start().awaitTermination()  # without availableNow it waits for more

for record in read(writer.output):
    print("clean:", record.value)
for record in read(writer.quarantine):
    print("quarantined:", record.value, record.header("sparkbleach-reason"))
