"""The text of a record, in a file or a topic: read into cells, and written with the changed cells in it.

A clean row leaves with the text that it came with. The types of its columns are only what rules see: a cell
that no rule changed is never written from its type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, StringType, StructField, StructType

from ..plan import CONTROL, QUARANTINE, REPAIRS, quoted
from .csv_text import CELL, RECORD_PATTERN
from .formats import CSV_CELLS, WRITE_OPTIONS
from .json_text import put_members

#: the column of rows from files that has the text of the record
RECORD = "_record"
#: the key in the metadata of the column with the text that has the names of the columns read from it
MEMBERS = "sparkbleach.members"

#: Spark's parser of CSV takes them for the end of the record, and drops what is before or after them
NO_CHARACTERS = "\ufffe\uffff"
#: it fails at more cells than these
_CELLS_MAX = 20_000


def parse(rows: DataFrame, format: str, fields: StructType, unreadable: str) -> DataFrame:
    """Return rows with their column `text` parsed: two more columns, `parsed` and `broken`.

    `parsed` has the cells, `broken` the text of a record that is not valid UTF-8, not one record of the
    format, or does not fit the fields; null for all others.
    """
    whole = StructType([*fields.fields, StructField(unreadable, StringType())])
    options = {"columnNameOfCorruptRecord": unreadable}
    text = F.col("text")
    if format == "csv":
        read = _is_csv(text)
        cells = F.from_csv(F.when(read, text), _ddl(whole), {**CSV_CELLS, **options})
    else:
        read = _is_json(text)
        cells = F.from_json(text, whole, options)
    rows = rows.select("*", cells.alias("parsed"), F.coalesce(read, F.lit(False)).alias("read"))
    unread = F.col("parsed").isNull() | ~F.col("read")
    broken = F.coalesce(F.when(unread, F.coalesce(text, F.lit(""))), F.col(f"parsed.{quoted(unreadable)}"))
    return rows.select("*", F.make_valid_utf8(broken).alias("broken")).drop("read")


def is_record(text: Column, format: str) -> Column:
    """Return whether a text is one record of a format, whatever its cells are."""
    return F.coalesce(_is_csv(text) if format == "csv" else _is_json(text), F.lit(False))


def _is_csv(text: Column) -> Column:
    # A comma first, so that no match is empty.
    n_cells = F.regexp_count(F.concat(F.lit(","), text), F.lit(f",(?:{CELL})"))
    few = (F.octet_length(text) < _CELLS_MAX) | (n_cells <= _CELLS_MAX)
    for end in NO_CHARACTERS:
        few &= ~F.contains(text, F.lit(end))
    return F.is_valid_utf8(text) & (~F.contains(text, F.lit('"')) | text.rlike(RECORD_PATTERN)) & few


def _is_json(text: Column) -> Column:
    # Spark takes the first object of a list and the last of two members of a name, drops text after an
    # object, and replaces invalid bytes and halves of characters. A variant refuses both;
    # the lengths are right if nothing comes after the object, not even an end of the list.
    alone = [
        F.json_array_length(F.concat(F.lit("["), text, F.lit(f"{more}]"))) == n
        for n, more in ((1, ""), (2, ",0"))
    ]
    is_object = F.is_valid_utf8(text) & F.btrim(text, F.lit(" \t\r\n")).startswith("{")
    return is_object & F.try_parse_json(text).isNotNull() & alone[0] & alone[1]


def with_changes(
    batch: DataFrame,
    text: Column,
    format: str,
    members: Sequence[str],
    hidden: Collection[str],
    may_differ: Column | None = None,
) -> Column:
    """Return the text of each clean row's record, with the cells put in that have changed, as bytes.

    Args:
        batch: The rows.
        text: The text of each row's record, as bytes.
        format: `csv` or `json`.
        members: The columns that were read from the text; those that the rows do not have are taken out.
        hidden: The columns that are no data.
        may_differ: Which rows may have changed cells; all if not given.
    """
    data = [field for field in batch.schema if field.name not in hidden]
    names = {field.name for field in data}
    dropped = [name for name in members if name not in names]
    string = text.cast("string")
    fields = StructType(data)
    came = csv_cells(string, fields) if format == "csv" else F.from_json(string, fields)
    same = [_is_same(F.col(quoted(field.name)), came[field.name], field) for field in data]
    changed = reduce(or_, [~one for one in same], F.lit(bool(dropped)))
    for name in (QUARANTINE, CONTROL):
        if name in batch.columns:
            changed = F.col(name).isNull() & changed

    def when_changed(value: Column) -> Column:
        inner = F.when(changed, value)
        # Not with an `and`: Spark would parse the text of each row.
        return inner if may_differ is None else F.when(may_differ, inner)

    if format == "csv":
        put = when_changed(_put_csv(text, data, same))
    else:
        put = _put_json(when_changed(text), when_changed(_new_members(data, same)), dropped)
    return F.coalesce(put, text)


def may_be_repaired(batch: DataFrame) -> Column | None:
    """Return which rows have repairs, if they say so."""
    return F.size(REPAIRS) > 0 if REPAIRS in batch.columns else None


def csv_cells(text: Column, fields: StructType) -> Column:
    """Return the cells of a CSV record."""
    return F.from_csv(text, _ddl(fields), CSV_CELLS)


def _ddl(fields: Iterable[StructField]) -> str:
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in fields)


def _is_same(now: Column, before: Column, field: StructField) -> Column:
    if isinstance(field.dataType, StringType):  # a collation may take other letters for the same
        return now.cast("binary").eqNullSafe(before.cast("binary"))
    if isinstance(field.dataType, AtomicType):
        return now.eqNullSafe(before)
    texts = [F.to_json(F.struct(one.alias("cell")), WRITE_OPTIONS["json"]) for one in (now, before)]
    return texts[0].eqNullSafe(texts[1])


def _put_csv(text: Column, data: list[StructField], same: list[Column]) -> Column:
    # A comma first: no match is empty.
    old = F.regexp_extract_all(F.concat(F.lit(","), text.cast("string")), F.lit(f",({CELL})"), F.lit(1))
    cells = [
        F.when(one, old[place]).otherwise(
            F.coalesce(F.to_csv(F.struct(F.col(quoted(field.name))), WRITE_OPTIONS["csv"]), F.lit(""))
        )
        for place, (field, one) in enumerate(zip(data, same, strict=True))
    ]
    return F.concat_ws(",", *cells).cast("binary")


def _new_members(data: list[StructField], same: list[Column]) -> Column:
    """Return the changed cells as JSON objects of one member."""
    # a null in a list of texts is left out
    cells = [
        F.when(~one, F.to_json(F.struct(F.col(quoted(field.name)).alias(field.name)), WRITE_OPTIONS["json"]))
        for field, one in zip(data, same, strict=True)
    ]
    return F.array_compact(F.array(*cells))


def _put_json(text: Column, cells: Column, dropped: list[str]) -> Column:
    @F.arrow_udf("binary")  # type: ignore[attr-defined, untyped-decorator, unused-ignore]
    def spliced(values: pa.Array, cells: pa.Array) -> pa.Array:
        return pa.array(
            (
                None if value is None else _with_members(value, new, dropped)
                for value, new in zip(values.to_pylist(), cells.to_pylist(), strict=True)
            ),
            pa.binary(),
        )

    patched: Column = spliced(text, cells)
    return patched


def _with_members(value: bytes, cells: Sequence[str], dropped: Sequence[str]) -> bytes:
    text = value.decode()
    for cell in cells or ["{}"]:
        text = put_members(text, cell, dropped)
    return text.encode()
