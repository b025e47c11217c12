"""The fused topology on Spark gives what the engine gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sparkbleach
from sparkbleach import (
    ConfigError,
    Limits,
    Rule,
    RuleError,
    RuleUpdate,
    RuleWarning,
    SessionWarning,
    Window,
    clean,
)
from tests.support.queries import by_id, run_query
from tests.support.streams import DDL, RULES, WINDOW, cleaned_by_engine, tuples, write_files


@pytest.mark.parametrize(
    ("sizes", "files_per_batch", "partitions", "options"),
    [
        ([2000], 1, 1, {"repair": "class"}),
        ([700, 1, 999, 300], 1, 2, {"repair": "vote"}),
        ([100] * 20, 3, 3, {"windowing": "basic", "look_ahead": 1}),
        ([5, 1995], 2, 4, {"window": None, "repair": "class"}),
    ],
)
def test_a_stream_is_cleaned_as_by_the_engine(
    tmp_path: Path,
    stream: Callable[..., DataFrame],
    sizes: list[int],
    files_per_batch: int,
    partitions: int,
    options: dict[str, Any],
) -> None:
    """However a stream is cut into files, micro-batches and partitions, rows and audit are the engine's."""
    table = tuples(2000, seed=len(sizes))
    write_files(table, tmp_path / "in", sizes)
    df = stream(tmp_path / "in", files_per_batch).repartition(partitions)
    given = {"window": WINDOW, **options}
    cleaned = clean(df, RULES, id="id", order_by="id", egress_partitions=partitions, **given)
    assert by_id(run_query(cleaned, tmp_path / "checkpoint")) == cleaned_by_engine(table, **given)


@pytest.mark.parametrize(("partitions", "options"), [(1, {"repair": "class"}), (3, {"look_ahead": 1})])
def test_a_static_dataframe_is_cleaned_as_by_the_engine(
    tmp_path: Path, spark: SparkSession, partitions: int, options: dict[str, Any]
) -> None:
    """A static DataFrame gives the same, for a back-fill."""
    table = tuples(1000, seed=7)
    write_files(table, tmp_path / "in", [400, 600])
    df = spark.read.schema(DDL).parquet(str(tmp_path / "in")).repartition(partitions)
    cleaned = clean(df, RULES, id="id", order_by="id", window=WINDOW, **options)
    assert by_id(cleaned.collect()) == cleaned_by_engine(table, **options)


@pytest.mark.parametrize("look_ahead", [1000, 1])
def test_decisions_wait_for_tuples_of_their_micro_batch_only(
    tmp_path: Path, spark: SparkSession, stream: Callable[..., DataFrame], look_ahead: int
) -> None:
    """The most probable readings are those of an engine that is given each micro-batch, also after a restart.

    A static DataFrame in one partition is a single batch.
    """
    sizes = [1300, 100, 600]
    table = tuples(2000, seed=8)
    write_files(table.slice(0, 1400), tmp_path / "in", sizes[:2])
    expected = cleaned_by_engine(table, batches=sizes, look_ahead=look_ahead)
    rows: list[Any] = []
    for more in (False, True):
        if more:
            write_files(table, tmp_path / "in", sizes)
        cleaned = clean(
            stream(tmp_path / "in").repartition(2),
            RULES,
            id="id",
            order_by="id",
            window=WINDOW,
            look_ahead=look_ahead,
            limits=Limits(cached_queries_max=1, snapshot_bytes=20_000),
        )
        run_query(cleaned, tmp_path / "checkpoint", rows)
    assert by_id(rows) == expected
    df = spark.read.schema(DDL).parquet(str(tmp_path / "in")).coalesce(1).sortWithinPartitions("id")
    static = clean(df, RULES, id="id", window=WINDOW, look_ahead=look_ahead)
    assert by_id(static.collect()) == cleaned_by_engine(table, look_ahead=look_ahead)
    assert {repair["decided_by"] for repair in expected[1]} == {"probability", "constant"}


