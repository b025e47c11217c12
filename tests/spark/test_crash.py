"""Exactly once: whatever is killed, the output is that of an undisturbed run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sparkbleach.config import COUNTING_REPAIRS
from sparkbleach.paper.topology import COORDINATIONS
from tests.kills import TOPOLOGIES
from tests.support.crash_run import CrashRun
from tests.support.profiles import NIGHTLY

#: by crash point: the times at which processes are killed there
POINTS = {
    "ingress.read": (2, 4),
    "lane.decide": (1, 5),
    "state.delta": (3,),
    "state.snapshot": (1, 3, 12),
    "state.deletion": (5,),
    "state.head": (1, 4, 5),
    "egress.write": (2, 4),
    "writer.publish": (1, 4, 7),
    "writer.end": (3, 5),
}
PAPER_POINTS = {
    "state.head": (1, 2, 9),
    "state.delta": (4,),
    "state.snapshot": (3,),
    "state.deletion": (9,),
    "paper.detect": (1, 4),
    "paper.repair": (1, 6),
    "paper.aggregate": (1, 4),
    "egress.write": (3,),
    "writer.end": (2,),
}
PLACES = [f"{point}:{times}" for point, all_times in POINTS.items() for times in all_times]
PAPER_PLACES = [f"{point}:{times}" for point, all_times in PAPER_POINTS.items() for times in all_times]


def test_campaigns_take_all_topologies() -> None:
    """`make test-kills` has each coordination of the paper's topology, and with lanes each repair."""
    options = TOPOLOGIES.values()
    assert {one["paper"]["coordination"] for one in options if "paper" in one} == {*COORDINATIONS}
    assert {one.get("repair", "class") for one in options if "lanes" in one} == {*COUNTING_REPAIRS}


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
    run = CrashRun(tmp_path)
    run.kill_at("state.snapshot:3")
    run.kill_at("state.head:2")
    run.kill_at("writer.end:2")
    # Version n is that of micro-batch n - 1.
    assert lose_newest_state(tmp_path) == newest_commit(tmp_path) + 2
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: each takes half a minute")
@pytest.mark.parametrize("place", PLACES)
def test_a_killed_process_tree_goes_on(tmp_path: Path, place: str) -> None:
    """After a SIGKILL at this place a restart gives the output of an undisturbed run."""
    run = CrashRun(tmp_path)
    run.kill_at(place)
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: each takes half a minute")
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    """After several SIGKILLs at random moments, some in a row, the output is that of an undisturbed run."""
    run = CrashRun(tmp_path, seed)
    moments = random.Random(seed)  # noqa: S311 -- not for secrets
    for _ in range(4):
        if not run.kill_after(moments.uniform(4, 16)):
            break
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: takes a minute")
def test_committed_state_is_lost(tmp_path: Path) -> None:
    """Without the state of a committed micro-batch Spark refuses; what docs/spark.md says helps."""
    run = CrashRun(tmp_path)
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
    run = CrashRun(tmp_path)
    run.kill_at("state.head:4")
    run.kill_at("lane.decide:1")
    run.kill_at("writer.end:1")
    run.finish()


def test_workers_of_the_papers_topology_are_killed(tmp_path: Path) -> None:
    """After a SIGKILL when some workers have stored their state and others have not, nothing is different."""
    run = CrashRun(tmp_path, n_files=6, paper={"coordination": "dr"})
    run.kill_at("paper.repair:3")
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: each takes a minute")
@pytest.mark.parametrize("coordination", ["hinge", "basic"])
@pytest.mark.parametrize("place", PAPER_PLACES)
def test_a_killed_worker_of_the_papers_topology_goes_on(
    tmp_path: Path, coordination: str, place: str
) -> None:
    """After a SIGKILL at this place a restart gives the output of an undisturbed run."""
    run = CrashRun(tmp_path, paper={"coordination": coordination})
    run.kill_at(place)
    run.finish()


@pytest.mark.skipif(not NIGHTLY, reason="nightly: takes two minutes")
def test_lanes_killed_again_and_again(tmp_path: Path) -> None:
    """With two lanes, SIGKILLs when one lane or both have stored their state change nothing."""
    run = CrashRun(tmp_path, lanes=2)
    for place in ("state.head:3", "state.snapshot:3", "writer.end:2"):
        run.kill_at(place)
    run.finish()


def test_a_worker_killed_alone_is_replaced(tmp_path: Path) -> None:
    """When the lane's Python worker dies, the task is retried, and another worker goes on from the store."""
    run = CrashRun(tmp_path)
    run.finish(at="state.head:4", itself=True, master="local[2,4]")
    assert run.mark.exists()
