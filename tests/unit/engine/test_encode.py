"""Arrow columns become what the kernel reads, in the order of their type, and back."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar, cast

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparkbleach.engine.encode import decode, encode, plain, render, take
from sparkbleach.kernel.table import NONE
from sparkbleach.kernel.values import Column, Values, new_values, reserve_values, value_less, value_of

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a driver of kernel functions, which cannot be called from Python themselves."""
    return cast(F, numba.njit(function))


@compiled
def _number(values: Values, column: Column, numbers: NDArray[np.int32]) -> None:
    for i in range(numbers.size):
        numbers[i] = value_of(values, column, i) if column.valid[i] else NONE


@compiled
def _compare(values: Values, numbers: NDArray[np.int32], less: NDArray[np.bool_]) -> None:
    for i in range(numbers.size):
        for j in range(numbers.size):
            less[i, j] = value_less(values, numbers[i], numbers[j])


def numbered(array: pa.Array, values: Values | None = None) -> tuple[Values, NDArray[np.int32]]:
    """Put the cells of an array into a value dictionary; return it and each cell's number there."""
    values = values or new_values()
    column = encode(array)
    n_bytes = int(column.offsets[-1] - column.offsets[0]) if column.offsets.size else 0
    reserve_values(values, len(array), n_bytes)
    numbers = np.empty(len(array), np.int32)
    _number(values, column, numbers)
    return values, numbers


def round_trip(array: pa.Array) -> pa.Array:
    """Return the non-null cells of an array by way of the value dictionary."""
    values, numbers = numbered(array)
    return plain(decode(values, numbers[numbers != NONE], array.type))


def raw(numbers: list[int | None], type: pa.DataType) -> pa.Array:
    """Return an array of a type whose cells are integers."""
    return pa.array(numbers, pa.int32() if type.bit_width == 32 else pa.int64()).view(type)


_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
_COUNTED = [
    pa.date32(),
    pa.date64(),
    *(pa.time32(unit) for unit in ("s", "ms")),
    *(pa.time64(unit) for unit in ("us", "ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Paris")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]
_DECIMALS = [
    pa.decimal32(9, 2),
    pa.decimal64(18, 3),
    pa.decimal128(18, 2),
    pa.decimal128(19, 2),
    pa.decimal128(38, 0),
    pa.decimal256(18, 4),
    pa.decimal256(40, 2),
    pa.decimal256(76, 10),
]
_TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
_BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view()]


def _exactly(unit: int, scale: int) -> Decimal:
    """Return unit * 10 ** -scale, with all its digits."""
    sign = int(unit < 0)
    return Decimal((sign, tuple(int(digit) for digit in str(abs(unit))), -scale))


def _samples() -> dict[pa.DataType, pa.Array]:
    """Return cells of every supported type: extremes, repeated values and nulls."""
    samples: dict[pa.DataType, pa.Array] = {pa.bool_(): pa.array([True, None, False, True])}
    for type in _INTEGERS:
        info = np.iinfo(type.to_pandas_dtype())
        samples[type] = pa.array([0, int(info.max), None, int(info.min), 1, 0, 7], type)
    for type in (pa.float16(), pa.float32(), pa.float64()):
        dtype = type.to_pandas_dtype()
        info_f = np.finfo(dtype)
        cells = [0.0, info_f.max, info_f.min, info_f.smallest_subnormal, math.inf, -math.inf, 1.5, -1.5, 0.0]
        samples[type] = pa.array([*(dtype(cell) for cell in cells), None], type)
    for type in _COUNTED:
        day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(getattr(type, "unit", "ms"), 1)
        cells_i = [0, 1, None, day - 1, 5, 1] if pa.types.is_time(type) else [0, -day, None, day, 2 * day, 0]
        if pa.types.is_date32(type):
            cells_i = [0, -719_162, None, 2_932_896, 0]
        samples[type] = raw(cells_i, type)
    for type in _DECIMALS:
        most = 10**type.precision - 1
        samples[type] = pa.array(
            [*(_exactly(n, type.scale) for n in (0, 1, -1, 7, most, -most, 0)), None], type
        )
    texts = ["", "a", None, "é", "\U0001f600", "a", "exactly8", "12345678a", "12345678b", "x" * 5_000, "a\0"]
    for type in _TEXTS:
        samples[type] = pa.array(texts, type)
    for type in _BINARIES:
        samples[type] = pa.array([b"", b"\0", None, b"\xff", b"\0\0", b"abc", b"abc", b"y" * 1_025], type)
    samples[pa.binary(1)] = pa.array([b"\0", b"\xff", None, b"a", b"a"], pa.binary(1))
    samples[pa.binary(12)] = pa.array([b"0123456789ab", b"0123456789aa", None, bytes(12)], pa.binary(12))
    return samples


