"""The command reads and writes topics, goes on after a SIGKILL, and says what is wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkbleach.cli.checkpoint import Checkpoint
from sparkbleach.kafka import Broker
from sparkbleach.kafka.client import number_of_partitions, read, size
from tests.support.commands import Run
from tests.support.processes import kill_tree, unmeasured_environment
from tests.support.records import COLUMNS, DDL, audit_rows, new_topic, origin, rows, send, values
from tests.support.streams import cleaned_by_engine, tuples

DEADLINE_SECONDS = 300
N_TUPLES = 2_000


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Give a file with a rule."""
    path = tmp_path / "rules.yml"
    path.write_text('rules:\n  - "zip_city: zipcode -> city"\n')
    return path


def test_a_killed_cleaner_goes_on(broker: Broker, tmp_path: Path, rules: Path) -> None:
    """After a SIGKILL of all its processes the same command goes on; nothing is lost or doubled."""
    table = tuples(N_TUPLES, seed=8).select(COLUMNS)
    given: list[bytes | None] = list(values(table))
    bad = range(50, N_TUPLES, 100)
    for offset in bad:
        given[offset] = b"{"
    dirty = new_topic(broker, "killed")
    send(dirty, given[: N_TUPLES // 2])
    output = dirty.beside("clean")
    command = [
        sys.executable, "-m", "sparkbleach.cli", "clean", "--rules", str(rules), "--input", str(dirty),
        "--output", str(output), "--id", "id", "--schema", DDL, "--no-window", "--records-per-batch", "200",
        "--look-ahead", "1",
        "--checkpoint", str(tmp_path / "checkpoint"), "--master", "local[2]",
    ]  # fmt: skip
    environment = {**unmeasured_environment(), "PYSPARK_PYTHON": sys.executable}

    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*command, "--follow"], env=environment, stdout=log, stderr=log)  # noqa: S603
    deadline = time.monotonic() + DEADLINE_SECONDS
    while number_of_partitions(output) == 0 or size(output) < N_TUPLES // 5:
        assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    kill_tree(process.pid)
    process.wait()
    send(dirty, given[N_TUPLES // 2 :], first=N_TUPLES // 2)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-3000:]
    assert str(output) in done.stdout

    good = [offset for offset in range(N_TUPLES) if offset not in bad]
    expected, audit = cleaned_by_engine(
        table.take(good), rules=["zip_city: zipcode -> city"], window=None, look_ahead=1
    )
    assert [origin(record)[1] for record in read(output)] == good
    assert rows(output) == expected
    found = audit_rows(output.beside("audit"))
    assert [row["position"] for row in found] == [good[row["position"]] for row in audit]
    assert [row["new_value"] for row in found] == [row["new_value"] for row in audit]
    quarantined = read(output.beside("quarantine"))
    assert [origin(record)[1] for record in quarantined] == list(bad)
    assert {record.value for record in quarantined} == {b"{"}


def test_what_is_wrong_is_reported(run: Run, broker: Broker, tmp_path: Path, rules: Path) -> None:
    """Paths among topics, options for files, a missing schema or topic: reported before anything is made."""
    dirty = new_topic(broker, "wrong")
    send(dirty, [b'{"id": 1, "zipcode": "1", "city": "Rome"}'])
    output = dirty.beside("clean")

    def problem(*more: object, **places: object) -> str:
        given = {"input": dirty, "output": output, "checkpoint": tmp_path / "checkpoint", **places}
        arguments = [argument for name, place in given.items() for argument in (f"--{name}", place)]
        result = run("clean", "--rules", rules, "--id", "id", *arguments, *more)
        assert result.exit_code == 2
        return str(result.stderr)

    schema = ("--schema", DDL)
    assert "schema: a topic does not have one" in problem()
    assert "there is no such topic" in problem(*schema, input=broker.url("nowhere"))
    assert "is a path, but another place is a topic" in problem(*schema, output=tmp_path / "out")
    assert "is a path, but another place is a topic" in problem(*schema, input=tmp_path / "in")
    assert "order by: --order-by is for files" in problem(*schema, "--order-by", "id")
    assert "write key=value" in problem(*schema, "--kafka-option", "ssl")
    assert "this is not the address of a topic" in problem(*schema, input="kafka://nowhere")
    assert "is a directory, but the output is a topic" in problem(
        *schema, "--rules-target", tmp_path / "rules"
    )
    assert "id: the schema has no column 'id'" in problem("--schema", "key int")
    assert number_of_partitions(output) == 0


def test_a_topic_is_cleaned_and_explained(
    run: Run, broker: Broker, tmp_path: Path, rules: Path, spark: SparkSession
) -> None:
    """The command cleans what is there, once; a new checkpoint does not write it a second time."""
    dirty = new_topic(broker, "command")
    cities = [b"Rome", b"Rome", b"Rom"]
    value = b'{"id": %d, "zipcode": "1", "city": "%s", "more": 1}'
    send(dirty, [value % (number, city) for number, city in enumerate(cities)])
    output = dirty.beside("clean")
    command: list[object] = ["clean", "--rules", rules, "--input", dirty, "--output", output, "--id", "id"]
    command += ["--schema", "id INT, zipcode STRING, city STRING", "--checkpoint"]
    for _ in range(2):
        result = run(*command, tmp_path / "checkpoint")
        assert result.exit_code == 0, result.output
    assert "nothing new to clean" in result.stdout
    with (
        pytest.raises(ValueError, match="a fault"),
        Checkpoint(spark, str(tmp_path / "checkpoint")).examined(),
    ):
        raise ValueError("a fault")  # the checkpoint is not to blame
    assert rows(output) == [{"id": n, "zipcode": "1", "city": "Rome", "more": 1} for n in range(3)]
    explained = run("explain", "2", "--audit", output.beside("audit"))
    assert "city: 'Rom' -> 'Rome'" in explained.stdout
    tried = run("check", "--rules", rules, "--input", dirty, "--id", "id")
    assert tried.exit_code == 2
    assert "rules are tried on files" in tried.stderr
    refused = run(*command, tmp_path / "another")
    assert refused.exit_code == 2
    assert "has records of another run" in refused.stderr
