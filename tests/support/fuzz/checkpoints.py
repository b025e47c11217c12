"""Damaged checkpoints and rule logs: the command names the damaged file, or goes on as if nothing were."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from tests.support.commands import run_command

_HEADER = "id,zip,city,note\n"


def check_checkpoints(seed: int, n: int, directory: Path) -> list[str]:
    """Damage a stream `n` times, and return what is wrong."""
    draw = random.Random(f"checkpoints {seed}")  # noqa: S311 -- not for secrets
    stream = _Stream(directory, draw)
    return [problem for _ in range(n) for problem in stream.try_damage()]


class _Stream:
    """A stream with a checkpoint and a rule log, which are damaged again and again."""

    def __init__(self, directory: Path, draw: random.Random) -> None:
        self._directory = directory / "stream"
        self._saved = directory / "saved"
        self._draw = draw
        here = self._directory
        (here / "in").mkdir(parents=True)
        (here / "rules.yml").write_text('rules:\n  - "zip_city: zip -> city"\n')
        for number in range(draw.choice([1, 1, 3])):
            rows = (f"{number}{n},{n % 3},{'ab'[n == 7]},x\n" for n in range(9))
            (here / "in" / f"a{number}.csv").write_text(_HEADER + "".join(rows))
        run_command("rules", "add", "zip_note: zip -> note", "--target", here / "log")
        assert self._clean().exit_code == 0
        run_command("rules", "delete", "zip_note", "--target", here / "log")
        (here / "in" / "b.csv").write_text(_HEADER + "90,1,b,x\n91,1,a,y\n92,2,a,x\n")
        shutil.copytree(here, self._saved)
        assert self._clean().exit_code == 0
        self._expected = self._written()

    def try_damage(self) -> list[str]:
        """Damage a file, clean, and return what is wrong."""
        shutil.rmtree(self._directory)
        shutil.copytree(self._saved, self._directory)
        places = [self._directory / "out-checkpoint"] * 3 + [self._directory / "log"]
        top = self._draw.choice(places)
        files = sorted(path for path in top.rglob("*") if path.is_file() and path.suffix != ".crc")
        # As many of each kind as of those of which there are most.
        kinds = sorted({path.relative_to(top).parts[0] for path in files})
        kind = self._draw.choice(kinds)
        path = self._draw.choice([path for path in files if path.relative_to(top).parts[0] == kind])
        name, damage = self._draw.choice(list(DAMAGES.items()))
        damage(path, self._draw)
        what = f"{name} {path.relative_to(self._directory)}"
        result = self._clean()
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        if re.search(r"Traceback|^\s+at .+\(", result.output, re.MULTILINE):
            return [f"{what}: a stack trace: {result.output[-1500:]}"]
        if result.exit_code == 0:
            found = self._written()
            # Of a damaged rule update the outcome says why it was refused.
            if found == self._expected or self._refused():
                return []
            return [f"{what}: {found} for {self._expected}"]
        wanted = (str(self._directory), ";")
        if len(errors) != 1 or "--debug" in errors[0] or any(text not in errors[0] for text in wanted):
            return [f"{what}: not one line with path and remedy: {result.stderr[-1500:]}"]
        return []

    def _clean(self) -> Result:
        here = self._directory
        return run_command(
            "clean", "--rules", here / "rules.yml", "--input", here / "in", "--id", "id", "--output",
            here / "out",
            "--rules-target", here / "log", "--repair", "class", "--schema",
            "id INT, zip STRING, city STRING, note STRING",
        )  # fmt: skip

    def _refused(self) -> bool:
        outcomes = (self._directory / "log" / "_outcomes").glob("batch-*.jsonl")
        return any('"kind": "refused"' in path.read_text() for path in outcomes)

    def _written(self) -> list[list[str]]:
        """Return the lines of output, audit and quarantine, whichever files they are in."""
        found = []
        for name in ("out", "out-audit", "out-quarantine"):
            paths = sorted((self._directory / name).glob("part-*"))
            found.append(sorted(line for path in paths for line in path.read_text().splitlines()))
        return found


def _without_checksum(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _cut(path: Path, draw: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: draw.randrange(max(1, path.stat().st_size))])
    if draw.random() < 0.5:
        _without_checksum(path)


def _change_a_bit(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"x")
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def _zero(path: Path, draw: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    if draw.random() < 0.5:
        _without_checksum(path)


def _garbage(path: Path, draw: random.Random) -> None:
    path.write_bytes(draw.randbytes(draw.randrange(1, 200)))
    if draw.random() < 0.5:
        _without_checksum(path)


def _empty(path: Path, draw: random.Random) -> None:
    path.write_bytes(b"")
    if draw.random() < 0.5:
        _without_checksum(path)


#: what may happen to a file
DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "cut": _cut,
    "a bit of": _change_a_bit,
    "zeros in": _zero,
    "garbage in": _garbage,
    "nothing in": _empty,
}
