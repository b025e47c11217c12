"""`sparkbleach bench`: experiments, once, small (nightly: all); and by themselves the parts without Spark."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sparkbleach import SparkbleachError
from sparkbleach.cli.app import app
from sparkbleach.evaluate import tpcds
from sparkbleach.evaluate.arrive import SteadyReader
from sparkbleach.evaluate.experiments import EXPERIMENTS
from sparkbleach.evaluate.figures import draw
from sparkbleach.evaluate.report import write_report
from sparkbleach.evaluate.result import Claim, Figure, Mark, Panel, Result, Series, save
from sparkbleach.evaluate.spark_run import Arrival, MicroBatch
from sparkbleach.evaluate.streams import repeated, write_steady
from sparkbleach.evaluate.watch import Watch, describe_others, summary
from tests.support.evaluation import NAMES
from tests.support.profiles import NIGHTLY
from tests.support.sales import sales


def test_every_experiment_gives_numbers_figures_and_claims(evaluation: Path) -> None:
    """Each experiment writes its numbers as Parquet and CSV, its figures, and what claims it supports."""
    for name in NAMES:
        result = json.loads((evaluation / "results" / f"{name}.json").read_text())
        assert result["claims"]
        assert result["figures"]
        assert {claim["source"] for claim in result["claims"]} <= {"paper", "goal"}
        for figure in result["figures"]:
            for suffix in ("svg", "png"):
                assert (evaluation / "figures" / f"{figure['name']}.{suffix}").stat().st_size > 1_000
        assert set(result["shown"]) <= set(result["tables"])
        for table in result["tables"]:
            assert pq.read_table(evaluation / "data" / f"{name}-{table}.parquet").num_rows > 0
            assert (evaluation / "data" / f"{name}-{table}.csv").stat().st_size > 0


def test_the_report_is_one_file(evaluation: Path) -> None:
    """The report has a section and the figures of each experiment, and loads nothing from elsewhere."""
    page = (evaluation / "report.html").read_text()
    for name in NAMES:
        assert f"id='{name}'" in page
    figures = len(list((evaluation / "figures").glob("*.svg")))
    assert page.count("src='data:image/svg+xml;base64,") == page.count("<img ") == figures
    assert "http" not in page.replace("http://www.w3.org", "")


def test_claims_that_do_not_depend_on_size(evaluation: Path) -> None:
    """Also in a tiny run real tables have their scores, clean data is left alone, and workers agree."""
    for name in ("tables", "dirt", "coordination"):
        claims = json.loads((evaluation / "results" / f"{name}.json").read_text())["claims"]
        held = [claim["holds"] for claim in claims if "latency" not in claim["says"]]
        assert held
        assert all(held)


def test_coordination_messages(evaluation: Path) -> None:
    """More workers send more messages; dr sends what ir sends, less than by the paper's condition."""
    rows = pq.read_table(evaluation / "data" / "coordination-mechanisms.parquet").to_pylist()
    sent = {(row["mechanism"], row["repair_workers"]): row["messages"] for row in rows}
    assert len(sent) == len(rows) == 5 * 4
    for workers in (1, 2, 3, 5):
        # basic: each worker proposes, and each gets a decision, for each violating cell
        assert sent["basic", workers] == workers * sent["basic", 1]
        assert sent["basic", workers] > sent["dr (paper)", workers] > sent["dr", workers] > 0
        assert sent["ir", workers] == sent["dr", workers]
        assert sent["hinge", workers] == 0
    assert sent["dr", 5] > sent["dr", 3] > sent["dr", 2] > sent["dr", 1]


def test_coordination_on_spark(evaluation: Path) -> None:
    """Each mechanism has a latency beside the paper's; basic sends the most messages, hinge none."""
    rows = pq.read_table(evaluation / "data" / "coordination-latency.parquet").to_pylist()
    assert {row["mechanism"]: row["paper_ms"] for row in rows} == {
        "basic": 364,
        "dr": 323,
        "ir": 316,
        "hinge": None,
    }
    assert min(row["mean_ms"] for row in rows) > 0
    assert min(row["micro_batches"] for row in rows) >= 2
    basic, dr, ir, hinge = (row["messages"] / row["tuples"] for row in rows)
    assert basic > max(dr, ir)
    assert min(dr, ir) > hinge == 0


