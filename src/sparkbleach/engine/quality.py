"""How good rules and sources are, with `repair: bayes`: what repairs say of rules, and the kernel of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernel.bayes.evidence import Parameters
from ..kernel.bayes.parameters import prepare, refresh
from ..kernel.bayes.state import BayesState
from ..kernel.bayes.votes import count_votes, find_copies
from .audit import RepairedColumn
from .encode import plain

#: a repair with a smaller confidence is doubtful
DOUBTFUL = 0.8
#: how many sources, and how many pairs of copies, a report names
SOURCES_SHOWN = 20
# Whole numbers: their sum does not depend on where batches end.
_UNIT = 1_000_000
_PLACES = 4


@dataclass(slots=True)
class Tally:
    """What a rule had a say in."""

    repairs: int = 0  #: cells that were changed
    flags: int = 0  #: cells that were flagged
    confidence: int = 0  #: of the repairs together, in millionths
    doubtful: int = 0  #: repairs with a confidence below 0.8

    def add(self, other: Tally) -> None:
        """Add what another tally has."""
        self.repairs += other.repairs
        self.flags += other.flags
        self.confidence += other.confidence
        self.doubtful += other.doubtful

    def to_dict(self) -> dict[str, int]:
        """Return it as JSON values."""
        return asdict(self)


def count_decisions(columns: Iterable[RepairedColumn], *, applied: bool) -> dict[str, Tally]:
    """Return by rule what it had a say in; repairs are those that are applied or not, as given."""
    tallies: dict[str, Tally] = {}
    for column in columns:
        lists = plain(column.why.column("rules"))
        ids = lists.flatten().dictionary_encode()
        which = ids.indices.to_numpy()
        names = ids.dictionary.to_pylist()
        counts = np.bincount(which, minlength=len(names))
        if column.applied != applied:
            for name, n in zip(names, counts, strict=True):
                tallies.setdefault(name, Tally()).add(Tally(flags=int(n)))
            continue
        confidence = np.repeat(column.why.column("confidence").to_numpy(), _lengths(lists))
        sums = np.zeros(len(names), np.int64)
        np.add.at(sums, which, np.rint(confidence * _UNIT).astype(np.int64))
        doubtful = np.bincount(which[confidence < DOUBTFUL], minlength=len(names))
        for name, n, sum, doubts in zip(names, counts, sums, doubtful, strict=True):
            tallies.setdefault(name, Tally()).add(Tally(int(n), 0, int(sum), int(doubts)))
    return tallies


def _lengths(lists: pa.Array) -> NDArray[np.int32]:
    lengths: NDArray[np.int32] = lists.value_lengths().to_numpy()
    return lengths


def measure_rules(state: BayesState) -> Parameters:
    """Return the parameters of a state by the counts of now; the state keeps those it decides by."""
    parameters = Parameters._make(array.copy() for array in state.parameters)
    refresh(state.store, state.layout, parameters, state.settings.with_sources)
    prepare(state.store, state.layout, parameters, state.settings.with_sources)
    return parameters


def report_rule(tally: Tally, trust: float, error_rate: float) -> dict[str, Any]:
    """Return the report on a rule; without repairs there is no confidence."""
    n = tally.repairs
    return {
        "trust": round(trust, _PLACES),
        "error_rate": round(error_rate, _PLACES),
        "repairs": n,
        "flags": tally.flags,
        "confidence": round(tally.confidence / n / _UNIT, _PLACES) if n else None,
        "doubtful": round(tally.doubtful / n, _PLACES) if n else None,
    }


def report_sources(state: BayesState, names: list[str]) -> dict[str, Any]:
    """Return the report on sources: the accuracy of those with most votes, and who copies whom."""
    accuracy = state.sources.accuracy
    votes = count_votes(state.store, len(names))
    copies = find_copies(state.sources)
    shown = np.argsort(-votes, kind="stable")[:SOURCES_SHOWN]
    return {
        "n_sources": len(names),
        "accuracy": {names[s]: round(float(accuracy[s]), _PLACES) for s in shown},
        "n_copies": len(copies),
        "copies": [[names[a], names[b]] for a, b in copies[:SOURCES_SHOWN]],
    }
