"""The broker starts, stops, keeps what it was given, and does not outlive who started it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from sparkbleach.errors import KafkaError
from sparkbleach.kafka import Broker, Topic
from sparkbleach.kafka.broker import _free_port
from sparkbleach.kafka.client import Watch, number_of_partitions

DEADLINE_SECONDS = 180


def listens(port: int) -> bool:
    """Return whether something listens on a port."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def await_silence(port: int) -> None:
    """Wait until nothing listens on a port any more."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while listens(port):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_command_leaves_no_broker_behind(connector: str | None, tmp_path: Path, number: int) -> None:
    """However the command ends, its broker ends, too; SIGTERM ends it in order."""
    if connector is None:
        pytest.skip("Kafka: its jars are not in the cache, and Maven Central cannot be reached")
    port = _free_port()
    command = [sys.executable, "-m", "sparkbleach.cli", "broker", "--port", str(port)]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline()
        assert listens(port)
        process.send_signal(number)
        assert process.wait(DEADLINE_SECONDS) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    await_silence(port)
    if number == signal.SIGTERM:
        assert not list(tmp_path.glob("sparkbleach-broker-*"))


def test_any_cluster_id_will_do(
    connector: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker starts whatever its random id is."""
    if connector is None:
        pytest.skip("Kafka: its jars are not in the cache, and Maven Central cannot be reached")
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xfb" * 16))  # in base64: ---...
    with Broker(tmp_path / "broker") as broker:
        assert listens(broker.port)


def test_a_taken_port_is_reported(broker: Broker, tmp_path: Path) -> None:
    """A broker that was given a port that is taken does not start, and says so."""
    with pytest.raises(KafkaError, match=rf"cannot start on port {broker.port}"):
        Broker(tmp_path / "second", broker.port).start()
    assert number_of_partitions(Topic.parse(broker.url("nothing"))) == 0


def test_a_cluster_that_does_not_answer_is_reported() -> None:
    """The error names the address of the cluster and what to check."""
    with pytest.raises(KafkaError, match=r"kafka://127.0.0.1:1/t: .*check the address"):
        number_of_partitions(Topic("127.0.0.1:1", "t", timeout_s=1))


def test_a_watch_knows_for_how_long_a_cluster_is_away(broker: Broker) -> None:
    """As long as a cluster answers, it is away for no longer than between two answers; else ever longer."""
    there, gone = (Watch(Topic(servers, "any"), every_s=0.05) for servers in (broker.servers, "127.0.0.1:1"))
    before = there.away_s(), gone.away_s()
    assert before == (0, 0)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while there.away_s() >= gone.away_s():  # which an answer of the one and none of the other ends
        assert time.monotonic() < deadline
        time.sleep(0.01)
    n_seconds = gone.away_s()
    time.sleep(0.2)
    assert gone.away_s() >= n_seconds + 0.2
