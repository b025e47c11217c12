"""Conditions of rules: SQL predicates over one tuple, evaluated by DuckDB on Arrow batches."""

from __future__ import annotations

import difflib
import functools
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ..errors import SchemaError

# A node of the syntax tree, as DuckDB's json_serialize_sql gives it.
_Node = dict[str, Any]

# DuckDB calls these CONSISTENT, yet they read the clock, the settings or the machinery of a query.
_IMPURE = frozenset(
    [
        "current_localtime",
        "current_localtimestamp",
        "current_setting",
        "getenv",
        "getvariable",
        "json_deserialize_sql",
        "json_serialize_plan",
        "json_serialize_sql",
        "parse_duckdb_log_message",
        "vector_type",
        "version",
    ]
)
# They take the name of an aggregate as their second argument.
_LIST_AGGREGATES = frozenset(["aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"])
_RANDOM_AGGREGATES = frozenset({"reservoir_quantile"})

_PLAIN = frozenset({"BETWEEN", "CASE", "CAST", "COLLATE", "COMPARISON", "CONJUNCTION", "CONSTANT"})
_OPERATORS = frozenset(
    [
        "ARRAY_CONSTRUCTOR",
        "ARRAY_EXTRACT",
        "ARRAY_SLICE",
        "COMPARE_IN",
        "COMPARE_NOT_IN",
        "OPERATOR_COALESCE",
        "OPERATOR_IS_NOT_NULL",
        "OPERATOR_IS_NULL",
        "OPERATOR_NOT",
        "OPERATOR_NULLIF",
        "OPERATOR_TRY",
    ]
)
_REFUSED = {
    "LAMBDA": ("`->` and lambdas are not supported", "write json_extract(x, 'key') or x ->> 'key' instead"),
    "PARAMETER": ("it has a parameter", "write the value itself"),
    "POSITIONAL_REFERENCE": ("`#n` is not supported", "name the attribute"),
    "STAR": ("`*` and COLUMNS() are not supported", "name each attribute"),
    "SUBQUERY": (
        "it has a subquery (`= ANY(...)` is one too)",
        "a condition reads one tuple only: use IN with a list of values",
    ),
    "WINDOW": ("it has a window function", "a condition reads one tuple only: leave the window function out"),
}

# Data that DuckDB cannot read or compute with, as opposed to a fault of the program or the machine.
_ROW_ERRORS = (duckdb.DataError, duckdb.InvalidInputException, duckdb.NotSupportedError)


