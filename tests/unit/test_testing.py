"""The tools that users test their rules and their recovery with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from sparkbleach import ConfigError, RuleError, Window
from sparkbleach.paper.stages import DETECT, LINK, REPAIR
from sparkbleach.testing import CRASH_POINTS, Change, crash_at, preview
from tests.support.processes import unmeasured_environment

ROOT = Path(__file__).parents[2]
ROWS = [
    {"id": 1, "zipcode": "75001", "city": "Paris"},
    {"id": 2, "zipcode": "75001", "city": "Paris"},
    {"id": 3, "zipcode": "75001", "city": "Pariss"},
    {"id": 4, "zipcode": "69001", "city": None},
]
RULES = ["zip_city: zipcode -> city"]
TABLE = """\
1 changed cell in 4 rows
zip_city: 1 violation, 1 repair
  row  column  before    after
  2    city    'Pariss'  'Paris'"""


class TestPreview:
    """What rules would change, as values to assert on and as a table to read."""

    @pytest.mark.parametrize(
        "rows", [ROWS, pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS), pa.RecordBatch.from_pylist(ROWS)]
    )
    def test_the_changes_are_shown(self, rows: object) -> None:
        """Dictionaries, pandas and Arrow give the same: rows before and after, changes and counts by rule."""
        found = preview(RULES, rows)
        assert str(found) == TABLE
        assert found.before == ROWS
        assert found.after == [*ROWS[:2], {**ROWS[2], "city": "Paris"}, ROWS[3]]
        assert found.changes == [Change(2, "city", "Pariss", "Paris", ("zip_city",), True)]
        assert (found.violations, found.repairs) == ({"zip_city": 1}, {"zip_city": 1})

    def test_a_shadow_rule_changes_nothing(self) -> None:
        """What a shadow rule would change is shown, and is not in the rows."""
        rule = {"id": "trial", "lhs": ["zipcode"], "rhs": "city", "mode": "shadow"}
        found = preview([rule], ROWS)
        assert found.after == ROWS
        assert [change.applied for change in found.changes] == [False]
        assert "'Pariss'  'Paris' (by shadow rules, not applied)" in str(found)
        assert str(found).startswith("0 changed cells in 4 rows\n")

    def test_a_long_list_is_cut(self) -> None:
        """Ten changes of a rule are shown; the others are counted."""
        rows = [*ROWS[:2] * 20, *ROWS[2:3] * 13]
        lines = str(preview(RULES, rows, accept_after=None, repair="class")).splitlines()
        assert lines[0] == "13 changed cells in 53 rows"
        assert lines[-1] == "  and 3 more"
        assert len(lines) == 3 + 10 + 1

    def test_options_and_types(self) -> None:
        """Options go to the engine; a schema gives the types of empty columns; a missing cell is null."""
        schema = pa.schema([("zipcode", pa.string()), ("city", pa.string()), ("note", pa.string())])
        found = preview(RULES, [{"zipcode": "1", "city": "Rome"}], schema=schema, window=Window(2, 1))
        assert found.after == [{"zipcode": "1", "city": "Rome", "note": None}]
        assert preview(RULES, [], schema=schema).after == []
        with pytest.raises(RuleError, match="unknown attribute 'zip'"):
            preview(["zip -> city"], ROWS)


PROGRAM = """
from sparkbleach.paper.stages import DETECT, LINK, REPAIR
from sparkbleach.testing import reach
for number in range(4):
    print(number, flush=True)
    reach("lane.decide")
    reach("state.head")
"""


class TestCrashPoints:
    """A process dies where the environment says so, once."""

    def run(self, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program that passes two points four times."""
        environment = {**unmeasured_environment(), **variables}
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603

    def test_a_process_is_killed_once(self, tmp_path: Path) -> None:
        """It dies by SIGKILL at the n-th time; the mark says so, and lets the next one pass."""
        mark = tmp_path / "mark"
        variables = crash_at("state.head", 3, mark=mark)
        died = self.run(variables)
        assert (died.returncode, died.stdout) == (-signal.SIGKILL, "0\n1\n2\n")
        assert mark.exists()
        passed = self.run(variables)
        assert (passed.returncode, passed.stdout) == (0, "0\n1\n2\n3\n")

    def test_a_process_waits_to_be_killed(self, tmp_path: Path) -> None:
        """With `hold` it stops at the point until the test kills what it wants to."""
        mark = tmp_path / "mark"
        environment = {**unmeasured_environment(), **crash_at("lane.decide", mark=mark, hold=True)}
        process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment)  # noqa: S603
        while not mark.exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert mark.read_text() == str(process.pid)

    def test_wrong_points_are_refused(self, tmp_path: Path) -> None:
        """A point that does not exist would never be reached: it is refused."""
        with pytest.raises(ConfigError, match=r"point: 'lane' is unknown; choose one of ingress\.read, lane"):
            crash_at("lane", mark=tmp_path)
        with pytest.raises(ConfigError, match="times: 0 must be a positive integer"):
            crash_at("lane.decide", 0, mark=tmp_path)

    def test_the_document_has_all_points(self) -> None:
        """docs/testing.md has the same table."""
        text = (ROOT / "docs" / "testing.md").read_text()
        assert [line for line in text.splitlines() if line.startswith("| `")] == [
            f"| `{point}` | {when} |" for point, when in CRASH_POINTS.items()
        ]

    def test_all_points_are_in_the_code(self) -> None:
        """Each point is one line of the package."""
        text = "".join(path.read_text() for path in (ROOT / "src" / "sparkbleach").rglob("*.py"))
        reached = re.findall(r'^ +reach\(f?"(.+)"\)$', text, re.MULTILINE)
        assert "paper.{self.stage.name}" in reached
        workers = [f"paper.{stage}" for stage in (DETECT, LINK, REPAIR)]
        assert sorted([*reached, *workers]) == sorted([*CRASH_POINTS, "paper.{self.stage.name}"])
