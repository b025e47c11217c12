"""Rules: what a user writes, and the checks that it fits a schema."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NoReturn, cast

import numpy as np
import pyarrow as pa

from ..errors import RuleError, RuleWarning
from .condition import Condition, ConditionError, near_matches

WILDCARD = "_"

KEYS = ("id", "lhs", "rhs", "when", "nulls", "tableau", "mode")

_CONSTANTS = (bool, int, float, str, bytes, Decimal, dt.date, dt.datetime, dt.time, dt.timedelta)

_QUOTED = r'"((?:[^"]|"")+)"'
_BARE_NAME = r"[\w.-]+"
_BARE_ATTRIBUTE = r"[^\W\d]\w*"
_NAME = re.compile(rf"\s*(?:{_QUOTED}|({_BARE_NAME}))\s*:")
_ATTRIBUTE = re.compile(rf"\s*(?:{_QUOTED}|({_BARE_ATTRIBUTE}))")
_WHERE = re.compile(r"\s*where\b", re.IGNORECASE)


class PlacedError(ValueError):
    """One thing that is wrong with a rule; `error` makes it the RuleError that users see."""

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(place, problem, remedy)
        self.place = place
        self.problem = problem
        self.remedy = remedy

    def error(self, id: object, origin: str | None = None) -> RuleError:
        """Say what is wrong, in which rule and place (and file and line), and what to do about it."""
        head = "" if origin is None else f"{origin}: "
        return RuleError(f"{head}rule {id!r}, {self.place}: {self.problem}; {self.remedy}")


def _refuse(place: str, problem: str, remedy: str) -> NoReturn:
    raise PlacedError(place, problem, remedy)


@dataclass(frozen=True, slots=True, init=False)
class Rule:
    """A functional dependency `lhs -> rhs`, perhaps with a condition and a tableau.

    Args:
        id: Its name, unique among the active rules.
        lhs: The attributes on the left; a plain string is one attribute.
        rhs: The attribute on the right.
        when: A SQL predicate; the rule applies to the tuples it is TRUE for.
        nulls: Whether to `ignore` a null RHS cell, or to `fill` it.
        tableau: Rows of constants, one for each LHS attribute and one for the RHS; `"_"` is the wildcard.
        mode: `live`, or `shadow`: it changes nothing, and what it would repair is reported.
        origin: Where it was read, as file:line; it plays no part in comparisons.

    Raises:
        RuleError: If it makes no sense whatever the schema.
    """

    id: str
    lhs: tuple[str, ...]
    rhs: str
    when: str | None = None
    nulls: Literal["ignore", "fill"] = "ignore"
    tableau: tuple[tuple[object, ...], ...] = ()
    mode: Literal["live", "shadow"] = "live"
    origin: str | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        id: str,
        lhs: str | Sequence[str],
        rhs: str,
        when: str | None = None,
        nulls: str = "ignore",
        tableau: Sequence[Sequence[object]] = (),
        mode: str = "live",
        *,
        origin: str | None = None,
    ) -> None:
        try:
            fields = _checked(id, lhs, rhs, when, nulls, tableau, mode)
        except PlacedError as fault:
            raise fault.error(id, origin) from None
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "origin", origin)

    @classmethod
    def parse(cls, text: str, id: str | None = None, *, origin: str | None = None) -> Rule:
        """Read the short form: `[name:] zipcode, street -> city [WHERE country = 'FR']`.

        Args:
            text: The rule; an attribute in double quotes may hold any character.
            id: Its id, if the text has no name; without either, the id is the text, tidied up.
            origin: Where the text was read, as file:line.

        Raises:
            RuleError: If the text is not of this form; the message tells the column.
        """
        try:
            name, lhs, rhs, when = _read(text)
            if name is not None and id not in (None, name):
                _refuse("id", f"the text names it {name!r}", "leave out the name, or the id")
        except PlacedError as fault:
            raise fault.error(text if id is None else id, origin) from None
        known = id if name is None else name
        return cls(_short_form(lhs, rhs, when) if known is None else known, lhs, rhs, when, origin=origin)

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], *, origin: str | None = None) -> Rule:
        """Make a rule from what `to_dict` gives.

        Raises:
            RuleError: If a key is unknown or missing, or a value is wrong.
        """
        try:
            fields = fields_of(mapping)
        except PlacedError as fault:
            raise fault.error(mapping.get("id", "(no id)"), origin) from None
        return cls(**fields, origin=origin)

    def to_dict(self) -> dict[str, Any]:
        """Give the rule as values that JSON has; a date, say, becomes `{"$date": "2024-05-01"}`."""
        mapping: dict[str, Any] = {"id": self.id, "lhs": list(self.lhs), "rhs": self.rhs}
        if self.when is not None:
            mapping["when"] = self.when
        mapping["nulls"] = self.nulls
        if self.tableau:
            mapping["tableau"] = [[_encoded(value) for value in row] for row in self.tableau]
        if self.is_shadow:
            mapping["mode"] = self.mode
        return mapping

    @property
    def is_shadow(self) -> bool:
        """Whether it changes nothing, and only reports what it would repair."""
        return self.mode == "shadow"

    def with_mode(self, mode: Literal["live", "shadow"]) -> Rule:
        """Return the same rule in another mode."""
        return replace(self, mode=mode)

    def __str__(self) -> str:
        text = _short_form(self.lhs, self.rhs, self.when)
        if self.id == text:
            return text
        return f"{self.id if re.fullmatch(_BARE_NAME, self.id) else _quote(self.id)}: {text}"


#: all ways to write a rule
RuleLike = Rule | str | Mapping[str, Any]


def as_rule(rule: RuleLike) -> Rule:
    """Return a rule from any of the ways to write one.

    Raises:
        RuleError: If it is wrong.
    """
    if isinstance(rule, str):
        return Rule.parse(rule)
    if isinstance(rule, Mapping):
        return Rule.from_dict(rule)
    if not isinstance(rule, Rule):
        raise RuleError(f"rule {rule!r}: it is a {type(rule).__name__}; give a Rule, a text or a mapping")
    return rule


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule that fits a schema.

    Attributes:
        rule: The rule.
        condition: Its condition, if it has one.
        wildcard_rows: LHS patterns of the tableau rows whose RHS is the wildcard (None in a pattern is the
            wildcard, too); None if there is no tableau, and the rule is for every LHS value.
        constant_rows: LHS pattern and RHS constant of the other rows.
    """

    rule: Rule
    condition: Condition | None
    wildcard_rows: tuple[tuple[pa.Scalar | None, ...], ...] | None
    constant_rows: tuple[tuple[tuple[pa.Scalar | None, ...], pa.Scalar], ...]

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
    """Check rules against a schema and against the ids of the rules that are active already.

    Raises:
        RuleError: If one of them does not fit; none is taken over then.
    """
    known = set(active)
    checked: list[CheckedRule] = []
    for rule in rules:
        try:
            if rule.id in known:
                _refuse("id", "there is a rule of this id already", "give it another id, or delete that one")
            checked.append(_check(rule, schema))
        except PlacedError as fault:
            raise fault.error(rule.id, rule.origin) from None
        known.add(rule.id)
    return tuple(checked)


