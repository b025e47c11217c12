"""Exactly once: whatever is killed, the output is that of an undisturbed run."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sparkbleach import RuleUpdate, open_log
from sparkbleach.engine.engine import as_rule
from tests.conftest import NIGHTLY, unmeasured
from tests.support.streams import RULES, cleaned_by_engine, tuples, write_files

HERE = Path(__file__).parents[1] / "support"
ROOT = HERE.parent.parent
N_FILES, FILE_TUPLES = 12, 150
#: a place and the how-many-eth time it is passed; see crash/sitecustomize.py
PLACES = ["ingress:2", "ingress:4", "lane:1", "lane:5", "delta:3", "snapshot:1", "snapshot:3", "snapshot:12"]
PLACES += ["deletion:5", "head:1", "head:4", "head:5", "egress:2", "egress:4", "writer:1", "writer:4"]
PLACES += ["writer:7", "written:3", "written:5"]
PAPER_PLACES = ["head:1", "head:2", "head:9", "delta:4", "snapshot:3", "detect:1", "detect:4", "deletion:9"]
PAPER_PLACES += ["repair:1", "repair:6", "aggregator:1", "aggregator:4", "egress:3", "written:2"]
#: what happens to the rules, one with each start of the program
UPDATES = [RuleUpdate(delete="zip_city"), RuleUpdate(rule=as_rule(RULES[0]))]


class Run:
    """A directory with a stream, and the program that cleans it."""

    def __init__(self, directory: Path, seed: int = 0, n_files: int = N_FILES, **options: Any) -> None:
        self.directory = directory
        #: more options of `clean`
        self.options = options
        self.table = tuples(n_files * FILE_TUPLES, seed)
        write_files(self.table, directory / "in", [FILE_TUPLES] * n_files)
        self.marks = 0
        self.rule_log = open_log(str(directory / "rules"))

    def start(self, at: str | None = None, *, itself: bool = False, master: str = "local[2]") -> Any:
        """Start the program, with a crash at a place or without; each time with one more rule update."""
        self.update_rules()
        self.mark = self.directory / f"mark-{self.marks}"
        environment = {
            **unmeasured(),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(HERE / "crash"), str(ROOT / "src"), str(ROOT)]),
        }
        if at:
            environment |= {"CRASH_AT": at, "CRASH_MARK": str(self.mark)}
        if itself:
            environment["CRASH_SELF"] = "yes"
        program = [sys.executable, str(HERE / "crash" / "cleaner.py")]
        command = [*program, str(self.directory), master, json.dumps(self.options)]
        log = (self.directory / f"log-{self.marks}").open("w")
        with log:
            return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)  # noqa: S603

    def update_rules(self) -> None:
        """Publish one more rule update."""
        self.rule_log.publish(UPDATES[self.marks % len(UPDATES)], by="a test")
        self.marks += 1

    def kill_at(self, place: str) -> None:
        """Kill the whole process tree when it has reached a place."""
        process = self.start(place)
        while not self.mark.exists():
            assert process.poll() is None, f"it ended before {place}: {self.log()}"
            time.sleep(0.02)
        kill_tree(process.pid)
        process.wait()

    def kill_after(self, seconds: float) -> bool:
        """Kill the whole process tree after some time; tell whether it was still running."""
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait()
            return True
        assert process.returncode == 0, self.log()
        return False

    def finish(self, **options: Any) -> None:
        """Let the program run to its end, and check all that it has written."""
        process = self.start(**options)
        process.wait(900)  # a busy machine takes minutes
        assert process.returncode == 0, self.log()
        self.check()

    def check(self) -> None:
        """Compare output and audit with the engine's, with updates where the outcomes tell."""
        outcomes = [outcome for outcome in self.rule_log.outcomes() if outcome.kind != "started"]
        assert [outcome.number for outcome in outcomes] == [
            record.number for record in self.rule_log.published()
        ]
        updates = [{**(outcome.update or {}), "at": outcome.position} for outcome in outcomes]
        rows, audit = cleaned_by_engine(self.table, updates)
        written = sorted(read(self.directory / "out"), key=lambda row: row["id"])
        for row in written:
            row["at"] = row["at"] and row["at"].replace(tzinfo=row["at"].tzinfo or dt.UTC)
        assert len(written) == len(rows)
        assert written == rows
        assert sorted(read(self.directory / "audit"), key=order) == sorted(audit, key=order)

    def log(self) -> str:
        """Return what the program last said."""
        return (self.directory / f"log-{self.marks}").read_text()[-3000:]