class ConditionError(ValueError):
    """A condition is wrong.

    Args:
        problem: What is wrong.
        remedy: What to do about it.
        character: Where it is in the text of the condition, from 1; None when that is not known.
    """

    def __init__(self, problem: str, remedy: str, character: int | None = None) -> None:
        super().__init__(problem, remedy, character)
        self.problem = problem
        self.remedy = remedy
        self.character = character

    def __str__(self) -> str:
        place = "" if self.character is None else f"character {self.character}: "
        return f"{place}{self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate that was checked against a schema.

    Attributes:
        sql: The predicate as it was written.
        columns: The attributes that it reads.
        not_null: These attributes, if it only says that each `IS NOT NULL`; otherwise None.
        normal: The same text for two predicates that differ in spaces, brackets or the case of keywords only.
    """

    sql: str
    columns: tuple[str, ...]
    not_null: tuple[str, ...] | None
    normal: str

    @classmethod
    def compile(cls, sql: str, schema: pa.Schema) -> Condition:
        """Check a predicate and find out what it reads.

        Raises:
            ConditionError: If it is not one pure, boolean SQL expression over attributes of the schema.
        """
        sql = sql.strip()
        tree = _parse(sql)
        columns: dict[str, None] = {}
        for node in _expressions(tree):
            refusal = _refusal(node)
            if refusal is not None:
                raise ConditionError(*refusal, _character(sql, node))
            if node["class"] == "FUNCTION":
                node["function_name"] = node["function_name"].lower()
            elif node["class"] == "COLUMN_REF":
                name = _resolve(node, sql, schema)
                node["column_names"] = [name]
                columns[name] = None
        normal = json.dumps(_without_places(tree), sort_keys=True)
        not_null = _not_null(tree, schema)
        if not_null is None:
            _bind(sql, pa.schema([schema.field(schema.get_field_index(name)) for name in columns]))
        return cls(sql, tuple(columns), not_null, normal)


class Conditions:
    """Evaluates conditions on batches, all of them in one query. Not for use by two threads at a time.

    Args:
        schema: The schema of the batches.
        conditions: Conditions that were compiled against this schema.
    """

    def __init__(self, schema: pa.Schema, conditions: Sequence[Condition]) -> None:
        self._schema = schema
        self._conditions = {condition.normal: condition for condition in conditions}
        #: For each condition asked for, its key in _conditions: equal ones are evaluated once.
        self._order = [condition.normal for condition in conditions]
        self._constant: dict[str, bool] = {}
        #: Keys of the conditions that the query evaluates, in its order.
        self._queried: list[str] = []
        for key, condition in self._conditions.items():
            if not condition.columns:
                [(value,)] = _local().connection.execute(f"SELECT {_total(condition.sql)}").fetchall()
                self._constant[key] = value
            elif condition.not_null is None:
                self._queried.append(key)
        self._query = _Query(schema, [self._conditions[key] for key in self._queried])

    def evaluate(self, batch: pa.RecordBatch) -> list[np.ndarray[Any, np.dtype[np.bool_]]]:
        """Tell, for each condition, which rows it is TRUE for.

        FALSE, NULL and an error in a row (a cast that fails, say) all give False for that row and condition.
        Conditions that are the same share one array.

        Raises:
            SchemaError: If the batch has another schema, or holds text that is not valid UTF-8.
        """
        if not batch.schema.equals(self._schema) and not _same_types(batch.schema, self._schema):
            raise SchemaError(
                f"the batch has the columns {_described(batch.schema)}, but the conditions were compiled for "
                f"{_described(self._schema)}; cast the batch, or compile them again"
            )
        if batch.num_rows == 0:
            return [np.zeros(0, dtype=np.bool_) for _ in self._order]
        found = dict(zip(self._queried, self._query.run(batch), strict=True))
        for key, condition in self._conditions.items():
            if key in self._constant:
                found[key] = np.full(batch.num_rows, self._constant[key], dtype=np.bool_)
            elif condition.not_null is not None:
                valid = [_valid(batch.column(name)) for name in condition.not_null]
                found[key] = valid[0] if len(valid) == 1 else np.logical_and.reduce(valid)
        return [found[key] for key in self._order]


class _Query:
    """One prepared statement that evaluates some conditions on whatever batch it is given."""

    def __init__(self, schema: pa.Schema, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        self._columns = list(dict.fromkeys(name for one in conditions for name in one.columns))
        self._source = _Source(pa.schema([schema.field(name) for name in self._columns]))
        #: One query for each condition, made when an error first calls for them.
        self._singles: list[_Query] = []
        if conditions:
            self._prepare()

    def _prepare(self) -> None:
        self._connection = connect()
        self._connection.register("tuples", self._source)
        selected = ", ".join(f"{_total(one.sql)} AS c{n}" for n, one in enumerate(self._conditions))
        self._connection.execute(f"PREPARE evaluation AS SELECT {selected} FROM tuples")  # noqa: S608

    def run(self, batch: pa.RecordBatch) -> list[np.ndarray[Any, np.dtype[np.bool_]]]:
        """Evaluate the conditions on a batch that has at least one row."""
        if not self._conditions:
            return []
        arrays = [batch.column(name) for name in self._columns]
        part = pa.RecordBatch.from_arrays(arrays, schema=self._source.schema)
        try:
            return self._execute(part)
        except duckdb.Error as error:
            # TRY has no hold on DuckDB's reading of the columns: a timestamp out of its range fails there.
            self._refuse_bad_text(part, error)
            if not isinstance(error, _ROW_ERRORS):
                self._prepare()  # a fatal error has closed the database
        if len(self._conditions) == 1:
            return [self._run_halved(part)]
        self._singles = self._singles or [_Query(batch.schema, [condition]) for condition in self._conditions]
        return [query.run(batch)[0] for query in self._singles]

    def _run_halved(self, part: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
        try:
            return self._execute(part)[0]
        except _ROW_ERRORS:
            if part.num_rows == 1:
                return np.zeros(1, dtype=np.bool_)
        half = part.num_rows // 2
        return np.concatenate([self._run_halved(part.slice(0, half)), self._run_halved(part.slice(half))])

    def _execute(self, part: pa.RecordBatch) -> list[np.ndarray[Any, np.dtype[np.bool_]]]:
        self._source.batch = part
        try:
            result = self._connection.execute("EXECUTE evaluation").fetchnumpy()
        finally:
            self._source.batch = None
        return [np.asarray(result[f"c{n}"], dtype=np.bool_) for n in range(len(self._conditions))]

    @staticmethod
    def _refuse_bad_text(part: pa.RecordBatch, error: duckdb.Error) -> None:
        for name, array in zip(part.schema.names, part.columns, strict=True):
            try:
                array.validate(full=True)
            except pa.ArrowInvalid as invalid:
                raise SchemaError(
                    f"column {name!r} holds invalid data ({invalid}); decode it as UTF-8 before cleaning"
                ) from error


class _Source:
    """The batch that the prepared statement reads next: DuckDB asks for its stream at each run."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batch: pa.RecordBatch | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = [] if self.batch is None else [self.batch]
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database in memory that reaches nothing outside itself, in UTC wherever it runs."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            "python_enable_replacements": False,
            "threads": 1,
        },
    )
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false; SET errors_as_json = true")
    connection.execute("SET lock_configuration = true")
    return connection


