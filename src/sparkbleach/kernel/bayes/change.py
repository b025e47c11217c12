"""Other rules: what those that stay have seen is carried over, and the rest is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..jit import entry, i64
from ..refs import ref
from ..table import NONE
from ..values import value_release
from .groups import cell_free, group_free
from .layout import Layout
from .store import LINK, Running, Store, Sums, new_store


@entry
def drop_rule(store: Store, r: int, n_groups: int) -> None:
    """Give back all groups of a rule; its sums are the caller's matter."""
    store = ref(store)
    for g in range(n_groups):
        if store.groups[g]["rule"] == r:
            x = i64(store.groups[g]["first_cell"])
            while x != NONE:
                following = i64(store.cells[x]["next_cell"])
                cell_free(store, x)
                x = following
            group_free(store, i64(g))


@entry
def drop_attribute(store: Store, a: int, n_values: int) -> None:
    """Forget all values of an attribute that no rule in use has."""
    store = ref(store)
    for v in range(n_values):
        if store.occurrences[v]["attribute"] == a:
            store.occurrences[v]["attribute"] = NONE
            value_release(store.values, i64(v))
    last = store.running.last[a]
    if last != NONE:
        value_release(store.values, last)
        store.running.last[a] = NONE


def renumbered(
    store: Store, before: Layout, after: Layout, rule_from: Sequence[int], attribute_from: Sequence[int]
) -> Store:
    """Return a store with other numbers for its rules and attributes; the old one must not be used any more.

    `rule_from` and `attribute_from` have by new number the old one, -1 for what is new. What has no new
    number is dropped already.
    """
    n_slots = int(np.diff(after.on_first).max(initial=1))
    n_places = after.lhs.shape[1]
    fresh = new_store(len(rule_from), len(attribute_from), n_places, n_slots)
    to_rule = _inverse(rule_from, before.rhs.size)
    to_attribute = _inverse(attribute_from, before.is_movable.size)
    for records, name, to in (
        (store.groups, "rule", to_rule),
        (store.reverses, "rule", to_rule),
        (store.occurrences, "attribute", to_attribute),
    ):
        records[name] = np.where(records[name] == NONE, NONE, to[records[name]])
    return store._replace(
        reputation=_reputation(store, before, after, rule_from, n_slots),
        left=_widened(store.left, n_places, np.full((), NONE, np.int32)),
        links=_widened(store.links, n_places, np.zeros((), LINK)),
        sums=Sums(
            *(
                _carried(old, new, rule_from if k < 5 else attribute_from, 1)
                for k, (old, new) in enumerate(zip(store.sums, fresh.sums, strict=True))
            )
        ),
        running=_running(store.running, fresh.running, rule_from, attribute_from),
    )


def _running(old: Running, new: Running, rule_from: Sequence[int], attribute_from: Sequence[int]) -> Running:
    return Running(
        settled_trust=_carried(old.settled_trust, new.settled_trust, rule_from, 0),
        trust_sum=_carried(old.trust_sum, new.trust_sum, rule_from, 0),
        trust_n=_carried(old.trust_n, new.trust_n, rule_from, 0),
        once_out=_carried(old.once_out, new.once_out, rule_from, 0),
        once_seen=_carried(old.once_seen, new.once_seen, rule_from, 0),
        wrong_like=_carried(old.wrong_like, new.wrong_like, attribute_from, 0),
        expected_like=_carried(old.expected_like, new.expected_like, attribute_from, 0),
        any_like=_carried(old.any_like, new.any_like, attribute_from, 0),
        last=_carried(old.last, new.last, attribute_from, 0),
        compared=_carried(old.compared, new.compared, rule_from, 0),
        foreign=_carried(old.foreign, new.foreign, rule_from, 0),
        explained=_carried(
            _widened(old.explained, new.explained.shape[1], np.zeros((), np.int64)),
            new.explained,
            rule_from,
            0,
        ),
        key_compared=_carried(old.key_compared, new.key_compared, attribute_from, 0),
        key_explains=_carried(old.key_explains, new.key_explains, attribute_from, 0),
        settled_error=_carried(old.settled_error, new.settled_error, attribute_from, 0),
        violations=_carried(old.violations, new.violations, rule_from, 0),
    )


def _inverse(source: Sequence[int], n_before: int) -> NDArray[np.int32]:
    to = np.full(n_before + 1, NONE, np.int32)
    for new, old in enumerate(source):
        if old >= 0:
            to[old] = new
    return to


def _carried(old: NDArray[Any], new: NDArray[Any], source: Sequence[int], axis: int) -> NDArray[Any]:
    """Return `new` with the numbers of `old` for all that has an old number."""
    for at, before in enumerate(source):
        if before >= 0:
            if axis:
                new[:, at] = old[:, before]
            else:
                new[at] = old[before]
    return new


def _widened(array: NDArray[Any], n_places: int, fill: NDArray[Any]) -> NDArray[Any]:
    """Return an array of rows with another number of places."""
    wide = np.full((array.shape[0], n_places), fill, array.dtype)
    n = min(n_places, array.shape[1])
    wide[:, :n] = array[:, :n]
    return wide


def _reputation(
    store: Store, before: Layout, after: Layout, rule_from: Sequence[int], n_slots: int
) -> NDArray[np.int32]:
    """Return the reputations by the slots that rules have now; `occurrences` has the new attributes."""
    found = np.zeros((store.reputation.shape[0], n_slots, 2), np.int32)
    for r, old in enumerate(rule_from):
        if old >= 0:
            rows = np.flatnonzero(store.occurrences["attribute"][: found.shape[0]] == after.rhs[r])
            found[rows, after.slot[r]] = store.reputation[rows, before.slot[old]]
    return found
