"""Conditions of rules: SQL predicates over one tuple, checked against a schema."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from .condition_process import DEFAULT_CONDITION_LIMITS, BrokenLimitError, Budget, DuckDBError, ask
from .condition_syntax import (
    ConditionError,
    Node,
    character_at,
    expressions,
    find_refusal,
    parse,
    without_places,
)
from .placed_error import near_matches


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate that was checked against a schema."""

    sql: str  #: the predicate as it was written
    columns: tuple[str, ...]  #: the attributes that it reads
    #: these attributes, if it only says that each `IS NOT NULL`; otherwise None
    not_null: tuple[str, ...] | None
    #: the same text for two predicates that differ in spaces, brackets or the case of keywords only
    normal: str

    @classmethod
    def compile(cls, sql: str, schema: pa.Schema) -> Condition:
        """Check a predicate and find out what it reads."""
        sql = sql.strip()
        tree = parse(sql)
        columns: dict[str, None] = {}
        for node in expressions(tree):
            refusal = find_refusal(node)
            if refusal is not None:
                raise ConditionError(*refusal, character_at(sql, node["query_location"]))
            if node["class"] == "FUNCTION":
                node["function_name"] = node["function_name"].lower()
            elif node["class"] == "COLUMN_REF":
                name = _resolve(node, sql, schema)
                node["column_names"] = [name]
                columns[name] = None
        normal = json.dumps(without_places(tree), sort_keys=True)
        not_null = _not_null(tree, schema)
        if not_null is None:
            _bind(sql, pa.schema([schema.field(schema.get_field_index(name)) for name in columns]))
        return cls(sql, tuple(columns), not_null, normal)


def _folded(name: str) -> bytes:
    # As DuckDB compares names: only the case of ASCII letters is ignored.
    return name.encode(errors="surrogatepass").lower()


def _resolve(node: Node, sql: str, schema: pa.Schema) -> str:
    name: str = node["column_names"][0]
    character = character_at(sql, node["query_location"])
    found: list[str] = [other for other in schema.names if _folded(other) == _folded(name)]
    if not found:
        raise ConditionError(f"unknown attribute {name!r}", near_matches(name, schema.names), character)
    if len(found) > 1:
        raise ConditionError(
            f"attribute {name!r} is ambiguous: the schema has {', '.join(map(repr, found))}",
            "SQL ignores case: rename all but one of them",
            character,
        )
    return found[0]


def _not_null(tree: Node, schema: pa.Schema) -> tuple[str, ...] | None:
    columns: dict[str, None] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        if node["type"] == "CONJUNCTION_AND":
            pending.extend(reversed(node["children"]))
        elif node["type"] == "OPERATOR_IS_NOT_NULL" and node["children"][0]["class"] == "COLUMN_REF":
            columns[node["children"][0]["column_names"][0]] = None
        else:
            return None
    # In these, a null may hide behind a valid slot: DuckDB has to look.
    types = [schema.field(schema.get_field_index(name)).type for name in columns]
    if any(
        pa.types.is_dictionary(one) or pa.types.is_run_end_encoded(one) or pa.types.is_union(one)
        for one in types
    ):
        return None
    return tuple(columns)


def _bind(sql: str, schema: pa.Schema) -> None:
    """Check by DuckDB that a condition is boolean, and that its attributes can be read."""
    try:
        kind = _result_type(sql, schema)
    except BrokenLimitError as error:
        raise ConditionError(f"it {error}, before any tuple", "write its constants themselves") from None
    except DuckDBError as error:
        _refuse_unreadable(schema)
        problem, position = _explain(str(error))
        raise ConditionError(
            f"DuckDB refuses it: {problem}",
            "check the functions and the types; cast where needed",
            character_at(sql, position, "DESCRIBE SELECT TRY(("),
        ) from None
    if kind != "BOOLEAN":
        raise ConditionError(
            f"it gives {kind}, not BOOLEAN", "write a comparison, such as x = 1, x <> '' or x IS NOT NULL"
        )


def _refuse_unreadable(schema: pa.Schema) -> None:
    for field in schema:
        quoted = '"' + field.name.replace('"', '""') + '"'
        try:
            _result_type(f"{quoted} IS NULL", pa.schema([field]))
        except DuckDBError:
            raise ConditionError(
                f"DuckDB cannot read attribute {field.name!r} of type {field.type}",
                "cast it to another type before cleaning, or leave it out of the condition",
            ) from None


def _result_type(sql: str, schema: pa.Schema) -> str:
    nothing = pa.RecordBatch.from_pylist([], schema)
    return str(ask("describe", sql, nothing, Budget(DEFAULT_CONDITION_LIMITS, 0)))


def _explain(text: str) -> tuple[str, int | None]:
    """Return what an error of DuckDB says is wrong, and at which byte of the statement."""
    try:
        read = json.loads(text[text.index("{") :])
        position = read.get("position")
        return str(read["exception_message"]).splitlines()[0], None if position is None else int(position)
    except (ValueError, KeyError, IndexError):
        return text.splitlines()[0], None
