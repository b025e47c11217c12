"""A Kafka broker of one node on this machine, for tests and demos; not for data that matters."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from ..errors import KafkaError
from .jars import broker_jars
from .topic import SCHEME

_HOST = "127.0.0.1"
_START_SECONDS = 180
_STOP_SECONDS = 60
_ATTEMPTS = 3
_JAVA_OPTIONS = ("-Xms128m", "-Xmx768m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
#: runs Java until standard input ends: the broker does not outlive the process that holds the other end
_GUARD = """
"$@" < /dev/null &
broker=$!
echo $broker
cat > /dev/null
kill $broker 2> /dev/null
wait $broker
"""


class Broker:
    """A broker in KRaft mode; a context manager that starts and stops it.

    The broker ends when the process that has started it ends, in whatever way.

    Args:
        directory: Where the broker keeps its data and its log; a broker that ran there before goes on.
        port: The port on the loopback interface; a free one if not given.
        notify: Gets a line for each step that takes long.
    """

    def __init__(
        self, directory: Path, port: int | None = None, notify: Callable[[str], None] = lambda _: None
    ) -> None:
        self.directory = directory
        self.port = port or 0
        self._fixed = port is not None
        self._notify = notify
        self._guard: subprocess.Popen[str] | None = None
        self._pid = 0

    @property
    def servers(self) -> str:
        """The address for clients: `host:port`."""
        return f"{_HOST}:{self.port}"

    def url(self, topic: str) -> str:
        """Return the address of a topic."""
        return f"{SCHEME}{self.servers}/{topic}"

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker, on its earlier port if it has run before, and return when it answers."""
        jars = broker_jars(self._notify)
        self.directory.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _ATTEMPTS + 1):
            if not self.port:
                self.port = _free_port()
            self._check_free()
            try:
                self._configure()
                self._format(jars)
                self._run(jars)
                self._await_answer()
            except KafkaError:
                self.stop()
                if self._fixed or attempt == _ATTEMPTS:
                    raise
                self.port = 0  # another process took the port
            except BaseException:
                self.stop()
                raise
            else:
                self._fixed = True
                return

    def stop(self) -> None:
        """Stop the broker in order; it can be started again."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        if guard.stdin:
            guard.stdin.close()
        try:
            guard.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            guard.wait()
        if guard.stdout:
            guard.stdout.close()

    def log(self) -> str:
        """Return the end of the broker's log."""
        with contextlib.suppress(OSError):
            return self._log.read_text(errors="replace")[-2000:]
        return ""

    @property
    def _log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def _settings(self) -> Path:
        return self.directory / "broker.properties"

    def _check_free(self) -> None:
        """Check that the port is free: another server there would be taken for this broker."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, self.port))
            except OSError as error:
                raise KafkaError(
                    f"broker: cannot start on port {self.port} ({error.strerror}); choose another port"
                ) from error

    def _configure(self) -> None:
        controller = _free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
            "listeners": f"PLAINTEXT://{_HOST}:{self.port},CONTROLLER://{_HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.directory / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def _format(self, jars: list[Path]) -> None:
        if (self.directory / "data" / "meta.properties").exists():
            return
        # With a hyphen at its beginning it would be taken for an option.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        command = [*_java(jars), "kafka.tools.StorageTool", "format", "--cluster-id", cluster]
        command += ["--config", str(self._settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise KafkaError(
                f"broker: cannot format {self.directory}; {(done.stderr or done.stdout).strip()[-500:]}"
            )

    def _run(self, jars: list[Path]) -> None:
        command = [*_java(jars), "kafka.Kafka", str(self._settings)]
        with self._log.open("a") as log:
            self._guard = subprocess.Popen(  # noqa: S603
                ["/bin/sh", "-c", _GUARD, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the process that has started it
            )
        assert self._guard.stdout is not None  # noqa: S101 -- asked for
        self._pid = int(self._guard.stdout.readline())

    def _await_answer(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                os.kill(self._pid, 0)
            except ProcessLookupError:
                break
            try:
                if client.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                continue
        raise KafkaError(
            f"broker: cannot start on port {self.port}; {self._log} has the reason: {self.log()}"
        )


def _java(jars: list[Path]) -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise KafkaError("broker: there is no Java on PATH; install Java 17 or newer")
    return [java, *_JAVA_OPTIONS, "-cp", os.pathsep.join(map(str, jars))]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])
