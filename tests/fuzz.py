"""Clean odd inputs, and check that each is out or in quarantine, whole but for repaired cells.

Usage: python -m tests.fuzz [--inputs 100000] [--seed 0] [--kinds csv json ...] [--size 3000]

A round is a stream of one kind, drawn from a seed, which replays it; kinds take turns. Each record is an
input, and each damage to a checkpoint or a rule log. The command cleans all streams, in one Spark session; a
stream of files that fails is made smaller, until it has few records. Nothing may take the command down, stop
it, or make it show a stack trace. Damaged rules are in tests/property/test_rules_fuzz.py, odd control
records in tests/spark/test_odd_records.py.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.fuzz.checkpoints import check_checkpoints
from tests.support.fuzz.parquet_files import check_parquet_files
from tests.support.fuzz.shrink import smallest
from tests.support.fuzz.streams import check_case, draw_case

if TYPE_CHECKING:
    from sparkbleach.kafka import Broker

CONVERSIONS = ("csv to json", "csv to parquet", "json to csv")
#: in the order in which they take turns
KINDS = (
    *("csv", "json", "kafka", "multiline", "csv", "json", "kafka", "documents"),
    *CONVERSIONS,
    *("parquet", "checkpoints"),
)
#: a damage takes a start of the command: one stands for this number of records of other kinds
_RECORDS_PER_DAMAGE = 300
_SECONDS_MAX = 3_600


@dataclass(frozen=True)
class Round:
    """What became of a round.

    Attributes:
        kind: What was cleaned.
        seed: What it was drawn from.
        size: How many records it has, about.
        inputs: How many records, or damages, it had.
        problems: What is wrong; nothing if all is as it must be.
    """

    kind: str
    seed: int
    size: int
    inputs: int
    problems: list[str]

    def __str__(self) -> str:
        replay = (
            f"python -m tests.fuzz --inputs 1 --kinds '{self.kind}' --seed {self.seed} --size {self.size}"
        )
        lines = [*self.problems, f"replay: {replay}"] if self.problems else []
        what = f"seed {self.seed} ({self.kind}): {self.inputs} inputs, {'WRONG' if lines else 'right'}"
        return "\n  ".join([what, *lines])


def run_round(kind: str, seed: int, size: int, broker: Broker | None = None) -> Round:
    """Run a round in a directory of its own; `kafka` needs a broker. A round that breaks off is wrong."""
    try:
        return _run_round(kind, seed, size, broker)
    except Exception:
        return Round(kind, seed, size, size, [f"it broke off: {traceback.format_exc()}"])


def _run_round(kind: str, seed: int, size: int, broker: Broker | None) -> Round:
    with tempfile.TemporaryDirectory(prefix="sparkbleach-fuzz-") as place, _not_for_ever():
        directory = Path(place) / "round"
        if kind == "kafka":
            from tests.support.fuzz.topics import check_records, draw_records

            assert broker is not None
            return Round(kind, seed, size, size, check_records(draw_records(seed, size), broker, directory))
        if kind == "parquet":
            return Round(kind, seed, size, size, check_parquet_files(seed, size, directory))
        if kind == "checkpoints":
            n = max(1, size // _RECORDS_PER_DAMAGE)
            return Round(kind, seed, size, n, check_checkpoints(seed, n, directory))
        case = draw_case(kind, seed, size)
        problems = check_case(case, directory)
        if problems:
            case, problems = smallest(case, problems, directory)
            problems.append(f"with {case.arguments}, the rules {case.rules} and these files:")
            problems += [f"{file.name}: {file.data[:3_000]!r}" for file in case.files]
        return Round(kind, seed, size, size, problems)


@contextmanager
def _not_for_ever() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError(f"a round takes more than {_SECONDS_MAX} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(_SECONDS_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> int:
    """Run rounds until there were enough inputs; return 1 if one has failed."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--inputs", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=0, help="of the first round")
    options.add_argument("--kinds", nargs="+", default=KINDS, choices=sorted(set(KINDS)), metavar="KIND")
    options.add_argument("--size", type=int, default=3_000, help="how many records a round has")
    given = options.parse_args()
    from sparkbleach.cli.session import spark_session

    done: list[Round] = []
    with ExitStack() as stack:
        broker, settings = None, {}
        if "kafka" in given.kinds:
            from sparkbleach.kafka import Broker, spark_jars

            settings = {"spark.jars": spark_jars()}
            broker = stack.enter_context(Broker(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        session = stack.enter_context(spark_session("local[2]", debug=False, settings=settings))
        session.sparkContext.setLogLevel("OFF")
        while sum(one.inputs for one in done) < given.inputs:
            began = time.monotonic()
            kind = given.kinds[len(done) % len(given.kinds)]
            done.append(run_round(kind, given.seed + len(done), given.size, broker))
            total = sum(one.inputs for one in done)
            print(done[-1], file=sys.stderr)
            print(f"  {time.monotonic() - began:.0f} s; {total} inputs so far", file=sys.stderr, flush=True)
    n_wrong = sum(bool(one.problems) for one in done)
    print(
        f"{sum(one.inputs for one in done)} inputs in {len(done)} rounds: "
        f"{len(done) - n_wrong} right, {n_wrong} wrong",
        file=sys.stderr,
    )
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
