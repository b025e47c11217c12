"""What a JSON object would lose if it was written from the types of its columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from .fit import n_decimals, text_fits

_VALUE_CHARS_MAX = 60


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def losses(text: str, fields: Sequence[pa.Field], inferred: Collection[str]) -> Iterator[str]:
    """Yield what an object would lose, and what to do about it.

    Those are members, at any depth, that the fields do not have, values that the types of inferred fields
    would change (a number in a text, or one with more digits than the type has), and those that say more than
    a given type takes.
    """
    record = json.loads(text, parse_int=_Number, parse_float=_Number)
    types = {field.name: field.type for field in fields}
    for name, value in record.items():
        if name not in types:
            yield f"{short(name)}: not in the schema; name it there"
        else:
            yield from _losses(name, value, types[name], inferred=name in inferred)


def short(text: str) -> str:
    """Return a text quoted, as much of it as a line has room for."""
    return repr(text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…")


def _losses(place: str, value: Any, type: pa.DataType, *, inferred: bool) -> Iterator[str]:
    if value is None:
        return
    if pa.types.is_struct(type) and isinstance(value, dict):
        known = {field.name: field.type for field in type}
        for name, inner in value.items():
            if name in known:
                yield from _losses(f"{place}.{name}", inner, known[name], inferred=inferred)
            else:
                yield f"{short(f'{place}.{name}')}: not in the schema; name it there"
    elif pa.types.is_list(type) and isinstance(value, list):
        for inner in value:
            yield from _losses(place, inner, type.value_type, inferred=inferred)
    elif pa.types.is_map(type) and isinstance(value, dict):
        for inner in value.values():
            yield from _losses(place, inner, type.item_type, inferred=inferred)
    elif inferred and not _is_kept(value, type):
        yield (
            f"{place}: {short(str(value) if isinstance(value, str) else json.dumps(value))} would not be "
            "written back as it is by the inferred type; give --schema"
        )
    elif not inferred and isinstance(value, str) and not _fits(value, type):
        yield f"{place}: {short(value)} says more than its type {type} takes; give --schema"


def _fits(text: str, type: pa.DataType) -> bool:
    try:
        return text_fits(text, type)
    except (ValueError, ArithmeticError):  # Python reads less than Spark does
        return False


def _is_kept(value: Any, type: pa.DataType) -> bool:
    if pa.types.is_string(type):
        return isinstance(value, str) and not isinstance(value, _Number)
    try:
        if pa.types.is_floating(type):
            return isinstance(value, _Number) and Decimal(value) == Decimal(repr(float(value)))
        if pa.types.is_decimal(type):
            return isinstance(value, _Number) and n_decimals(Decimal(value)) <= type.scale
    except ArithmeticError:  # an exponent that no number has
        return False
    return True
