"""Snapshots: an engine goes on where it was, and damaged bytes are refused."""

from __future__ import annotations

import functools
import io
import itertools
import json
import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkbleach import Engine, Rule, SnapshotError, Window
from sparkbleach.engine.snapshot import FORMAT_VERSION, MAGIC
from sparkbleach.kernel.saved import arrays_of
from tests.support.invariants import check_invariants

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), metadata={"unit": "none"}),
        pa.field("a", pa.int64(), nullable=False),
        pa.field("b", pa.string()),
        pa.field("v", pa.string()),
        pa.field("x", pa.float64()),
    ],
    metadata={"table": "readings"},
)
RULES = [
    Rule("av", "a", "v", nulls="fill"),
    Rule("bv", "b", "v", when="a > 0"),
    Rule("ax", "a", "x", tableau=[["_", "_"], [3, 0.5]]),
]
MODES = [
    ("bleach", "class", None),
    ("basic", "vote", None),
    ("bleach", "class", Window(18, 6)),
    ("bleach", "vote", Window(14, 7)),
    ("basic", "class", Window(14, 7)),
    ("basic", "vote", Window(18, 6)),
]
N = 60
HEAD = struct.Struct("<8sIIQ")  # the documented head: magic, format version, CRC-32, length of the body


def stream(seed: int = 3, n: int = N) -> pa.RecordBatch:
    """Return a stream with many violations."""
    rng = np.random.default_rng(seed)
    value = rng.integers(0, 4, n)
    null = rng.random((2, n)) < 0.1
    return pa.RecordBatch.from_arrays(
        [
            pa.array([f"t{i}" for i in range(n)]),
            pa.array(rng.integers(0, 5, n)),
            pa.array(rng.integers(0, 5, n).astype(str), pa.string(), mask=null[0]),
            pa.array(np.char.add("a value of some length ", value.astype(str)), pa.string(), mask=null[1]),
            pa.array(value / 2),
        ],
        schema=SCHEMA,
    )


STREAM = stream()
UPDATES: dict[int, Callable[[Engine], None]] = {
    13: lambda engine: engine.delete_rule("bv"),
    24: lambda engine: engine.add_rule("bv: b -> v"),
    37: lambda engine: engine.add_rule(Rule("bx", "b", "x", nulls="fill")),
    47: lambda engine: engine.delete_rule("ax"),
}


def rest(engine: Engine, position: int, updated: bool) -> tuple[list[Any], list[Any]]:
    """Let an engine clean the stream from a position on, with the updates that are still to come."""
    places = sorted({position, *(place for place in UPDATES if place > position), N})
    clean = []
    audit = []
    for start, stop in itertools.pairwise(places):
        if start in UPDATES and not (updated and start == position):
            UPDATES[start](engine)
        batches = engine.process(STREAM.slice(start, stop - start))
        clean += batches[0].to_pylist()
        audit += batches[1].to_pylist()
    return clean, audit


def new_engine(windowing: str, repair: str, window: Window | None) -> Engine:
    """Return an engine at the beginning of the stream."""
    return Engine(SCHEMA, RULES, id="id", window=window, windowing=windowing, repair=repair)


def facts(engine: Engine) -> tuple[Any, ...]:
    """Return what can be asked of an engine, but for the size of its state."""
    return (
        engine.schema,
        engine.id,
        engine.options,
        engine.position,
        engine.version,
        engine.rules,
        engine.violations,
        engine.repairs,
        engine.audit_schema,
    )


def small_engine() -> Engine:
    """Return an engine after ten tuples."""
    engine = new_engine("bleach", "class", None)
    engine.process(stream(n=10))
    return engine


@functools.cache
def small() -> bytes:
    """Return its snapshot; not before a test asks, for it compiles."""
    return small_engine().snapshot()


def places() -> st.SearchStrategy[int]:
    """Draw the place of a byte of the snapshot."""
    return st.deferred(lambda: st.integers(0, len(small()) - 1))