SAMPLES = _samples()
every_type = pytest.mark.parametrize("array", SAMPLES.values(), ids=[str(type) for type in SAMPLES])


def present(array: pa.Array) -> pa.Array:
    """Return the non-null cells."""
    return take(array, np.flatnonzero([cell.is_valid for cell in array]))


def same(left: pa.Array, right: pa.Array) -> bool:
    """Return whether two arrays are equal; the slots of nulls may hold anything."""
    return bool(left.type == right.type and left.equals(right))


@every_type
class TestRoundTrip:
    """Encode, put into the dictionary, decode."""

    def test_values(self, array: pa.Array) -> None:
        """Every cell comes back with its value, in its type."""
        got = round_trip(array)
        got.validate(full=True)
        assert same(got, present(array))

    def test_valid(self, array: pa.Array) -> None:
        """A column knows its nulls."""
        assert encode(array).valid.tolist() == [cell.is_valid for cell in array]

    def test_slices(self, array: pa.Array) -> None:
        """Every slice of an array is read as an array of its own."""
        for start in range(len(array)):
            for stop in range(start, len(array) + 1):
                part = array.slice(start, stop - start)
                assert same(round_trip(part), present(part))
                assert encode(part).valid.tolist() == [cell.is_valid for cell in part]

    def test_equal_cells_have_one_number(self, array: pa.Array) -> None:
        """Two cells have the same number in the dictionary if and only if they are equal."""
        _, numbers = numbered(array)
        cells = list(array)
        for i, a in enumerate(cells):
            for j, b in enumerate(cells):
                if a.is_valid and b.is_valid:
                    assert (numbers[i] == numbers[j]) == a.equals(b)

    def test_hash_does_not_depend_on_the_place(self, array: pa.Array) -> None:
        """A cell's hash is that of its value, wherever the cell lies."""
        column = encode(array)
        moved = encode(pa.concat_arrays([array, array]).slice(len(array) - 1))
        valid = column.valid
        assert (column.lo[valid] == moved.lo[1:][valid]).all()
        assert (column.hi[valid] == moved.hi[1:][valid]).all()

    def test_all_null(self, array: pa.Array) -> None:
        """A column of nulls only has no value."""
        nulls = pa.nulls(3, array.type)
        assert encode(nulls).valid.tolist() == [False] * 3
        assert len(round_trip(nulls)) == 0
        assert round_trip(nulls).type == array.type

    def test_empty(self, array: pa.Array) -> None:
        """A column without cells is read, and no values are decoded, in the type."""
        for empty in (array.slice(0, 0), array.slice(len(array)), pa.array([], array.type)):
            column = encode(empty)
            assert column.valid.size == column.lo.size == column.hi.size == 0
            assert round_trip(empty).equals(pa.array([], array.type))

    def test_order(self, array: pa.Array) -> None:
        """The kernel's order of values is that of the type."""
        cells = present(array)
        if cells.type in _COUNTED:
            check_order(
                cells, cells.view(pa.int32() if cells.type.bit_width == 32 else pa.int64()).to_pylist()
            )
        else:
            check_order(cells, cells.to_pylist())

    def test_take(self, array: pa.Array) -> None:
        """Rows can be taken from an array of any type, also none."""
        rows = np.array([len(array) - 1, 0, 0], np.int32)
        got = take(array, rows)
        assert [got[i].equals(array[int(row)]) for i, row in enumerate(rows)] == [True] * 3
        assert got.type == array.type
        assert len(take(array, rows[:0])) == 0

    def test_render(self, array: pa.Array) -> None:
        """Every value has a text, of Arrow's plain string type; null has none."""
        text = render(array)
        assert text.type == pa.string()
        assert [cell.is_valid for cell in text] == [cell.is_valid for cell in array]
        shown = [t for t in text.to_pylist() if t is not None]
        _, numbers = numbered(array)
        distinct = {int(number) for number in numbers if number != NONE}
        assert len(set(shown)) == len(distinct)  # different values look different


def check_order(array: pa.Array, plain: list[Any]) -> None:
    """Assert that the kernel orders the cells as Python orders the plain values."""
    values, numbers = numbered(array)
    less = np.empty((numbers.size, numbers.size), np.bool_)
    _compare(values, numbers, less)
    assert less.tolist() == [[a < b for b in plain] for a in plain]


