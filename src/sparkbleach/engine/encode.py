"""Between Arrow columns and what the kernel reads.

Every scalar type is one of two kinds. *Codes*: 64-bit integers in the order of the type (booleans, numbers,
dates, times, decimals of up to 18 digits). *Bytes*: byte strings in the order of the type (text in UTF-8,
whose byte order is that of the code points; binary; larger decimals). Equal cells have equal codes or bytes:
-0.0 is 0.0, and all NaN are one value, above all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..kernel.hashing import hash_bytes_column, hash_codes_column
from ..kernel.values import Column, Values, gather_bytes, gather_codes, gather_offsets

_SIGN = np.uint64(1 << 63)
_MAGNITUDE = np.int64((1 << 63) - 1)
_DECIMAL_DIGITS_64 = 18


def _read_only(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a view that cannot be written, as those of Arrow buffers are: one type to compile for."""
    view = data.view()
    view.flags.writeable = False
    return view


_NO_CODES: NDArray[np.int64] = np.zeros(0, np.int64)
_CHECKED_AT_ONCE = 1 << 20
_NO_DATA: NDArray[np.uint8] = _read_only(np.zeros(0, np.uint8))


def encode(array: pa.Array) -> Column:
    """Return a column as the kernel reads it; of one with a dictionary, each value is looked at once."""
    if pa.types.is_dictionary(array.type):
        return _encode_dictionary(array)
    n = len(array)
    lo = np.empty(n, np.uint64)
    hi = np.empty(n, np.uint64)
    valid = _valid(array)
    if _has_codes(array.type):
        codes = _codes(array)
        hash_codes_column(codes.view(np.uint64), lo, hi)
        return Column(valid, lo, hi, codes, _NO_DATA, _NO_CODES, _NO_CODES)
    data, offsets = _bytes(array)
    data = _read_only(data)
    hash_bytes_column(data, offsets, lo, hi)
    return Column(valid, lo, hi, _NO_CODES, data, offsets, _NO_CODES)


def _encode_dictionary(array: pa.DictionaryArray) -> Column:
    if len(array.dictionary) == 0:  # all cells are null
        return encode(pa.nulls(len(array), array.type.value_type))
    values = encode(array.dictionary)
    valid = _valid(array.indices)
    index = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not values.valid.all():
        valid &= values.valid[index]
    lo, hi = values.lo[index], values.hi[index]
    if values.codes.size:
        return Column(valid, lo, hi, values.codes[index], _NO_DATA, _NO_CODES, _NO_CODES)
    return Column(valid, lo, hi, _NO_CODES, values.data, values.offsets, index)


def canonical_type(type: pa.DataType) -> pa.DataType:
    """Return the type of the canonical values of a type: codes or bytes, which compare as the type does."""
    return pa.int64() if _has_codes(type) else pa.large_binary()


def canonical(column: Column) -> pa.Array:
    """Return the cells of a column as canonical values."""
    null = ~column.valid
    if column.codes.size or not column.offsets.size:
        return pa.array(column.codes, mask=null)
    values = pa.Array.from_buffers(
        pa.large_binary(),
        column.offsets.size - 1,
        [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)],
    )
    index = column.value_index if column.value_index.size else np.arange(len(values))
    return values.take(pa.array(index, mask=null))


def from_canonical(values: pa.Array, type: pa.DataType) -> pa.Array:
    """Return canonical values, none of them null, as values of their type."""
    if _has_codes(type):
        return from_codes(values.to_numpy(), type)
    return _from_bytes(*_bytes(pa.concat_arrays([values])), type)


def decode(values: Values, which: NDArray[np.int32], type: pa.DataType) -> pa.DictionaryArray:
    """Return the given values of the value dictionary, each value of the attribute's type once.

    A negative number is a null.
    """
    repeated = pa.array(which, mask=which < 0).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        repeated.indices, _values(values, repeated.dictionary.to_numpy(), type)
    )


def plain(array: pa.Array) -> pa.Array:
    """Return the cells of an array without dictionaries, also of those within lists and structs."""
    type = array.type
    if pa.types.is_dictionary(type):
        return take(array.dictionary, array.indices)
    if not _has_dictionaries(type):
        return array
    if pa.types.is_list(type):
        return pa.ListArray.from_arrays(array.offsets, plain(array.values))
    names = [field.name for field in type]
    return pa.StructArray.from_arrays([plain(field) for field in array.flatten()], names=names)


