"""The paper's topology on Spark gives what the engine gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import sparkbleach
from sparkbleach import ConfigError, Limits, PaperTopology, RuleError, Window, clean, read_control
from tests.support.controlled_stream import FILE_TUPLES, TABLE, ControlledStream, same_times
from tests.support.queries import by_id, run_query
from tests.support.streams import DDL, RULES, WINDOW, cleaned_by_engine, tuples, write_files

#: what the engine needs to do as the paper says
AS_THE_PAPER: dict[str, Any] = {"repair": "class", "accept_after": None, "remember": None}
UPDATES = [
    {"at": 100, "op": "delete", "id": "client_city"},
    {"at": 250, "op": "add", "rule": "day_city: day -> city"},
    {"at": 401, "op": "delete", "id": "zip_rate"},
    {"at": 401, "op": "add", "rule": {"id": "zip_rate", "lhs": ["client"], "rhs": "rate"}},
]


@pytest.fixture
def two_partitions(spark: SparkSession) -> Any:
    """Have workers of a stage run in two tasks."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", "1")


@pytest.mark.parametrize(
    ("sizes", "partitions", "updates", "topology", "options"),
    [
        ([250, 1, 349], 2, UPDATES, PaperTopology(repair_workers=3), {}),
        ([300, 300], 1, UPDATES, PaperTopology(1, 2, "basic"), {}),
        ([200, 400], 2, (), PaperTopology(2, 2, "dr"), {"windowing": "basic", "window": Window(150, 50)}),
        ([599, 1], 3, (), PaperTopology(2, 1, "ir"), {"window": None}),
        ([300, 300], 2, UPDATES, PaperTopology(2, 2, "dr"), {"repair": "vote"}),
    ],
)
def test_a_stream_is_cleaned_as_by_the_engine(
    tmp_path: Path,
    stream: Callable[..., DataFrame],
    two_partitions: None,
    sizes: list[int],
    partitions: int,
    updates: Any,
    topology: PaperTopology,
    options: dict[str, Any],
) -> None:
    """However the work is spread and the stream is cut, rows and audit are the engine's."""
    table = tuples(600, seed=topology.repair_workers)
    write_files(table, tmp_path / "in", sizes)
    df = stream(tmp_path / "in").repartition(partitions)
    given = {"window": WINDOW, **options}
    cleaned = clean(
        df,
        RULES,
        id="id",
        order_by="id",
        egress_partitions=partitions,
        rule_updates=updates,
        topology=topology,
        **given,
    )
    expected = cleaned_by_engine(table, updates, **{**AS_THE_PAPER, **given})
    assert by_id(run_query(cleaned, tmp_path / "checkpoint")) == expected
    assert len(expected[1]) > 100


def test_a_restart_goes_on_with_the_state(tmp_path: Path, stream: Callable[..., DataFrame]) -> None:
    """A query that is started again goes on, also with other rules; Spark refuses other stages."""
    table = tuples(500, seed=4)
    write_files(table.slice(0, 200), tmp_path / "in", [200])
    rows: list[Any] = []

    def go_on(rules: list[Any], coordination: str = "dr") -> None:
        topology = PaperTopology(coordination=coordination)
        source = stream(tmp_path / "in")
        cleaned = clean(
            source, rules, id="id", window=WINDOW, topology=topology, limits=Limits(snapshot_bytes=1)
        )
        run_query(cleaned, tmp_path / "checkpoint", rows)

    go_on(RULES)
    assert len(rows) == 200
    write_files(table, tmp_path / "in", [200, 300])
    with pytest.raises(StreamingQueryException, match="OPERATOR_NOT_MATCH"):
        go_on(RULES, coordination="hinge")
    changed = [*RULES[1:4], RULES[4].replace("price", "client"), RULES[5]]
    go_on(changed)
    updates = [
        {"at": 200, "op": "delete", "id": "zip_city"},
        {"at": 200, "op": "delete", "id": "price_at"},
        {"at": 200, "op": "add", "rule": changed[3]},
    ]
    assert by_id(rows) == cleaned_by_engine(table, updates, **AS_THE_PAPER)


class PaperStream(ControlledStream):
    """A stream of files that come one by one, cleaned by workers."""

    def cleaned(self, rules: list[Any] = RULES) -> DataFrame:
        """Return the clean stream."""
        source = self.spark.readStream.schema(DDL).parquet(str(self.here / "in"))
        control = read_control(self.spark, self.controller.log)
        return clean(source, rules, id="id", window=WINDOW, control=control, topology="paper")