class TestOrder:
    """What the kernel compares orders as Python does."""

    @given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12))
    def test_int64(self, cells: list[int]) -> None:
        """Signed integers are in the order of numbers."""
        check_order(pa.array(cells, pa.int64()), cells)

    @given(st.lists(st.integers(0, 2**64 - 1), max_size=12))
    @example([0, 2**63 - 1, 2**63, 2**64 - 1])
    def test_uint64(self, cells: list[int]) -> None:
        """Unsigned integers beyond the largest signed one come after it."""
        check_order(pa.array(cells, pa.uint64()), cells)
        assert round_trip(pa.array(cells, pa.uint64())).to_pylist() == cells

    @pytest.mark.parametrize("width", [16, 32, 64])
    @given(data=st.data())
    def test_floats(self, width: Any, data: st.DataObject) -> None:
        """Zeros are one value, NaN are one value above all others; the rest is in the order of numbers."""
        type = {16: pa.float16(), 32: pa.float32(), 64: pa.float64()}[width]
        some = st.one_of(
            st.floats(width=width), st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf])
        )
        cells = data.draw(st.lists(some, max_size=12))
        array = pa.array([type.to_pandas_dtype()(cell) for cell in cells], type)
        plain = [(1, 0.0) if math.isnan(cell) else (0, cell) for cell in cells]
        check_order(array, plain)
        _, numbers = numbered(array)
        for i, a in enumerate(plain):
            for j, b in enumerate(plain):
                assert (numbers[i] == numbers[j]) == (a == b)
        got = round_trip(array).to_pylist()
        assert [math.isnan(cell) for cell in got] == [math.isnan(cell) for cell in cells]
        assert [c for c in got if not math.isnan(c)] == [c for c in cells if not math.isnan(c)]
        assert all(math.copysign(1, cell) == 1 for cell in got if cell == 0)

    @pytest.mark.parametrize("type", _DECIMALS, ids=str)
    @given(data=st.data())
    def test_decimals(self, type: pa.DataType, data: st.DataObject) -> None:
        """Decimals are in the order of numbers, whatever their width."""
        most = 10**type.precision - 1
        units = data.draw(st.lists(st.integers(-most, most), max_size=12))
        cells = [_exactly(unit, type.scale) for unit in units]
        array = pa.array(cells, type)
        check_order(array, units)
        assert round_trip(array).to_pylist() == cells

    @pytest.mark.parametrize("type", _TEXTS, ids=str)
    @given(
        cells=st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12), max_size=12)
    )
    @example(cells=["\uffff", "\U00010000", "\ue000", "\U0010ffff", "\0", ""])
    @example(cells=["12345678", "123456789", "1234567", "12345678\0", "1234567é"])
    def test_text(self, type: pa.DataType, cells: list[str]) -> None:
        """Text is in the order of its code points, astral characters last."""
        array = pa.array(cells, type)
        check_order(array, cells)
        assert round_trip(array).to_pylist() == cells

    @given(
        cells=st.lists(
            st.tuples(st.sampled_from(["", "same first eight bytes", "same first é"]), st.text(max_size=3)),
            max_size=12,
        )
    )
    def test_text_with_common_beginnings(self, cells: list[tuple[str, str]]) -> None:
        """Texts that begin alike are distinguished by what follows."""
        texts = [a + b for a, b in cells]
        check_order(pa.array(texts, pa.string()), texts)

    @pytest.mark.parametrize("type", _BINARIES, ids=str)
    @given(cells=st.lists(st.binary(max_size=12), max_size=12))
    @example(cells=[b"", b"\0", b"\0" * 8, b"\0" * 9, b"\x7f", b"\x80", b"\xff" * 9])
    def test_binary(self, type: pa.DataType, cells: list[bytes]) -> None:
        """Bytes are in the order of unsigned bytes, a beginning before what goes on."""
        array = pa.array(cells, type)
        check_order(array, cells)
        assert round_trip(array).to_pylist() == cells

    @given(st.lists(st.binary(min_size=9, max_size=9), max_size=12))
    def test_fixed_binary(self, cells: list[bytes]) -> None:
        """Bytes of one width are in the order of unsigned bytes."""
        check_order(pa.array(cells, pa.binary(9)), cells)