def test_latencies_are_measured_on_spark(evaluation: Path) -> None:
    """There are samples in the measured micro-batches."""
    samples = pq.read_table(evaluation / "data" / "latency-samples.parquet")["latency_ms"].to_numpy()
    assert samples.size
    assert (samples > 0).all()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: these experiments take two minutes")
def test_long_experiments_measure_on_spark(evaluation: Path) -> None:
    """There are latencies before, between and after changes of rules, by window, and rates by core."""
    phases = pq.read_table(evaluation / "data" / "dynamic-phases.parquet")
    assert phases["phase"].to_pylist()[-1] == "with r6 and r7"
    needed = pq.read_table(evaluation / "data" / "baseline-windows.parquet")
    assert min(needed["mean_latency_ms"].to_pylist()) > 0
    cores = pq.read_table(evaluation / "data" / "cores-cores.parquet")
    assert min(cores["tuples_per_s"].to_pylist()) > 0
    assert cores["master"].to_pylist() == ["local[1]"]


def test_names(tmp_path: Path) -> None:
    """The names of experiments are listed; an error about a wrong one has the right ones."""
    listed = CliRunner().invoke(app, ["bench", "--list"])
    assert listed.output.split() == list(EXPERIMENTS)
    wrong = CliRunner().invoke(app, ["bench", "acuracy", "--output", str(tmp_path)])
    assert wrong.exit_code == 2
    assert "there is no experiment 'acuracy'; choose from accuracy, windowing" in wrong.output


def test_results_of_several_calls_make_one_report(tmp_path: Path) -> None:
    """A report is made of all results in a directory, in the order of the experiments, with text escaped."""
    figure = Figure(
        "a-figure",
        "What <it> shows.",
        [
            Panel("lines", "x", "y", [Series("one", [1, 10], [0.1, 0.2])], [Mark("x", 2, "two")], log_x=True),
            Panel("bars", "x", "y", [Series("a", ["a long name"] * 9, [1] * 9, "bars")], percent_y=True),
        ],
    )
    claims = [Claim("paper", "a < b", "1 < 2", True), Claim("goal", "?", "nothing", None)]
    numbers = {"numbers": pa.table({"name": ["x"], "n": [1_000], "share": [0.25], "none": [None]})}
    about = {"profile": "tiny", "date": "today", "machine": "this one", "versions": "all"}
    for name in ("second", "first"):
        result = Result(f"The {name}", "Why?", "So.", claims, [figure], numbers, ["numbers"])
        save(result, name, tmp_path, about)
    page = write_report(tmp_path, ["first", "second", "third"]).read_text()
    assert page.index("<h2 id='first'>") < page.index("<h2 id='second'>")
    assert "third" not in page
    assert "a &lt; b" in page
    assert "What &lt;it&gt; shows." in page
    assert "<td class=n>1,000<td class=n>0.25<td class=n>-" in page
    assert page.count("this one") == 1


def test_figures_are_the_same_each_time(tmp_path: Path) -> None:
    """A figure that is drawn twice gives the same file, so that it can be kept under version control."""
    figure = Figure("one", "", [Panel("t", "x", "y", [Series("s", [1, 2], [3, 4], "dots")], log_y=True)])
    drawn = []
    for _ in range(2):
        draw(figure, tmp_path)
        drawn.append((tmp_path / "one.svg").read_bytes())
    assert drawn[0] == drawn[1]


def test_zeros_are_shown_on_a_logarithmic_axis(tmp_path: Path) -> None:
    """What is below the floor of a logarithmic axis is drawn there, as the tick says; a zero is no bar."""
    lines = Panel("t", "x", "y", [Series("s", [1, 2], [0.0, 0.02])], log_y=True, percent_y=True, y_floor=1e-5)
    bars = Panel("t", "x", "y", [Series("s", ["a", "b"], [0, 90], "bars")], log_y=True, y_floor=0.01)
    for panel, ticks in ((lines, ["≤ 0.001 %", "0.01 %", "1 %"]), (bars, ["≤ 0.01", "0.1", "10", "0"])):
        draw(Figure("one", "", [panel]), tmp_path)
        text = (tmp_path / "one.svg").read_text(encoding="utf-8")
        assert [tick for tick in ticks if f"<!-- {tick} -->" in text] == ticks
        assert f"<!-- {ticks[0].removeprefix('≤ ')} -->" not in text