def _has_dictionaries(type: pa.DataType) -> bool:
    """Return whether an array of a type has dictionaries, itself or within lists and structs."""
    if pa.types.is_list(type):
        return _has_dictionaries(type.value_type)
    if pa.types.is_struct(type):
        return any(_has_dictionaries(field.type) for field in type)
    return bool(pa.types.is_dictionary(type))


def plain_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose columns have no dictionaries."""
    if not any(pa.types.is_dictionary(type) for type in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], names=batch.schema.names)


def _values(values: Values, which: NDArray[np.int32], type: pa.DataType) -> pa.Array:
    if _has_codes(type):
        codes = np.empty(which.size, np.int64)
        gather_codes(values, which, codes)
        return from_codes(codes, type)
    offsets = np.empty(which.size + 1, np.int64)
    gather_offsets(values, which, offsets)
    data = np.empty(int(offsets[-1]), np.uint8)
    gather_bytes(values, which, offsets, data)
    return _from_bytes(data, offsets, type)


def check_values(values: Values, which: NDArray[np.int64], type: pa.DataType) -> None:
    """Check that some values can be read as values of a type; ValueError if not."""
    lengths = values.records["length"][which]
    if not _has_codes(type):
        fixed = pa.types.is_decimal(type) or pa.types.is_fixed_size_binary(type)
        width = type.byte_width if fixed else None
        if (lengths < 0).any() or (width is not None and (lengths != width).any()):
            raise ValueError(f"values: one has no bytes of type {type}")
        if width is None:  # all of them together may be more than the type has room for
            type = pa.large_string() if is_text(type) else pa.large_binary()
    try:
        for some in np.array_split(which.astype(np.int32), which.size // _CHECKED_AT_ONCE + 1):
            _values(values, some, type).validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"values: one is none of type {type} ({error})") from None


def take(array: pa.Array, rows: NDArray[Any] | pa.Array) -> pa.Array:
    """Return the given rows of an array, of any scalar type."""
    rows = rows if isinstance(rows, pa.Array) else pa.array(rows)
    if _is_view(array.type):  # Arrow has no `take` for them
        wide = pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary()
        return array.cast(wide).take(rows).cast(array.type)
    return array.take(rows)


def can_take(type: pa.DataType) -> bool:
    """Return whether `take` works for a type."""
    try:
        take(pa.nulls(1, type), np.zeros(1, np.int32))
    except pa.ArrowException:
        return False
    return True


def render(array: pa.Array) -> pa.Array:
    """Return values as text: binary as hexadecimal digits, a duration as `5 ms`, zoned times in UTC."""
    type = array.type
    if pa.types.is_string(type):
        return array
    if pa.types.is_binary(type) or pa.types.is_large_binary(type) or _is_fixed_bytes(type):
        return pa.array([None if v is None else v.hex() for v in array.to_pylist()], pa.string())
    if pa.types.is_binary_view(type):
        return render(array.cast(pa.binary()))
    if pa.types.is_duration(type):
        counts = array.cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(counts, type.unit, " ")
    if pa.types.is_timestamp(type) and type.tz is not None:
        # Without the zone, which this machine may not know.
        utc = array.view(pa.timestamp(type.unit)).cast(pa.string())
        return pc.binary_join_element_wise(utc, "Z", "")
    return array.cast(pa.string())


def _valid(array: pa.Array) -> NDArray[np.bool_]:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    valid: NDArray[np.bool_] = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def _has_codes(type: pa.DataType) -> bool:
    if pa.types.is_decimal(type):
        return bool(type.precision <= _DECIMAL_DIGITS_64)
    return bool(pa.types.is_boolean(type) or pa.types.is_primitive(type))


def is_text(type: pa.DataType) -> bool:
    """Return whether the bytes of a type's values are their text in UTF-8."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def _is_view(type: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type) or pa.types.is_binary_view(type))


def _is_fixed_bytes(type: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(type) and not pa.types.is_decimal(type))


