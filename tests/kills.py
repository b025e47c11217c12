"""Kill what cleans a stream, a thousand times, and compare what it writes with an undisturbed run.

Usage: python -m tests.kills [--kills 1000] [--seed 0] [--processes 2]

A campaign is one short stream: its program is killed and started again until it has been killed often enough,
then it runs to its end, and its output and audit are compared with those of the engine. In some starts the
whole process tree is killed, at a named place or at a random moment; in others only Python workers are,
again and again, while the query runs. Campaigns take all topologies in turn. Each prints its seed, which
replays it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.crash_run import CrashRun
from tests.support.processes import kill_tree, let_jvms_start_quickly, process_tree

#: the options of `clean` by the name of a topology
TOPOLOGIES: dict[str, dict[str, Any]] = {
    "fused, bayes": {},
    "fused, class": {"repair": "class"},
    "fused, vote": {"repair": "vote"},
    "two lanes": {"lanes": 2},
    "two lanes, vote": {"lanes": 2, "repair": "vote"},
    "paper, hinge": {"paper": {"coordination": "hinge"}},
    "paper, basic": {"paper": {"coordination": "basic"}},
    "paper, dr": {"paper": {"coordination": "dr"}},
    "paper, ir": {"paper": {"coordination": "ir", "repair_workers": 1}},  # with more it is not exact
}
_STATE = ("state.delta", "state.snapshot", "state.deletion", "state.head")
#: crash points in Python workers, and in the program itself
WORKER_POINTS = ("ingress.read", "lane.decide", "egress.write", *_STATE)
PAPER_WORKER_POINTS = (
    "ingress.read", "egress.write", "paper.detect", "paper.repair", "paper.aggregate", *_STATE,
)  # fmt: skip
PROGRAM_POINTS = ("writer.publish", "writer.end")
_KILLS_PER_CAMPAIGN = 20
_N_FILES = 40
_END_SECONDS_MAX = 900.0


@dataclass(frozen=True)
class Result:
    """What became of a campaign."""

    seed: int
    topology: str
    kills: int
    seconds: float
    problem: str = ""


class Campaign:
    """The kills of one stream, drawn from a seed."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._draw = random.Random(seed)  # noqa: S311 -- not for secrets
        self.topology = list(TOPOLOGIES)[seed % len(TOPOLOGIES)]
        self._run = CrashRun(directory, seed, _N_FILES, **TOPOLOGIES[self.topology])
        is_paper = "paper" in TOPOLOGIES[self.topology]
        self._points = PAPER_WORKER_POINTS if is_paper else WORKER_POINTS
        self.kills = 0

    def run(self) -> None:
        """Kill until there were enough kills, or the stream is at its end; then compare."""
        while self.kills < _KILLS_PER_CAMPAIGN:
            how = self._draw.choice((self._kill_tree_at, self._kill_tree_after, self._kill_workers))
            if how():
                self._run.check()
                return
        self._run.finish()

    def _kill_tree_at(self) -> bool:
        """Kill the whole tree at a named place; return whether the stream came to its end before it."""
        point = self._draw.choice((*self._points, *PROGRAM_POINTS))
        process = self._run.start(f"{point}:{self._draw.randint(1, 4)}")
        while not self._run.mark.exists():
            if process.poll() is not None:
                return self._ended(process)
            time.sleep(0.02)
        self._kill_tree(process)
        return False

    def _kill_tree_after(self) -> bool:
        """Kill the whole tree at a random moment; return whether the stream came to its end before it."""
        process = self._run.start()
        end = time.monotonic() + self._draw.uniform(3, 14)
        while time.monotonic() < end:
            if process.poll() is not None:
                return self._ended(process)
            time.sleep(0.02)
        self._kill_tree(process)
        return False

    def _kill_workers(self) -> bool:
        """Kill Python workers again and again, then mostly the rest; return whether the stream ended."""
        process = self._run.start(f"{self._draw.choice(self._points)}:1", itself=True, master="local[2,1000]")
        ends = self._draw.random() < 0.3
        stop_at = self.kills + self._draw.randint(3, 8)
        while process.poll() is None:
            time.sleep(self._draw.uniform(0.05, 0.5))
            if self._run.mark.exists():  # a worker has killed itself at the named place
                self.kills += 1
                if self.kills < stop_at:
                    self._run.mark.unlink()
            elif self._draw.random() < 0.1 and self.kills < stop_at:
                self.kills += _kill_a_worker(process.pid, self._draw)
            if self.kills >= stop_at:
                if not ends:
                    self._kill_tree(process)
                    return False
                process.wait(_END_SECONDS_MAX)
        return self._ended(process)

    def _kill_tree(self, process: Any) -> None:
        kill_tree(process.pid)
        process.wait()
        self.kills += 1

    def _ended(self, process: Any) -> bool:
        assert process.returncode == 0, self._run.log()
        return True


def _kill_a_worker(pid: int, draw: random.Random) -> int:
    """Kill one of the Python workers of a program; return how many were killed."""
    workers = [one for one in process_tree(pid)[1:] if "pyspark.daemon" in _command(one)]
    # The first one is the daemon, which forks the others.
    if len(workers) < 2:
        return 0
    try:
        os.kill(draw.choice(workers[1:]), signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _campaign(seed: int) -> Result:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sparkbleach-kills-") as directory:
        campaign = Campaign(seed, Path(directory))
        problem = ""
        try:
            campaign.run()
        except AssertionError as error:
            problem = str(error) or repr(error)
    return Result(seed, campaign.topology, campaign.kills, time.monotonic() - began, problem)


def main() -> int:
    """Run campaigns until there were enough kills; return 1 if one has written something else."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0, help="of the first campaign")
    options.add_argument("--processes", type=int, default=2)
    given = options.parse_args()
    let_jvms_start_quickly()
    done: list[Result] = []
    running: set[Future[Result]] = set()
    next_seed = given.seed
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.processes, mp_context=spawn) as pool:
        while running or sum(one.kills for one in done) < given.kills:
            while len(running) < given.processes and sum(one.kills for one in done) < given.kills:
                running.add(pool.submit(_campaign, next_seed))
                next_seed += 1
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for one in (future.result() for future in ended):
                done.append(one)
                total = sum(result.kills for result in done)
                print(
                    f"seed {one.seed} ({one.topology}): {one.kills} kills in {one.seconds:.0f} s, "
                    f"{'DIFFERS' if one.problem else 'as undisturbed'}; {total} kills so far",
                    flush=True,
                )
                if one.problem:
                    print(one.problem[:3000], flush=True)
    n_wrong = sum(bool(one.problem) for one in done)
    total = sum(one.kills for one in done)
    print(f"{total} kills in {len(done)} campaigns: {len(done) - n_wrong} passed, {n_wrong} failed")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
