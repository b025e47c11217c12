"""An audit row in words: what was changed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import exp, log
from typing import Any

from .text import count, percent, shortened

AuditRow = dict[str, Any]
#: an amount that a score is the sum of, and why it is added
Term = tuple[float, str]

#: two amounts that differ by less are equal
_SAME = 1e-6
#: how much is shown of a value beside an amount
_LONGEST = 50


def in_words(row: AuditRow, of_tuple: Iterable[AuditRow] = ()) -> list[str]:
    """Return an audit row as lines of text, given all rows of the same tuple."""
    by_probability = row["decided_by"] == "probability"
    lines = _by_probability(row, list(of_tuple)) if by_probability else _by_count(row)
    if row["overruled"]:
        lines.append(f"  overruled, because their constants say otherwise: {', '.join(row['overruled'])}")
    lines.append(
        f"  tuple {row['id']} at position {row['position']:,}, version {row['version']} of the rules"
    )
    return lines


def _by_count(row: AuditRow) -> list[str]:
    """Explain a repair that counts or a constant decided."""
    rules = row["rules"]
    applied = row.get("applied") is not False
    lines = [
        f"{_change(row)}{'' if applied else ', if its shadow rules were live; it was not changed by them'}",
        f"  because it violated {'rule' if len(rules) == 1 else 'rules'} {', '.join(rules)}",
    ]
    if row["decided_by"] == "constant":
        lines.append("  a constant in a rule's tableau demands this value; counts did not matter")
    else:
        lines.append(f"  the most frequent candidate won, with {row['confidence']:.0%} of the counts")
    if row["candidates"]:
        counts = ", ".join(f"{one['value']!r} {one['count']:,}" for one in row["candidates"])
        lines.append(f"  candidates and their counts, from {count(row['groups'], 'group')}: {counts}")
    return lines


def _change(row: AuditRow) -> str:
    old = "null" if row["old_value"] is None else repr(row["old_value"])
    return f"{row['attribute']}: {old} -> {_new(row)}"


def _new(row: AuditRow) -> str:
    value = row["new_value"]
    return "unknown" if value is None else repr(value)


# ------------------------------------------------------------------------------------------ probability


def _by_probability(row: AuditRow, of_tuple: Sequence[AuditRow]) -> list[str]:
    """Explain a cell that is read as its most probable value: each score as a sum."""
    lines = [f"{_change(row)}, confidence {percent(row['confidence'])}"]
    why_not = _why_unchanged(row, of_tuple)
    if why_not:
        lines.append(f"  {why_not}")
    lines += [f"  after {one['attribute']} was read as {_new(one)}" for one in _earlier(row, of_tuple)]
    scores: dict[str | None, float] = {}
    for candidate in row["candidates"]:
        is_observed = candidate["value"] == row["old_value"]
        terms = _terms(row, candidate, is_observed=is_observed)
        *amounts, total = _rounded([amount for amount, _ in terms])
        scores[candidate["value"]] = total
        kept = ", as it came" if is_observed else ""
        lines.append(f"  {_candidate(candidate)}{kept}: score {total:.2f}, the sum of")
        lines += [f"    {amount:+8.2f}  {why}" for amount, (_, why) in zip(amounts, terms, strict=True)]
    return [*lines, *_gain(row, scores)]


def _candidate(candidate: AuditRow) -> str:
    value = candidate["value"]
    return "another value, whichever it is" if value is None else repr(value)


def _why_unchanged(row: AuditRow, of_tuple: Sequence[AuditRow]) -> str | None:
    """Return why a cell keeps its value; None if it was changed.

    The audit does not name shadow rules, but what they would repair is the right side of one of them.
    """
    if row.get("applied") is not False:
        return None
    if _is_key(row):
        return "flagged, not changed: the key may be wrong"
    keys = _flagged_keys(row, of_tuple)
    if keys:
        return f"flagged, not changed: it depends on {', '.join(keys)}, and the key may be wrong"
    return "not changed: a shadow rule would change it"


def _is_key(row: AuditRow) -> bool:
    """Return whether all rules that speak of a cell have it on their left side."""
    keys = _keys(row)
    return bool(keys) and all(_has_attribute(key, row["attribute"]) for key in keys)


def _flagged_keys(row: AuditRow, of_tuple: Sequence[AuditRow]) -> list[str]:
    """Return the flagged keys through which the cell of a row is read."""
    keys = _keys(row)
    return [
        one["attribute"]
        for one in of_tuple
        if one.get("applied") is False
        and one["decided_by"] == "probability"
        and one["position"] == row["position"]
        and one["attribute"] != row["attribute"]
        and _is_key(one)
        and any(_has_attribute(key, one["attribute"]) for key in keys)
    ]


def _has_attribute(key: str, attribute: str) -> bool:
    """Return whether a key such as `zipcode=75001, street=Rue A` has an attribute."""
    return f", {key}".find(f", {attribute}=") >= 0


def _earlier(row: AuditRow, of_tuple: Sequence[AuditRow]) -> list[AuditRow]:
    """Return the rows of cells of the tuple that were read anew before this one, in their order.

    What shadow rules would change has an order of its own, and so has each component of rules.
    """
    is_shadow = _is_shadow(row, of_tuple)
    before = [
        one
        for one in of_tuple
        if one["position"] == row["position"]
        and (one.get("step") or 0) > 0
        and one["step"] < (row["step"] or 0)
        and _is_shadow(one, of_tuple) == is_shadow
    ]
    component = _attributes(row)
    for _ in before:  # one may lead to the next
        for one in before:
            if not component.isdisjoint(_attributes(one)):
                component |= _attributes(one)
    related = [one for one in before if one["attribute"] in component]
    return sorted(related, key=lambda one: int(one["step"]))


def _attributes(row: AuditRow) -> set[str]:
    """Return the attribute of a row, and those of the keys of all groups that speak of it."""
    parts = [part for key in _keys(row) for part in key.split(", ")]
    return {row["attribute"], *(part.partition("=")[0] for part in parts)}


def _keys(row: AuditRow) -> set[str]:
    """Return the keys of all groups that speak of a cell."""
    return {term["key"] for candidate in row["candidates"] for term in candidate["rules"] or ()}


def _is_shadow(row: AuditRow, of_tuple: Sequence[AuditRow]) -> bool:
    return row.get("applied") is False and not _is_key(row) and not _flagged_keys(row, of_tuple)


def _terms(row: AuditRow, candidate: AuditRow, *, is_observed: bool) -> list[Term]:
    """Return the terms of a candidate's score, those that are 0 left out."""
    terms: list[Term] = []
    rate, observed = row["error_rate"], shortened(repr(row["old_value"]), _LONGEST)
    if rate is not None:
        is_it = "right" if is_observed else "wrong"
        source = row["error_from"].removesuffix(": outvoted")  # as nothing is counted yet
        why = f"the cell is {is_it}, at an error rate of {percent(rate)} ({source})"
        terms.append((candidate["error"], why))
    terms += [
        (candidate["likeness"], f"how alike: {observed} may be a typing error"),
        (candidate["recurrence"], f"a recurring error: {observed} stands here for another value again"),
        (
            candidate["background"],
            f"how common: {percent(exp(min(0.0, candidate['background'])))} of {row['attribute']}",
        ),
    ]
    terms += [(term["lift"], _rule_words(row, term)) for term in candidate["rules"] or ()]
    return [(amount, why) for amount, why in terms if amount]