def warn_of_twins(
    rules: Iterable[CheckedRule], new: Collection[str] | None = None, stacklevel: int = 3
) -> None:
    """Warn where a rule says the same thing as an earlier one under another id.

    Only public entry points call it, so that each such rule is warned of once.

    Args:
        rules: All rules, earlier ones first.
        new: The ids of those to warn of; None for all.
        stacklevel: Where the warning points to; by default to the caller of the caller.
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


def check_not_id(rule: Rule, id: str | None) -> None:
    """Check that a rule leaves the id of the tuples alone.

    Raises:
        RuleError: If it would change it.
    """
    if rule.rhs == id:
        raise RuleError(
            f"rule {rule.id!r}, rhs: {rule.rhs!r} is the id of the tuples, which no rule may change; "
            "choose another RHS, or another id"
        )


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
    wildcard_rows: list[tuple[pa.Scalar | None, ...]] = []
    constant_rows: list[tuple[tuple[pa.Scalar | None, ...], pa.Scalar]] = []
    for number, row in enumerate(rule.tableau, start=1):
        *pattern, value = (
            None if constant == WILDCARD else _scalar(constant, type, f"tableau row {number}, {name!r}")
            for constant, type, name in zip(row, types, (*rule.lhs, rule.rhs), strict=True)
        )
        if value is None:
            wildcard_rows.append(tuple(pattern))
        else:
            constant_rows.append((tuple(pattern), value))
    return CheckedRule(rule, condition, tuple(wildcard_rows) if rule.tableau else None, tuple(constant_rows))


def _meaning(checked: CheckedRule) -> object:
    rule = checked.rule
    order = sorted(range(len(rule.lhs)), key=rule.lhs.__getitem__)
    wildcards = checked.wildcard_rows
    return (
        tuple(rule.lhs[n] for n in order),
        rule.rhs,
        None if checked.condition is None else checked.condition.normal,
        rule.nulls,
        None if wildcards is None else tuple(tuple(row[n] for n in order) for row in wildcards),
        tuple((tuple(row[n] for n in order), value) for row, value in checked.constant_rows),
    )


def _supported_type(place: str, name: str, schema: pa.Schema) -> pa.DataType:
    found = schema.get_all_field_indices(name)
    if not found:
        _refuse(place, f"unknown attribute {name!r}", near_matches(name, schema.names))
    if len(found) > 1:
        _refuse(place, f"the schema has {len(found)} columns {name!r}", "rename all but one of them")
    type = schema.field(found[0]).type
    if not is_plain(type):
        if pa.types.is_dictionary(type):
            remedy = f"cast the column to {type.value_type} before cleaning"
        elif pa.types.is_nested(type):
            remedy = "flatten it into columns of plain values before cleaning"
        else:
            remedy = "cast the column to a plain type (number, text, date or time) before cleaning"
        _refuse(place, f"attribute {name!r} is of the unsupported type {type}", remedy)
    return type


def is_plain(type: pa.DataType) -> bool:
    """Tell whether a rule can read attributes of a type."""
    return any(test(type) for test in _SUPPORTED)


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def _is_bytes(type: pa.DataType) -> bool:
    kinds = pa.types
    variable = kinds.is_binary(type) or kinds.is_large_binary(type) or kinds.is_binary_view(type)
    return bool(variable or kinds.is_fixed_size_binary(type))


_SUPPORTED = (
    *(
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        _is_text,
        _is_bytes,
    ),
    *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration),
)


def _scalar(value: object, type: pa.DataType, place: str) -> pa.Scalar:
    """Convert a constant of a tableau to an attribute's type, without loss."""
    try:
        return _converted(value, type)
    except _MisfitError as misfit:
        remedy = str(misfit)
    except (pa.ArrowException, ArithmeticError, ValueError):
        remedy = f"write a value that {type} can hold exactly"
    _refuse(place, f"the constant {value!r} does not fit {type}", remedy)