class TestRestore:
    """A restored engine goes on exactly where the other one was."""

    @pytest.mark.parametrize(("windowing", "repair", "window"), MODES)
    def test_at_every_position(self, windowing: str, repair: str, window: Window | None) -> None:
        """In mid-pane, mid-sweep, at a slide, before and after each rule update, the rest is the same."""
        engine = new_engine(windowing, repair, window)
        snapshots: list[tuple[int, bool, bytes]] = []
        parts = []
        for position in range(N):
            snapshots.append((position, False, engine.snapshot()))
            if position in UPDATES:
                UPDATES[position](engine)
                snapshots.append((position, True, engine.snapshot()))
            parts.append(engine.process(STREAM.slice(position, 1)))
        clean, audit = (
            pa.Table.from_batches(list(batches)).to_pylist() for batches in zip(*parts, strict=True)
        )
        assert engine.repairs["av"] > 5
        for position, updated, snapshot in snapshots:
            twin = Engine.restore(snapshot)
            got_clean, got_audit = rest(twin, position, updated)
            assert got_clean == clean[position:]
            assert got_audit == [row for row in audit if row["position"] >= position]
            assert facts(twin) == facts(engine)
            for cleaner in twin._cleaners:
                check_invariants(cleaner.state)

    @pytest.mark.parametrize(("windowing", "repair", "window"), MODES)
    def test_again_and_again(self, windowing: str, repair: str, window: Window | None) -> None:
        """An engine that is restored after every few tuples gives what one without pause gives."""
        tuples = stream(4)
        engine = new_engine(windowing, repair, window)
        expected = engine.process(tuples)
        restored = new_engine(windowing, repair, window)
        parts = []
        for start in range(0, N, 4):
            parts.append(restored.process(tuples.slice(start, 4)))
            restored = Engine.restore(restored.snapshot())
        for at in (0, 1):
            got = pa.Table.from_batches([part[at] for part in parts]).combine_chunks()
            assert got.equals(pa.Table.from_batches([expected[at]]).combine_chunks())
        assert facts(restored) == facts(engine)

    def test_taking_one_changes_nothing(self) -> None:
        """A snapshot can be taken at any time, twice the same, without effect on the engine."""
        engine = small_engine()
        assert engine.snapshot() == engine.snapshot() == small()
        expected = small_engine().process(stream(5))
        got = engine.process(stream(5))
        assert got[0].equals(expected[0])
        assert got[1].equals(expected[1])

    def test_restored_engines_are_independent(self) -> None:
        """Two engines from one snapshot, and the engine it is of, share no state."""
        engine = small_engine()
        first, second = Engine.restore(small()), Engine.restore(small())
        expected = engine.process(stream(6))
        for other in (first, second):
            got = other.process(stream(6))
            assert got[0].equals(expected[0])
            assert got[1].equals(expected[1])
        assert Engine.restore(small()).position == 10

    def test_everything_is_in_it(self) -> None:
        """Schema with metadata, options, rules, versions and counters come back."""
        engine = new_engine("basic", "vote", Window(30, 10))
        engine.process(stream())
        engine.delete_rule("av")
        engine.add_rule("again: id, a -> v WHERE x > 1.5")
        restored = Engine.restore(engine.snapshot())
        assert facts(restored) == facts(engine)
        assert restored.schema.equals(SCHEMA, check_metadata=True)
        assert [rule.id for rule in restored.rules] == ["bv", "ax", "again"]

    @pytest.mark.parametrize("repair", ["bayes", "class", "vote"])
    @pytest.mark.parametrize("rules", [["a -> v"], ["a -> v", "b -> v"]], ids=["one rule", "two rules"])
    def test_nothing_but_empty_texts(self, repair: str, rules: list[str]) -> None:
        """The empty value has room for its bytes, too, each time that it comes again."""
        schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.string())])
        engine = Engine(schema, rules, repair=repair, window=Window.tuples(2, slide=1), remember=2)
        for texts in (["", ""], ["", None, None, ""], [None] * 4, ["", ""]):
            n = len(texts)
            engine.process(pa.RecordBatch.from_pydict({"a": [1] * n, "b": [2] * n, "v": texts}, schema))
            engine = Engine.restore(engine.snapshot())

    def test_without_rules_or_tuples(self) -> None:
        """An engine that has seen nothing, or has no rules, has a snapshot, too."""
        for rules in ([], RULES):
            restored = Engine.restore(Engine(SCHEMA, rules).snapshot())
            assert restored.position == 0
            assert list(restored.rules) == rules
            clean, _ = restored.process(stream())
            assert clean.num_rows == N

    @pytest.mark.parametrize("constant", [b"\0\xff", -7, "it's", 0.5, True])
    def test_constants_of_tableaux(self, constant: Any) -> None:
        """Constants come back in their type."""
        schema = pa.schema([("k", pa.int64()), ("v", pa.scalar(constant).type)])
        engine = Engine(schema, [Rule("r", "k", "v", tableau=[[1, constant]], nulls="fill")])
        engine = Engine.restore(engine.snapshot())
        clean, _ = engine.process(pa.RecordBatch.from_pylist([{"k": 1, "v": None}], schema))
        assert clean.column("v").to_pylist() == [constant]


