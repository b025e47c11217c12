"""The command as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.commands import read_csv
from tests.support.processes import children

COMMAND = (sys.executable, "-m", "sparkbleach.cli")


def fake_java(directory: Path, script: str) -> dict[str, str]:
    """Put a program of the name java somewhere; return an environment that has no other one."""
    java = directory / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**environment, "PATH": str(directory)}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is version 11, which is too old"),
        ("echo 'java version \"1.8.0_372\"' >&2", "is version 8, which is too old"),
        ("exit 1", "does not show a version"),
        (None, "there is none on PATH"),
    ],
)
def test_java(tmp_path: Path, rules: Path, script: str | None, message: str) -> None:
    """Without a fit Java, one sentence says what to install."""
    environment = fake_java(tmp_path, script or "")
    if script is None:
        (tmp_path / "java").unlink()
    done = subprocess.run(  # noqa: S603
        [*COMMAND, "check", "--rules", str(rules), "--schema", "id INT, zip INT, city STRING"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Java: ")
    assert message in line
    assert "install Java 17 or newer" in line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_spark_starts(tmp_path: Path, rules: Path, number: signal.Signals, code: int) -> None:
    """It ends the command with a line that says so, and leaves no JVM."""
    (tmp_path / "a.csv").write_text("id,zip,city\n1,1,a\n")
    process = subprocess.Popen(  # noqa: S603
        [
            *COMMAND, "clean", "--rules", str(rules), "--input", str(tmp_path / "a.csv"), "--id", "id",
            "--output", str(tmp_path / "out"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while "starting Spark" not in process.stderr.readline():
        assert process.poll() is None
    deadline = time.monotonic() + 300
    while not children(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    # A JVM that lived on would keep these open.
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (code, ""), err
    assert err.splitlines()[-1] == f"interrupted by {number.name}"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_the_first_second(number: signal.Signals, code: int) -> None:
    """While the command imports what it needs, a signal ends it with a line, and without a traceback."""
    command = [COMMAND[0], "-X", "importtime", *COMMAND[1:], "rules", "list", "--target", "none"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stderr is not None
        while "numpy" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == code, rest
    assert rest.splitlines()[-1] == f"interrupted by {number.name}"
    assert "Traceback" not in rest


def test_follow_until_ctrl_c(tmp_path: Path, rules: Path) -> None:
    """With --follow later files are cleaned, Ctrl-C ends it with exit code 0, and Spark makes no noise."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    process = subprocess.Popen(  # noqa: S603
        [
            *COMMAND, "clean", "--rules", str(rules), "--input", str(source), "--input-format", "csv",
            "--id", "id", "--schema", "id INT, zip INT, city STRING", "--output", str(out), "--follow",
            "--master", "local[2]",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        for number in range(2):
            (tmp_path / "new").write_text(f"id,zip,city\n{number},1,a\n")
            (tmp_path / "new").rename(source / f"{number}.csv")
            deadline = time.monotonic() + 300
            while len(list(out.glob("part-*"))) <= number:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.1)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, stderr
    first, then, waits, *batches = stderr.splitlines()
    assert first == "starting Spark ..."
    assert then == f"reading {source} ..."
    assert waits.startswith("waiting for the first micro-batch")
    assert [line[:5] for line in batches] == ["batch"] * 2
    assert stdout.startswith("2 tuples in ")
    assert [row["id"] for row in read_csv(out)] == ["0", "1"]


def test_a_killed_jvm(tmp_path: Path, rules: Path) -> None:
    """If the JVM is killed, one line says what may have happened, and nothing else is printed."""
    (tmp_path / "in").mkdir()
    command = [
        *COMMAND, "clean", "--rules", str(rules), "--input", str(tmp_path / "in"), "--id", "id", "--follow",
        "--input-format", "csv", "--schema", "id INT, zip INT, city STRING", "--master", "local[2]",
        "--output", str(tmp_path / "out"),
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("waiting"):
                break
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        rest = process.stderr.read()
    assert process.returncode == 1, rest
    assert rest == (
        "error: Spark: its JVM has ended, perhaps killed for want of memory; free some memory, "
        "and run the same command again\n"
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_that_is_closed_or_full(tmp_path: Path, unbuffered: str) -> None:
    """If the reader has ended, the command ends without a word, as by SIGPIPE; a full disk is named."""
    command = [*COMMAND, "rules", "history", "--target", str(tmp_path / "none")]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed, open("/dev/full", "wb") as full:
        ends = [
            subprocess.run(  # noqa: S603
                command,
                stdout=out,
                stderr=subprocess.PIPE,
                env=environment,
                text=True,
                timeout=300,
                check=False,
            )
            for out in (closed, full)
        ]
    assert [(end.returncode, end.stderr) for end in ends] == [
        (141, ""),
        (
            1,
            "error: standard output: it cannot be written (No space left on device); "
            "make room there, or send it elsewhere\n",
        ),
    ]


def test_help_and_version() -> None:
    """Help has a paragraph, an example and the options of each command."""
    for command in ("clean", "check", "explain"):
        done = subprocess.run(  # noqa: S603
            [*COMMAND, command, "--help"], capture_output=True, text=True, timeout=300, check=True
        )
        assert f"Example: sparkbleach {command}" in " ".join(done.stdout.split())
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, timeout=300, check=True)  # noqa: S603
    assert done.stdout.startswith("sparkbleach ")
