"""Damaged files of rules and damaged control records are refused in words, whatever is in them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkbleach import load_rules
from sparkbleach.control.record import ControlRecord
from sparkbleach.errors import SparkbleachError
from sparkbleach.rules.file import load_options, load_updates

RULES = """\
options:
  repair: vote
  window: {tuples: 1000, slide: 100}
  confidence: 0.7
rules:
  - "zip_city: zipcode -> city WHERE country = 'FR'"
  - id: zip_rate
    lhs: [zipcode, street]
    rhs: rate
    when: open AND length(zipcode) = 5
    nulls: fill
    mode: shadow
    accept_after: 3
  - {id: shut, lhs: [city], rhs: open, tableau: [["Rome", false], ["_", "_"]]}
"""
UPDATES = """\
{"at": 1000, "op": "add", "rule": {"id": "r5", "lhs": ["a"], "rhs": "b", "when": "a > 1"}}
{"at": 2000, "op": "delete", "id": "r5"}
{"op": "promote", "id": "r6", "by": "me", "published": "2026-01-01T00:00:00.000+00:00"}
"""
_ODD = [
    "\x00", "\ufeff", "&a ", "*a", "<<: ", "!!python/none ", "- " * 500, "[" * 2000, '{"a":' * 2000,
    "1" * 5000, "1e999999", "-0", ".nan", "0x", "12:30", "%YAML 9.9\n", "---\n", "...\n",
    '!!int ""', '!!int "_"', '!!float ""', "!!bool x", "!!timestamp x", f"1{':0' * 300}:0.5",
    "0x" + "f" * 5000, "\\ud800",
    "\t", "\r", "\u2028", "'", '"', "\\", "WHERE ", "-> ", "_", "null", "~", "? ", ": ", "# ",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """Return a text after a few cuts, repetitions and insertions."""
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 30)))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            del data[begin:end]
        elif kind == 1:
            data[begin:begin] = data[begin:end] * draw(st.integers(1, 4))
        elif kind == 2:
            data[begin:end] = draw(st.sampled_from(_ODD)).encode()
        else:
            data[begin:end] = draw(st.binary(max_size=4))
    return bytes(data)


@pytest.mark.parametrize("load", [load_rules, load_options, load_updates])
def test_files(load: Callable[[Path], Any]) -> None:
    """A damaged file is read, or refused with an error that names it."""
    text = UPDATES if load is load_updates else RULES

    @given(damaged(text))
    @example(b"rules: " + b"[" * 3_000)
    @example(b'{"op": ' + b"[" * 3_000)
    def check(data: bytes) -> None:
        with tempfile.NamedTemporaryFile(suffix=".yml") as file:
            file.write(data)
            file.flush()
            refusal = file.name
            try:
                load(Path(file.name))
            except SparkbleachError as error:
                refusal = str(error)
            assert file.name in refusal

    check()


@given(damaged(UPDATES.splitlines()[0]) | damaged(UPDATES.splitlines()[2]))
@example(b"[" * 3_000)
def test_control_records(data: bytes) -> None:
    """A damaged control record is an update or has a problem; it never takes the stream down."""
    record = ControlRecord.read("1", data.decode("utf-8", "replace"))
    assert (record.update is None) == (record.problem is not None)