def order(row: dict[str, Any]) -> tuple[int, str]:
    """Order audit rows."""
    return row["position"], row["attribute"]


def read(directory: Path) -> list[dict[str, Any]]:
    """Return the rows in all files of a directory."""
    return [row for path in directory.glob("*.parquet") for row in pq.read_table(path).to_pylist()]


def kill_tree(pid: int) -> None:
    """Kill a process and all that it has started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    tree = [pid]
    for one in tree:
        tree += children.get(one, [])
    for one in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def lose_newest_state(directory: Path) -> int:
    """Delete all files of the newest version of the lane's state store; return its number."""
    store = directory / "checkpoint" / "state" / "0" / "0"
    newest = max(int(path.name.partition(".")[0].partition("_")[0]) for path in store.glob("*.changelog"))
    for path in [*store.glob(f"{newest}.*"), *store.glob(f"{newest}_*")]:
        path.unlink()
    return newest


def newest_commit(directory: Path) -> int:
    """Return the number of the last micro-batch that was committed."""
    return max(int(path.name) for path in (directory / "checkpoint" / "commits").glob("[0-9]*"))


def test_killed_again_and_again(tmp_path: Path) -> None:
    """After SIGKILLs in a snapshot, in the lane and before a commit the output is that of an undisturbed run.

    The last one loses the newest state, too: it belongs to a micro-batch that was not committed, which runs
    again from the version before.
    """
    run = Run(tmp_path)
    run.kill_at("snapshot:3")
    run.kill_at("head:2")
    run.kill_at("written:2")
    # Version n is that of micro-batch n - 1.
    assert lose_newest_state(tmp_path) == newest_commit(tmp_path) + 2
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: each takes half a minute")
@pytest.mark.parametrize("place", PLACES)
def test_a_killed_process_tree_goes_on(tmp_path: Path, place: str) -> None:
    """After a SIGKILL at this place a restart gives the output of an undisturbed run."""
    run = Run(tmp_path)
    run.kill_at(place)
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: each takes half a minute")
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    """After several SIGKILLs at random moments, some in a row, the output is that of an undisturbed run."""
    run = Run(tmp_path, seed)
    moments = random.Random(seed)  # noqa: S311 -- not for secrets
    for _ in range(4):
        if not run.kill_after(moments.uniform(4, 16)):
            break
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: takes a minute")
def test_committed_state_is_lost(tmp_path: Path) -> None:
    """Without the state of a committed micro-batch Spark refuses; what docs/spark.md says helps."""
    run = Run(tmp_path)
    run.finish()
    assert lose_newest_state(tmp_path) == newest_commit(tmp_path) + 1
    process = run.start()
    assert process.wait(900) != 0
    newest = newest_commit(tmp_path)
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "commits" / str(newest)).unlink()
    # That of the micro-batch at which the start failed.
    (checkpoint / "offsets" / str(newest + 1)).unlink()
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: takes half a minute")
def test_killed_twice_at_the_same_micro_batch(tmp_path: Path) -> None:
    """A SIGKILL in the micro-batch that runs again after a SIGKILL changes nothing."""
    run = Run(tmp_path)
    run.kill_at("head:4")
    run.kill_at("lane:1")
    run.kill_at("written:1")
    run.finish()


def test_workers_of_the_papers_topology_are_killed(tmp_path: Path) -> None:
    """After a SIGKILL when some workers have stored their state and others have not, nothing is different."""
    run = Run(tmp_path, n_files=6, topology="paper", coordination="dr")
    run.kill_at("repair:3")
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: each takes a minute")
@pytest.mark.parametrize("coordination", ["hinge", "basic"])
@pytest.mark.parametrize("place", PAPER_PLACES)
def test_a_killed_worker_of_the_papers_topology_goes_on(
    tmp_path: Path, coordination: str, place: str
) -> None:
    """After a SIGKILL at this place a restart gives the output of an undisturbed run."""
    run = Run(tmp_path, topology="paper", coordination=coordination)
    run.kill_at(place)
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: takes two minutes")
def test_lanes_killed_again_and_again(tmp_path: Path) -> None:
    """With two lanes, SIGKILLs when one lane or both have stored their state change nothing."""
    run = Run(tmp_path, lanes=2)
    for place in ("head:3", "snapshot:3", "written:2"):
        run.kill_at(place)
    run.finish()


def test_a_worker_killed_alone_is_replaced(tmp_path: Path) -> None:
    """When the lane's Python worker dies, the task is retried, and another worker goes on from the store."""
    run = Run(tmp_path)
    run.finish(at="head:4", itself=True, master="local[2,4]")
    assert run.mark.exists()