class _MisfitError(Exception):
    """A constant is of the wrong kind for an attribute; the message is the remedy."""


def _converted(value: Any, type: pa.DataType) -> pa.Scalar:
    kinds = pa.types
    if kinds.is_boolean(type):
        return pa.scalar(_of(value, (bool,), "write true or false"), type)
    if kinds.is_integer(type):
        _of(value, (int, float, Decimal), "write a whole number, without quotes")
        if value != int(value):
            raise _MisfitError("write a whole number")
        return pa.scalar(int(value), type)
    if kinds.is_floating(type):
        return _converted_float(_of(value, (int, float, Decimal), "write a number, without quotes"), type)
    if kinds.is_decimal(type):
        _of(value, (int, float, Decimal, str), "write a number")
        try:
            return pa.scalar(Decimal(str(value)), type)
        except InvalidOperation:
            raise _MisfitError("write a number") from None
    if _is_text(type):
        return pa.scalar(_of(value, (str,), "put it in quotes"), type)
    if _is_bytes(type):
        return pa.scalar(_of(value, (bytes,), "write bytes (in YAML: !!binary and base64)"), type)
    return _converted_time(value, type)


def _converted_float(value: float | Decimal, type: pa.DataType) -> pa.Scalar:
    # A fraction takes the nearest value of the type, as the data itself did; a whole number stays exact.
    with np.errstate(over="ignore"):
        near: Any = {16: np.float16, 32: np.float32, 64: np.float64}[type.bit_width](float(value))
    if np.isinf(near) and not math.isinf(value):
        raise _MisfitError(f"write a number within the range of {type}")
    if isinstance(value, int) and int(near) != value:
        raise _MisfitError(f"write a whole number that {type} can hold exactly")
    return pa.scalar(near, type)


