"""Checks that rules fit a schema."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..errors import RuleError, RuleWarning
from .condition import Condition
from .condition_syntax import ConditionError
from .constants import WILDCARD, is_bytes, is_text, to_scalar
from .placed_error import PlacedError, near_matches, refuse
from .rule import Rule

_SUPPORTED = (
    *(pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, is_text, is_bytes),
    *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration),
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Tableau:
    """The rows of a pattern tableau, in the types of the attributes; null is the wildcard."""

    lhs: tuple[pa.Array, ...]  #: by LHS attribute: the constants of all rows
    rhs: pa.Array  #: those for the RHS


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule that fits a schema."""

    rule: Rule  #: the rule
    condition: Condition | None  #: its condition, if it has one
    tableau: Tableau | None  #: its pattern tableau, if it has one

    @property
    def has_constants(self) -> bool:
        """Whether a row of its tableau has a constant for the RHS."""
        return self.tableau is not None and self.tableau.rhs.null_count < len(self.tableau.rhs)

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes that it reads: LHS, RHS, and those of its condition."""
        condition = () if self.condition is None else self.condition.columns
        return tuple(dict.fromkeys((*self.rule.lhs, self.rule.rhs, *condition)))


def columns_read(rules: Iterable[CheckedRule], schema: pa.Schema, id: str | None = None) -> list[str]:
    """Return the attributes that some rules read, and the id if there is one, in the order of the schema."""
    read = {name for checked in rules for name in checked.columns}
    if id is not None:
        read.add(id)
    return [name for name in schema.names if name in read]


def check_rules(
    rules: Iterable[Rule], schema: pa.Schema, active: Collection[str] = ()
) -> tuple[CheckedRule, ...]:
    """Check rules against a schema and against the ids of the rules that are active already."""
    known = set(active)
    checked: list[CheckedRule] = []
    for rule in rules:
        try:
            if rule.id in known:
                refuse("id", "there is a rule of this id already", "give it another id, or delete that one")
            checked.append(_check(rule, schema))
        except PlacedError as fault:
            raise fault.error(rule.id, rule.origin) from None
        known.add(rule.id)
    return tuple(checked)


def check_not_id(rule: Rule, id: str | None) -> None:
    """Check that a rule leaves the id of the tuples alone."""
    if rule.rhs == id:
        raise RuleError(
            f"rule {rule.id!r}, rhs: {rule.rhs!r} is the id of the tuples, which no rule may change; "
            "choose another RHS, or another id"
        )


def warn_of_twins(
    rules: Iterable[CheckedRule], new: Collection[str] | None = None, stacklevel: int = 3
) -> None:
    """Warn where a rule, of the `new` ids if given, says the same as an earlier one under another id.

    Only public entry points call it, so that each such rule is warned of once. By default the warning points
    to the caller of the caller.
    """
    seen: dict[object, str] = {}
    for checked in rules:
        id = checked.rule.id
        twin = seen.setdefault(_meaning(checked), id)
        if twin != id and (new is None or id in new):
            warnings.warn(
                f"rules {twin!r} and {id!r} say the same thing; delete one of them",
                RuleWarning,
                stacklevel=stacklevel,
            )


def is_plain(type: pa.DataType) -> bool:
    """Return whether a rule can read attributes of a type."""
    return any(test(type) for test in _SUPPORTED)


def _check(rule: Rule, schema: pa.Schema) -> CheckedRule:
    types = [_supported_type("lhs", name, schema) for name in rule.lhs]
    types.append(_supported_type("rhs", rule.rhs, schema))
    condition = None
    if rule.when is not None:
        try:
            condition = Condition.compile(rule.when, schema)
        except ConditionError as error:
            place = "when" if error.character is None else f"when, character {error.character}"
            raise PlacedError(place, error.problem, error.remedy) from None
    return CheckedRule(rule, condition, _check_tableau(rule, types) if rule.tableau else None)


def _check_tableau(rule: Rule, types: Sequence[pa.DataType]) -> Tableau:
    """Return a rule's tableau in the types of its attributes."""
    names = (*rule.lhs, rule.rhs)
    columns: list[list[pa.Scalar | None]] = [[] for _ in names]
    for number, row in enumerate(rule.tableau, start=1):
        for column, constant, type, name in zip(columns, row, types, names, strict=True):
            is_wildcard = constant == WILDCARD
            column.append(
                None if is_wildcard else to_scalar(constant, type, f"tableau row {number}, {name!r}")
            )
    *lhs, rhs = (pa.array(column, type) for column, type in zip(columns, types, strict=True))
    return Tableau(tuple(lhs), rhs)


def _meaning(checked: CheckedRule) -> object:
    rule = checked.rule
    order = sorted(range(len(rule.lhs)), key=rule.lhs.__getitem__)
    return (
        tuple(rule.lhs[n] for n in order),
        rule.rhs,
        None if checked.condition is None else checked.condition.normal,
        rule.nulls,
        None if checked.tableau is None else _rows(checked.tableau, order),
    )


def _rows(tableau: Tableau, order: Sequence[int]) -> object:
    """Return the rows with the wildcard on the right, then the others, LHS attributes in the given order."""
    rows = list(zip(*(tableau.lhs[n] for n in order), tableau.rhs, strict=True))
    wildcards = tuple(row for row in rows if not row[-1].is_valid)
    return wildcards, tuple(row for row in rows if row[-1].is_valid)


def _supported_type(place: str, name: str, schema: pa.Schema) -> pa.DataType:
    found = schema.get_all_field_indices(name)
    if not found:
        refuse(place, f"unknown attribute {name!r}", near_matches(name, schema.names))
    if len(found) > 1:
        refuse(place, f"the schema has {len(found)} columns {name!r}", "rename all but one of them")
    type = schema.field(found[0]).type
    if not is_plain(type):
        if pa.types.is_dictionary(type):
            remedy = f"cast the column to {type.value_type} before cleaning"
        elif pa.types.is_nested(type):
            remedy = "flatten it into columns of plain values before cleaning"
        else:
            remedy = "cast the column to a plain type (number, text, date or time) before cleaning"
        refuse(place, f"attribute {name!r} is of the unsupported type {type}", remedy)
    return type
