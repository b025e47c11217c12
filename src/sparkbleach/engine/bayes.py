"""What cleans all attributes together: each tuple becomes its most probable reading."""

from __future__ import annotations

import hashlib
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
from ..kernel.bayes.judge import CHANGED, FLAGGED
from ..kernel.bayes.layout import NumberedRule
from ..kernel.bayes.state import BayesState, Decided, Input, Settings, Texts
from ..kernel.clean import CONSTANT_BROKEN
from ..kernel.truth import Acceptances
from ..kernel.values import Column
from ..rules.active import ActiveRule, ActiveRules, Mask
from .acceptance import AcceptedColumn, accepted_column
from .apply import BatchColumns, Constants, find_constants, may_apply
from .audit import RepairedColumn, constant_column, joined_columns
from .encode import encode, from_codes, is_text, plain, render
from .model import Model, ModelRule, make_model
from .quality import Tally, count_decisions, measure_rules, report_rule, report_sources
from .reading import read_column
from .snapshot import SavedAttribute
from .threads import Threads

#: by attribute: what constants say of the cells of a batch
FoundConstants = dict[str, tuple[NDArray[np.uint8], Mask, Constants]]

#: the name that a state has in a snapshot: it is of no single attribute
EVERYTHING = ""


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """What was decided about a batch."""

    repaired: list[RepairedColumn]
    by_rule: Counter[str]  #: how many of the changed cells each user's rule had a say in
    accepted: list[AcceptedColumn]


