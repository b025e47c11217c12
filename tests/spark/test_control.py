"""Rules that change while the stream runs, by control records from a directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkbleach import ConfigError, RuleError, Writer, clean, open_log, read_control
from sparkbleach.control.rule_log import RECORD_BYTES_MAX, DirectoryLog
from tests.support.controlled_stream import FILE_TUPLES, TABLE, ControlledStream, same_times
from tests.support.streams import DDL, RULES, WINDOW, cleaned_by_engine

#: a rule whose condition needs too much from the third file on
LATE = "late: price -> city WHERE length(repeat('x', CASE WHEN id < 300 THEN 1 ELSE 2000000000 END)) > 0"


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path) -> Callable[[], ControlledStream]:
    """Make a stream."""
    return lambda: ControlledStream(spark, tmp_path)


@pytest.fixture
def two_partitions(spark: SparkSession) -> Iterator[None]:
    """Have a task for each of two lanes or workers."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", "1")


def test_rules_change_while_the_stream_runs(make: Callable[[], ControlledStream]) -> None:
    """Updates take effect without a restart, at the positions in their outcomes: the engine gives the same.

    A micro-batch may have control records only. A refused record has an outcome and changes nothing; neither
    does a query that is stopped in the middle of a micro-batch. A restart with other rules changes these.
    """
    stream = make()
    controller = stream.controller
    with pytest.warns(UserWarning, match="no stream has begun with this log"):
        controller.delete("client_day")
    with stream.running() as query:
        stream.send()
        stream.wait(query, FILE_TUPLES, 2)
        assert [change.state for change in controller.history()] == ["started", "applied"]

        with pytest.raises(RuleError, match="unknown attribute 'zip'"):
            controller.add("bad: zip -> city")
        with pytest.raises(RuleError, match="'id' is the id of the tuples"):
            controller.add("bad: zipcode -> id")
        with pytest.raises(RuleError, match="'client_day': cannot be deleted"):
            controller.delete("client_day")
        with pytest.raises(RuleError, match="cannot read the column 'note'"):
            controller.add({"id": "bad", "lhs": ["zipcode"], "rhs": "city", "when": "len(note) > 1"})
        assert len(controller.log.published()) == 1

        # The day was read by no rule until now.
        controller.add("day: client -> day", {"id": "s", "lhs": ["day"], "rhs": "city", "mode": "shadow"})
        controller.delete("zip_city")
        assert [change.state for change in controller.history()][2:] == ["published"] * 3
        stream.wait(query, FILE_TUPLES, 5)  # a micro-batch without tuples
        stream.send()
        stream.wait(query, 2 * FILE_TUPLES, 5)
        stream.write_record("10000000.json", "delete everything")
        stream.write_record("10000001.json", '{"op": "delete", "id": "zip_city"}')
        stream.write_record("10000002.json", '{"op": "add", "rule": {"id": 3}, "by": "a script"}')
        stream.wait(query, 2 * FILE_TUPLES, 8)
        refused = [change for change in controller.history() if change.state == "refused"]
        assert ["cannot be read" in str(refused[0].reason), refused[1].what, refused[2].by] == [
            True,
            "delete zip_city",
            "a script",
        ]
        lines = stream.reported_updates(query, 8)
        assert sum(line.startswith("refused: ") for line in lines) == 3
        assert "applied: delete zip_city; active from position 150 on, version 5" in lines
        stream.send()
        controller.promote("s")
    with stream.running() as query:  # it may have been stopped in the middle of a micro-batch
        stream.wait(query, 3 * FILE_TUPLES, 9)
        stream.send()
        stream.wait(query, 4 * FILE_TUPLES, 9)
        query.processAllAvailable()  # or the last micro-batch might run again, with the rules of the next run
    changed = [*RULES[1:4], RULES[4].replace("price", "client"), RULES[5]]
    with stream.running(changed) as query:
        stream.send()
        stream.wait(query, 5 * FILE_TUPLES, 10)
        stream.send()
        stream.wait(query, 6 * FILE_TUPLES, 10)
    restart = controller.log.outcomes()[-1]
    assert (restart.kind, restart.position) == ("started", 4 * FILE_TUPLES)
    updates = [
        *stream.applied(),
        {"at": restart.position, "op": "delete", "id": "price_at"},
        {"at": restart.position, "op": "add", "rule": changed[3]},
    ]
    assert [update["op"] for update in updates[:5]] == ["delete", "add", "add", "delete", "promote"]
    rows, audit = cleaned_by_engine(TABLE, updates, repair="class")
    assert same_times(stream.rows()) == same_times(rows)
    assert stream.audit() == audit
    assert {row["applied"] for row in audit} == {True, False}
    in_force = {one.rule.id: (one.since, one.rule.mode) for one in controller.rules()}
    assert in_force["s"][1] == "live"
    assert in_force["s"][0] == updates[4]["at"]
    assert (in_force["client_city"], in_force["day"]) == ((0, "live"), (FILE_TUPLES, "live"))
    assert in_force["client_at"] == (4 * FILE_TUPLES, "live")
    assert not {"client_day", "zip_city", "price_at"} & set(in_force)
    first = controller.history()[1]
    assert (first.by, first.position, first.version) == ("an engineer", 0, 2)


