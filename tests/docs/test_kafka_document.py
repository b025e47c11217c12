"""The examples of docs/kafka.md work, with the tests' broker in the place of the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkbleach.kafka import Broker, Topic
from sparkbleach.kafka.client import read
from tests.support.commands import run_commands
from tests.support.documents import blocks, is_set_up, working_directory


def test_the_examples_work(
    broker: Broker, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All commands and Python blocks run one after the other; what is printed is what stands below."""
    found = blocks("docs/kafka.md")
    names: dict[str, object] = {}
    bin, here = tmp_path / "bin", tmp_path / "here"
    bin.mkdir()
    here.mkdir()
    printed = ""
    for (language, code), (next_language, text) in zip(found, [*found[1:], ("", "")], strict=True):
        code = code.replace("localhost:9092", broker.servers)
        if language == "python":
            with working_directory(spark, here):
                exec(compile(code, "docs/kafka.md", "exec"), names)  # noqa: S102 -- our own document
            assert capsys.readouterr().out == (text if next_language == "text" else "")
        elif language == "sh" and not is_set_up(code) and "sparkbleach broker" not in code:
            printed += run_commands(code, here, bin)
    clean = read(Topic.parse(broker.url("clean")))
    assert [record.value for record in clean] == [
        b'{"id": %d, "zipcode": "75001", "city": "Paris"}' % id for id in range(4)
    ]
    assert "5 tuples in" in printed
    assert "id_city: id -> city" in printed
