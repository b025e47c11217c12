"""Several lanes on Spark give what one engine gives."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkbleach import (
    ConfigError,
    Limits,
    RuleUpdate,
    SessionWarning,
    SparkbleachError,
    clean,
    open_log,
    read_control,
    report,
)
from sparkbleach.config import Options
from sparkbleach.control.outcome import Outcome
from sparkbleach.engine.placement import Placement
from sparkbleach.rules.rule import as_rule
from sparkbleach.spark.egress import egress
from sparkbleach.spark.lanes import spread_keys
from sparkbleach.spark.plan import Plan
from sparkbleach.spark.rows import LaneRow, rows_to_batch
from tests.support.queries import by_id, run_query
from tests.support.streams import DDL, RULES, WINDOW, cleaned_by_engine, tuples, write_files

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(autouse=True)
def partitions(spark: SparkSession) -> Iterator[None]:
    """Have a task for each of two lanes."""
    spark.conf.set(PARTITIONS, "2")
    yield
    spark.conf.set(PARTITIONS, "1")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Callable[[], DataFrame]:
    """Read the files of the test as a stream, in more than one partition."""
    return lambda: (
        spark.readStream.schema(DDL)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
        .repartition(2)
    )


def test_lanes_have_tasks_of_their_own(spark: SparkSession) -> None:
    """Keys fall to different partitions when there are as many, and the first key is always the same."""
    for n_lanes in (1, 2, 3, 5, 8):
        keys = spread_keys(n_lanes)
        rows = spark.createDataFrame([(key,) for key in keys], "lane int").repartition(n_lanes, "lane")
        assert len({row[0] for row in rows.select(F.spark_partition_id()).collect()}) == n_lanes
        assert keys[0] == 0
        assert len(keys) == n_lanes


@pytest.mark.filterwarnings("ignore:session. spark.sql.shuffle.partitions is 2, so that 3 lanes")
@pytest.mark.parametrize(("n_lanes", "options"), [(2, {}), (3, {"windowing": "basic", "repair": "vote"})])
def test_lanes_give_what_the_engine_gives(
    tmp_path: Path, stream: Callable[[], DataFrame], n_lanes: int, options: dict[str, Any]
) -> None:
    """Rows, audit and report are the engine's, in any order of the source, while rules come and go."""
    table = tuples(900, seed=n_lanes)
    shuffled = pa.concat_tables(
        [part.take(np.random.default_rng(1).permutation(300)) for part in (table[:300], table[300:600])]
    )
    write_files(pa.concat_tables([shuffled, table[600:]]), tmp_path / "in", [300, 300, 300])
    updates = [
        {"at": 100, "op": "delete", "id": "client_city"},
        {"at": 250, "op": "add", "rule": "day_city: day -> city"},
        {"at": 250, "op": "add", "rule": "zip_price: zipcode -> price"},
        {"at": 601, "op": "delete", "id": "zip_rate"},
        {"at": 601, "op": "add", "rule": {"id": "zip_rate", "lhs": ["client"], "rhs": "rate"}},
    ]
    given = {"window": WINDOW, "repair": "class", **options}
    collected: list[Any] = []
    reports = []
    for lanes in (n_lanes, 1):
        cleaned = clean(stream(), RULES, id="id", order_by="id", rule_updates=updates, lanes=lanes, **given)
        query = (
            cleaned.writeStream.foreachBatch(lambda batch, _: collected.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / f"checkpoint-{lanes}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert by_id(collected) == cleaned_by_engine(table, updates, **given)
        collected.clear()
        reports.append([report(progress) or {} for progress in query.recentProgress])
    placements = [one.pop("lanes") for one in reports[0]]
    assert placements[0] == placements[-1]
    assert len(placements[0]) == n_lanes
    for one in (*reports[0], *reports[1]):
        assert one.pop("nbytes") > 0
    assert reports[0] == reports[1]


def test_a_static_dataframe_in_lanes(tmp_path: Path, spark: SparkSession) -> None:
    """A static DataFrame gives the same, with a split attribute and a quarantined row."""
    table = tuples(700, seed=9)
    write_files(table, tmp_path / "in", [300, 400])
    df = spark.read.schema(DDL).parquet(str(tmp_path / "in")).repartition(3)
    without_id = spark.createDataFrame([(None,) * len(df.columns)], DDL)
    cleaned = clean(
        df.union(without_id),
        RULES,
        id="id",
        order_by=F.coalesce(-F.col("id"), F.lit(1)),
        window=WINDOW,
        lanes=[["rate", "day"], ["city", "rate"]],
        quarantine=True,
    )
    rows = cleaned.collect()
    assert [row._quarantine for row in rows if row.id is None] == ["id: the id is null"]
    expected, audit = cleaned_by_engine(table.take(np.arange(699, -1, -1)), repair="class")
    found, found_audit = by_id([row for row in rows if row.id is not None])
    assert found == [{**row, "_quarantine": None} for row in expected[::-1]]
    assert found_audit == audit
    in_order = clean(df, RULES, id="id", order_by="id", window=WINDOW, lanes=2)
    assert by_id(in_order.collect()) == cleaned_by_engine(table, repair="class")


@pytest.mark.filterwarnings("ignore:session. spark.sql.shuffle.partitions is 2, so that 3 lanes")
def test_lanes_go_on_after_a_restart(tmp_path: Path, stream: Callable[[], DataFrame]) -> None:
    """Each lane goes on with its state; what would move an attribute to another lane is refused."""
    table = tuples(600, seed=4)
    write_files(table[:300], tmp_path / "in", [300])
    rows: list[Any] = []

    def go_on(rules: list[Any], lanes: Any) -> None:
        cleaned = clean(stream(), rules, id="id", order_by="id", window=WINDOW, lanes=lanes)
        run_query(cleaned, tmp_path / "checkpoint", rows)

    rules = RULES[2:5]
    go_on(rules, 2)
    write_files(table, tmp_path / "in", [300, 300])
    with pytest.raises(StreamingQueryException, match="lanes: the checkpoint was made with 2, not with 1"):
        go_on(rules, 1)
    with pytest.raises(StreamingQueryException, match="lanes: the checkpoint was made with 2, not with 3"):
        go_on(rules, [["at"], ["rate"], ["day"]])
    more = [*rules, *RULES[:2]]
    placed = [["at", "city", "day"], ["at", "rate"]]
    with pytest.raises(
        StreamingQueryException,
        match=f"'at' on lane 0 and 1, .* lane 1; go on with lanes={re.escape(str(placed))}",
    ):
        go_on(more, 2)
    assert len(rows) == 300
    go_on([*more[:2], more[2].replace("price", "client"), *more[3:]], placed)
    updates = [
        {"at": 300, "op": "delete", "id": "price_at"},
        {"at": 300, "op": "add", "rule": "client_at: client -> at"},
        *({"at": 300, "op": "add", "rule": rule} for rule in RULES[:2]),
    ]
    expected, audit = cleaned_by_engine(table, updates, rules=rules, repair="class")
    found, found_audit = by_id(rows)
    assert found == expected
    assert found_audit == audit


def test_rules_change_in_all_lanes(
    tmp_path: Path, spark: SparkSession, stream: Callable[[], DataFrame]
) -> None:
    """Updates of a running stream take effect in all lanes alike, new attributes included, with one outcome.

    A second rule for an attribute that is split is refused.
    """
    table = tuples(900, seed=5)
    log = open_log(str(tmp_path / "rules"))
    rows: list[Any] = []
    by_run: list[list[Any]] = [
        ["zip_price: zipcode -> price", "zip_at: zipcode -> at"],
        ["zip_city: zipcode -> city", "client_city: client -> city", {"delete": "price_at"}],
        ["zip_at: zipcode -> at", {"delete": "client_city"}],
    ]
    for number, changes in enumerate(by_run):
        write_files(table[: 300 * number + 300], tmp_path / "in", [300] * (number + 1))
        for change in changes:
            update = RuleUpdate(**change) if isinstance(change, dict) else RuleUpdate(rule=as_rule(change))
            log.publish(update, by="a test")
        cleaned = clean(
            stream(),
            RULES[2:5],
            id="id",
            order_by="id",
            window=WINDOW,
            control=read_control(spark, log),
            lanes=2,
            limits=Limits(snapshot_bytes=1_000),
        )
        run_query(cleaned, tmp_path / "checkpoint", rows)
    outcomes = sorted(
        (Outcome.from_json(row._control) for row in rows if row._control),
        key=lambda outcome: (outcome.position, outcome.index),
    )
    assert [(one.kind, one.position) for one in outcomes] == [
        ("started", 0),
        ("applied", 0),
        ("refused", 0),
        *[("applied", 300)] * 3,
        *[("applied", 600)] * 2,
    ]
    assert "'at' is split over lanes by its rule 'price_at'" in str(outcomes[2].reason)
    updates = [{**(one.update or {}), "at": one.position} for one in outcomes if one.kind == "applied"]
    expected, audit = cleaned_by_engine(table, updates, rules=RULES[2:5], repair="class")
    found, found_audit = by_id([row for row in rows if not row._control])
    assert found == [{**row, "_control": None} for row in expected]
    assert found_audit == audit


def test_wrong_lanes_are_refused(
    spark: SparkSession, stream: Callable[[], DataFrame], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong is refused before anything runs; a placement is written to the log."""
    write_files(tuples(10, seed=1), tmp_path / "in", [10])
    for wrong in (0, True, None, 1.5, "2", ["city"], [[1]], []):
        with pytest.raises(ConfigError, match=r"lanes: .* must be a positive integer"):
            clean(stream(), RULES, id="id", lanes=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="lanes: the schema has no attribute 'town'"):
        clean(stream(), RULES, id="id", lanes=[["town"], []])
    with pytest.raises(ConfigError, match="'city' is on several lanes, but has 2 rules at a time"):
        clean(stream(), RULES, id="id", lanes=[["city"], ["city"]])
    with pytest.warns(SessionWarning, match="is 2, so that 4 lanes have to wait for each other"):
        clean(stream(), RULES, id="id", lanes=4)
    with caplog.at_level(logging.INFO, "sparkbleach"):
        clean(stream(), RULES, id="id", lanes=2)
    assert "lanes: lane 0: city; lane 1: at, day, open, rate" in caplog.text


def test_egress_waits_for_all_lanes() -> None:
    """A blob that not all lanes have decided on is never taken for a clean one."""
    plan = Plan(
        schema=pa.schema([("id", pa.int64())]),
        id="id",
        rules=(),
        updates=(),
        order_by=(),
        cells=("id",),
        options=Options(window=None),
        audit=False,
        quarantine=False,
        control=False,
        unreadable=None,
        placement=Placement(((), ())),
        lane_cells=(("id",), ("id",)),
    )
    row = rows_to_batch([LaneRow(0, 7, b"")])
    with pytest.raises(SparkbleachError, match="blob 7 came from 1 of 2 lanes"):
        list(egress(plan)([row]))
