"""Each program in examples/ runs, and prints what its comments promise."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkbleach.kafka import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> str:
    """Run a program in the session of this process; return what it prints."""
    path = str(EXAMPLES / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [path, *arguments])
    runpy.run_path(path, run_name="__main__")
    return capsys.readouterr().out


def test_engine_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine repairs by the batch itself and by those before."""
    assert run_example("engine_only", capsys, monkeypatch).splitlines() == [
        "['Paris', 'Paris', 'Paris']",
        "  tuple 3: Pariss -> Paris by ['zip_city']",
        "[None, 'Lyon', 'Lyon']",
        "6 tuples, violations by rule: {'zip_city': 0}",
    ]


def test_files(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run repairs a row by those of the first."""
    printed = run_example("files", capsys, monkeypatch)
    assert printed.count("|  3|  75001|Paris|") == 2
    assert printed.count("|  7|  75001|Paris|") == 1
    assert "|  7|     Pari|    Paris|[zip_city]|" in printed


def test_back_fill(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A static DataFrame is cleaned, and a null is filled in where the condition holds."""
    printed = run_example("back_fill", capsys, monkeypatch)
    assert "|  4|  75001| Paris|     FR|" in printed
    assert "|3  |city     |Pariss   |Paris    |[zip_city]|" in printed


def test_kafka(
    broker: Broker, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are cleaned from topic to topic, and what is no record is quarantined."""
    printed = run_example("kafka", capsys, monkeypatch, broker.servers)
    assert printed.count('"city": "Paris"}') == 3
    assert "quarantined: b'{' malformed" in printed


def test_all_are_run() -> None:
    """Each program has a test here."""
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tests
