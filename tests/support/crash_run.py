"""A stream in a directory, and the program that cleans it, to be killed and started again."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sparkbleach import RuleUpdate, open_log
from sparkbleach.rules.rule import as_rule
from sparkbleach.testing import crash_at
from tests.support.processes import kill_tree, unmeasured_environment
from tests.support.streams import FILES_PER_BATCH, RULES, cleaned_by_engine, tuples, write_files

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
N_FILES, FILE_TUPLES = 12, 150
#: what happens to the rules, one with each start of the program
UPDATES = [RuleUpdate(delete="zip_city"), RuleUpdate(rule=as_rule(RULES[0]))]


class CrashRun:
    """A directory with a stream, and the program that cleans it."""

    def __init__(self, directory: Path, seed: int = 0, n_files: int = N_FILES, **options: Any) -> None:
        self.directory = directory
        #: more options of `clean`
        self.options = options
        self.n_files = n_files
        self.table = tuples(n_files * FILE_TUPLES, seed)
        write_files(self.table, directory / "in", [FILE_TUPLES] * n_files)
        self.marks = 0
        self.rule_log = open_log(str(directory / "rules"))

    def start(self, at: str | None = None, *, itself: bool = False, master: str = "local[2]") -> Any:
        """Start the program, with a crash at a place or without; each time with one more rule update."""
        self.update_rules()
        self.mark = self.directory / f"mark-{self.marks}"
        environment = {
            **unmeasured_environment(),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        if at:
            point, _, times = at.partition(":")
            environment |= crash_at(point, int(times), mark=self.mark, hold=not itself)
        program = [sys.executable, str(HERE / "cleaner.py")]
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
        """Kill the whole process tree after some time; return whether it was still running."""
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
        """Compare output and audit with the engine's, with updates where the outcomes have them."""
        outcomes = [outcome for outcome in self.rule_log.outcomes() if outcome.kind in ("applied", "refused")]
        assert [outcome.number for outcome in outcomes] == [
            record.number for record in self.rule_log.published()
        ]
        updates = [{**(outcome.update or {}), "at": outcome.position} for outcome in outcomes]
        counting: dict[str, Any] = {name: self.options[name] for name in ("repair",) if name in self.options}
        if "lanes" in self.options or "paper" in self.options:
            counting.setdefault("repair", "class")
        if "paper" in self.options:
            counting |= {"accept_after": None, "remember": None}
        batches = [FILES_PER_BATCH * FILE_TUPLES] * (self.n_files // FILES_PER_BATCH)
        rows, audit = cleaned_by_engine(self.table, updates, batches, **counting)
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