class BayesCleaner:
    """Cleans tuples by some rules: the live ones, or the live and the shadow ones.

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
        self.state = BayesState(self._numbered(), self._movable(), self._settings(), pane)

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
            n_panes=n_panes,
            horizon=horizon if window else 0,
            pane_length=window.slide if window and window.column is None else 0,
        )

    def _numbered(self) -> list[NumberedRule]:
        return [self._numbered_rule(one) for one in self.model.rules]

    def _numbered_rule(self, one: ModelRule) -> NumberedRule:
        lhs = tuple(self.model.number_of(name) for name in one.lhs)
        rhs = self.model.number_of(one.rhs)
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

    def _movable(self) -> list[bool]:
        return [name not in (self.id, self.options.trust) for name in self.model.attributes]

    def change_rules(self, rules: ActiveRules) -> None:
        """Go on with other rules: those that stay keep what they have seen."""
        before = self.model
        self._set_rules(rules)
        if self._numbered() == list(self.state.rules) and self.model.attributes == before.attributes:
            return
        self.state = self.state.with_rules(
            self._numbered(),
            self._movable(),
            [before.number_of(name) if name in before.attributes else -1 for name in self.model.attributes],
        )

    def copy(self, rules: ActiveRules, *, applied: bool) -> BayesCleaner:
        """Return a cleaner of other rules that has seen the same, but repaired nothing yet."""
        twin = BayesCleaner.__new__(BayesCleaner)
        twin.options, twin.applied = self.options, applied
        twin.sources, twin._serials = list(self.sources), dict(self._serials)
        twin.tallies = {}
        twin.schema, twin.id, twin.active, twin.model = self.schema, self.id, self.active, self.model
        twin.state = self.state.copy()
        twin.change_rules(rules)
        return twin

    def violations(self) -> Iterator[tuple[ActiveRule, int]]:
        """Yield each user's rule and how many tuples have violated it."""
        for one, n in zip(self.model.rules, self.state.violations, strict=True):
            if one.active is not None:
                yield one.active, int(n)

    def report(self) -> dict[str, Any]:
        """Return how good each user's rule is, and each source if there are sources, fit for JSON."""
        parameters = measure_rules(self.state)
        rules = {
            one.active.id: report_rule(
                self.tallies[one.active.id],
                float(parameters.trust[r]),
                float(parameters.error[self.model.number_of(one.rhs)]),
            )
            for r, one in enumerate(self.model.rules)
            if one.active is not None
        }
        sources = {} if self.options.trust is None else {"sources": report_sources(self.state, self.sources)}
        return {"rule_quality": rules, **sources}

    # -------------------------------------------------------------------------------------- batches

    def decide(
        self,
        columns: BatchColumns,
        holds: dict[str, Mask],
        panes: NDArray[np.int64],
        position: int,
        version: int,
        threads: Threads,
    ) -> DecidedBatch:
        """Clean a batch whose first tuple is at a position."""
        columns.read(self.model.attributes, threads)
        constants = self._constants(columns, holds)
        given = self._input(columns, holds, panes, constants)
        decided = self.state.process(given, position, threads.map)
        violated = self._violated(decided, constants)
        repaired = self._repaired(decided, constants, violated, position, version, threads)
        tallies = count_decisions(repaired, applied=self.applied)
        for id, tally in tallies.items():
            if id in self.tallies:  # implied rules are not
                self.tallies[id].add(tally)
        by_rule = Counter({id: tally.repairs for id, tally in tallies.items() if tally.repairs})
        return DecidedBatch(repaired, by_rule, self._accepted(decided))

    def _constants(self, columns: BatchColumns, holds: dict[str, Mask]) -> FoundConstants:
        """Return by attribute what constants say of the batch."""
        found: FoundConstants = {}
        for name in dict.fromkeys(active.rule.rhs for active in self.active):
            rules = [active for active in self.active if active.rule.rhs == name]
            if any(active.checked.constant_rows for active in rules):
                state, broken, constants = find_constants(columns, name, rules, holds)
                if constants is not None:
                    found[name] = (state, broken, constants)
        return found

    def _input(
        self,
        columns: BatchColumns,
        holds: dict[str, Mask],
        panes: NDArray[np.int64],
        constants: FoundConstants,
    ) -> Input:
        n = columns.batch.num_rows
        everywhere = np.ones(n, np.bool_)
        types = [self.schema.field(name).type for name in self.model.attributes]
        return Input(
            [_seeded(columns[name], name) for name in self.model.attributes],
            [is_text(type) for type in types],
            [_texts_of(type) for type in types],
            np.array(
                [
                    everywhere if one.active is None else may_apply(columns, one.active, holds)
                    for one in self.model.rules
                ],
                np.bool_,
            ).reshape(len(self.model.rules), n),
            [self._fixed(name, constants) for name in self.model.attributes],
            self._source_numbers(columns.batch),
            panes,
        )

    def _fixed(self, name: str, constants: FoundConstants) -> Column | None:
        """Return the constants that decide the cells of an attribute, null where none does."""
        if name not in constants:
            return None
        found = constants[name][2]
        scalars = pa.concat_arrays([pa.repeat(scalar, 1) for scalar in found.scalars])
        return _seeded(encode(scalars.take(pa.array(found.winner, mask=found.winner < 0))), name)

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

    def _violated(self, decided: Decided, constants: FoundConstants) -> Mask:
        """Return by rule and tuple whether a group or a constant is violated, and count the latter."""
        violated = decided.violated
        for name, (_, broken, _) in constants.items():
            for r, mask in zip(self._on(name), broken, strict=True):
                self.state.violations[r] += int(np.count_nonzero(mask & ~violated[r]))
                violated[r] |= mask
        return violated

    def _on(self, attribute: str) -> list[int]:
        """Return the user's rules on an attribute."""
        return [
            r for r, one in enumerate(self.model.rules) if one.rhs == attribute and one.active is not None
        ]

    def _repaired(
        self,
        decided: Decided,
        constants: FoundConstants,
        violated: Mask,
        position: int,
        version: int,
        threads: Threads,
    ) -> list[RepairedColumn]:
        """Return the changed cells by attribute, and apart from them those that are flagged.

        Of what shadow rules would repair, only the cells that violate one of them.
        """
        verdicts = (CHANGED, FLAGGED) if self.applied else (CHANGED,)
        work = [(a, verdict) for a in range(len(self.model.attributes)) for verdict in verdicts]
        repaired = threads.map(
            lambda one: self._repaired_column(*one, decided, constants, violated, position, version), work
        )
        return [column for column in repaired if column is not None]

    def _repaired_column(
        self,
        a: int,
        verdict: int,
        decided: Decided,
        constants: FoundConstants,
        violated: Mask,
        position: int,
        version: int,
    ) -> RepairedColumn | None:
        """Return the cells of an attribute that were changed, or flagged; None if there are none."""
        name = self.model.attributes[a]
        cells = decided.found.cells
        is_reported: Mask = np.ones(violated.shape[1], np.bool_)
        if not self.applied:
            shadow = [r for r in self._on(name) if self._is_shadow(r)]
            is_reported = np.logical_or.reduce(violated[shadow], axis=0)
        which = np.flatnonzero((cells.attribute == a) & (cells.verdict == verdict))
        which = which[is_reported[cells.tuple[which]]]
        found = []
        if which.size:
            found.append(
                read_column(
                    self.model,
                    self.schema,
                    self.state.values,
                    name,
                    decided.found,
                    which,
                    position,
                    version,
                    applied=self.applied and verdict == CHANGED,
                )
            )
        if verdict == CHANGED and name in constants:
            state, _, given = constants[name]
            rows = np.flatnonzero((state == CONSTANT_BROKEN) & is_reported)
            if rows.size:
                found.append(self._by_constant(name, rows, given, violated, position, version))
        return joined_columns(found) if found else None

    def _is_shadow(self, r: int) -> bool:
        active = self.model.rules[r].active
        return active is not None and active.rule.is_shadow

    def _by_constant(
        self,
        name: str,
        rows: NDArray[np.int64],
        constants: Constants,
        violated: Mask,
        position: int,
        version: int,
    ) -> RepairedColumn:
        on = self._on(name)
        rules = [active for r in on if (active := self.model.rules[r].active)]
        return constant_column(
            name, rules, constants, rows, violated[on][:, rows].T, position, version, applied=self.applied
        )

    def _accepted(self, decided: Decided) -> list[AcceptedColumn]:
        """Return the changes that were accepted as a new truth, by rule."""
        accepted = decided.accepted
        found = []
        for r in np.unique(accepted.column):
            active = self.model.rules[r].active
            which = accepted.column == r
            if active is None or not self.applied:
                continue
            n = np.array([np.count_nonzero(which)], np.int64)
            of_rule = Acceptances(n, *(array[which] for array in accepted[1:]))
            type = self.schema.field(active.rule.rhs).type
            rules = [active] * (int(r) + 1)
            thresholds = [self.state.rules[r].accept_after] * (int(r) + 1)
            column = accepted_column(type, rules, self.state.values, of_rule, thresholds)
            if column is not None:
                found.append(column)
        return found

    # -------------------------------------------------------------------------------------- snapshots

    def save(self) -> list[NDArray[Any]]:
        """Return all state as arrays."""
        known = {
            "sources": self.sources,
            "serials": [[*key, n] for key, n in self._serials.items()],
            "tallies": {id: tally.to_dict() for id, tally in self.tallies.items()},
        }
        text = np.frombuffer(json.dumps(known).encode(), np.uint8)
        return [text, *self.state.save()]

    def load(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Put the state that `save` returned in place of this one."""
        known = json.loads(arrays[0].tobytes())
        self.sources = known["sources"]
        self._serials = {(tuple(lhs), rhs): n for lhs, rhs, n in known["serials"]}
        self.tallies = {id: Tally(**tally) for id, tally in known["tallies"].items()}
        state = BayesState(self._numbered(), self._movable(), self._settings())
        state.load(arrays[1:])
        self.state = state


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
        self,
        columns: BatchColumns,
        holds: dict[str, Mask],
        panes: NDArray[np.int64],
        position: int,
        version: int,
        threads: Threads,
    ) -> DecidedBatch:
        """Clean a batch whose first tuple is at a position."""
        decided = self.live.decide(columns, holds, panes, position, version, threads)
        if self.shadow is not None:
            would = self.shadow.decide(columns, holds, panes, position, version, threads)
            shadow = {one.id for one in self.shadow.active if one.rule.is_shadow}
            decided.by_rule.update({id: n for id, n in would.by_rule.items() if id in shadow})
            decided.repaired.extend(would.repaired)
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

    def load(self, saved: Iterable[SavedAttribute]) -> None:
        """Put saved states in place."""
        by_applied = {one.applied: one for one in saved}
        for cleaner in self:
            try:
                cleaner.load(by_applied[cleaner.applied].arrays)
            except (KeyError, ValueError, TypeError) as error:
                raise SnapshotError(f"snapshot: {error}; give all that snapshot_parts() returned") from None


def _seeded(column: Column, name: str) -> Column:
    """Return a column whose hashes no other attribute's values have."""
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    lo, hi = (np.uint64(int.from_bytes(part, "little")) for part in (digest[:8], digest[8:]))
    return column._replace(lo=column.lo ^ lo, hi=column.hi ^ hi)


def _texts_of(type: pa.DataType) -> Texts:
    """Return what turns the codes of values into their texts."""

    def texts(codes: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        rendered = encode(render(from_codes(np.ascontiguousarray(codes), type)).cast(pa.large_string()))
        return rendered.data, rendered.offsets

    return texts