def test_a_window_in_time(tmp_path: Path, stream: Callable[..., DataFrame]) -> None:
    """A window in time goes on after a restart as if there had been none."""
    table = tuples(900, seed=9).sort_by([("day", "ascending")])
    table = table.set_column(0, "id", pa.array(range(900)))
    window = Window.time("at", "2 days", "1 day")
    sizes = [300, 300, 300]
    rows: list[Any] = []
    for n_files in (2, 3):
        write_files(table.slice(0, 300 * n_files), tmp_path / "in", sizes[:n_files])
        cleaned = clean(stream(tmp_path / "in"), RULES, id="id", order_by="id", window=window)
        run_query(cleaned, tmp_path / "checkpoint", rows)
    expected = cleaned_by_engine(table, batches=sizes, window=window)
    assert by_id(rows) == expected
    assert expected[1]


def test_source_order_is_the_order_of_one_partition(tmp_path: Path, stream: Callable[..., DataFrame]) -> None:
    """Without order_by the rows of a partition are taken in the order of the source."""
    table = tuples(1500, seed=3)
    write_files(table, tmp_path / "in", [500, 1000])
    cleaned = clean(stream(tmp_path / "in"), RULES, id="id", window=WINDOW)
    expected = cleaned_by_engine(table, batches=[500, 1000])
    assert by_id(run_query(cleaned, tmp_path / "checkpoint")) == expected


def test_order_by_takes_columns(
    tmp_path: Path, spark: SparkSession, stream: Callable[..., DataFrame]
) -> None:
    """order_by takes expressions, which do not show up in the output."""
    table = tuples(800, seed=5)
    shuffled = table.take(np.random.default_rng(0).permutation(800))
    write_files(shuffled, tmp_path / "in", [800])
    order = [F.col("id") % 1, F.col("id") + 1]
    cleaned = clean(stream(tmp_path / "in"), RULES, id="id", order_by=order, window=WINDOW)
    assert cleaned.columns == [*table.schema.names, "_repairs"]
    assert by_id(run_query(cleaned, tmp_path / "checkpoint")) == cleaned_by_engine(table)
    df = spark.read.schema(DDL).parquet(str(tmp_path / "in"))
    static = clean(df, RULES, id="id", order_by=order, window=WINDOW)
    assert by_id(static.collect()) == cleaned_by_engine(table)


def test_the_audit_is_a_dataframe_of_its_own(tmp_path: Path, spark: SparkSession) -> None:
    """Audit() makes of a cleaned DataFrame one row per changed cell; without _repairs it says so."""
    table = tuples(300, seed=1)
    write_files(table, tmp_path / "in", [300])
    df = spark.read.schema(DDL).parquet(str(tmp_path / "in"))
    cleaned = clean(df, RULES, id="id", order_by="id", window=WINDOW)
    audit = [row.asDict(recursive=True) for row in sparkbleach.audit(cleaned).collect()]
    _, expected = cleaned_by_engine(table)
    assert sorted(audit, key=lambda row: row["position"]) == expected
    bare = clean(df, RULES, id="id", order_by="id", window=WINDOW, audit=False)
    assert bare.columns == df.columns
    assert len(bare.collect()) == 300
    with pytest.raises(ConfigError, match="no column _repairs"):
        sparkbleach.audit(bare)


def test_rule_updates_take_effect_at_their_position(tmp_path: Path, stream: Callable[..., DataFrame]) -> None:
    """A scheduled update takes effect before the tuple at its position, wherever micro-batches end."""
    table = tuples(1000, seed=2)
    write_files(table, tmp_path / "in", [250, 250, 500])
    updates = [
        {"at": 100, "op": "delete", "id": "client_city"},
        {"at": 250, "op": "add", "rule": "day_city: day -> city"},
        {"at": 601, "op": "delete", "id": "zip_rate"},
        {"at": 601, "op": "add", "rule": {"id": "zip_rate", "lhs": ["client"], "rhs": "rate"}},
    ]
    df = stream(tmp_path / "in")
    cleaned = clean(df, RULES, id="id", order_by="id", window=WINDOW, rule_updates=updates)
    expected = cleaned_by_engine(table, updates, [250, 250, 500])
    assert by_id(run_query(cleaned, tmp_path / "checkpoint")) == expected
    assert len({repair["version"] for repair in expected[1]}) > 3


