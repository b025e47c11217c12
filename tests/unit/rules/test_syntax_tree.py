"""DuckDB's syntax tree, which is not documented, has the shape that `rules/condition_syntax.py` reads."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

MOVED = f"DuckDB {duckdb.__version__} changed its syntax tree; see rules/condition_syntax.py"


def tree(expression: str) -> dict[str, Any]:
    """Return the tree of an expression as DuckDB serializes it."""
    query = "SELECT json_serialize_sql($1::VARCHAR, skip_null := false)"
    [(text,)] = duckdb.execute(query, [f"SELECT {expression}"]).fetchall()
    try:
        node: dict[str, Any] = json.loads(text)["statements"][0]["node"]["select_list"][0]
    except (KeyError, IndexError):
        pytest.fail(f"{MOVED}: {text}")
    return node


@pytest.mark.parametrize(
    ("expression", "found", "keys"),
    [
        ("a", ("COLUMN_REF", "COLUMN_REF"), {"column_names", "query_location"}),
        ("1", ("CONSTANT", "VALUE_CONSTANT"), {"value"}),
        ("a = 1", ("COMPARISON", "COMPARE_EQUAL"), set()),
        ("a AND b", ("CONJUNCTION", "CONJUNCTION_AND"), {"children"}),
        ("a IS NOT NULL", ("OPERATOR", "OPERATOR_IS_NOT_NULL"), {"children"}),
        ("a IN (1, 2)", ("OPERATOR", "COMPARE_IN"), {"children"}),
        ("a BETWEEN 1 AND 2", ("BETWEEN", "COMPARE_BETWEEN"), set()),
        ("CASE WHEN a THEN b END", ("CASE", "CASE_EXPR"), set()),
        ("a::INT", ("CAST", "OPERATOR_CAST"), set()),
        ("a COLLATE nocase", ("COLLATE", "COLLATE"), set()),
        (
            "lower(a)",
            ("FUNCTION", "FUNCTION"),
            {"function_name", "schema", "catalog", "filter", "distinct", "order_bys", "children"},
        ),
        ("(SELECT 1)", ("SUBQUERY", "SUBQUERY"), set()),
        ("row_number() OVER ()", ("WINDOW", "WINDOW_ROW_NUMBER"), set()),
        ("?", ("PARAMETER", "VALUE_PARAMETER"), set()),
        ("#1", ("POSITIONAL_REFERENCE", "POSITIONAL_REFERENCE"), set()),
        ("x -> x", ("LAMBDA", "LAMBDA"), set()),
    ],
)
def test_nodes_are_what_they_were(expression: str, found: tuple[str, str], keys: set[str]) -> None:
    """Each kind of expression has the class, the type and the keys by which conditions are checked."""
    node = tree(expression)
    assert (node.get("class"), node.get("type")) == found, MOVED
    assert keys <= node.keys(), MOVED


def test_functions_are_listed() -> None:
    """`duckdb_functions()` says of which kind a function is, and whether it is deterministic."""
    query = (
        "SELECT function_type, stability, parameters, macro_definition FROM duckdb_functions() "
        "WHERE function_name = $1"
    )
    assert ("scalar", "CONSISTENT") in {row[:2] for row in duckdb.execute(query, ["lower"]).fetchall()}, MOVED
    assert ("scalar", "VOLATILE") in {row[:2] for row in duckdb.execute(query, ["random"]).fetchall()}, MOVED
    assert duckdb.execute(query, ["sum"]).fetchall()[0][0] == "aggregate", MOVED
