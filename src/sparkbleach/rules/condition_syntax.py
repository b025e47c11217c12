"""The syntax of conditions: which SQL expressions a condition may consist of."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Iterator
from typing import Any

from .duckdb_connection import thread_connection

# A node of the syntax tree, as DuckDB's json_serialize_sql gives it. DuckDB has no other parser for Python
# and does not document the tree. Seen in 1.4 and 1.5; tests/unit/rules/test_syntax_tree.py fails when it is
# another one.
Node = dict[str, Any]

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


#: how long a condition may be: a longer one would take seconds to parse
_CHARACTERS_MAX = 50_000


class ConditionError(ValueError):
    """A condition is wrong: what is, what to do about it, and at which character, from 1, if known."""

    def __init__(self, problem: str, remedy: str, character: int | None = None) -> None:
        super().__init__(problem, remedy, character)
        self.problem = problem
        self.remedy = remedy
        self.character = character

    def __str__(self) -> str:
        place = "" if self.character is None else f"character {self.character}: "
        return f"{place}{self.problem}; {self.remedy}"


def parse(sql: str) -> Node:
    """Return the syntax tree of a text that is one expression, whether in brackets or not."""
    if not sql:
        raise ConditionError("it is blank", "write a predicate, or leave the condition out")
    if len(sql) > _CHARACTERS_MAX:
        raise ConditionError(
            f"it has {len(sql):,} characters, and may have {_CHARACTERS_MAX:,}",
            "write a list of values as a pattern tableau",
        )
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise ConditionError("it holds a NUL character or half a surrogate pair", "remove it")
    try:
        plain = _serialize(f"SELECT {sql}")
        bracketed = _serialize(f"SELECT ({sql})")
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
        same = not bracketed["error"] and without_places(plain) == without_places(bracketed)
        select_list: list[Node] = plain["statements"][0]["node"].pop("select_list", [])
        if not same or len(select_list) != 1 or without_places(plain) != _bare_select():
            raise ConditionError(
                "it is not exactly one SQL expression",
                "leave out clauses such as FROM, aliases, commas, semicolons and a comment at the end",
            )
    except RecursionError:
        raise ConditionError("it is nested too deeply", "write it with fewer levels of brackets") from None
    return select_list[0]


def without_places(tree: Any) -> Any:
    """Return a syntax tree without the places of its nodes in the text."""
    if isinstance(tree, dict):
        return {key: without_places(value) for key, value in tree.items() if key != "query_location"}
    if isinstance(tree, list):
        return [without_places(value) for value in tree]
    return tree


def expressions(tree: object) -> Iterator[Node]:
    """Yield all expressions of a tree, outermost first."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(reversed(node))
        elif isinstance(node, dict):
            if "class" in node:
                yield node
            pending.extend(reversed(node.values()))


def character_at(sql: str, byte: int | None, before: str = "SELECT ") -> int | None:
    """Return which character of a condition a byte of a statement belongs to, from 1; None if to none.

    DuckDB gives the largest byte number there is if it knows none; `before` is what precedes the condition.
    """
    start = -1 if byte is None else byte - len(before)
    encoded = sql.encode()
    return len(encoded[:start].decode(errors="ignore")) + 1 if 0 <= start < len(encoded) else None


def find_refusal(node: Node) -> tuple[str, str] | None:
    """Return the problem and the remedy if an expression may not be part of a condition."""
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


def _function_refusal(node: Node) -> tuple[str, str] | None:
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


def _is_pure(name: str, node: Node) -> bool:
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
    for node in expressions(_serialize(f"SELECT {definition}")["statements"][0]["node"]["select_list"]):
        if node["class"] == "COLUMN_REF" and node["column_names"][0] not in parameters:
            return False  # current_timestamp and its like parse as columns
        if find_refusal(node) is not None:
            return False
    return True


@functools.cache
def _functions() -> dict[str, list[tuple[str, str | None, list[str], str | None]]]:
    """Map each function's name to the (type, stability, parameters, macro definition) of its overloads."""
    functions: dict[str, list[tuple[str, str | None, list[str], str | None]]] = {}
    rows = thread_connection().execute(
        "SELECT DISTINCT lower(function_name), function_type, stability, parameters, macro_definition "
        "FROM duckdb_functions()"
    )
    for name, *overload in rows.fetchall():
        functions.setdefault(name, []).append(tuple(overload))
    return functions


def _serialize(statement: str) -> Node:
    query = "SELECT json_serialize_sql($1::VARCHAR, skip_null := false)"
    [(text,)] = thread_connection().execute(query, [statement]).fetchall()
    tree: Node = json.loads(text)
    return tree


@functools.cache
def _bare_select() -> Node:
    bare: Node = without_places(_serialize("SELECT 1"))
    del bare["statements"][0]["node"]["select_list"], bare["statements"][0]["named_param_map"]
    return bare