def test_a_restart_goes_on_with_the_state(tmp_path: Path, stream: Callable[..., DataFrame]) -> None:
    """A query started again from its checkpoint goes on; other rules are applied as updates."""
    table = tuples(1200, seed=4)
    write_files(table.slice(0, 500), tmp_path / "in", [200, 300])
    rows: list[Any] = []

    def go_on(rules: list[Any], **options: Any) -> None:
        cleaned = clean(
            stream(tmp_path / "in"), rules, **{"id": "id", "order_by": "id", "window": WINDOW, **options}
        )
        run_query(cleaned, tmp_path / "checkpoint", rows)

    go_on(RULES)
    assert len(rows) == 500
    go_on(RULES)
    assert len(rows) == 500
    write_files(table, tmp_path / "in", [200, 300, 400, 300])
    changed = [*RULES[1:4], RULES[4].replace("price", "client"), RULES[5]]
    go_on(changed)
    updates = [
        {"at": 500, "op": "delete", "id": "zip_city"},
        {"at": 500, "op": "delete", "id": "price_at"},
        {"at": 500, "op": "add", "rule": changed[3]},
    ]
    assert by_id(rows) == cleaned_by_engine(table, updates, [200, 300, 400, 300])

    write_files(tuples(1300, seed=4), tmp_path / "in", [200, 300, 400, 300, 100])
    with pytest.raises(StreamingQueryException, match="made with 400 tuples sliding by 100, not with 300"):
        go_on(changed, window=Window.tuples(300, slide=100))
    with pytest.raises(StreamingQueryException, match="repair: the checkpoint was made with 'bayes'"):
        go_on(changed, repair="vote")
    with pytest.raises(
        StreamingQueryException, match="accept_after: the checkpoint was made with 10, not wi"
    ):
        go_on(changed, accept_after=None)
    with pytest.raises(
        StreamingQueryException, match="remember: the checkpoint was made with '4 windows', n"
    ):
        go_on(changed, remember=800)
    with pytest.raises(StreamingQueryException, match="rule updates: those before position 1200"):
        go_on(changed, rule_updates=[{"at": 3, "op": "delete", "id": "shut"}])
    assert len(rows) == 1200
    go_on(changed)
    assert len(rows) == 1300


def test_ids_are_trusted(spark: SparkSession) -> None:
    """A repeated id is passed on, never merged or dropped; nor is a row without one."""
    rows = [(1, "z", "Paris"), (1, "z", "Paris"), (1, "z", "Lyon"), (None, "z", "Rome"), (1, None, None)]
    df = spark.createDataFrame(rows, "id long, zip string, city string").coalesce(1)
    cleaned = clean(df, ["r: zip -> city"], id="id", repair="class").collect()
    assert [tuple(row)[:3] for row in cleaned] == [
        (1, "z", "Paris"),
        (1, "z", "Paris"),
        (1, "z", "Paris"),
        (None, "z", "Paris"),
        (1, None, None),
    ]


def test_rows_without_id_are_quarantined(spark: SparkSession) -> None:
    """With quarantine, a row without an id is not cleaned, keeps its position, and says why."""
    rows = [(1, "z", "Paris"), (None, "z", "Lyon"), (2, "z", "Paris"), (3, "z", "Rome")]
    df = spark.createDataFrame(rows, "id long, zip string, city string").coalesce(1)
    cleaned = clean(df, ["r: zip -> city"], id="id", quarantine=True, repair="class").collect()
    by_id = {row.id: row for row in cleaned}
    assert len(cleaned) == 4
    assert by_id[None]._quarantine == "id: the id is null"
    assert (by_id[None].city, by_id[None]._repairs) == ("Lyon", [])
    assert by_id[3].city == "Paris"
    assert by_id[3]._repairs[0].position == 3
    assert by_id[3]._quarantine is None


def test_no_rule_sees_a_quarantined_row(tmp_path: Path, spark: SparkSession) -> None:
    """A row without an id leaves no trace in the state, even if rules read the columns of the order."""
    rules: list[Any] = [{"id": "r", "lhs": ["zip"], "rhs": "city", "nulls": "fill"}, "s: city -> zip"]
    rows = [(1, "a", "Paris"), (None, "b", "Rome"), (2, "b", "Lyon"), (None, "b", "Rome"), (3, "b", None)]
    spark.createDataFrame(rows, "id long, zip string, city string").coalesce(1).write.parquet(
        str(tmp_path / "in")
    )
    df = spark.readStream.schema("id long, zip string, city string").parquet(str(tmp_path / "in"))
    order = ["zip", "city", "id"]
    cleaned = clean(df, rules, id="id", order_by=order, quarantine=True, repair="class")
    found = run_query(cleaned, tmp_path / "checkpoint")
    assert sorted((row.id, row.city) for row in found if row.id) == [(1, "Paris"), (2, "Lyon"), (3, "Lyon")]
    assert sum(row._quarantine is not None for row in found) == 2


