"""Accepted changes: a cell group that holds another value to be true from a tuple on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernel.truth import Acceptances
from ..kernel.values import Values
from ..rules.active import ActiveRule
from .encode import decode, plain, render, take

#: the most accepted changes that an engine keeps for whoever asks; older ones are dropped
KEPT_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An accepted change; values are rendered as text, as in the audit.

    Attributes:
        rule: The rule whose group has changed.
        key: By LHS attribute: the value of the group.
        attribute: The RHS attribute.
        old: The value that was true.
        new: The value that is, from this tuple on.
        position: The position of the tuple that settled it.
        confirmations: The rule's threshold: the number of cells that the new value begins with.
    """

    rule: str
    key: dict[str, str | None]
    attribute: str
    old: str
    new: str
    position: int
    confirmations: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return asdict(self)

    def __str__(self) -> str:
        key = ", ".join(f"{name}={value}" for name, value in self.key.items())
        change = f"{self.attribute} {self.old} → {self.new}"
        return f"accepted: {key}, {change} after {self.confirmations} confirmations"


@dataclass(frozen=True, slots=True)
class AcceptedColumn:
    """The accepted changes of one attribute in a batch."""

    rules: list[ActiveRule]  #: the rule of each
    rows: NDArray[np.int64]  #: the tuple of each, by its place in the batch
    old: list[str]  #: the value that was true
    new: list[str]  #: the value that is
    confirmations: list[int]  #: the threshold

    def acceptances(self, batch: pa.RecordBatch, position: int) -> list[Acceptance]:
        """Return them with the keys that the batch has, which begins at the position."""
        names = {name for active in self.rules for name in active.rule.lhs}
        keys = {name: render(plain(take(batch.column(name), self.rows))).to_pylist() for name in names}
        return [
            Acceptance(
                rule=active.id,
                key={name: keys[name][n] for name in active.rule.lhs},
                attribute=active.rule.rhs,
                old=old,
                new=new,
                position=position + row,
                confirmations=confirmations,
            )
            for n, (active, row, old, new, confirmations) in enumerate(
                zip(self.rules, self.rows.tolist(), self.old, self.new, self.confirmations, strict=True)
            )
        ]


def accepted_column(
    type: pa.DataType,
    rules: Sequence[ActiveRule],
    values: Values,
    acceptances: Acceptances,
    accept_after: Sequence[int],
) -> AcceptedColumn | None:
    """Turn the kernel's accepted changes into texts; None if there are none. Rules are by kernel column."""
    n = int(acceptances.n[0])
    if not n:
        return None
    columns = acceptances.column[:n].tolist()
    return AcceptedColumn(
        rules=[rules[j] for j in columns],
        rows=acceptances.tuple[:n].astype(np.int64),
        old=_texts(values, acceptances.old[:n], type),
        new=_texts(values, acceptances.new[:n], type),
        confirmations=[int(accept_after[j]) for j in columns],
    )


def _texts(values: Values, which: NDArray[np.int32], type: pa.DataType) -> list[str]:
    texts: list[str] = render(plain(decode(values, which, type))).to_pylist()
    return texts