def _converted_time(value: Any, type: pa.DataType) -> pa.Scalar:
    kinds = pa.types
    if kinds.is_duration(type):
        _of(value, (dt.timedelta,), "write a timedelta (in YAML or JSON: {$duration: microseconds})")
        return pa.scalar(value, pa.duration("us")).cast(type)
    if kinds.is_date(type):
        remedy = "write a date as YYYY-MM-DD"
        if isinstance(_of(value, (dt.date, str), remedy), str):
            return _parsed(value, type, remedy)
        return pa.scalar(value, type)
    if kinds.is_time(type):
        remedy = "write a time of day as 'HH:MM:SS', without a zone"
        if isinstance(_of(value, (dt.time, str), remedy), str):
            try:
                value = dt.time.fromisoformat(value)
            except ValueError:
                raise _MisfitError(remedy) from None
        if value.tzinfo is not None:
            raise _MisfitError(remedy)
        return pa.scalar(value, pa.time64("us")).cast(type)
    remedy = "write a timestamp without a zone offset, such as '2024-05-01T12:00:00'"
    if type.tz is not None:
        remedy = "write a timestamp with its zone offset, such as '2024-05-01T12:00:00+00:00'"
    if isinstance(_of(value, (dt.date, dt.datetime, str), remedy), str):
        return _parsed(value, type, remedy)
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if (value.tzinfo is None) != (type.tz is None):
        raise _MisfitError(remedy)
    return pa.scalar(value, pa.timestamp("us", type.tz)).cast(type)


def _of(value: object, accepted: tuple[type, ...], remedy: str) -> Any:
    if type(value) not in accepted:
        raise _MisfitError(remedy)
    return value


def _parsed(text: str, type: pa.DataType, remedy: str) -> pa.Scalar:
    try:
        return pa.scalar(text).cast(type)
    except pa.ArrowInvalid:
        raise _MisfitError(remedy) from None