class TestParts:
    """A snapshot can be taken and restored in parts."""

    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize(("windowing", "repair", "window"), MODES)
    def test_goes_on(self, windowing: str, repair: str, window: Window | None, threads: int) -> None:
        """An engine that is restored from parts after every few tuples gives what one without pause gives."""
        engine = new_engine(windowing, repair, window)
        expected = engine.process(STREAM)
        restored = new_engine(windowing, repair, window)
        parts = []
        for start in range(0, N, 7):
            parts.append(restored.process(STREAM.slice(start, 7)))
            restored = Engine.restore_parts(*restored.snapshot_parts(), threads=threads)
            for cleaner in restored._cleaners:
                check_invariants(cleaner.state)
        for at in (0, 1):
            got = pa.Table.from_batches([part[at] for part in parts]).combine_chunks()
            assert got.equals(pa.Table.from_batches([expected[at]]).combine_chunks())
        assert facts(restored) == facts(engine)

    def test_what_they_are(self) -> None:
        """The header is JSON with the format version; header and arrays are those in the bytes."""
        header, arrays = small_engine().snapshot_parts()
        saved = json.loads(header)
        assert (saved["format"], saved["position"]) == (FORMAT_VERSION, 10)
        assert sum(one["arrays"] for one in saved["attributes"]) == len(arrays)
        body = io.BytesIO()
        body.write(struct.pack("<Q", len(header)) + header)
        for array in arrays:
            np.lib.format.write_array(body, array, allow_pickle=False)
        assert body.getvalue() == small()[HEAD.size :]

    def test_the_engine_may_go_on(self) -> None:
        """Parts are as they were when they were taken, whatever the engine does before they are used."""
        engine = small_engine()
        header, arrays = engine.snapshot_parts()
        before = [array.tobytes() for array in arrays]
        for seed in range(5):
            engine.process(stream(seed))
        engine.delete_rule("av")
        assert [array.tobytes() for array in arrays] == before
        expected = Engine.restore(small()).process(stream(6))
        assert Engine.restore_parts(header, arrays).process(stream(6))[1].equals(expected[1])

    def test_the_parts_are_copied(self) -> None:
        """A restored engine shares nothing with the parts: they can be used again, and may be read-only."""
        header, arrays = small_engine().snapshot_parts()
        for array in arrays:
            array.flags.writeable = False
        expected = small_engine().process(stream(6))
        for _ in range(2):
            assert Engine.restore_parts(header, arrays).process(stream(6))[1].equals(expected[1])

    def test_arrays_are_of_the_types_that_were_compiled(self) -> None:
        """Records from a file are aligned again when restored, so that nothing is compiled anew for them."""
        for cleaner, twin in zip(small_engine()._cleaners, Engine.restore(small())._cleaners, strict=True):
            for array, other in zip(arrays_of(cleaner.state.store), arrays_of(twin.state.store), strict=True):
                assert other.dtype == array.dtype
                assert other.dtype.isalignedstruct == array.dtype.isalignedstruct
                assert other.flags.owndata

    @pytest.mark.parametrize(
        "header",
        [
            *(b"", b"[]", b"{}", b"\xff", b"null"),
            b'{"format": %d, "attributes": [{"arrays": 1}]}' % FORMAT_VERSION,
            b'{"format": %d, "attributes": []}' % FORMAT_VERSION,
        ],
    )
    def test_wrong_header(self, header: bytes) -> None:
        """A header from elsewhere is refused."""
        with pytest.raises(SnapshotError, match=r"header cannot be read|calls for 1 arrays"):
            Engine.restore_parts(header, [])

    def test_other_format(self) -> None:
        """The header of another format version is refused."""
        header, arrays = small_engine().snapshot_parts()
        saved = json.loads(header) | {"format": FORMAT_VERSION + 1}
        with pytest.raises(SnapshotError, match=f"format version {FORMAT_VERSION + 1}, this release reads"):
            Engine.restore_parts(json.dumps(saved).encode(), arrays)

    def test_wrong_arrays(self) -> None:
        """Arrays that are missing, too many, in another order or of another type are refused."""
        header, arrays = small_engine().snapshot_parts()
        for wrong in (arrays[:-1], [*arrays, arrays[0]], []):
            with pytest.raises(SnapshotError, match=r"calls for .* arrays, there are"):
                Engine.restore_parts(header, wrong)
        for wrong in (
            [arrays[0], *arrays[:0:-1]],
            [*arrays[:-1], arrays[-1][None]],
            [*arrays[:3], np.zeros(arrays[3].shape, np.float16), *arrays[4:]],
        ):
            with pytest.raises(SnapshotError, match=r"attribute '.*': these are not the arrays of a store"):
                Engine.restore_parts(header, wrong)


