"""On a cluster of several processes the output is the engine's, also when one of them dies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.standalone import Cluster
from tests.support.compiled import give_machine_code
from tests.support.crash_run import CrashRun
from tests.support.documents import ROOT, blocks
from tests.support.processes import kill_tree, unmeasured_environment
from tests.support.profiles import NIGHTLY
from tests.support.streams import cleaned_by_engine

PROGRAM = Path(__file__).parents[1] / "support" / "cluster" / "program.py"
_SECONDS_MAX = 600.0


class Job:
    """A program on a cluster that cleans several streams, started as docs/spark.md says.

    Args:
        here: A directory for all files.
        runs: The streams.
    """

    def __init__(self, here: Path, *runs: CrashRun) -> None:
        self.here = here
        self.runs = runs
        self.cluster = Cluster(here / "cluster", {"XDG_CACHE_HOME": str(here / "cache")})
        # Compiles, if nobody has before, also what deletes a rule.
        cleaned_by_engine(runs[0].table, [{"at": 200, "op": "delete", "id": "zip_city"}])
        give_machine_code(here / "cache")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the program; at the end wait for it, and compare all output with the engine's."""
        for run in self.runs:
            run.update_rules()
        asked = [(str(run.directory), run.options) for run in self.runs]
        (self.here / "runs.json").write_text(json.dumps(asked))
        shutil.copy(PROGRAM, self.here / "job.py")
        (commands,) = [code for language, code in blocks("docs/spark.md") if language == "sh"]
        assert "spark://master:7077" in commands
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        sources = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self.here / "log").open("w") as log:
            self.process = subprocess.Popen(  # noqa: S603
                ["/bin/bash", "-euc", commands.replace("spark://master:7077", self.cluster.url)],
                cwd=self.here,
                env={
                    **unmeasured_environment(),
                    "PATH": path,
                    "PYTHONPATH": sources,
                    "PYSPARK_PYTHON": sys.executable,
                },
                stdout=log,
                stderr=log,
            )
        try:
            yield
            assert self.process.wait(_SECONDS_MAX) == 0, self.logs()
        finally:
            kill_tree(self.process.pid)
            self.process.wait()
        for run in self.runs:
            run.check()

    def wait_for(self, run: CrashRun) -> None:
        """Wait until a stream has come to the micro-batch that is held back."""
        deadline = time.monotonic() + _SECONDS_MAX
        while not (run.directory / "reached").exists():
            assert self.process.poll() is None, self.logs()
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def release(self, run: CrashRun) -> None:
        """Let a stream go on that is held back."""
        (run.directory / "released").touch()

    def packages(self) -> set[str]:
        """Return where executors have the package from, without the names that Spark gives them."""
        paths = json.loads((self.here / "packages.json").read_text())
        found = [Path(path).relative_to(self.here / "cluster").parts for path in paths]
        return {f"{parts[1]}/{'/'.join(parts[4:])}" for parts in found}

    def logs(self) -> str:
        """Return what the program and the cluster said last."""
        return (self.here / "log").read_text()[-3000:] + self.cluster.logs()


def test_a_worker_is_killed_and_replaced(tmp_path: Path) -> None:
    """The state dies with its worker after it was stored, and before the micro-batch ends; another goes on.

    Then a new worker joins, and the paper's workers spread over both. Executors have the package from the
    archive that was shipped to them.
    """
    fused = CrashRun(tmp_path / "fused", n_files=6)
    paper = CrashRun(tmp_path / "paper", n_files=4, paper={"repair_workers": 2})
    job = Job(tmp_path, fused, paper)
    with job.cluster as cluster:
        cluster.add(1)
        cluster.add(2)
        with job.running():
            job.wait_for(fused)
            (holder,) = cluster.with_state()
            cluster.kill(holder)
            job.release(fused)
            cluster.add(3)
            job.wait_for(paper)
            assert len(cluster.with_state()) == 2
            job.release(paper)
    assert job.packages() == {"work/sparkbleach.zip/sparkbleach/__init__.py"}


@pytest.mark.skipif(not NIGHTLY, reason="nightly: each takes a minute")
@pytest.mark.parametrize("options", [{"lanes": 2}, {"paper": {"repair_workers": 2}}])
@pytest.mark.parametrize("victim", [1, 2])
def test_a_worker_with_some_of_the_state_is_killed(
    tmp_path: Path, options: dict[str, Any], victim: int
) -> None:
    """When one of two workers dies, the other one takes over its share of lanes or of the paper's workers."""
    run = CrashRun(tmp_path / "run", n_files=6, **options)
    job = Job(tmp_path, run)
    with job.cluster as cluster:
        cluster.add(1)
        cluster.add(2)
        with job.running():
            job.wait_for(run)
            assert len(cluster.with_state()) == 2
            cluster.kill(victim)
            job.release(run)
