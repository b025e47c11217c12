"""A truth that changes: what a cell group holds to be true, and when it accepts another value.

A group holds a value, and has a challenger: another value that leads over the rest. A challenger whose lead
reaches the threshold of the rule is accepted if the held value was seen as often; the group is then retired,
and another one takes its place. Held values and challengers may be in no super cell any more, so the group
keeps them in the value dictionary itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .groups import Groups, group_new
from .jit import i64, inline, jit
from .table import NONE
from .values import Values, value_keep, value_release

#: what a cell with the held value takes from the challenger's lead
_SETBACK = 3
#: the held value is counted up to here
SEEN_MAX = 30_000


class Acceptances(NamedTuple):
    """The accepted changes of a batch, a row each."""

    n: NDArray[np.int64]  #: one number: how many rows there are
    tuple: NDArray[np.int32]  #: which tuple of the batch
    column: NDArray[np.int32]  #: which rule
    old: NDArray[np.int32]  #: the value that was held
    new: NDArray[np.int32]  #: the value that is
    group: NDArray[np.int32]  #: the group that is retired


def new_acceptances(n_rows: int) -> Acceptances:
    """Return room for some accepted changes."""
    return Acceptances(np.zeros(1, np.int64), *(np.empty(n_rows, np.int32) for _ in range(5)))


@inline
def is_accepted(groups: Groups, values: Values, g: int, value: int, accept_after: int) -> bool:
    """Let a group see the value of its next cell; return whether it is accepted as another truth with it."""
    group = groups.records[g]
    if group["held"] == value:
        if group["seen"] < SEEN_MAX:
            group["seen"] += 1
        if group["lead"] > 0:
            group["lead"] = max(group["lead"] - _SETBACK, 0)
        return False
    if group["held"] == NONE:
        value_keep(values, value)
        group["held"] = value
        group["seen"] = 1
        return False
    if group["lead"] > 0 and group["challenger"] != value:
        group["lead"] -= 1
        return False
    return _challenge(groups, values, g, value, accept_after)


@jit
def _challenge(groups: Groups, values: Values, g: int, value: int, accept_after: int) -> bool:
    """Let a value be the challenger once more, or instead of one that leads no longer."""
    group = groups.records[g]
    if group["challenger"] != value:
        value_keep(values, value)
        if group["challenger"] != NONE:
            value_release(values, i64(group["challenger"]))
        group["challenger"] = value
    group["lead"] += 1
    if group["lead"] < accept_after:
        return False
    if group["seen"] >= accept_after:
        # Two more each time that what is known has doubled, from eight times the threshold on: the longer a
        # group has held a value, the more often mere chance lets another one lead.
        needed = accept_after
        doubled = i64(group["seen"]) // (8 * accept_after)
        while doubled > 1:
            needed += 2
            doubled //= 2
        return group["lead"] >= needed
    value_release(values, i64(group["held"]))  # nothing was established: counts decide
    group["held"] = value
    group["seen"] = group["lead"]
    group["challenger"] = NONE
    group["lead"] = 0
    return False


@jit
def replace_group(
    groups: Groups, values: Values, acceptances: Acceptances, i: int, g: int, value: int, accept_after: int
) -> int:
    """Return a new group without cells that holds the value, in the place of one that the caller retires.

    Args:
        groups: The groups.
        values: The values.
        acceptances: Receives a row.
        i: The tuple.
        g: The group that has accepted the value.
        value: The value.
        accept_after: The threshold.
    """
    old = groups.records[g]
    row = acceptances.n[0]
    acceptances.n[0] = row + 1
    acceptances.tuple[row] = i
    acceptances.column[row] = old["column"]
    acceptances.old[row] = old["held"]
    acceptances.new[row] = value
    acceptances.group[row] = g
    new = group_new(groups, old["hash"], old["hash_hi"], i64(old["column"]), g)
    value_keep(values, value)
    groups.records[new]["held"] = value
    groups.records[new]["seen"] = accept_after
    return new