class TestRefused:
    """What is not a whole snapshot of this format raises SnapshotError."""

    @given(places())
    @example(0)
    @example(HEAD.size - 1)
    @example(HEAD.size)
    @example(-1)  # all but the last byte
    def test_truncated(self, length: int) -> None:
        """A part of a snapshot is refused, wherever it ends."""
        with pytest.raises(SnapshotError, match=r"damaged|not a sparkbleach snapshot"):
            Engine.restore(small()[:length])

    @given(places(), st.integers(0, 7))
    @example(8, 0)
    @example(12, 0)
    @example(16, 0)
    def test_flipped_bit(self, at: int, bit: int) -> None:
        """A single flipped bit is noticed, wherever it is."""
        damaged = bytearray(small())
        damaged[at] ^= 1 << bit
        with pytest.raises(SnapshotError, match=r"damaged|not a sparkbleach snapshot|format version"):
            Engine.restore(bytes(damaged))

    @given(st.binary(max_size=200))
    @example(b"")
    @example(MAGIC)
    @example(b"PK\x03\x04" + bytes(100))
    def test_foreign(self, data: bytes) -> None:
        """Bytes from elsewhere are distinguished from a damaged snapshot."""
        with pytest.raises(SnapshotError, match="not a sparkbleach snapshot; give what snapshot"):
            Engine.restore(data)

    def test_empty(self) -> None:
        """No bytes are no snapshot."""
        with pytest.raises(SnapshotError, match="not a sparkbleach snapshot"):
            Engine.restore(b"")

    @given(st.binary(min_size=1, max_size=50))
    def test_longer(self, more: bytes) -> None:
        """Bytes after the end are damage."""
        with pytest.raises(SnapshotError, match="damaged"):
            Engine.restore(small() + more)

    @pytest.mark.parametrize("text", ["-" * 9_000 + "1", "(" * 150 + ")" * 150, "[" * 4_000])
    def test_array_that_is_none(self, text: str) -> None:
        """A right checksum helps nothing if the header of an array is too much for Python's parser."""
        (length,) = struct.unpack_from("<Q", small(), HEAD.size)
        header = text.encode() + b"\n"
        start = HEAD.size + 8 + length
        body = small()[HEAD.size : start] + b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        with pytest.raises(SnapshotError, match="damaged"):
            Engine.restore(HEAD.pack(MAGIC, FORMAT_VERSION, zlib.crc32(body), len(body)) + body)

    def test_rule_that_is_none(self) -> None:
        """A rule that could not be made any more is refused, such as one whose id is no valid Unicode."""
        header, arrays = small_engine().snapshot_parts()
        wrong = header.replace(b'"av"', b'"\\ud800"')
        assert wrong != header
        with pytest.raises(SnapshotError, match="half of a character"):
            Engine.restore_parts(wrong, arrays)

    @pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 2**32 - 1])
    def test_other_version(self, version: int) -> None:
        """The format version of another release is named, with the one that can be read."""
        _, _, checksum, length = HEAD.unpack_from(small())
        other = HEAD.pack(MAGIC, version, checksum, length) + small()[HEAD.size :]
        with pytest.raises(SnapshotError, match=f"format version {version}, this release reads") as error:
            Engine.restore(other)
        assert f"version {FORMAT_VERSION}" in str(error.value)

    def test_body_of_another(self) -> None:
        """The head of one snapshot does not fit the body of another."""
        other = new_engine("basic", "class", None).snapshot()
        with pytest.raises(SnapshotError, match="damaged"):
            Engine.restore(small()[: HEAD.size] + other[HEAD.size :])


