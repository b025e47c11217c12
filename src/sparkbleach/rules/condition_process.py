"""The process that evaluates conditions: started when it is first needed, replaced when a limit ends it."""

from __future__ import annotations

import atexit
import inspect
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from ..errors import ConfigError, SparkbleachError
from . import condition_child

_PROGRAM = f"{inspect.getsource(condition_child)}\n\nmain()\n"
# Threads and pools of memory would count as its address space.
_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

# A process that has used no processor for so long waits for something that does not come: with too little
# memory, threads and locks may fail, too.
_STANDSTILL_SECONDS = 60.0

_REPLAY_FACTOR = 4
#: more than any machine has; limits of the system take no number that is much larger
_LIMIT_MAX = 1 << 50


@dataclass(frozen=True, slots=True)
class ConditionLimits:
    """How much conditions may use, all of a stream together, for the tuples of a batch.

    If they need more, each is tried alone, and a rule whose condition then needs more is withdrawn. A usual
    condition needs a thousandth of that.

    Attributes:
        cpu_seconds: So much time of a processor, which does not run while other programs have it.
        cpu_seconds_per_tuple: So much more for each tuple.
        memory_bytes: So much memory, for up to 8,192 tuples at a time.
        memory_bytes_per_byte: So much more for each byte of the columns that are read.
    """

    cpu_seconds: float = 5.0
    cpu_seconds_per_tuple: float = 0.0001
    memory_bytes: int = 512 << 20
    memory_bytes_per_byte: int = 16

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _LIMIT_MAX:
                raise ConfigError(
                    f"limits of conditions, {name}: must be a number from 0 to 2**50, not {value!r}"
                )

    def memory_bytes_for(self, batch: pa.RecordBatch) -> int:
        """Return how much memory the tuples of a batch may take."""
        return int(min(_LIMIT_MAX, self.memory_bytes + self.memory_bytes_per_byte * batch.nbytes))

    def for_replay(self) -> ConditionLimits:
        """Return wider limits, for tuples that are evaluated again: they must hold what held before."""
        wider = (min(_LIMIT_MAX, _REPLAY_FACTOR * getattr(self, name)) for name in self.__slots__)
        return ConditionLimits(*wider)


DEFAULT_CONDITION_LIMITS = ConditionLimits()


class Budget:
    """What conditions may use for the tuples of a batch, which they are asked about in parts."""

    def __init__(self, limits: ConditionLimits, n_tuples: int) -> None:
        self.limits = limits
        self.n_tuples = n_tuples
        #: how much time of a processor all parts may take
        cpu_seconds = limits.cpu_seconds + limits.cpu_seconds_per_tuple * n_tuples
        self.cpu_seconds = float(min(_LIMIT_MAX, cpu_seconds))
        self.cpu_seconds_left = self.cpu_seconds  #: how much of it is left


class BrokenLimitError(Exception):
    """A request has broken a limit; the text says which, in words that follow `it`."""


class DuckDBError(Exception):
    """DuckDB refuses a request; the text is DuckDB's."""


def ask(
    what: str, about: object, batch: pa.RecordBatch, budget: Budget, process: ConditionProcess | None = None
) -> Any:
    """Have a method of `condition_child.py: Evaluation` called in a process, and return what it returns.

    The time that it takes is taken from the budget. If no process is given, it is one that may have done
    other things before.

    Raises:
        BrokenLimitError: If the process would need more than it may use, or does not survive.
        DuckDBError: If DuckDB refuses.
    """
    if process is not None:
        kind, value = process.ask(what, about, batch, budget)
    else:
        kind, value = _ask_any(what, about, batch, budget)
    if kind == "failed":
        raise DuckDBError(value)
    if kind == "broken":
        raise BrokenLimitError(value)
    return value


def _ask_any(what: str, about: object, batch: pa.RecordBatch, budget: Budget) -> tuple[str, Any]:
    try:
        process = _idle.pop()
    except IndexError:
        process = ConditionProcess()
    kind = "broken"
    try:
        kind, value = process.ask(what, about, batch, budget)
    finally:
        if kind == "broken":
            process.close()
        else:
            _idle.append(process)
    return kind, value


class ConditionProcess:
    """A running process."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        # What it writes there explains why it does not start. Nobody reads while it runs: a pipe could fill.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- it stays open as long as the process
        self._process = subprocess.Popen(  # noqa: S603 -- this interpreter, and a text of our own
            [sys.executable, "-P", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
        )
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018 -- both are pipes
        self._requests = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._replies = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._replies.recv()
        except EOFError:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            self.close()
            found = lines[-1] if lines else "it says nothing"
            raise SparkbleachError(
                f"conditions: the process that evaluates them does not start ({found}); "
                f"check that {sys.executable} can import duckdb and pyarrow"
            ) from None

    def ask(self, what: str, about: object, batch: pa.RecordBatch, budget: Budget) -> tuple[str, Any]:
        """Return `done` and what was asked for, `failed` and DuckDB's error, or `broken` and the limit."""
        memory_bytes = budget.limits.memory_bytes_for(batch)
        too_slow = f"takes more than {budget.cpu_seconds:.0f} s of processor time{_on(budget.n_tuples)}"
        on_batch = _on(batch.num_rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        cells = sink.getvalue().to_pybytes()
        try:
            self._requests.send((what, about, cells, budget.cpu_seconds_left, memory_bytes))
            if not self._wait():
                return "broken", f"brings the process that evaluates it to a standstill{on_batch}"
            kind, value, cpu_seconds = self._replies.recv()
        except (EOFError, OSError):
            ended_by = -self._process.wait()
            if ended_by == signal.SIGXCPU:
                return "broken", too_slow
            return "broken", f"ends the process that evaluates it{on_batch}, by signal {ended_by}"
        budget.cpu_seconds_left -= cpu_seconds
        if kind == "memory":
            return "broken", f"needs more than {memory_bytes >> 20:,} MB of memory{on_batch}"
        if kind == "fatal":
            return "broken", f"makes DuckDB fail{on_batch} ({value.splitlines()[0]})"
        return (kind, value) if budget.cpu_seconds_left >= 0 else ("broken", too_slow)

    def _wait(self) -> bool:
        """Wait for a reply; return whether one comes, or the process ends, before it stands still."""
        used = self._cpu_ticks()
        while not self._replies.poll(_STANDSTILL_SECONDS):
            before, used = used, self._cpu_ticks()
            if used == before:
                return False
        return True

    def _cpu_ticks(self) -> int:
        """Return how much time of a processor it has used; 0 where the system does not say."""
        try:
            with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
        except FileNotFoundError:
            return 0
        return int(fields[11]) + int(fields[12])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self.leave()

    def leave(self) -> None:
        """Let go of the process."""
        self._requests.close()
        self._replies.close()
        self._errors.close()
        self._process.returncode = 0  # or Python warns that it runs


def _on(n: int) -> str:
    return f" on {n:,} {'tuple' if n == 1 else 'tuples'}" if n else ""


#: processes that wait for requests: one, or as many as threads have asked at the same time
_idle: list[ConditionProcess] = []


def _end() -> None:
    while _idle:
        _idle.pop().close()


def _forget() -> None:
    """Leave the processes to the one that this one is a copy of."""
    while _idle:
        _idle.pop().leave()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)
