"""Rules as a user writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..config import is_accept_after
from ..errors import RuleError
from .constants import check_tableau, decode_tableau, encode_constant
from .placed_error import PlacedError, check_text, near_matches, refuse
from .short_form import format_name, format_short_form, parse_short_form

KEYS = ("id", "lhs", "rhs", "when", "nulls", "tableau", "mode", "certain", "accept_after")


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
        certain: Whether the rule is beyond doubt to `repair="bayes"`.
        accept_after: A value that leads in a group of it by this many is accepted as the new truth;
            `never` for none; None for what the stream's option of this name says.
        origin: Where it was read, as file:line; it plays no part in comparisons.

    Raises:
        RuleError: If it is wrong for every schema.
    """

    id: str
    lhs: tuple[str, ...]
    rhs: str
    when: str | None = None
    nulls: Literal["ignore", "fill"] = "ignore"
    tableau: tuple[tuple[object, ...], ...] = ()
    mode: Literal["live", "shadow"] = "live"
    certain: bool = False
    accept_after: int | Literal["never"] | None = None
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
        certain: bool = False,
        accept_after: int | str | None = None,
        *,
        origin: str | None = None,
    ) -> None:
        try:
            fields = _check_fields(id, lhs, rhs, when, nulls, tableau, mode, certain, accept_after)
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
            RuleError: If the text is not of this form; the message names the column.
        """
        try:
            name, lhs, rhs, when = parse_short_form(text)
            if name is not None and id not in (None, name):
                refuse("id", f"the text names it {name!r}", "leave out the name, or the id")
        except PlacedError as fault:
            raise fault.error(text if id is None else id, origin) from None
        if name is None:
            name = format_short_form(lhs, rhs, when) if id is None else id
        return cls(name, lhs, rhs, when, origin=origin)

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], *, origin: str | None = None) -> Rule:
        """Return the rule that `to_dict` has written.

        Raises:
            RuleError: If a key is unknown or missing, or a value is wrong.
        """
        try:
            fields = read_fields(mapping)
        except PlacedError as fault:
            raise fault.error(mapping.get("id", "(no id)"), origin) from None
        return cls(**fields, origin=origin)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as values that JSON has; a date becomes `{"$date": "2024-05-01"}`."""
        mapping: dict[str, Any] = {"id": self.id, "lhs": list(self.lhs), "rhs": self.rhs}
        if self.when is not None:
            mapping["when"] = self.when
        mapping["nulls"] = self.nulls
        if self.tableau:
            mapping["tableau"] = [[encode_constant(value) for value in row] for row in self.tableau]
        if self.is_shadow:
            mapping["mode"] = self.mode
        if self.certain:
            mapping["certain"] = self.certain
        if self.accept_after is not None:
            mapping["accept_after"] = self.accept_after
        return mapping

    @property
    def is_shadow(self) -> bool:
        """Whether it changes nothing, and only reports what it would repair."""
        return self.mode == "shadow"

    def accept_after_or(self, default: int | None) -> int | None:
        """Return when a new truth is accepted, None for never; `default` is the stream's option."""
        if self.accept_after is None:
            return default
        return None if self.accept_after == "never" else self.accept_after

    def with_mode(self, mode: Literal["live", "shadow"]) -> Rule:
        """Return the same rule in another mode."""
        return replace(self, mode=mode)

    def __str__(self) -> str:
        text = format_short_form(self.lhs, self.rhs, self.when)
        if self.id == text:
            return text
        return f"{format_name(self.id)}: {text}"


#: all ways to write a rule
RuleLike = Rule | str | Mapping[str, Any]


def as_rule(rule: RuleLike) -> Rule:
    """Return a rule from any of the ways to write one."""
    if isinstance(rule, str):
        return Rule.parse(rule)
    if isinstance(rule, Mapping):
        return Rule.from_dict(rule)
    if not isinstance(rule, Rule):
        raise RuleError(f"rule {rule!r}: it is a {type(rule).__name__}; give a Rule, a text or a mapping")
    return rule


def read_fields(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Check and decode what `Rule.to_dict` gives, or a user wrote in its form."""
    for key in mapping:
        if key not in KEYS:
            refuse("keys", f"unknown key {key!r}", near_matches(str(key), KEYS))
    for key in ("id", "lhs", "rhs"):
        if key not in mapping:
            refuse("keys", f"{key!r} is missing", f"add {key}: to the rule")
    return _check_fields(**{**mapping, "tableau": decode_tableau(mapping.get("tableau"))})


def _check_fields(
    id: object,
    lhs: object,
    rhs: object,
    when: object = None,
    nulls: object = "ignore",
    tableau: object = (),
    mode: object = "live",
    certain: object = False,
    accept_after: object = None,
) -> dict[str, Any]:
    _check_name("id", id)
    left, right = _check_attributes(lhs, rhs)
    return {
        "id": id,
        "lhs": left,
        "rhs": right,
        "when": _check_when(when),
        "nulls": _check_choice("nulls", nulls, ("ignore", "fill")),
        "tableau": check_tableau(tableau, left),
        "mode": _check_choice("mode", mode, ("live", "shadow")),
        "certain": _check_certain(certain),
        "accept_after": _check_accept_after(accept_after),
    }


def _check_name(place: str, name: object) -> None:
    if not isinstance(name, str):
        refuse(place, f"{name!r} is not a text", "write a text; in YAML, put it in quotes")
    if not name.strip():
        refuse(place, "it is empty", "write a name")
    check_text(place, name)


def _check_attributes(lhs: object, rhs: object) -> tuple[tuple[str, ...], str]:
    names = (lhs,) if isinstance(lhs, str) else lhs
    if not isinstance(names, Sequence) or isinstance(names, (bytes, bytearray)):
        refuse("lhs", f"{lhs!r} is not a list of attributes", "write a list such as [zipcode, street]")
    if not names:
        refuse("lhs", "it is empty", "name at least one attribute")
    for name in names:
        _check_name("lhs", name)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            refuse("lhs", f"attribute {name!r} is repeated", "name each attribute once")
        seen.add(name)
    if not isinstance(rhs, str):
        refuse("rhs", f"{rhs!r} is not one attribute", "name one; write a rule for each RHS attribute")
    _check_name("rhs", rhs)
    if rhs in names:
        refuse("rhs", f"attribute {rhs!r} is on the LHS, too", "leave it out on one side")
    return tuple(names), rhs


def _check_when(when: object) -> str | None:
    if when is None:
        return None
    if not isinstance(when, str):
        refuse("when", f"{when!r} is not a text", "write a SQL predicate; in YAML, put it in quotes")
    if not when.strip():
        refuse("when", "it is blank", "write a SQL predicate, or leave it out")
    check_text("when", when)
    return when.strip()


def _check_certain(certain: object) -> object:
    if not isinstance(certain, bool):
        refuse("certain", f"{certain!r} is not an option", "write true or false")
    return certain


def _check_accept_after(accept_after: object) -> object:
    if accept_after not in (None, "never") and not is_accept_after(accept_after):
        refuse(
            "accept_after", f"{accept_after!r} is not an option", "write an integer of 2 or more, or never"
        )
    return accept_after


def _check_choice(place: str, value: object, choices: tuple[str, str]) -> object:
    if value not in choices:
        refuse(place, f"{value!r} is not an option", f"write {' or '.join(choices)}")
    return value
