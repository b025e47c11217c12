"""`sparkbleach demo-kafka`: dirty records through Kafka while rules change, with the truth known."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .failure import reported_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ..control.controller import RuleController
    from ..evaluate.spoil import Spoilt
    from ..kafka import Broker, Topic, TopicLog
    from ..kafka.client import Record

_RULES = ["zip_city: zipcode -> city", "item_category: item -> category"]
_DELETED, _ADDED = "item_category", "customer_email: customer -> email"
_ATTRIBUTES = {"city": "zipcode", "category": "item", "email": "customer"}
_DIRT = 0.1
_MALFORMED_EVERY = 100
_EXAMPLES = 3
_WAIT_SECONDS = 600


@dataclass(frozen=True)
class _Topics:
    """The topics of the demo."""

    dirty: Topic
    clean: Topic
    audit: Topic
    quarantine: Topic
    log: TopicLog

    @classmethod
    def at(cls, broker: Broker) -> _Topics:
        from ..kafka import Topic, TopicLog

        clean = Topic.parse(broker.url("clean"))
        return cls(
            Topic.parse(broker.url("dirty")),
            clean,
            clean.beside("audit"),
            clean.beside("quarantine"),
            TopicLog(broker.url("rules")),
        )


def demo_kafka(
    tuples: Annotated[
        int, typer.Option(help="How many transactions to send.", metavar="N", min=2_000)
    ] = 40_000,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Clean a topic into a topic while rules change, and measure how clean it has become.

    Starts a Kafka broker on this machine, sends shopping transactions of which a tenth are dirty and a
    hundredth are not even JSON, cleans them on Spark, deletes a rule and adds another while the stream runs,
    reads what came out, and compares it with the truth. Nothing is left behind.
    """
    with reported_errors(debug=debug), tempfile.TemporaryDirectory(prefix="sparkbleach-demo-") as directory:
        from ..control.controller import RuleController
        from ..kafka import Broker, spark_jars
        from ..kafka.client import create, read
        from .demo import compile_kernel
        from .session import check_java, spark_session
        from .shopping import shopping

        check_java()
        here = Path(directory)
        stream = shopping(tuples, seed=1, dirt=_DIRT)
        compile_kernel(stream.dirty.slice(0, 2_000))
        settings = {"spark.jars": spark_jars(_say)}
        _say("starting Kafka and Spark ...")
        with (
            Broker(here / "broker", notify=_say) as broker,
            spark_session(master, debug=debug, settings=settings) as session,
        ):
            topics = _Topics.at(broker)
            create([topics.dirty], 1)
            values = _values(stream.dirty)
            controller = RuleController(topics.log, by="you")
            query = _start(session, topics, here / "checkpoint")
            try:
                _run(query, topics, controller, values)
            finally:
                query.stop()
            _show_records(values, read(topics.clean), read(topics.audit))
            _show_quarantined(read(topics.quarantine))
            _show_history(controller)
            _show_result(stream, read(topics.clean))


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _values(dirty: pa.Table) -> list[bytes]:
    """Return rows as JSON, some of them cut off."""
    values = [json.dumps(row).encode() for row in dirty.to_pylist()]
    for number in range(_MALFORMED_EVERY // 2, len(values), _MALFORMED_EVERY):
        values[number] = values[number][: len(values[number]) // 2]
    return values


def _start(session: SparkSession, topics: _Topics, checkpoint: Path) -> StreamingQuery:
    from ..kafka import TopicWriter, read_topic, topic_order
    from ..spark.clean import clean
    from ..spark.compat import spark_schema
    from ..spark.control import read_control
    from .shopping import SCHEMA

    writer = TopicWriter(
        topics.clean, topics.audit, topics.quarantine, source=topics.dirty, control=topics.log
    )
    cleaned = clean(
        read_topic(session, topics.dirty, spark_schema(SCHEMA), id="id", records_per_batch=10_000),
        _RULES,
        id="id",
        order_by=topic_order(),
        control=read_control(session, topics.log),
        quarantine=True,
        egress_partitions=1,
    )
    return cleaned.writeStream.foreachBatch(writer).option("checkpointLocation", str(checkpoint)).start()


def _run(query: StreamingQuery, topics: _Topics, controller: RuleController, values: Sequence[bytes]) -> None:
    """Send records, change rules while the stream runs, and send more."""
    from ..kafka.client import publish

    half = len(values) // 2
    target = controller.log.target
    typer.echo(
        f"\nsparkbleach clean --input {topics.dirty} --output {topics.clean} --rules-target {target} ..."
    )
    typer.echo(f"  rules: {'; '.join(_RULES)}")
    typer.echo(f"sending {half:,} records to {topics.dirty}")
    publish(topics.dirty, [(str(number).encode(), value, ()) for number, value in enumerate(values[:half])])
    _wait(query, topics, half)
    typer.echo(f"sparkbleach rules delete {_DELETED} --target {target}")
    controller.delete(_DELETED)
    typer.echo(f"sparkbleach rules add '{_ADDED}' --target {target}")
    controller.add(_ADDED)
    _wait_for_outcomes(query, controller, 3)
    typer.echo(f"sending {len(values) - half:,} more\n")
    rest = enumerate(values[half:], start=half)
    publish(topics.dirty, [(str(number).encode(), value, ()) for number, value in rest])
    _wait(query, topics, len(values))


def _wait(query: StreamingQuery, topics: _Topics, n_records: int) -> None:
    """Wait until a number of records have come out."""
    from ..kafka.client import size

    _until(query, lambda: size(topics.clean) + size(topics.quarantine) >= n_records)


def _wait_for_outcomes(query: StreamingQuery, controller: RuleController, n: int) -> None:
    _until(query, lambda: len(controller.log.outcomes()) >= n)


def _until(query: StreamingQuery, done: Any) -> None:
    from ..errors import SparkbleachError

    deadline = time.monotonic() + _WAIT_SECONDS
    while not done():
        failed = query.exception()
        if failed is not None:
            raise failed
        if time.monotonic() > deadline:
            raise SparkbleachError("demo: records do not come out; try again with --debug")
        time.sleep(0.2)


def _show_records(values: Sequence[bytes], clean: Sequence[Record], audit: Sequence[Record]) -> None:
    by_source = {record.header("sparkbleach-source"): record for record in clean}
    typer.echo("Some dirty records, and what became of them:")
    for record in audit[:_EXAMPLES]:
        repair = json.loads(record.value or b"")
        source = (record.header("sparkbleach-source") or "").rpartition("/")[0]
        candidates = ", ".join(f"{one['value']} {one['count']}" for one in repair["candidates"])
        typer.echo(f"  in   {values[int(source.rpartition('/')[2])].decode()}")
        typer.echo(f"  out  {(by_source[source].value or b'').decode()}")
        typer.echo(f"  why  {', '.join(repair['rules'])}; seen so far: {candidates}\n")


def _show_quarantined(records: Sequence[Record]) -> None:
    typer.echo(f"{len(records):,} quarantined records, such as:")
    for record in records[:_EXAMPLES]:
        typer.echo(
            f"  {record.header('sparkbleach-source')}  {record.header('sparkbleach-reason')}  "
            f"{(record.value or b'').decode(errors='replace')[:40]}..."
        )


def _show_history(controller: RuleController) -> None:
    typer.echo(f"\nsparkbleach rules history --target {controller.log.target}")
    for change in controller.history():
        typer.echo(
            f"  {change.what}: {change.state} at position {change.position:,}, version {change.version}"
        )
    typer.echo()


def _show_result(stream: Spoilt, clean: Sequence[Record]) -> None:
    """Compare what came out with the truth, before and after the change of the rules."""
    from rich.console import Console
    from rich.table import Table

    from ..errors import SparkbleachError

    rows = {row["id"]: row for row in (json.loads(record.value or b"") for record in clean)}
    dirty, truth = stream.dirty.to_pylist(), stream.truth.to_pylist()
    n = len(dirty)
    malformed = range(_MALFORMED_EVERY // 2, n, _MALFORMED_EVERY)
    if (
        len(clean) != len(rows)
        or rows.keys() | set(malformed) != set(range(n))
        or len(rows) + len(malformed) != n
    ):
        raise SparkbleachError("demo: records were lost or doubled; please report this")
    table = Table(
        "attribute", "dirty in", "out, first half", "out, second half", "why", title="Against the truth"
    )
    table.title_justify = "left"
    why = {
        "city": "zip_city is there all the time",
        "category": f"{_DELETED} is deleted at half-time",
        "email": "customer_email is added at half-time",
    }
    for name, key in _ATTRIBUTES.items():
        halves = [
            [at for at in rows if at // (n // 2) == half and dirty[at][key] is not None] for half in (0, 1)
        ]
        before = _share(
            sum(dirty[at][name] != truth[at][name] for half in halves for at in half), sum(map(len, halves))
        )
        after = [_share(sum(rows[at][name] != truth[at][name] for at in half), len(half)) for half in halves]
        table.add_row(name, before, *after, why[name])
    Console().print(table)
    typer.echo(
        f"{n:,} records in; {len(clean):,} clean ones and {len(malformed):,} quarantined ones out: none lost"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.2%}"
