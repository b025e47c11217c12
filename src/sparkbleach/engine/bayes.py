"""What cleans all attributes together: each tuple becomes its most probable reading."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..config import Options
from ..errors import SnapshotError
from ..kernel.bayes.clock import Horizon
from ..kernel.bayes.judge import CHANGED, FLAGGED
from ..kernel.bayes.layout import NumberedRule, find_components
from ..kernel.bayes.state import BayesState, Decided, Settings
from ..rules.active import ActiveRule, ActiveRules, Mask
from .acceptance import AcceptedColumn
from .apply import BatchColumns, find_constants
from .audit import RepairedColumn
from .encode import plain, render
from .model import NO_MODEL, Model, ModelRule, make_model
from .part import FoundConstants, GivenBatch, Part
from .quality import Tally, count_decisions, measure_rules, report_rule, report_sources
from .snapshot import UNREADABLE, SavedAttribute, check_whole
from .threads import Threads

#: the columns of a batch, by condition where it is TRUE, and the pane of each tuple
ReadBatch = tuple[BatchColumns, dict[str, Mask], NDArray[np.int64]]
#: the name that a state has in a snapshot: it is of no single attribute
EVERYTHING = ""
#: how many parts there are at the most: more than threads, so that these have an equal share of the work
PARTS = 4


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """What was decided about a batch."""

    repaired: list[RepairedColumn]
    by_rule: Counter[str]  #: how many of the changed cells each user's rule had a say in
    accepted: list[AcceptedColumn]


class BayesCleaner:
    """Cleans tuples by some rules: the live ones, or the live and the shadow ones.

    Components of rules have nothing to do with each other: they are divided into parts, which are cleaned in
    threads of their own.

    Args:
        rules: The rules of the stream, with its schema and id.
        options: How it is cleaned.
        pane: The pane of the next tuple.
        applied: Whether repairs are made; if not, shadow rules would make them.
    """

    def __init__(self, rules: ActiveRules, options: Options, pane: int, *, applied: bool) -> None:
        self.options = options
        self.applied = applied
        self.sources: list[str] = []  #: by number
        self.tallies: dict[str, Tally] = {}  #: by id of a user's rule: what it had a say in
        self._serials: dict[tuple[tuple[str, ...], str], int] = {}  # of implied rules
        self._set_rules(rules)
        self.parts = [Part(NO_MODEL, BayesState([], [], self._settings(), pane))]
        self._divide()

    def _set_rules(self, rules: ActiveRules) -> None:
        self.schema, self.id = rules.schema, rules.id
        self.active = [one for one in rules if not (self.applied and one.rule.is_shadow)]
        self.tallies = {one.id: self.tallies.get(one.id, Tally()) for one in self.active}
        options = self.options
        self.model: Model = make_model(
            self.schema, self.id, options.trust, self.active, implied=options.implied
        )

    def _settings(self) -> Settings:
        options, window = self.options, self.options.window
        n_panes = window.size // window.slide if window else 0
        horizon = n_panes if options.windowing == "basic" else options.remember_panes or 0
        return Settings(
            look_ahead=options.look_ahead,
            confidence=options.confidence,
            repair_left=options.left == "repair",
            with_sources=options.trust is not None,
            horizon=Horizon(
                n_panes=n_panes,
                n_counted=horizon if window else 0,
                pane_length=window.slide if window and window.column is None else 0,
            ),
        )

    def _numbered(self, model: Model) -> list[NumberedRule]:
        return [self._numbered_rule(model, one) for one in model.rules]

    def _numbered_rule(self, model: Model, one: ModelRule) -> NumberedRule:
        lhs = tuple(model.number_of(name) for name in one.lhs)
        rhs = model.number_of(one.rhs)
        if one.active is None:
            # Odd numbers: even ones are the user's rules.
            serial = self._serials.setdefault((one.lhs, one.rhs), 2 * len(self._serials) + 1)
            return NumberedRule(serial, lhs, rhs, is_implied=True)
        rule = one.active.rule
        return NumberedRule(
            2 * one.active.serial,
            lhs,
            rhs,
            is_certain=rule.certain,
            fills=rule.nulls == "fill",
            accept_after=rule.accept_after_or(self.options.accept_after) or 0,
        )

    def _movable(self, model: Model) -> list[bool]:
        return [name not in (self.id, self.options.trust) for name in model.attributes]

    # -------------------------------------------------------------------------------------- parts

    def change_rules(self, rules: ActiveRules) -> None:
        """Go on with other rules: those that stay keep what they have seen."""
        before, numbered = self.model.attributes, self._numbered(self.model)
        self._set_rules(rules)
        if (self.model.attributes, self._numbered(self.model)) == (before, numbered):
            for part in self.parts:
                part.model = self.model.restricted(part.model.attributes)
            return
        self._divide()
        for part in self.parts:
            part.state.refresh()

    def _divide(self) -> None:
        """Divide the components of the model among the parts; what was counted stays where it is.

        A part that has seen an attribute of a component keeps it. If several have, they become one.
        """
        claims: list[set[str]] = [set() for _ in self.parts]
        # The largest first, so that the parts come out alike.
        rules = self.model.rules
        components = find_components(self._numbered(self.model), len(self.model.attributes))
        for component in sorted(components, key=len, reverse=True):
            names = {name for r in component for name in (*rules[r].lhs, rules[r].rhs)}
            owners = [at for at, part in enumerate(self.parts) if names & {*part.model.attributes}]
            for at in reversed(owners[1:]):
                self._merge(owners[0], at)
                claims[owners[0]] |= claims.pop(at)
            if owners:
                at = owners[0]
            elif len(self.parts) < self._n_parts() and any(claims):
                first = self.parts[0].state
                self.parts.append(Part(NO_MODEL, first.beside([], [])))
                claims.append(set())
                at = len(self.parts) - 1
            else:
                at = min(range(len(self.parts)), key=lambda at: len(self.model.restricted(claims[at]).rules))
            claims[at] |= names
        for part, names in zip(self.parts, claims, strict=True):
            before, part.model = part.model, self.model.restricted(names)
            part.state = part.state.with_rules(
                self._numbered(part.model),
                self._movable(part.model),
                [
                    before.number_of(name) if name in before.attributes else -1
                    for name in part.model.attributes
                ],
            )
        self.parts = [part for part in self.parts if part.model.rules] or self.parts[:1]

    def _n_parts(self) -> int:
        # The accuracy of sources is about all rules.
        return 1 if self.options.trust is not None else PARTS

    def _merge(self, at: int, other: int) -> None:
        """Let one part take all that another one has."""
        into, gone = self.parts[at], self.parts.pop(other)
        into.state = into.state.absorb(gone.state)
        into.model = Model(
            (*into.model.attributes, *gone.model.attributes), (*into.model.rules, *gone.model.rules)
        )

    def copy(self, rules: ActiveRules, *, applied: bool) -> BayesCleaner:
        """Return a cleaner of other rules that has seen the same, but repaired nothing yet."""
        twin = BayesCleaner.__new__(BayesCleaner)
        twin.options, twin.applied = self.options, applied
        twin.sources, twin._serials = list(self.sources), dict(self._serials)
        twin.tallies = {}
        twin.schema, twin.id, twin.active, twin.model = self.schema, self.id, self.active, self.model
        twin.parts = [Part(part.model, part.state.copy()) for part in self.parts]
        twin.change_rules(rules)
        return twin

    # -------------------------------------------------------------------------------------- questions

    def violations(self) -> Iterator[tuple[ActiveRule, int]]:
        """Yield each user's rule and how many tuples have violated it."""
        for part in self.parts:
            yield from part.violations()

    def report(self) -> dict[str, Any]:
        """Return how good each user's rule is, and each source if there are sources, fit for JSON."""
        rules = {}
        for part in self.parts:
            parameters = measure_rules(part.state)
            for r, one in enumerate(part.model.rules):
                if one.active is not None:
                    rules[one.active.id] = report_rule(
                        self.tallies[one.active.id],
                        float(parameters.trust[r]),
                        float(parameters.error[part.model.number_of(one.rhs)]),
                    )
        report: dict[str, Any] = {"rule_quality": {one.id: rules[one.id] for one in self.active}}
        if self.options.trust is not None:
            report["sources"] = report_sources(self.parts[0].state, self.sources)
        return report

    # -------------------------------------------------------------------------------------- batches

    def decide(
        self, batches: Sequence[ReadBatch], position: int, version: int, threads: Threads
    ) -> list[DecidedBatch]:
        """Clean batches, the first tuple of which is at a position."""
        names = list(self.model.attributes)
        threads.map(lambda name: [columns[name] for columns, _, _ in batches], names)
        given = [
            GivenBatch(
                columns, holds, panes, self._constants(columns, holds), self._source_numbers(columns.batch)
            )
            for columns, holds, panes in batches
        ]
        # All of it before anything is counted: what fails here leaves every part as it was.
        inputs = [[part.input_of(self.schema, one) for one in given] for part in self.parts]
        # Each part in a thread; a single one uses the threads itself.
        map = threads.map if len(self.parts) == 1 and threads.n > 1 else None
        decided = threads.map(
            lambda work: work[0].decide(given, work[1], position, map),
            list(zip(self.parts, inputs, strict=True)),
        )
        by_batch = list(zip(*decided, strict=True))
        repaired = self._repaired(given, by_batch, position, version, threads)
        return [self._tallied(columns, by_part) for columns, by_part in zip(repaired, by_batch, strict=True)]

    def _tallied(self, repaired: list[RepairedColumn], decided: Sequence[Decided]) -> DecidedBatch:
        """Count what was decided about a batch, part by part."""
        tallies = count_decisions(repaired, applied=self.applied)
        for id, tally in tallies.items():
            if id in self.tallies:  # implied rules are not
                self.tallies[id].add(tally)
        by_rule = Counter({id: tally.repairs for id, tally in tallies.items() if tally.repairs})
        accepted = [
            column
            for part, one in zip(self.parts, decided, strict=True)
            for column in part.accepted(self.schema, one)
        ]
        return DecidedBatch(repaired, by_rule, accepted if self.applied else [])

    def _constants(self, columns: BatchColumns, holds: dict[str, Mask]) -> FoundConstants:
        """Return by attribute what constants say of the batch."""
        found: FoundConstants = {}
        for name in dict.fromkeys(active.rule.rhs for active in self.active):
            rules = [active for active in self.active if active.rule.rhs == name]
            if any(active.checked.has_constants for active in rules):
                state, broken, constants = find_constants(columns, name, rules, holds)
                if constants is not None:
                    found[name] = (state, broken, constants)
        return found

    def _source_numbers(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        """Return the number of each tuple's source; a null is the source without a name."""
        if self.options.trust is None:
            return np.zeros(0, np.int32)
        names = render(plain(batch.column(self.options.trust))).fill_null("").dictionary_encode()
        known = {name: number for number, name in enumerate(self.sources)}
        numbers = np.empty(len(names.dictionary), np.int32)
        # In the order of their first tuples, whatever the order of the dictionary.
        first = np.full(len(names.dictionary), len(names))
        np.minimum.at(first, names.indices.to_numpy(), np.arange(len(names)))
        texts = names.dictionary.to_pylist()
        for at in np.argsort(first, kind="stable"):
            numbers[at] = known.setdefault(texts[at], len(known))
        self.sources = list(known)
        of_tuples: NDArray[np.int32] = numbers[names.indices.to_numpy()]
        return of_tuples

    def _repaired(
        self,
        batches: Sequence[GivenBatch],
        decided: Sequence[Sequence[Decided]],
        position: int,
        version: int,
        threads: Threads,
    ) -> list[list[RepairedColumn]]:
        """Return by batch the changed cells by attribute, and apart from them those that are flagged."""
        verdicts = (CHANGED, FLAGGED) if self.applied else (CHANGED,)
        ends = np.cumsum([given.columns.batch.num_rows for given in batches])
        work = [
            (n, part, name, verdict, by_part)
            for n, of_batch in enumerate(decided)
            for part, by_part in zip(self.parts, of_batch, strict=True)
            for name in part.model.attributes
            for verdict in verdicts
        ]

        def repaired_column(
            n: int, part: Part, name: str, verdict: int, by_part: Decided
        ) -> RepairedColumn | None:
            given = batches[n]
            begin = position + int(ends[n]) - given.columns.batch.num_rows
            return part.repaired_column(
                self.schema, name, verdict, by_part, given.constants, begin, version, applied=self.applied
            )

        columns = threads.map(lambda one: repaired_column(*one), work)
        found: list[list[RepairedColumn]] = [[] for _ in batches]
        for (n, *_), column in zip(work, columns, strict=True):
            if column is not None:
                found[n].append(column)
        return found

    # -------------------------------------------------------------------------------------- snapshots

    def save(self) -> list[NDArray[Any]]:
        """Return all state as arrays."""
        known = {
            "sources": self.sources,
            "serials": [[*key, n] for key, n in self._serials.items()],
            "tallies": {id: tally.to_dict() for id, tally in self.tallies.items()},
            "parts": [part.model.attributes for part in self.parts],
        }
        text = np.frombuffer(json.dumps(known).encode(), np.uint8)
        return [text, *(array for part in self.parts for array in part.state.save())]

    def load(self, arrays: Sequence[NDArray[Any]], pane: int) -> None:
        """Put the state that `save` returned when the newest tuple was in the pane in place of this one."""
        known = json.loads(arrays[0].tobytes())
        self.sources = _names(known["sources"])
        self._serials = {(tuple(lhs), rhs): n for lhs, rhs, n in known["serials"]}
        if sorted(self._serials.values()) != [2 * n + 1 for n in range(len(self._serials))]:
            raise ValueError("serial numbers of implied rules are out of bounds")
        if known["tallies"].keys() != self.tallies.keys():
            raise ValueError("there are tallies of other rules")
        self.tallies = {id: Tally(**_counts(tally)) for id, tally in known["tallies"].items()}
        names = [_names(part) for part in known["parts"]]
        n_arrays, rest = divmod(len(arrays) - 1, len(names))
        models = [self.model.restricted(part) for part in names]
        if (
            rest
            or sorted(name for part in names for name in part) != sorted(self.model.attributes)
            or sum(len(model.rules) for model in models) != len(self.model.rules)
        ):
            raise ValueError("these are not the parts of such a state")
        self.parts = []
        for at, model in enumerate(models):
            state = BayesState(self._numbered(model), self._movable(model), self._settings(), pane)
            state.load(arrays[1 + at * n_arrays : 1 + (at + 1) * n_arrays])
            if state.sources.accuracy.size > max(1, len(self.sources)):
                raise ValueError("there are more sources than names")
            part = Part(model, state)
            part.check_values(self.schema)
            self.parts.append(part)


def _names(names: Any) -> list[str]:
    """Return a list of names of which none is there twice; ValueError if it is not one."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{names!r:.100} is not a list of names")
    if len(set(names)) < len(names):
        raise ValueError("a name is there twice")
    return names


def _counts(counts: dict[str, Any]) -> dict[str, int]:
    """Return counts by name; ValueError if one is not a count."""
    return {name: check_whole(name, n) for name, n in counts.items()}


class BayesCleaners:
    """The cleaner of the live rules, and another one with the shadow rules if there are any."""

    def __init__(self, rules: ActiveRules, options: Options) -> None:
        self._options = options
        self.live = BayesCleaner(rules, options, 0, applied=True)
        self.shadow: BayesCleaner | None = None
        self.change_rules(rules)

    def __iter__(self) -> Iterator[BayesCleaner]:
        yield self.live
        if self.shadow is not None:
            yield self.shadow

    def change_rules(self, rules: ActiveRules, promoted: str | None = None) -> None:
        """Go on with other rules, one of which may have been a shadow rule before."""
        if promoted is not None and self.shadow is not None:
            before = self.live.tallies
            self.live = self.shadow.copy(rules, applied=True)
            self.live.tallies |= before  # the promoted rule has repaired nothing yet
        else:
            self.live.change_rules(rules)
        if not any(one.rule.is_shadow for one in rules):
            self.shadow = None
        elif self.shadow is None:
            self.shadow = self.live.copy(rules, applied=False)
        else:
            self.shadow.change_rules(rules)

    def decide(
        self, batches: Sequence[ReadBatch], position: int, version: int, threads: Threads
    ) -> list[DecidedBatch]:
        """Clean batches, the first tuple of which is at a position."""
        decided = self.live.decide(batches, position, version, threads)
        if self.shadow is not None:
            shadow = {one.id for one in self.shadow.active if one.rule.is_shadow}
            would = self.shadow.decide(batches, position, version, threads)
            for one, other in zip(decided, would, strict=True):
                one.by_rule.update({id: n for id, n in other.by_rule.items() if id in shadow})
                one.repaired.extend(other.repaired)
        return decided

    def violations(self) -> dict[int, int]:
        """Return by serial number of a rule how many tuples have violated it."""
        found = {active.serial: n for active, n in self.live.violations()}
        if self.shadow is not None:
            found |= {active.serial: n for active, n in self.shadow.violations() if active.rule.is_shadow}
        return found

    def report(self) -> dict[str, Any]:
        """Return how good each user's rule is, shadow rules included, and each source; fit for JSON."""
        report = self.live.report()
        if self.shadow is not None:
            would = self.shadow.report()["rule_quality"]
            shadow = (one.id for one in self.shadow.active if one.rule.is_shadow)
            report["rule_quality"] |= {id: would[id] for id in shadow}
        return report

    def save(self, states: Iterable[list[NDArray[Any]]]) -> list[SavedAttribute]:
        """Return all cleaners with what they have saved."""
        return [
            SavedAttribute(EVERYTHING, cleaner.applied, arrays)
            for cleaner, arrays in zip(self, states, strict=True)
        ]

    def load(self, saved: Sequence[SavedAttribute], pane: int) -> None:
        """Put states in place as they were saved when the newest tuple was in the pane."""
        if [(one.name, one.applied) for one in saved] != [(EVERYTHING, one.applied) for one in self]:
            raise SnapshotError("snapshot: its states are not those of its rules; use an earlier one")
        for cleaner, one in zip(self, saved, strict=True):
            try:
                cleaner.load(one.arrays, pane)
            except UNREADABLE as error:
                which = "all attributes" if cleaner.applied else "all attributes with shadow rules"
                raise SnapshotError(f"snapshot: state of {which}: {error}; use an earlier one") from None
