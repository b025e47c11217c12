"""Why a row is quarantined, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..compat import spark_type
from ..plan import Plan
from .csv_text import cells_of
from .json_loss import losses, short
from .record_text import NO_CHARACTERS, RECORD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the key in the metadata of the unreadable column that says what its text is: csv or json
TEXT_FORMAT = "sparkbleach.text"
#: the key that says that a record which would lose something is quarantined, with the inferred columns
EXACT = "sparkbleach.exact"


def unreadable_column(session: SparkSession) -> str:
    """Return the column in which Spark leaves the text of a record that it cannot read."""
    return session.conf.get("spark.sql.columnNameOfCorruptRecord") or "_corrupt_record"


def is_lossy(rows: pa.RecordBatch, plan: Plan) -> pa.Array | None:
    """Return which rows of JSON objects would lose something in another format; None if they keep theirs."""
    notes = _notes(plan.schema.field(plan.unreadable)) if plan.unreadable else {}
    if EXACT not in notes or notes[TEXT_FORMAT] != "json":
        return None
    texts = zip(rows[RECORD].to_pylist(), rows[plan.unreadable].is_valid().to_pylist(), strict=True)
    fields = _data_fields(plan)
    return pa.array([not broken and bool(_losses(text, fields, notes[EXACT])) for text, broken in texts])


def _losses(text: bytes, fields: list[pa.Field], inferred: list[str]) -> list[str]:
    try:
        return list(losses(text.decode(), fields, inferred))
    except (ValueError, RecursionError) as error:  # Python reads less than Spark does
        return [f"malformed: not valid JSON: {error}"]


def _data_fields(plan: Plan) -> list[pa.Field]:
    return [field for field in plan.schema if field.name not in (plan.unreadable, RECORD)]


def reasons(quarantined: pa.RecordBatch, plan: Plan) -> pa.Array:
    """Return for each quarantined row the reason."""
    id_reason = f"{plan.id}: the id is null"
    if plan.unreadable is None:
        return pa.array([id_reason] * quarantined.num_rows, pa.string())
    fields = _data_fields(plan)
    notes = _notes(plan.schema.field(plan.unreadable))
    format: str | None = notes.get(TEXT_FORMAT)
    inferred: list[str] | None = notes.get(EXACT)
    texts = quarantined[plan.unreadable].to_pylist()
    records = quarantined[RECORD].to_pylist() if RECORD in quarantined.schema.names else [None] * len(texts)
    # Python has no dates as late as the year 10000, so cells are not converted.
    has_cell = {field.name: quarantined[field.name].is_valid().to_pylist() for field in fields}
    found = []
    for place, (text, record) in enumerate(zip(texts, records, strict=True)):
        lacking = [field for field in fields if not has_cell[field.name][place]]
        if text is None:
            found.append(
                "; ".join(_losses(record, fields, inferred or [])) if has_cell[plan.id][place] else id_reason
            )
        elif not _is_utf8(record):
            found.append("malformed: not valid UTF-8; save the file as UTF-8")
        elif (format or _guess_format(text)) == "json":
            found.append(_json_reason(text, lacking, fields, inferred))
        else:
            found.append(_csv_reason(text, lacking, fields, inferred))
    return pa.array(found, pa.string())


def _notes(field: pa.Field) -> dict[str, Any]:
    """Return the metadata of a field; Spark has all of its own under one key."""
    notes: dict[str, Any] = {}
    for key, value in (field.metadata or {}).items():
        if TEXT_FORMAT in value.decode(errors="replace"):
            notes |= json.loads(value)
        else:
            notes[key.decode()] = value.decode(errors="replace")
    return notes


def _is_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _guess_format(text: str) -> str:
    return "json" if text.lstrip()[:1] in ("{", "[") else "csv"


def _csv_reason(
    text: str, lacking: list[pa.Field], fields: list[pa.Field], inferred: list[str] | None
) -> str:
    cells = cells_of(text)
    if cells is None:
        return (
            "malformed: a quoted cell does not end, or has text after it; double quotes in it, "
            "and give --multiline if it goes over several lines"
        )
    if any(end in text for end in NO_CHARACTERS):
        return "malformed: U+FFFE and U+FFFF are no characters, and Spark cannot read them; remove them"
    if len(cells) != len(fields):
        plural = "" if len(cells) == 1 else "s"
        return f"malformed: {len(cells)} field{plural}, but the schema has {len(fields)}"
    wrong = [
        _not_returned(field, cell)
        if field.name in (inferred or ()) and _is_value(cell)
        else _wrong(field, cell)
        for field, cell in zip(fields, cells, strict=True)
        if cell and field in lacking
    ]
    return "; ".join(wrong) or "malformed: the record does not fit the schema"


def _is_value(cell: str) -> bool:
    """Return whether a cell has a value of another type than text."""
    try:
        float(cell)
    except ValueError:
        return cell.lower() in ("true", "false")
    return True


def _not_returned(field: pa.Field, cell: str) -> str:
    return (
        f"{field.name}: {short(cell)} would not be written back as it is by the inferred type "
        f"{spark_type(field.type).simpleString()}; give --schema"
    )


def _json_reason(
    text: str, lacking: list[pa.Field], fields: list[pa.Field], inferred: list[str] | None
) -> str:
    if not text.strip():
        return "malformed: the record is empty"
    if "\ufffd" in text:
        return "malformed: not valid UTF-8"
    try:
        record = json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        if not isinstance(error, json.JSONDecodeError):
            return f"malformed: not valid JSON: {error}"
        problem = error.msg.removesuffix(" at")
        remedy = (
            "; leave --multiline out if each line is an object"
            if problem == "Extra data" and "\n" in text
            else ""
        )
        return f"malformed: not valid JSON: {problem} at character {error.pos + 1}{remedy}"
    if not isinstance(record, dict):
        return f"malformed: a JSON object is needed, this is {short(text)}"
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "malformed: a text has half a character (\\ud800 to \\udfff without the other half)"
    wrong = list(_wrong_members(record, lacking))
    if inferred is not None:
        wrong += _losses(text.encode(), fields, inferred)
    return "; ".join(wrong) or "malformed: the record does not fit the schema"


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"the name {short(ascii(twice)[1:-1])} is there twice")
    return record


def _wrong_members(record: dict[str, Any], lacking: list[pa.Field]) -> Iterator[str]:
    given = {name.lower(): value for name, value in record.items()}
    for field in lacking:
        value = record.get(field.name, given.get(field.name.lower()))
        if value is not None:
            yield _wrong(field, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _wrong(field: pa.Field, value: str) -> str:
    return f"{field.name}: {short(value)} is not of type {spark_type(field.type).simpleString()}"