class TestArrays:
    """Arrays as they come from elsewhere."""

    @given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=30), st.data())
    def test_slices_of_text_with_nulls(self, cells: list[str | None], data: st.DataObject) -> None:
        """Any slice of any text column gives its own cells."""
        start = data.draw(st.integers(0, len(cells)))
        stop = data.draw(st.integers(start, len(cells)))
        for type in _TEXTS:
            part = pa.array(cells, type).slice(start, stop - start)
            assert round_trip(part).to_pylist() == [c for c in cells[start:stop] if c is not None]
            assert encode(part).valid.tolist() == [c is not None for c in cells[start:stop]]

    def test_what_lies_under_a_null_does_not_matter(self) -> None:
        """A null cell is null whatever the buffer holds in its place."""
        masked = pa.array(np.array([1, 99, 1]), mask=np.array([False, True, False]))
        _, numbers = numbered(masked)
        assert numbers.tolist() == [0, NONE, 0]

    def test_dictionary_over_several_columns(self) -> None:
        """A value keeps its number in later columns, in other places, of the same type."""
        values, first = numbered(pa.array(["x", "y"]))
        values, second = numbered(pa.array(["pad", "y", "z", "x"]).slice(1), values)
        assert second.tolist() == [first[1], 2, first[0]]
        assert decode(values, np.array([2, 0, 1, 0], np.int32), pa.string()).to_pylist() == [
            "z",
            "x",
            "y",
            "x",
        ]

    def test_bits_of_booleans(self) -> None:
        """Booleans are read bit by bit from any offset."""
        cells = [bool(i % 3) for i in range(40)]
        for start in range(20):
            assert round_trip(pa.array(cells).slice(start)).to_pylist() == cells[start:]

    def test_read_only_buffers_and_no_copy(self) -> None:
        """The bytes of a text column are read where they lie, and cannot be written."""
        array = pa.array(["some text", "more text"])
        column = encode(array)
        assert not column.data.flags.writeable
        assert column.data.ctypes.data == array.buffers()[2].address


class TestRender:
    """The texts of values in the audit."""

    @pytest.mark.parametrize(
        ("array", "expected"),
        [
            (pa.array([True, False, None]), ["true", "false", None]),
            (pa.array([-5, 2**63 - 1]), ["-5", "9223372036854775807"]),
            (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
            (pa.array([1.5, math.nan, math.inf, -math.inf, 1e300]), ["1.5", "nan", "inf", "-inf", "1e+300"]),
            (pa.array([np.float16(1.5)], pa.float16()), ["1.5"]),
            (pa.array([0.1], pa.float32()), ["0.1"]),
            (pa.array([Decimal("-1.50")], pa.decimal128(5, 2)), ["-1.50"]),
            (pa.array([Decimal("12345678901234567890.5")], pa.decimal256(40, 1)), ["12345678901234567890.5"]),
            (pa.array(["", "é", None]), ["", "é", None]),
            (pa.array(["é"], pa.large_string()), ["é"]),
            (pa.array(["é", None], pa.string_view()), ["é", None]),
            (pa.array([b"\0\xff", b"", None]), ["00ff", "", None]),
            (pa.array([b"\0\xff"], pa.large_binary()), ["00ff"]),
            (pa.array([b"\0\xff", None], pa.binary_view()), ["00ff", None]),
            (pa.array([b"abc", None], pa.binary(3)), ["616263", None]),
            (pa.array([dt.date(2024, 2, 29)]), ["2024-02-29"]),
            (pa.array([dt.date(2024, 2, 29)], pa.date64()), ["2024-02-29"]),
            (pa.array([dt.time(1, 2, 3)], pa.time32("s")), ["01:02:03"]),
            (pa.array([dt.time(1, 2, 3, 4)], pa.time64("us")), ["01:02:03.000004"]),
            (pa.array([dt.datetime(2024, 1, 2, 3)], pa.timestamp("s")), ["2024-01-02 03:00:00"]),
            (
                pa.array([dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC)], pa.timestamp("ms", "UTC")),
                ["2024-01-02 03:00:00.000Z"],
            ),
            (
                pa.array([dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC)], pa.timestamp("s", "Europe/Paris")),
                ["2024-01-02 03:00:00Z"],
            ),
            (pa.array([5, None, -7], pa.int64()).view(pa.duration("ms")), ["5 ms", None, "-7 ms"]),
            (pa.array([5], pa.int64()).view(pa.duration("ns")), ["5 ns"]),
        ],
        ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
    )
    def test_text(self, array: pa.Array, expected: list[str | None]) -> None:
        """Each type has its text: binary in hexadecimal, durations with their unit."""
        assert render(array).to_pylist() == expected