def _raw(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Return the fixed-width cells of an array as they lie in memory, nulls included."""
    dtype = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def _number_type(type: pa.DataType) -> str:
    """Return the NumPy type of an integer-like Arrow type's cells."""
    if pa.types.is_decimal(type) or not pa.types.is_integer(type):
        return f"i{type.bit_width // 8}"
    return f"{'u' if pa.types.is_unsigned_integer(type) else 'i'}{type.bit_width // 8}"


def _codes(array: pa.Array) -> NDArray[np.int64]:
    type = array.type
    if pa.types.is_boolean(type):
        codes: NDArray[np.int64] = pc.cast(array.fill_null(False), pa.int8()).to_numpy().astype(np.int64)
        return codes
    if pa.types.is_floating(type):
        floats = _raw(array, f"f{type.bit_width // 8}").astype(np.float64)
        floats += 0.0  # -0.0 becomes 0.0
        floats[np.isnan(floats)] = np.nan
        bits = floats.view(np.int64)
        return np.where(bits < 0, bits ^ _MAGNITUDE, bits)
    if pa.types.is_decimal(type) and type.bit_width > 64:
        # The low word alone holds a number of up to 18 digits.
        words = _raw(array, np.dtype((np.int64, type.bit_width // 64)))
        return np.ascontiguousarray(words[:, 0])
    raw = _raw(array, _number_type(type))
    if pa.types.is_uint64(type):
        return (raw ^ _SIGN).view(np.int64)
    return raw.astype(np.int64)


def from_codes(codes: NDArray[np.int64], type: pa.DataType) -> pa.Array:
    """Return the values of a type that have these codes."""
    n = codes.size
    if pa.types.is_boolean(type):
        return pa.array(codes.astype(np.bool_))
    if pa.types.is_floating(type):
        bits = np.where(codes < 0, codes ^ _MAGNITUDE, codes)
        raw: NDArray[Any] = bits.view(np.float64).astype(f"f{type.bit_width // 8}")
    elif pa.types.is_decimal(type) and type.bit_width > 64:
        words = np.empty((n, type.bit_width // 64), np.int64)
        words[:, 0] = codes
        words[:, 1:] = (codes >> 63)[:, None]  # the sign
        raw = words
    elif pa.types.is_uint64(type):
        raw = codes.view(np.uint64) ^ _SIGN
    else:
        raw = codes.astype(_number_type(type))
    return pa.Array.from_buffers(type, n, [None, pa.py_buffer(np.ascontiguousarray(raw))])


def _bytes(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of all cells and where each begins and ends."""
    type = array.type
    n = len(array)
    if pa.types.is_decimal(type):
        width = type.bit_width // 8
        cells = _raw(array, np.dtype((np.uint8, width)))[:, ::-1].copy()  # the most significant byte first
        cells[:, :1] ^= 0x80  # negative numbers before positive ones
        return cells.reshape(-1), np.arange(n + 1, dtype=np.int64) * width
    if pa.types.is_fixed_size_binary(type):
        width = type.byte_width
        if width == 0:
            return _NO_DATA, np.zeros(n + 1, np.int64)
        cells = _raw(array, np.dtype((np.uint8, width)))
        return np.ascontiguousarray(cells).reshape(-1), np.arange(n + 1, dtype=np.int64) * width
    if _is_view(type):
        array = array.cast(pa.large_binary())
        type = array.type
    large = pa.types.is_large_string(type) or pa.types.is_large_binary(type)
    _, offset_buffer, data_buffer = array.buffers()
    offset_type = np.dtype(np.int64 if large else np.int32)
    if offset_buffer is None or n == 0:
        return _NO_DATA, np.zeros(n + 1, np.int64)
    offsets = np.frombuffer(offset_buffer, offset_type, n + 1, array.offset * offset_type.itemsize)
    data = _NO_DATA if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets.astype(np.int64)


def _from_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64], type: pa.DataType) -> pa.Array:
    n = offsets.size - 1
    if pa.types.is_decimal(type):
        cells = data.reshape(n, -1) if n else data.reshape(0, type.bit_width // 8)
        cells = cells.copy()
        cells[:, :1] ^= 0x80
        raw = np.ascontiguousarray(cells[:, ::-1])
        return pa.Array.from_buffers(type, n, [None, pa.py_buffer(raw)])
    if pa.types.is_fixed_size_binary(type):
        return pa.Array.from_buffers(type, n, [None, pa.py_buffer(data)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    if pa.types.is_large_string(type) or pa.types.is_large_binary(type):
        return pa.Array.from_buffers(type, n, buffers)
    text = pa.types.is_string(type) or pa.types.is_string_view(type)
    wide = pa.Array.from_buffers(pa.large_string() if text else pa.large_binary(), n, buffers)
    return wide.cast(type)
