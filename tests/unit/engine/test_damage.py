"""Damaged snapshots whose checksum is right: they are refused, or are another state that works."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkbleach import Engine, SnapshotError
from sparkbleach.engine.snapshot import FORMAT_VERSION, MAGIC, pack
from tests.support.damage import KINDS, go_on, parts_of, restore_all
from tests.support.profiles import FAST, NIGHTLY

N_DAMAGED = 50_000 if NIGHTLY else 50 if FAST else 300
HEAD = struct.Struct("<8sIIQ")


def arrays_of(kind: str) -> tuple[bytes, list[np.ndarray]]:
    """Return the parts of a snapshot, to be changed."""
    header, arrays = parts_of(kind)
    return header, [array.copy() for array in arrays]


class TestAny:
    """No damaged snapshot ends or holds up the process."""

    def test_random_damage(self) -> None:
        """Each is refused with a SnapshotError, or goes on; what follows raises nothing."""
        first = random.Random().randrange(10**9) if NIGHTLY else 0  # noqa: S311 - nothing secret
        found = dict(restore_all(range(first, first + N_DAMAGED)))
        wrong = {number: one for number, one in found.items() if one not in ("refused", "went on")}
        assert wrong == {}
        counts = Counter(found.values())
        assert counts["refused"] > N_DAMAGED // 2
        assert counts["went on"] > N_DAMAGED // 10

    @pytest.mark.parametrize("kind", KINDS)
    def test_without_damage(self, kind: str) -> None:
        """What the damage is done to is sound."""
        engine = Engine.restore_parts(*parts_of(kind))
        go_on(engine)
        Engine.restore(engine.snapshot())


class TestArrays:
    """What is wrong in the arrays is named, with its attribute."""

    @pytest.mark.parametrize("kind", ["solo", "class, bleach"])
    @pytest.mark.parametrize(
        ("field", "number", "what"),
        [
            ("held", 10**6, "values: one is named that is not there"),
            ("challenger", 0, "values: one is named more or less often than it says"),
            ("recent_cell", 10**6, "groups: recent_cell is out of bounds"),
            ("column", 7, "groups: column is out of bounds"),
            ("n_cells", 1, "groups: one has more or fewer super cells than it says"),
            ("next", 0, "groups: a list does not end as it should"),
            ("hash", 1, "groups: a record is at a wrong place in its table"),
        ],
    )
    def test_groups(self, kind: str, field: str, number: int, what: str) -> None:
        """A field of all groups with the same number."""
        header, arrays = arrays_of(kind)
        arrays[1][field] = number
        with pytest.raises(SnapshotError, match=f"^snapshot: state of attribute 'city': {what}; use an ear"):
            Engine.restore_parts(header, arrays)

    def test_bayes(self) -> None:
        """With `bayes` states are of all attributes."""
        header, arrays = arrays_of("bayes, bleach")
        at = next(k for k, one in enumerate(arrays) if "trust" in (one.dtype.names or ()))
        arrays[at]["top"][0, 0] = 10**6
        with pytest.raises(SnapshotError, match="state of all attributes: groups: top is out of bounds; use"):
            Engine.restore_parts(header, arrays)

    @pytest.mark.parametrize(("place", "n"), [(1, 2**63 - 1), (2, 2**63 - 1), (1, -1)])
    def test_tuples_of_a_pane(self, place: int, n: int) -> None:
        """With `bayes` a pane has as many tuples as can still be counted."""
        header, arrays = arrays_of("bayes, timed")
        at = next(k for k, one in enumerate(arrays) if one.shape == (3,) and one.dtype == np.int64)
        arrays[at][place] = n
        with pytest.raises(SnapshotError, match="the pane is out of bounds; use an earlier one"):
            Engine.restore_parts(header, arrays)

    def test_texts(self) -> None:
        """The bytes of texts are UTF-8."""
        header, arrays = arrays_of("solo")
        at = next(k for k, one in enumerate(arrays) if one.dtype == np.uint8)
        arrays[at][:] = 255
        with pytest.raises(SnapshotError, match="'city': values: one is none of type"):
            Engine.restore_parts(header, arrays)

    @pytest.mark.parametrize("shape", [(10**9,), (2**62,), (2**40, 2**40), (-1,)])
    def test_declared_size(self, shape: tuple[int, ...]) -> None:
        """An array that says that it is larger than the snapshot is refused before it gets any memory."""
        header, arrays = parts_of("solo")
        data = pack(header, arrays)[HEAD.size :]
        declared = f"'shape': {shape!r}, }}".encode()
        at = data.index(b"'shape'")
        end = data.index(b"\n", at)
        data = data[:at] + declared.ljust(end - at) + data[end:]
        with pytest.raises(SnapshotError, match=r"^snapshot: damaged .*; use an earlier one"):
            Engine.restore(_head(data) + data)


class TestHeader:
    """What is wrong in the header is refused."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda read: read.update(position=-1),
            lambda read: read.update(position=10**30),
            lambda read: read.update(position=1.5),
            lambda read: read.update(clock=[None, -1]),
            lambda read: read.update(clock=[0, 2**63]),
            lambda read: read.update(clock=7),
            lambda read: read.update(id="no such column"),
            lambda read: read.update(schema="bm8gc2NoZW1h"),
            lambda read: read["repairs"].clear(),
            lambda read: read["repairs"].update(zip_city="many"),
            lambda read: read["rules"].update(next_serial=0),
            lambda read: read["rules"].update(version=-3),
            lambda read: read["rules"]["rules"].pop(),
            lambda read: read["options"].update(window=[2**200, 2**200, "at"]),
            lambda read: read["options"].update(accept_after=-1),
            lambda read: read["options"].update(repair="bayes"),
            lambda read: read["attributes"].reverse() or read["attributes"][0].update(name="city"),
            lambda read: read["attributes"][0].update(applied="yes"),
            lambda read: read["attributes"][0].update(applied=1),
            lambda read: read["attributes"][0].update(name={"a": 1}),
            lambda read: read["attributes"][0].update(arrays=-1),
            lambda read: read.update(share=[5, [["city"]]]),
            lambda read: read.update(share=[0, [["no such attribute"]]]),
            lambda read: read.update(attributes=None),
        ],
    )
    def test_refused(self, change: Callable[[Any], object]) -> None:
        """Numbers out of bounds, values of other types, and parts that do not go together."""
        header, arrays = parts_of("class, timed")
        read = json.loads(header)
        change(read)
        with pytest.raises(SnapshotError, match=r"^snapshot: "):
            Engine.restore(pack(json.dumps(read).encode(), arrays))

    def test_deep(self) -> None:
        """Brackets without end."""
        with pytest.raises(SnapshotError, match=r"^snapshot: "):
            Engine.restore(pack(b"[" * 100_000, []))


def _head(data: bytes) -> bytes:
    return HEAD.pack(MAGIC, FORMAT_VERSION, zlib.crc32(data), len(data))
