"""Whether each record that came in is out or in quarantine, once, and whole but for repaired cells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.fuzz.texts import Piece, Reading

_PROBLEMS_MAX = 5
_SHOWN = 300


@dataclass(frozen=True)
class Written:
    """What a stream has written: the texts of clean records, those in quarantine, and the audit."""

    out: Sequence[bytes]
    quarantined: Iterable[str]
    audit: Iterable[dict[str, Any]]


def compare(records: Sequence[bytes], written: Written, read: Callable[[bytes], Reading]) -> list[str]:
    """Return what is wrong with what was written of records; nothing if all is as it must be."""
    read = cache(read)
    repairs: dict[str, dict[str, tuple[Any, Any]]] = defaultdict(dict)
    for row in written.audit:
        if row["applied"]:
            repairs[_id(row["id"])][row["attribute"]] = (row["old_value"], row["new_value"])
    out, quarantined = Counter(written.out), Counter(written.quarantined)
    problems: list[str] = []
    ids = Counter(_id(read(record).id) for record in records)
    left = []
    for record in records:
        reading = read(record)
        if reading.fits is not False and out[record]:
            out[record] -= 1
            changed = repairs.get(_id(reading.id), {}).keys() & dict(reading.values).keys()
            if changed and ids[_id(reading.id)] == 1:
                problems.append(f"the audit has repairs of {sorted(changed)}, but out is {_shown(record)}")
        elif reading.fits is not True and quarantined[readable(record)]:
            quarantined[readable(record)] -= 1
        else:
            left.append(record)
    changed_rows: dict[str, list[bytes]] = defaultdict(list)
    for record in out.elements():
        changed_rows[_id(read(record).id)].append(record)
    for record in left:
        reading = read(record)
        candidates = changed_rows[_id(reading.id)]
        mine = repairs.get(_id(reading.id), {})
        reasons = [_difference(reading, read(candidate), mine) for candidate in candidates]
        if reading.fits is not False and None in reasons:
            candidates.pop(reasons.index(None))
            continue
        where = "is nowhere"
        if quarantined[readable(record)]:
            where = "must not be in quarantine"
            quarantined[readable(record)] -= 1
        elif candidates:
            came = candidates.pop(0)
            where = (
                "must not be out"
                if came == record
                else f"is out as {_shown(came)} ({reasons[0]}; repairs: {mine})"
            )
        problems.append(f"{_shown(record)} {where}")
    problems += [f"out, but not in: {_shown(one)}" for some in changed_rows.values() for one in some]
    problems += [f"in quarantine, but not in: {_shown(one.encode())}" for one in quarantined.elements()]
    return problems[:_PROBLEMS_MAX]


def readable(record: bytes) -> str:
    """Return a record as the quarantine has it."""
    try:
        return record.decode()
    except UnicodeDecodeError:
        return record.decode("latin-1")


def _id(value: Any) -> str:
    text = str(value)
    for type in (int, float):
        with suppress(ValueError, OverflowError):
            return str(type(text))
    return text


def _difference(before: Reading, after: Reading, repairs: dict[str, tuple[Any, Any]]) -> str | None:
    """Return how a record differs beyond its repairs; None if it does not."""
    if not after.pieces or not repairs:
        return "not a record" if repairs else "no repair"
    had = {name for name, _ in before.pieces}
    new = {name for name, _ in after.pieces if name is not None and name not in had}
    if not new <= set(repairs):
        return f"new cells {new - set(repairs)}"
    kept = [_without(before.pieces, set(repairs), set()), _without(after.pieces, set(repairs), new)]
    if kept[0] != kept[1]:
        return "other cells differ"
    old_values, new_values = dict(before.values), dict(after.values)
    for name, (old, value) in repairs.items():
        if old_values.get(name, old) != old:
            return f"the audit says that {name} was {old!r}"
        if new_values.get(name, value) != value:
            return f"the audit says that {name} becomes {value!r}"
    return None


def _without(pieces: Sequence[Piece], repaired: set[str], appended: set[str]) -> list[str]:
    """Return pieces without repaired cells, and of appended ones also the comma and the name before."""
    kept: list[str] = []
    for name, text in pieces:
        if name in appended:
            del kept[-2 if len(kept) > 2 else -1 :]
        elif name not in repaired:
            kept.append(text)
    return kept


def _shown(record: bytes) -> str:
    return repr(record if len(record) < _SHOWN else record[:_SHOWN] + b"...")