def _rule_words(row: AuditRow, term: AuditRow) -> str:
    """Return what a rule says of a candidate."""
    is_left = _has_attribute(term["key"], row["attribute"])
    said = "agree with its right side" if is_left else "say so"
    cells = f"{term['count']:,} of {count(term['of'], 'other cell')} with {shortened(term['key'], _LONGEST)}"
    return f"rule {term['rule']}, trust {percent(term['trust'])}: {cells} {said}"


def _rounded(amounts: Sequence[float]) -> list[float]:
    """Return amounts, and then their sum, to two places: so that what is shown adds up.

    Each is the difference of two rounded sums, and thus at most 0.01 off.
    """
    sums = [round(sum, 2) for sum in accumulate(amounts, initial=0.0)]
    return [*(round(after - before, 2) for before, after in pairwise(sums)), sums[-1]]


def _gain(row: AuditRow, scores: dict[str | None, float]) -> list[str]:
    """Return how the confidence follows from the scores."""
    confidence, new = row["confidence"], scores.get(row["new_value"])
    if new is None:
        return []
    exact = {candidate["value"]: candidate["score"] for candidate in row["candidates"]}
    if row["old_value"] is None:
        gain = _log_odds(confidence)
        what = "over all other values together"
    elif row["old_value"] not in exact:
        return []
    else:
        difference = exact[row["new_value"]] - exact[row["old_value"]]
        if abs(_sigmoid(difference) - confidence) < _SAME:
            old = scores[row["old_value"]]
            gain = round(new - old, 2)
            what = f"= {new:.2f} - {f'({old:.2f})' if old < 0 else f'{old:.2f}'}"
        else:
            gain = _log_odds(confidence)
            what = "over the value that it was read as before"
    if gain is None:
        return []
    return [f"  gain {gain:.2f} {what}; confidence {percent(confidence)}, which is 1 / (1 + e^-{gain:.2f})"]


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-x)) if x > -700.0 else 0.0


def _log_odds(p: float) -> float | None:
    return log(p / (1.0 - p)) if 0.0 < p < 1.0 else None
