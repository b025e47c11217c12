"""Topics of odd records: they are cleaned by the command, and compared with what came in."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sparkbleach.kafka import Broker
from sparkbleach.kafka.client import Record, number_of_partitions, publish, read
from tests.support.commands import run_command
from tests.support.fuzz import json_lines, odd
from tests.support.fuzz.compare import Written, compare
from tests.support.fuzz.csv_files import Table
from tests.support.fuzz.texts import Reading, read_json_record
from tests.support.records import new_topic, origin

_TYPES = {"INT": "integer", "BIGINT": "long"}
_N_PARTITIONS = 3

#: key, value and headers
Sent = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


@dataclass(frozen=True)
class TopicCase:
    """Records, and how they are cleaned."""

    table: Table
    records: tuple[Sent, ...]
    repair: str


def draw_records(seed: int, n: int) -> TopicCase:
    """Return the records that a seed stands for."""
    draw = random.Random(f"kafka {seed}")  # noqa: S311 -- not for secrets
    table = Table.draw(draw, json_lines.NAMES)
    records = []
    for number in range(n):
        value: bytes | None = json_lines.record(draw, table, number, tame=draw.random() < 0.3, gap=" \t\r\n")
        if draw.random() < 0.02:
            value = draw.choice([None, b"", b" ", b"\n"])
        key = draw.choice([None, b"", b"%d" % number, b"\xff\x00", odd.text(draw).encode()])
        names = ["trace", "", "é", "sparkbleach-source", "sparkbleach-reason", "trace"]
        headers = [
            (draw.choice(names), draw.choice([None, b"", b"\xff", b"1/2/3"]))
            for _ in range(draw.choice([0, 0, 1, 3]))
        ]
        records.append((key, value, headers))
    return TopicCase(table, tuple(records), draw.choice(["bayes", "class", "vote"]))


def check_records(case: TopicCase, broker: Broker, directory: Path) -> list[str]:
    """Clean records in two runs, and return what is wrong."""
    dirty = new_topic(broker, "fuzz", _N_PARTITIONS)
    clean = dirty.beside("clean")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "rules.yml").write_text('rules:\n  - "k_v: k -> v"\n')
    half = len(case.records) // 2
    for some in (case.records[:half], case.records[half:]):
        publish(dirty, some)
        result = run_command(
            "clean", "--rules", directory / "rules.yml", "--input", dirty, "--output", clean, "--id", "id",
            "--schema", case.table.ddl, "--checkpoint", directory / "checkpoint", "--repair", case.repair,
        )  # fmt: skip
        if result.exit_code or "Traceback" in result.output:
            return [f"exit code {result.exit_code}: {result.output[-2000:]}"]
    audit_topic = clean.beside("audit")
    came = {(one.partition, one.offset): one for one in read(dirty)}
    out, quarantined = read(clean), read(clean.beside("quarantine"))
    audit = (
        [json.loads(one.value or b"") for one in read(audit_topic)]
        if number_of_partitions(audit_topic)
        else []
    )
    places = [origin(one) for one in (*out, *quarantined)]
    if sorted(places) != sorted(came):
        return [
            f"{len(came)} came, {len(out)} are out and {len(quarantined)} in quarantine, or not once each"
        ]
    problems = []
    for one in (*out, *quarantined):
        before = came[origin(one)]
        headers = list(one.headers)[: len(before.headers)]
        if (one.key, headers, one.partition) != (before.key, list(before.headers), before.partition):
            problems.append(f"key, headers or partition of {before!r} have become {one!r}")
    fields = [(name, _TYPES.get(type, type.lower())) for name, type in case.table.columns]
    reader = partial(_read, names=[name for name, _ in fields], types=[type for _, type in fields], id="id")
    for one in quarantined:
        if one.value != came[origin(one)].value:
            problems.append(f"the value of {came[origin(one)]!r} in quarantine is {one.value!r}")
        if not one.header("sparkbleach-reason"):
            problems.append(f"no reason for {one!r}")
    texts = [_text(one) for one in quarantined]
    written = Written([one.value or b"" for one in out], texts, audit)
    return (problems + compare([one.value or b"" for one in came.values()], written, reader))[:5]


def _text(record: Record) -> str:
    value = record.value or b""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _read(record: bytes, names: list[str], types: list[str], id: str) -> Reading:
    return read_json_record(record, names, types, id)