def near_matches(name: str, names: Sequence[str]) -> str:
    """Word a hint at the names nearest to a wrong one, or at what there is if none is near."""
    near = [other for other in names if other.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if len(names) <= 12:
        return f"there are {', '.join(map(repr, names))}"
    return f"there are {', '.join(map(repr, names[:12]))} and {len(names) - 12} more"


def _total(sql: str) -> str:
    return f"COALESCE(TRY(({sql})), false)"


def _same_types(one: pa.Schema, other: pa.Schema) -> bool:
    # Whether a field may be null makes no difference.
    return bool(one.names == other.names and one.types == other.types)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _valid(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    valid: np.ndarray[Any, np.dtype[np.bool_]] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


class _Local(threading.local):
    """One connection per thread for compiling: opening one takes some 20 ms."""

    def __init__(self) -> None:
        self.connection = connect()


@functools.cache
def _local() -> _Local:
    return _Local()


@functools.cache
def _functions() -> dict[str, list[tuple[str, str | None, list[str], str | None]]]:
    """Map each function's name to the (type, stability, parameters, macro definition) of its overloads."""
    functions: dict[str, list[tuple[str, str | None, list[str], str | None]]] = {}
    rows = _local().connection.execute(
        "SELECT DISTINCT lower(function_name), function_type, stability, parameters, macro_definition "
        "FROM duckdb_functions()"
    )
    for name, *overload in rows.fetchall():
        functions.setdefault(name, []).append(tuple(overload))
    return functions


def _serialized(statement: str) -> _Node:
    query = "SELECT json_serialize_sql($1::VARCHAR, skip_null := false)"
    [(text,)] = _local().connection.execute(query, [statement]).fetchall()
    tree: _Node = json.loads(text)
    return tree


@functools.cache
def _bare_select() -> _Node:
    bare: _Node = _without_places(_serialized("SELECT 1"))
    del bare["statements"][0]["node"]["select_list"], bare["statements"][0]["named_param_map"]
    return bare


def _parse(sql: str) -> _Node:
    """Give the syntax tree of a text that is one expression, whether in brackets or not."""
    if not sql:
        raise ConditionError("it is blank", "write a predicate, or leave the condition out")
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise ConditionError("it holds a NUL character or half a surrogate pair", "remove it")
    try:
        plain = _serialized(f"SELECT {sql}")
        bracketed = _serialized(f"SELECT ({sql})")
        if plain["error"]:
            position = plain.get("position")
            character = None if position is None else max(1, int(position) - len("SELECT ") + 1)
            raise ConditionError(
                f"DuckDB cannot parse it: {plain['error_message']}",
                "write one SQL expression, such as country = 'FR' AND zipcode IS NOT NULL",
                None if character is None else min(character, len(sql)),
            )
        for statement in (*plain["statements"], *bracketed.get("statements", ())):
            statement.pop("named_param_map", None)  # a parameter is refused by name, later
        same = not bracketed["error"] and _without_places(plain) == _without_places(bracketed)
        select_list: list[_Node] = plain["statements"][0]["node"].pop("select_list", [])
        if not same or len(select_list) != 1 or _without_places(plain) != _bare_select():
            raise ConditionError(
                "it is not exactly one SQL expression",
                "leave out clauses such as FROM, aliases, commas, semicolons and a comment at the end",
            )
    except RecursionError:
        raise ConditionError("it is nested too deeply", "write it with fewer levels of brackets") from None
    return select_list[0]


def _without_places(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_places(value) for key, value in tree.items() if key != "query_location"}
    if isinstance(tree, list):
        return [_without_places(value) for value in tree]
    return tree


def _expressions(tree: object) -> Iterator[_Node]:
    """Go through all expressions of a tree, outermost first."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(reversed(node))
        elif isinstance(node, dict):
            if "class" in node:
                yield node
            pending.extend(reversed(node.values()))


def _character(sql: str, node: _Node) -> int | None:
    # DuckDB counts bytes, and gives the largest number there is where it knows no place.
    start = node["query_location"] - len("SELECT ")
    encoded = sql.encode()
    return len(encoded[:start].decode(errors="ignore")) + 1 if 0 <= start < len(encoded) else None


def _refusal(node: _Node) -> tuple[str, str] | None:
    """Give the problem and the remedy if an expression may not be part of a condition."""
    kind = node["class"]
    if kind in _PLAIN or (kind == "OPERATOR" and node["type"] in _OPERATORS):
        return None
    if kind == "FUNCTION":
        return _function_refusal(node)
    if kind == "COLUMN_REF":
        if len(node["column_names"]) == 1:
            return None
        dotted = ".".join(node["column_names"])
        return (
            f"{dotted} is a dotted name",
            f'write an attribute alone; quote it ("{dotted}") if it has a dot',
        )
    if kind in _REFUSED:
        return _REFUSED[kind]
    return (
        f"{node['type']} is not supported",
        "write it with comparisons, AND, OR, NOT, IN, LIKE and functions",
    )


def _function_refusal(node: _Node) -> tuple[str, str] | None:
    name = node["function_name"].lower()
    if node["catalog"] or node["schema"] not in ("", "main"):
        return (
            f"function {name}() is called with a dotted name",
            f"write {name}(...) without what is before the dot",
        )
    overloads = _functions().get(name, [])
    if not overloads and name not in _IMPURE:
        near = difflib.get_close_matches(name, _functions(), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "use a scalar function of DuckDB"
        return f"there is no function {name}()", hint
    kinds = {kind for kind, *_ in overloads}
    remedy = "a condition reads one tuple only: use a scalar function"
    if node["filter"] is not None or node["distinct"] or node["order_bys"]["orders"] or "aggregate" in kinds:
        return f"{name}() is an aggregate", remedy
    if kinds and not kinds & {"scalar", "macro"}:
        return f"{name}() is not a scalar function", remedy
    if not _is_pure(name, node):
        return (
            f"{name}() is not deterministic, or reads something other than the tuple",
            "the same tuple must always give the same answer: use the tuple's attributes and constants only",
        )
    return None


def _is_pure(name: str, node: _Node) -> bool:
    overloads = _functions().get(name, [])
    if name in _IMPURE or name.startswith("__internal") or (name == "age" and len(node["children"]) == 1):
        return False
    if any(kind == "scalar" and stability != "CONSISTENT" for kind, stability, *_ in overloads):
        return False
    if name in _LIST_AGGREGATES and len(node["children"]) > 1:
        aggregate = node["children"][1]
        if aggregate["class"] != "CONSTANT" or str(aggregate["value"].get("value")) in _RANDOM_AGGREGATES:
            return False
    return all(
        _is_pure_macro(parameters, definition) for *_, parameters, definition in overloads if definition
    )


def _is_pure_macro(parameters: list[str], definition: str) -> bool:
    for node in _expressions(_serialized(f"SELECT {definition}")["statements"][0]["node"]["select_list"]):
        if node["class"] == "COLUMN_REF" and node["column_names"][0] not in parameters:
            return False  # current_timestamp and its like parse as columns
        if _refusal(node) is not None:
            return False
    return True


def _folded(name: str) -> bytes:
    # As DuckDB compares names: only the case of ASCII letters is ignored.
    return name.encode(errors="surrogatepass").lower()


def _resolve(node: _Node, sql: str, schema: pa.Schema) -> str:
    name: str = node["column_names"][0]
    found: list[str] = [other for other in schema.names if _folded(other) == _folded(name)]
    if not found:
        raise ConditionError(
            f"unknown attribute {name!r}", near_matches(name, schema.names), _character(sql, node)
        )
    if len(found) > 1:
        raise ConditionError(
            f"attribute {name!r} is ambiguous: the schema has {', '.join(map(repr, found))}",
            "SQL ignores case: rename all but one of them",
            _character(sql, node),
        )
    return found[0]


def _not_null(tree: _Node, schema: pa.Schema) -> tuple[str, ...] | None:
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
    """Have DuckDB find the types: the condition must be boolean, and its attributes readable."""
    head = "SELECT TRY(("
    try:
        kind = _describe(f"{head}{sql}))", schema)
    except duckdb.Error as error:
        _refuse_unreadable(schema)
        problem, position = _told(error)
        start = None if position is None else position - len("DESCRIBE ") - len(head)
        known = start is not None and 0 <= start < len(sql.encode())
        character = len(sql.encode()[:start].decode(errors="ignore")) + 1 if known else None
        raise ConditionError(
            f"DuckDB refuses it: {problem}", "check the functions and the types; cast where needed", character
        ) from None
    if kind != "BOOLEAN":
        raise ConditionError(
            f"it gives {kind}, not BOOLEAN", "write a comparison, such as x = 1, x <> '' or x IS NOT NULL"
        )


def _refuse_unreadable(schema: pa.Schema) -> None:
    for field in schema:
        try:
            _describe("SELECT *", pa.schema([field]))
        except duckdb.Error:
            raise ConditionError(
                f"DuckDB cannot read attribute {field.name!r} of type {field.type}",
                "cast it to another type before cleaning, or leave it out of the condition",
            ) from None


def _describe(query: str, schema: pa.Schema) -> str:
    connection = _local().connection
    if not schema.names:
        return str(connection.execute(f"DESCRIBE {query}").fetchall()[0][1])
    connection.register("tuples", _Source(schema))
    try:
        return str(connection.execute(f"DESCRIBE {query} FROM tuples").fetchall()[0][1])
    finally:
        connection.unregister("tuples")


def _told(error: duckdb.Error) -> tuple[str, int | None]:
    text = str(error)
    try:
        told = json.loads(text[text.index("{") :])
        position = told.get("position")
        return str(told["exception_message"]).splitlines()[0], None if position is None else int(position)
    except (ValueError, KeyError, IndexError):
        return text.splitlines()[0], None