def test_files_that_are_no_records(make: Callable[[], ControlledStream], tmp_path: Path) -> None:
    """The stream follows no symbolic link in a rule log, waits for no pipe, and reads only files of its own.

    What it does not read is refused, and does not stop it.
    """
    stream = make()
    log = stream.controller.log
    assert isinstance(log, DirectoryLog)
    log.create()
    secret = tmp_path / "secret"
    secret.write_text('{"op": "delete", "id": "hunter2"}')
    (log.directory / "00000001.json").symlink_to(secret)
    (log.directory / "00000002.json").symlink_to("/nowhere")
    os.mkfifo(log.directory / "00000003.json")
    with (log.directory / "00000004.json").open("wb") as file:
        file.truncate(RECORD_BYTES_MAX + 1)
    (log.directory / "below").mkdir()
    for name in ("below/00000005.json", "delete.json"):
        (log.directory / name).write_text('{"op": "delete", "id": "zip_city"}')
    (log.directory / "00000006.json").write_bytes(b"\xff\x00")
    (log.directory / "00000007.json").write_text('{"op": "delete", "id": "zip_city"}')
    with stream.running() as query:
        stream.send()
        stream.wait(query, FILE_TUPLES, 5)
    found = {change.number: change for change in stream.controller.history() if change.number}
    done = {number: change.state for number, change in found.items() if change.state != "published"}
    refused = dict.fromkeys(["00000001", "00000004", "00000006"], "refused")
    assert done == {**refused, "00000007": "applied"}
    assert "it has no text that may be read" in str(found["00000001"].reason)
    assert "hunter2" not in str(found)


@pytest.mark.usefixtures("two_partitions")
@pytest.mark.parametrize("spread", [{}, {"lanes": 2}, {"topology": "paper"}], ids=["fused", "lanes", "paper"])
def test_a_poisonous_rule_does_not_stop_the_stream(
    spark: SparkSession, tmp_path: Path, spread: dict[str, Any]
) -> None:
    """A rule whose condition needs too much for later tuples is withdrawn before these, and all go on.

    Rows and audit are those of an engine whose rule is deleted there, or applies to no tuple from there on if
    one of several lanes has withdrawn it. A restart leaves it withdrawn.
    """
    stream = ControlledStream(spark, tmp_path, **spread)
    with stream.running() as query:
        stream.send()
        stream.wait(query, FILE_TUPLES, 1)
        stream.controller.add(LATE)
        stream.wait(query, FILE_TUPLES, 2)
        for n in (2, 3):
            stream.send()
            stream.wait(query, n * FILE_TUPLES, n)
        line = stream.reported_updates(query, 3)[-1]
    with stream.running() as query:
        stream.send()
        stream.wait(query, 4 * FILE_TUPLES, 3)
    assert line.startswith("withdrawn: rule 'late'")
    assert f", from position {2 * FILE_TUPLES} on; its condition needs more than 512 MB of memory" in line
    last = stream.controller.history()[-1]
    assert (last.state, last.what, last.position) == ("withdrawn", "late", 2 * FILE_TUPLES)
    withdrawn = [one.withdrawn for one in stream.controller.rules() if one.rule.id == "late"]
    updates: list[Any] = stream.applied()
    if "lanes" in spread:
        assert withdrawn == [True]
        updates = [{"at": FILE_TUPLES, "op": "add", "rule": "late: price -> city WHERE id < 300"}]
    else:
        assert withdrawn == []
    rows, audit = cleaned_by_engine(TABLE.slice(0, 4 * FILE_TUPLES), updates, repair="class")
    assert same_times(stream.rows()) == same_times(rows)
    assert stream.audit() == audit
    assert any("late" in row["rules"] for row in audit)


def test_wrong_control_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A control DataFrame of another kind is refused before anything runs, and rows without a log, too."""
    (tmp_path / "in").mkdir()
    source = spark.readStream.schema(DDL).parquet(str(tmp_path / "in"))
    control = read_control(spark, open_log(str(tmp_path / "rules")))
    static = spark.createDataFrame([("1", "{}")], "number string, value string")
    with pytest.raises(ConfigError, match=r"control: .*both DataFrames have to be streaming"):
        clean(source, RULES, id="id", control=static)
    with pytest.raises(ConfigError, match=r"control: .*select number and value"):
        clean(source, RULES, id="id", control=control.select("value"))
    cleaned = clean(source, RULES, id="id", control=control)
    assert cleaned.columns == [*(pa.schema(TABLE.schema).names), "_repairs", "_control"]
    rows = spark.createDataFrame([], cleaned.schema)
    with pytest.raises(ConfigError, match="Writer: the rows have the column _control"):
        Writer(str(tmp_path / "out"))(rows, 0)


def test_scripted_updates_have_outcomes_too(
    make: Callable[[], ControlledStream], spark: SparkSession
) -> None:
    """With control, an update that was scheduled for a position is in the history as well."""
    stream = make()
    stream.send()
    source = spark.readStream.schema(DDL).parquet(str(stream.here / "in"))
    cleaned = clean(
        source,
        RULES,
        id="id",
        order_by="id",
        window=WINDOW,
        control=read_control(spark, stream.controller.log),
        rule_updates=[{"at": 70, "op": "delete", "id": "zip_city"}],
    )
    rows: list[Any] = []
    query = (
        cleaned.where("_control IS NOT NULL")
        .writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(stream.here / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    outcomes = sorted((json.loads(row["_control"]) for row in rows), key=lambda outcome: outcome["index"])
    assert [(outcome["kind"], outcome["position"]) for outcome in outcomes] == [
        ("started", 0),
        ("applied", 70),
    ]
    assert all(row[name] is None for row in rows for name in TABLE.schema.names)