class TestFormat:
    """What the bytes are, and are not."""

    def test_head(self) -> None:
        """Magic, format version, CRC-32 and length of the body, then a JSON header and the arrays."""
        magic, version, checksum, length = HEAD.unpack_from(small())
        body = small()[HEAD.size :]
        assert (magic, version, checksum, length) == (MAGIC, FORMAT_VERSION, zlib.crc32(body), len(body))
        (n,) = struct.unpack_from("<Q", body)
        header = json.loads(body[8 : 8 + n])
        assert header["position"] == 10
        stream = io.BytesIO(body[8 + n :])
        for n_arrays in (one["arrays"] for one in header["attributes"]):
            for _ in range(n_arrays):
                array = np.lib.format.read_array(stream, allow_pickle=False)
                assert not array.dtype.hasobject
        assert stream.read() == b""

    def test_no_pickle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is pickled or unpickled."""
        # Once before: compiled functions that are read from disk for the first time are unpickled.
        Engine.restore(small_engine().snapshot())
        engine = small_engine()

        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("pickle was used")

        for name in ("dump", "dumps", "load", "loads"):
            monkeypatch.setattr(pickle, name, refuse)
        assert Engine.restore(engine.snapshot()).position == 10

    def test_objects_cannot_be_smuggled_in(self, tmp_path: Path) -> None:
        """An array of objects in an otherwise sound snapshot is refused, and its code is not run."""
        trace = tmp_path / "trace"
        body = small()[HEAD.size :]
        (n,) = struct.unpack_from("<Q", body)
        forged = io.BytesIO()
        forged.write(body[: 8 + n])
        objects = np.array([_Touch(trace)], object)
        for n_arrays in (one["arrays"] for one in json.loads(body[8 : 8 + n])["attributes"]):
            for _ in range(n_arrays):
                np.lib.format.write_array(forged, objects, allow_pickle=True)
        data = forged.getvalue()
        snapshot = HEAD.pack(MAGIC, FORMAT_VERSION, zlib.crc32(data), len(data)) + data
        with pytest.raises((SnapshotError, ValueError)):
            Engine.restore(snapshot)
        assert not trace.exists()

    def test_size_of_a_small_state(self) -> None:
        """A snapshot is as large as the state, not as the room that is reserved: ten tuples, 20 KB."""
        assert len(small()) < 20_000

    def test_size_grows_with_the_state(self) -> None:
        """Tuples that add no super cell add nothing; ten times the super cells, ten times the size."""
        schema = pa.schema([("k", pa.int64()), ("v", pa.string())])

        def size(n_keys: int, times: int) -> int:
            engine = Engine(schema, ["k -> v"], window=None, repair="class")
            keys = pa.array(np.tile(np.arange(n_keys), times))
            engine.process(pa.RecordBatch.from_arrays([keys, keys.cast(pa.string())], schema=schema))
            return len(engine.snapshot())

        assert size(1_000, 10) == pytest.approx(size(1_000, 1), rel=0.01)
        assert 8 < size(20_000, 1) / size(2_000, 1) < 12
        assert size(20_000, 1) < 20_000 * 400


class _Touch:
    """An object that leaves a trace when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))
