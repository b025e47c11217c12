"""Checks of what an engine is given: the schema, the rules and the id of its stream, and batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from ..config import Options
from ..errors import ConfigError, RuleError, SchemaError
from ..rules.active import ActiveRules
from ..rules.check import is_plain
from ..rules.rule import Rule, RuleLike, as_rule
from .encode import can_take


def check_stream(schema: pa.Schema, rules: Iterable[RuleLike], id: str | None = None) -> ActiveRules:
    """Check the schema, the rules and the id of a stream; return the rules. It gives no warning."""
    if not isinstance(schema, pa.Schema):
        raise ConfigError(f"schema: {type(schema).__name__} is not a schema; give a pyarrow.Schema")
    if isinstance(rules, str | Rule | Mapping) or not isinstance(rules, Iterable):
        raise ConfigError(f"rules: {rules!r} is not a list of rules; put it in brackets")
    check_id(schema, id)
    return ActiveRules(schema, [as_rule(rule) for rule in rules], id)


def check_id(schema: pa.Schema, id: str | None) -> None:
    """Check that a stream has the attribute with its ids, if there is one."""
    if id is not None and schema.names.count(id) != 1:
        raise ConfigError(
            f"id: the schema has no single attribute {id!r}; choose one of {', '.join(schema.names)}"
        )
    if id is not None and not can_take(schema.field(id).type):
        raise ConfigError(f"id: {id!r} is of type {schema.field(id).type}; cast it to a plain type before")


def check_trust(options: Options, schema: pa.Schema, rules: Iterable[Rule] = ()) -> None:
    """Check that a stream has the column of sources, if one is named, and that no rule is about it."""
    trust = options.trust
    if trust is None:
        return
    if schema.names.count(trust) != 1:
        raise ConfigError(
            f"trust: the schema has no single attribute {trust!r}; choose one of {', '.join(schema.names)}"
        )
    if not is_plain(schema.field(trust).type):
        raise ConfigError(
            f"trust: {trust!r} is of type {schema.field(trust).type}; cast it to a plain type before"
        )
    for rule in rules:
        if trust in (*rule.lhs, rule.rhs):
            raise RuleError(
                f"rule {rule.id!r}: {trust!r} names the sources of the tuples, and is not cleaned itself; "
                "leave it out of the rule, or choose another column for trust"
            )


def check_same_schema(batch: pa.RecordBatch, schema: pa.Schema, position: int) -> None:
    """Check that a batch has exactly the columns of a schema, in their order."""
    _check_type(batch, position)
    if batch.schema.names != schema.names or batch.schema.types != schema.types:
        raise SchemaError(
            f"batch at position {position}: its schema is ({_describe(_fields(batch.schema))}), "
            f"the engine's is ({_describe(_fields(schema))}); select and cast the columns before"
        )


def check_columns(batch: pa.RecordBatch, schema: pa.Schema, read: Sequence[str], position: int) -> None:
    """Check that a batch has the columns that are read, and none that the schema does not have."""
    _check_type(batch, position)
    wrong = Counter(_plain_fields(batch.schema)) - Counter(_plain_fields(schema))
    if wrong:
        raise SchemaError(
            f"batch at position {position}: its columns ({_describe(wrong)}) are not those of the "
            f"engine's schema ({_describe(_fields(schema))}); drop or cast them before"
        )
    missing = [name for name in read if name not in batch.schema.names]
    if missing:
        raise SchemaError(
            f"batch at position {position}: it lacks {', '.join(map(repr, missing))}, which the "
            f"rules or the id read; select at least {', '.join(map(repr, read))}"
        )


def _check_type(batch: pa.RecordBatch, position: int) -> None:
    if not isinstance(batch, pa.RecordBatch):
        raise SchemaError(
            f"batch at position {position}: it is a {type(batch).__name__}; "
            "give a pyarrow.RecordBatch (of a table: each of table.to_batches())"
        )


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return list(zip(schema.names, schema.types, strict=True))


def _plain_fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return names and types; a dictionary counts as its values."""
    return [
        (name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in _fields(schema)
    ]


def _describe(fields: Iterable[tuple[str, pa.DataType]]) -> str:
    return ", ".join(f"{name} {type}" for name, type in fields)