def test_a_query_reports_its_progress(tmp_path: Path, stream: Callable[..., DataFrame]) -> None:
    """The progress of a query has violations and repairs by rule."""
    write_files(tuples(600, seed=6), tmp_path / "in", [300, 300])
    cleaned = clean(stream(tmp_path / "in"), RULES, id="id", window=WINDOW)
    query = (
        cleaned.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    reports = [sparkbleach.report(progress) for progress in query.recentProgress]
    assert [report["position"] for report in reports if report] == [300, 600]
    assert reports[-1]
    assert reports[-1]["repairs"]["zip_city"] > 0


def test_wrong_options_are_refused(
    spark: SparkSession, stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """What is wrong is refused before anything runs, with a remedy."""
    write_files(tuples(10, seed=1), tmp_path / "in", [10])
    df = stream(tmp_path / "in")
    with pytest.raises(ConfigError, match="order_by: the DataFrame has no single column 'when'"):
        clean(df, RULES, id="id", order_by="when")
    with pytest.raises(ConfigError, match="id: the schema has no single attribute 'key'"):
        clean(df, RULES, id="key")
    with pytest.raises(ConfigError, match="windowing: 'none' is unknown"):
        clean(df, RULES, id="id", windowing="none")
    with pytest.raises(ConfigError, match="left: it is for repair='bayes', this is 'class'"):
        clean(df, RULES, id="id", repair="class", left="repair")
    with pytest.raises(ConfigError, match="trust: the schema has no single attribute 'x'; choose one of id"):
        clean(df, RULES, id="id", repair="bayes", trust="x")
    with pytest.raises(ConfigError, match="repair: 'bayes' needs a single lane, there are 2"):
        clean(df, RULES, id="id", repair="bayes", lanes=2)
    with pytest.raises(ConfigError, match="repair: 'bayes' is not for the paper's topology"):
        clean(df, RULES, id="id", repair="bayes", topology="paper")
    with pytest.raises(ConfigError, match="accept_after: the paper's topology accepts no new truths"):
        clean(df, RULES, id="id", accept_after=10, topology="paper")
    with pytest.raises(ConfigError, match="remember: the paper's topology keeps counts for ever"):
        clean(df, RULES, id="id", remember=4_000_000, topology="paper")
    with pytest.raises(RuleError, match="citty"):
        clean(df, ["zipcode -> citty"], id="id")
    with pytest.raises(RuleError, match=r"rule update at 5: .*cannot be deleted"):
        clean(df, RULES, id="id", rule_updates=[{"at": 5, "op": "delete", "id": "nobody"}])
    provider = "spark.sql.streaming.stateStore.providerClass"
    rocksdb = str(spark.conf.get(provider))
    spark.conf.unset(provider)
    try:
        with pytest.raises(ConfigError, match=r"SPARK_SETTINGS"):
            clean(df, RULES, id="id")
    finally:
        spark.conf.set(provider, rocksdb)
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        with pytest.warns(SessionWarning, match=r"spark.sql.shuffle.partitions is 200"):
            clean(df, RULES, id="id")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "1")


@pytest.mark.parametrize(
    ("rules", "updates"),
    [(["a: k -> v", "b: k -> v"], []), (["a: k -> v"], [RuleUpdate(3, rule=Rule("b", "k", "v"))])],
    ids=["rules", "updates"],
)
def test_twins_warn_once(spark: SparkSession, rules: list[str], updates: list[RuleUpdate]) -> None:
    """Of two rules that say the same thing there is one warning, at the line that calls `clean`."""
    df = spark.createDataFrame([(1, "a", "b")], "id int, k string, v string")
    with pytest.warns(RuleWarning, match="'a' and 'b' say the same thing") as caught:
        clean(df, rules, id="id", rule_updates=updates).collect()
    assert [warning.filename for warning in caught if warning.category is RuleWarning] == [__file__]


def test_workers_without_the_package_are_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Spark would start a Python that cannot find the package, a warning says which to set."""
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.warns(SessionWarning, match=r"which does not have sparkbleach; .* PYSPARK_PYTHON="):
        clean(spark.createDataFrame([(1, "a", "b")], "id int, k string, v string"), ["r: k -> v"], id="id")
