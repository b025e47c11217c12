"""What `sparkbleach clean` says when the machine or the checkpoint lets it down."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkbleach.cli.failure import explained
from sparkbleach.spark.hadoop import FileSystem
from tests.support.commands import Run, read_csv
from tests.support.processes import children

HEADER = "id,zip,city\n"


@contextlib.contextmanager
def file_limit(spark: SparkSession, n_bytes: int) -> Iterator[None]:
    """Let the JVM write no file that is longer than this, as on a full disk."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    before = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, before)


def cut(path: Path) -> None:
    """Leave the first half of a file, and no checksum of it."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def change_a_bit(path: Path) -> None:
    """Change a bit in the middle of a file; its checksum stays."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "sparkbleach.json": cut,
    "metadata": cut,
    "offsets/0": cut,
    "commits/0": cut,
    "sources/0/0": cut,
    "state/0/_stateSchema/default/*": cut,
    "state/0/0/1.*": change_a_bit,  # the changelog, and a snapshot if Spark has made one
}


def test_a_damaged_checkpoint(run: Run, rules: Path, tmp_path: Path) -> None:
    """Whatever is damaged in a checkpoint: one line has its path and the remedy, and a copy goes on."""
    source, checkpoint, copy = tmp_path / "in", tmp_path / "out-checkpoint", tmp_path / "copy"
    source.mkdir()
    (source / "a.csv").write_text(HEADER + "1,1,a\n2,1,a\n")
    arguments = ("clean", "--rules", rules, "--input", source, "--id", "id", "--output", tmp_path / "out")
    assert run(*arguments).exit_code == 0
    (source / "b.csv").write_text(HEADER + "3,1,b\n")
    checkpoint.rename(copy)
    for name, damage in DAMAGES.items():
        shutil.copytree(copy, checkpoint)
        for path in [path for path in checkpoint.glob(name) if path.suffix != ".crc"]:
            damage(path)
        result = run(*arguments)
        assert result.exit_code == 1
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert line.startswith(f"error: checkpoint: {checkpoint}/{name.rstrip('*')}")
        assert "damaged; restore the checkpoint directory from a copy, or " in line
        shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    assert run(*arguments).exit_code == 0
    assert [row["city"] for row in read_csv(tmp_path / "out")] == ["a", "a", "a"]


def test_no_space(run: Run, rules: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Without room to write, one line says so; what was remembered stays, and with room it goes on."""
    (tmp_path / "in.csv").write_text(HEADER + "".join(f"{n},{n},a\n" for n in range(2_000)))
    arguments = (
        "clean", "--rules", rules, "--input", tmp_path / "in.csv", "--id", "id", "--output", tmp_path / "out",
    )  # fmt: skip
    memory = tmp_path / "memory.json"
    file_system = FileSystem(spark, str(memory))
    file_system.write(str(memory), b"old")
    with file_limit(spark, 4):
        with pytest.raises(Exception, match="File too large") as raised:
            file_system.write(str(memory), b"new, but too long")
        result = run(*arguments)
    assert memory.read_bytes() == b"old"
    remedy = "no space is left to write to; make room there, and run the same command again"
    assert explained(raised.value) == (f"output, checkpoint or Spark's temporary files: {remedy}", 1)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].endswith(remedy)
    assert run(*arguments).exit_code == 0
    assert len(read_csv(tmp_path / "out")) == 2_000


def test_a_killed_worker(run: Run, rules: Path, tmp_path: Path, spark: SparkSession) -> None:
    """If Python workers are killed, one line says what may have happened, and the same command goes on."""
    (tmp_path / "in").mkdir()
    for n in range(40):
        (tmp_path / "in" / f"{n}.csv").write_text(HEADER + f"{n},1,a\n")
    arguments = (
        "clean", "--rules", rules, "--input", tmp_path / "in", "--id", "id", "--output", tmp_path / "out",
    )  # fmt: skip
    ended = threading.Event()

    def kill_workers() -> None:
        jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        while not ended.wait(0.01):
            for daemon in children(jvm):
                for worker in children(daemon):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)

    killer = threading.Thread(target=kill_workers)
    killer.start()
    result = run(*arguments, "--files-per-batch", 1)
    ended.set()
    killer.join()
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        "error: Spark: a Python worker has ended, perhaps killed for want of memory; free some memory, "
        "or remember less (a smaller --window), and run the same command again"
    )
    assert run(*arguments).exit_code == 0
    assert sorted(int(row["id"]) for row in read_csv(tmp_path / "out")) == list(range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an error without a message (Exception)"),
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: Bad luck SQLSTATE: XXKST", "Bad luck"),
        (
            "[STREAM_FAILED] Query terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error "
            "occurred. Return Message: Traceback (most recent call last):\n  File x, line 1\n"
            "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
            ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0\n\tat a.B\n"
            "Caused by: java.io.IOException: The moon is full\n\tat a.C",
            "The moon is full (IOException)",
        ),
        (
            "Return Message: Traceback (most recent call last):\n  File x\nValueError: not a number\n",
            "not a number (ValueError)",
        ),
        *(
            (
                "[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure: "
                "Lost task 0: org.apache.spark.PythonException: Traceback (most recent call last):\n"
                "  File a\nKeyError: 1\n\nDuring handling of the above exception, another one occurred:\n\n"
                f"Traceback (most recent call last):\n  File b\n    c()\n{line}\n\n"
                "\tat org.apache.spark.A\n\tat java.lang.B\n\nDriver stacktrace: SQLSTATE: XXKST",
                message,
            )
            for line, message in (
                ("MemoryError", "an error without a message (MemoryError)"),
                ("KeyboardInterrupt", "an error without a message (KeyboardInterrupt)"),
                ("AssertionError: ", "an error without a message (AssertionError)"),
                ("pyarrow.lib.ArrowInvalid: offset overflow", "offset overflow (pyarrow.lib.ArrowInvalid)"),
                ("zlib.error: Error -3", "Error -3 (zlib.error)"),
                ("a.f.<locals>.Odd: one\ntwo", "one (a.f.<locals>.Odd)"),
            )
        ),
    ],
)
def test_the_root_cause(text: str, message: str) -> None:
    """Of an error that is not known, the cause is shown, and never a word about a traceback."""
    shown, code = explained(Exception(text))
    assert shown.startswith(message)
    assert code == 1
    assert "Traceback" not in shown