def test_tpcds_is_generated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The genuine stream has the columns of the generated one, and is read from the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    table = tpcds.sales(0.01)
    assert table.schema.names == sales(10).schema.names
    assert table.num_rows > 25_000
    assert table["id"].to_pylist() == list(range(table.num_rows))
    tickets = table["ss_ticket_number"].to_numpy()
    assert np.count_nonzero(np.diff(tickets)) == len(set(tickets)) - 1
    files = list(tmp_path.rglob("*"))
    assert tpcds.cached(0.01) in files
    assert not [path for path in files if path.name.startswith("generating-")]
    monkeypatch.setattr(tpcds, "generate", lambda *_: pytest.fail("it was there"))
    assert tpcds.sales(0.01, 700).equals(table.slice(0, 700))
    assert "ss_net_profit" in tpcds.sales(0.01, 5, columns=["id", "ss_net_profit"]).column_names


def test_without_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, one sentence says what to install."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tpcds, "find_spec", lambda _: None)
    with pytest.raises(SparkbleachError, match=r"install sparkbleach\[evaluate\]"):
        tpcds.sales(0.01)


def test_tuples_arrive_at_a_steady_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock begins after the backlog; after the last tuple of the file comes the first."""
    path = tmp_path / "stream.arrow"
    write_steady(sales(10), path)
    reader = SteadyReader({"path": str(path), "rate": "100", "backlog": "7"})
    now = 5_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    assert reader.initialOffset()["n"] == 0
    assert reader.latestOffset() == {"n": 7, "begin": 0.0}
    assert reader.latestOffset() == {"n": 7, "begin": 5_000.0}
    now = 5_000.25
    end = reader.latestOffset()
    assert end == {"n": 32, "begin": 5_000.0}
    (part,) = reader.partitions({"n": 7, "begin": 0.0}, end)
    ids = [id for batch in reader.read(part) for id in batch.column("id").to_pylist()]
    assert ids == [n % 10 for n in range(7, 32)]


def test_a_stream_can_be_repeated() -> None:
    """A stream that is too short begins again; one that is long enough is cut."""
    stream = sales(10)
    assert repeated(stream, 23)["id"].to_pylist() == [n % 10 for n in range(23)]
    assert repeated(stream, 4)["id"].to_pylist() == [0, 1, 2, 3]


def test_latency_of_a_micro_batch() -> None:
    """The latency of a sampled tuple is the time from its arrival to the end of its micro-batch."""
    backlog = MicroBatch(90.0, 5.0, 0, 1_000, None)
    one = MicroBatch(started=102.0, seconds=0.5, first=1_000, end=1_200, report=None, clock=100.0)
    short = MicroBatch(started=103.0, seconds=0.5, first=1_201, end=1_203, report=None, clock=100.0)
    arrival = Arrival(rate=100, backlog=1_000)
    assert arrival.measured([backlog, one, short]) == [one, short]
    assert replace(arrival, warm_up=1).measured([backlog, one, short]) == [short]
    assert replace(arrival, first=1_001).measured([backlog, one, short]) == [short]
    assert arrival.latencies_ms(one).tolist() == [2_500, 1_500]
    assert arrival.latencies_ms(one, every=1).size == one.tuples
    assert arrival.latencies_ms(short).tolist() == pytest.approx([1_480])


def test_cpu_and_memory_are_watched() -> None:
    """A busy process is seen to be busy, and to have memory."""
    with Watch(0.05) as watch:
        deadline = time.monotonic() + 120
        while not any(sample.cores for sample in watch.samples) and time.monotonic() < deadline:
            sum(range(10_000))
    assert any(sample.cores > 0 for sample in watch.samples)
    assert watch.samples[0].memory_mb > 10
    assert watch.samples[0].others >= 0
    assert summary(watch.samples)["memory_mb_max"] == max(one.memory_mb for one in watch.samples)
    assert summary([])["busy_cores"] is None
    assert describe_others(watch.samples).startswith("Meanwhile other programs kept ")