def test_rules_change_while_the_stream_runs(tmp_path: Path, spark: SparkSession) -> None:
    """Control records take effect before the next tuple, also without one; a shadow rule is refused."""
    stream = PaperStream(spark, tmp_path)
    with stream.running() as query:
        stream.send()
        stream.wait(query, FILE_TUPLES, 1)
        stream.controller.delete("zip_city")
        stream.controller.add(
            "day: client -> day", {"id": "s", "lhs": ["day"], "rhs": "city", "mode": "shadow"}
        )
        stream.wait(query, FILE_TUPLES, 4)  # a micro-batch without tuples
        stream.send()
        stream.wait(query, 2 * FILE_TUPLES, 4)
    assert [change.state for change in stream.controller.history()] == [
        "started",
        "applied",
        "applied",
        "refused",
    ]
    assert "shadow rules are not supported" in str(stream.controller.history()[-1].reason)
    updates = stream.applied()
    assert [update["at"] for update in updates] == [FILE_TUPLES] * 2
    rows, audit = cleaned_by_engine(TABLE.slice(0, 2 * FILE_TUPLES), updates, **AS_THE_PAPER)
    assert same_times(stream.rows()) == same_times(rows)
    assert stream.audit() == audit


def test_rows_are_quarantined_and_progress_is_reported(tmp_path: Path, spark: SparkSession) -> None:
    """A row without an id keeps its position and is not cleaned; the report has counts by rule."""
    ddl = "id long, zip string, city string"
    rows = [(1, "z", "Paris"), (None, "z", "Lyon"), (2, "z", "Paris"), (3, "z", "Rome")]
    spark.createDataFrame(rows, ddl).coalesce(1).write.parquet(str(tmp_path / "in"))
    df = spark.readStream.schema(ddl).parquet(str(tmp_path / "in"))
    cleaned = clean(
        df, ["r: zip -> city"], id="id", quarantine=True, topology=PaperTopology(coordination="basic")
    )
    found: list[Any] = []
    query = (
        cleaned.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    by_id = {row.id: row for row in found}
    assert len(found) == 4
    assert (by_id[None].city, by_id[None]._quarantine) == ("Lyon", "id: the id is null")
    assert (by_id[3].city, by_id[3]._repairs[0].position) == ("Paris", 3)
    report = next(filter(None, map(sparkbleach.report, query.recentProgress)))
    assert (report["position"], report["tuples"], report["version"]) == (4, 4, 1)
    assert (report["violations"], report["repairs"]) == ({"r": 1}, {"r": 1})
    assert report["super_cells"] == 2
    assert report["coordination_messages"] == 4  # each of two workers sends one and gets one


def test_wrong_options_are_refused(
    spark: SparkSession, stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """What does not fit a topology is refused before anything runs, with a remedy."""
    write_files(tuples(10, seed=1), tmp_path / "in", [10])
    df = stream(tmp_path / "in")
    with pytest.raises(ConfigError, match="topology: 'star' is unknown; choose one of fused, paper"):
        clean(df, RULES, id="id", topology="star")
    with pytest.raises(ConfigError, match="topology: must be 'fused', 'paper' or a PaperTopology, not int"):
        clean(df, RULES, id="id", topology=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="lanes: must be 1 with topology='paper'"):
        clean(df, RULES, id="id", topology="paper", lanes=2)
    with pytest.raises(ConfigError, match="detect_workers: 0 must be a positive integer"):
        clean(df, RULES, id="id", topology=PaperTopology(detect_workers=0))
    with pytest.raises(ConfigError, match="topology: 'paper' is for streaming DataFrames"):
        clean(spark.createDataFrame([], DDL), RULES, id="id", topology="paper")
    shadow = {"id": "s", "lhs": ["day"], "rhs": "city", "mode": "shadow"}
    with pytest.raises(RuleError, match="shadow rules are not supported here"):
        clean(df, [*RULES, shadow], id="id", topology="paper")
    with pytest.raises(RuleError, match=r"rule update at 5: .*shadow rules are not supported"):
        clean(df, RULES, id="id", topology="paper", rule_updates=[{"at": 5, "op": "add", "rule": shadow}])