def fields_of(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Check and decode what `Rule.to_dict` gives, or a user wrote in its form.

    Raises:
        PlacedError: If a key is unknown or missing, or a value is wrong.
    """
    for key in mapping:
        if key not in KEYS:
            _refuse("keys", f"unknown key {key!r}", near_matches(str(key), KEYS))
    for key in ("id", "lhs", "rhs"):
        if key not in mapping:
            _refuse("keys", f"{key!r} is missing", f"add {key}: to the rule")
    return _checked(**{**mapping, "tableau": _decoded_tableau(mapping.get("tableau"))})


def _checked(
    id: object,
    lhs: object,
    rhs: object,
    when: object = None,
    nulls: object = "ignore",
    tableau: object = (),
    mode: object = "live",
) -> dict[str, Any]:
    _check_name("id", id)
    left, right = _checked_attributes(lhs, rhs)
    return {
        "id": id,
        "lhs": left,
        "rhs": right,
        "when": _checked_when(when),
        "nulls": _checked_choice("nulls", nulls, ("ignore", "fill")),
        "tableau": _checked_tableau(tableau, left),
        "mode": _checked_choice("mode", mode, ("live", "shadow")),
    }


def _check_name(place: str, name: object) -> None:
    if not isinstance(name, str):
        _refuse(place, f"{name!r} is not a text", "write a text; in YAML, put it in quotes")
    if not name.strip():
        _refuse(place, "it is empty", "write a name")


def _checked_attributes(lhs: object, rhs: object) -> tuple[tuple[str, ...], str]:
    names = (lhs,) if isinstance(lhs, str) else lhs
    if not isinstance(names, Sequence) or isinstance(names, (bytes, bytearray)):
        _refuse("lhs", f"{lhs!r} is not a list of attributes", "write a list such as [zipcode, street]")
    if not names:
        _refuse("lhs", "it is empty", "name at least one attribute")
    for name in names:
        _check_name("lhs", name)
    for name in names:
        if names.count(name) > 1:
            _refuse("lhs", f"attribute {name!r} is repeated", "name each attribute once")
    if not isinstance(rhs, str):
        _refuse("rhs", f"{rhs!r} is not one attribute", "name one; write a rule for each RHS attribute")
    _check_name("rhs", rhs)
    if rhs in names:
        _refuse("rhs", f"attribute {rhs!r} is on the LHS, too", "leave it out on one side")
    return tuple(names), rhs


def _checked_when(when: object) -> str | None:
    if when is None:
        return None
    if not isinstance(when, str):
        _refuse("when", f"{when!r} is not a text", "write a SQL predicate; in YAML, put it in quotes")
    if not when.strip():
        _refuse("when", "it is blank", "write a SQL predicate, or leave it out")
    return when.strip()


def _checked_choice(place: str, value: object, choices: tuple[str, str]) -> object:
    if value not in choices:
        _refuse(place, f"{value!r} is not an option", f"write {' or '.join(choices)}")
    return value


def _checked_tableau(tableau: object, lhs: Sequence[str]) -> tuple[tuple[object, ...], ...]:
    if not _is_list(tableau):
        _refuse("tableau", f"{tableau!r} is not a list of rows", "write a list of lists")
    rows = []
    for number, row in enumerate(cast("Sequence[Any]", tableau), start=1):
        place = f"tableau row {number}"
        if not _is_list(row):
            _refuse(place, f"{row!r} is not a list of constants", "write each row as a list")
        if len(row) != len(lhs) + 1:
            problem = f"it has {len(row)} items, not {len(lhs) + 1}"
            _refuse(place, problem, "write one for each LHS attribute, then one for the RHS; _ is any value")
        for value in row:
            _check_constant(place, value)
        rows.append(tuple(row))
    return tuple(rows)


def _check_constant(place: str, value: object) -> None:
    if value is None:
        _refuse(place, "it has a null", "write a constant, or _ for any value; a rule never matches null")
    if type(value) not in _CONSTANTS:
        kind = type(value).__name__
        _refuse(place, f"{value!r} is of type {kind}", "write a plain number, text, date, time or bytes")
    nan = isinstance(value, float) and math.isnan(value)
    if nan or (isinstance(value, Decimal) and not value.is_finite()):
        _refuse(place, f"{value!r} is not a number", "leave this row out, or write a number")


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _read(text: str) -> tuple[str | None, list[str], str, str | None]:
    """Split the short form into name, LHS, RHS and condition."""
    name, at = None, 0
    if match := _NAME.match(text):
        name, at = _unquote(match), match.end()
    lhs = []
    while True:
        attribute, at = _read_attribute(text, at)
        lhs.append(attribute)
        rest = text[at:].lstrip()
        at = len(text) - len(rest)
        if rest.startswith("->"):
            at += len("->")
            break
        if not rest.startswith(","):
            raise _text_fault(text, at, "',' or '->' is expected")
        at += len(",")
    rhs, at = _read_attribute(text, at)
    if not text[at:].strip():
        return name, lhs, rhs, None
    match = _WHERE.match(text, at)
    if match is None:
        raise _text_fault(text, at, "WHERE or the end is expected")
    if not text[match.end() :].strip():
        raise _text_fault(text, match.end(), "a predicate is expected after WHERE")
    return name, lhs, rhs, text[match.end() :].strip()


def _read_attribute(text: str, at: int) -> tuple[str, int]:
    match = _ATTRIBUTE.match(text, at)
    if match is None or (match[2] is not None and match[2].lower() == "where"):
        raise _text_fault(text, at, "an attribute is expected")
    return _unquote(match), match.end()


def _text_fault(text: str, at: int, problem: str) -> PlacedError:
    at = len(text) - len(text[at:].lstrip())
    remedy = 'write [name:] a, b -> c [WHERE predicate], with names such as "my col" in double quotes'
    return PlacedError(f"text, column {at + 1}", problem, remedy)


def _unquote(match: re.Match[str]) -> str:
    return match[1].replace('""', '"') if match[1] is not None else match[2]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _short_form(lhs: Sequence[str], rhs: str, when: str | None) -> str:
    left = ", ".join(_attribute_text(name) for name in lhs)
    return f"{left} -> {_attribute_text(rhs)}{'' if when is None else f' WHERE {when}'}"


def _attribute_text(name: str) -> str:
    bare = re.fullmatch(_BARE_ATTRIBUTE, name) and name.lower() != "where"
    return name if bare else _quote(name)


def _encoded(value: Any) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return {f"${type(value).__name__}": value.isoformat()}
    if isinstance(value, dt.timedelta):
        return {"$duration": value // dt.timedelta(microseconds=1)}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    return value


_DECODERS: dict[str, Callable[[Any], object]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$date": dt.date.fromisoformat,
    "$datetime": dt.datetime.fromisoformat,
    "$decimal": Decimal,
    "$duration": lambda microseconds: dt.timedelta(microseconds=microseconds),
    "$float": float,
    "$time": dt.time.fromisoformat,
}


def _decoded_tableau(tableau: object) -> Any:
    if tableau is None:
        return ()
    if not _is_list(tableau):
        return tableau
    return [
        [_decoded(value, f"tableau row {number}") for value in row] if _is_list(row) else row
        for number, row in enumerate(cast("Sequence[Any]", tableau), start=1)
    ]


def _decoded(value: object, place: str) -> object:
    if not isinstance(value, Mapping):
        return value
    [tag, *others] = value or [None]
    if tag not in _DECODERS or others:
        _refuse(place, f"{value!r} is not a constant", f"write one of {', '.join(_DECODERS)} and its value")
    try:
        return _DECODERS[tag](value[tag])
    except (TypeError, ValueError, ArithmeticError):
        raise PlacedError(
            place, f"{value!r} is not a valid {tag[1:]}", "write it as to_dict() does"
        ) from None
