"""Spark's standalone cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pyspark

from tests.support.processes import kill_tree, unmeasured_environment

_SPARK_HOME = Path(pyspark.__file__).parent
_START_SECONDS_MAX = 120.0


class Cluster:
    """A master, and workers with one core each; all are killed at the end of a `with` statement.

    Attributes:
        url: The address of the master.
        workers: By number: the workers that are alive.
    """

    def __init__(self, directory: Path, variables: dict[str, str]) -> None:
        self.directory = directory
        self._environment = {**unmeasured_environment(), **variables, "SPARK_HOME": str(_SPARK_HOME)}
        self._environment.pop("PYTHONPATH", None)  # executors have what is shipped to them
        self.url = ""
        self.workers: dict[int, subprocess.Popen[Any]] = {}

    def __enter__(self) -> Cluster:
        self._master = self._start("master", "master.Master", "--port", "0")
        self.url = self._wait_for("master", r"Starting Spark master at (spark://\S+)")
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self.workers):
            self.kill(number)
        kill_tree(self._master.pid)
        self._master.wait()

    def add(self, number: int) -> None:
        """Start a worker."""
        name = f"worker-{number}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / name / "work")]
        self.workers[number] = self._start(name, "worker.Worker", *options, self.url)

    def kill(self, number: int) -> None:
        """Kill a worker and all that it has started: its executors and their Python processes."""
        process = self.workers.pop(number)
        kill_tree(process.pid)
        process.wait()

    def with_state(self) -> list[int]:
        """Return the numbers of the workers whose executors have state stores."""
        return [
            number
            for number in self.workers
            if any((self.directory / f"worker-{number}" / "local").rglob("StateStoreId*"))
        ]

    def logs(self) -> str:
        """Return what all processes said last."""
        paths = [*self.directory.glob("*/log"), *self.directory.glob("*/work/*/*/stderr")]
        return "\n".join(f"{path}:\n{path.read_text()[-2000:]}" for path in paths)

    def _start(self, name: str, daemon: str, *arguments: str) -> subprocess.Popen[Any]:
        directory = self.directory / name
        directory.mkdir(parents=True)
        environment = {**self._environment, "SPARK_LOCAL_DIRS": str(directory / "local")}
        command = [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with (directory / "log").open("w") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)  # noqa: S603

    def _wait_for(self, name: str, pattern: str) -> str:
        """Wait until a process says something; return the group of the pattern."""
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            if found := re.search(pattern, (self.directory / name / "log").read_text()):
                return found[1]
            time.sleep(0.1)
        raise TimeoutError(f"the {name} does not say {pattern!r}: {self.logs()}")
