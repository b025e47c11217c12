"""Several lanes, each with a share of the work, do together what the reference does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import Engine, Rule, RuleError, RuleWarning
from sparkbleach.engine.acceptance import Acceptance
from sparkbleach.engine.audit import audit_batch, in_schema_order, replace_cells
from sparkbleach.engine.placement import Placement, Share, place
from tests.support.cases import Case, Pair, cases, count_rules
from tests.support.invariants import check_invariants
from tests.support.profiles import one_in
from tests.support.simulation import simulate


class Lanes:
    """Engines that share the work, taken for one."""

    def __init__(self, n_lanes: int, rules: list[Rule], schema: pa.Schema, **options: Any) -> None:
        placement = place(count_rules(rules), n_lanes)
        self.schema = schema
        self.lanes = [
            Engine(schema, rules, share=Share(placement, lane), **options) for lane in range(n_lanes)
        ]

    def process(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Have each lane decide on the columns that it reads; put the decisions together."""
        decided = [lane.decide(batch.select(lane.columns_read)) for lane in self.lanes]
        repaired = in_schema_order((column for part in decided for column in part), self.schema.names)
        _, audit = audit_batch(repaired, batch, None, self.lanes[0].audit_schema)
        return replace_cells(batch, repaired), audit

    def take_accepted(self) -> list[Acceptance]:
        """Return the accepted changes of all lanes in stream order."""
        found = [one for lane in self.lanes for one in lane.take_accepted()]
        names, rules = self.schema.names, [rule.id for rule in self.lanes[0].rules]
        return sorted(
            found, key=lambda one: (one.position, names.index(one.attribute), rules.index(one.rule))
        )

    def each(self, change: Callable[[Engine], None]) -> None:
        """Do the same with all lanes: all succeed, or all refuse it for the same reason."""
        refused = []
        for lane in self.lanes:
            try:
                change(lane)
            except RuleError as error:
                refused.append(str(error))
        if refused:
            assert refused == refused[:1] * len(self.lanes)
            raise RuleError(refused[0])

    def add_rule(self, rule: Rule) -> None:
        """Add a rule."""
        self.each(lambda lane: lane.add_rule(rule))

    def delete_rule(self, id: str) -> None:
        """Delete a rule."""
        self.each(lambda lane: lane.delete_rule(id))

    def promote_rule(self, id: str) -> None:
        """Promote a rule."""
        self.each(lambda lane: lane.promote_rule(id))

    def restore(self) -> None:
        """Put in place of each lane what its snapshot is restored to."""
        self.lanes = [Engine.restore(lane.snapshot()) for lane in self.lanes]

    @property
    def placement(self) -> Placement:
        """Which lane has which attributes: all lanes say the same."""
        placements = [lane.share.placement for lane in self.lanes if lane.share]
        assert placements == placements[:1] * len(self.lanes)
        return placements[0]

    def __getattr__(self, name: str) -> Any:
        """Return what all lanes say alike, or counts added up."""
        said = [getattr(lane, name) for lane in self.lanes]
        if name in ("violations", "repairs"):
            return {id: sum(counts[id] for counts in said) for id in said[0]}
        assert said == said[:1] * len(said)
        return said[0]


class LanesPair(Pair):
    """Lanes and the reference."""

    def __init__(self, case: Case, n_lanes: int) -> None:
        self.n_lanes = n_lanes
        super().__init__(case)

    def new_engine(self, **options: Any) -> Lanes:
        """Return lanes that have seen nothing."""
        return Lanes(self.n_lanes, **options)

    def restore(self) -> None:
        """Restore all lanes."""
        self.engine.restore()

    def check(self) -> None:
        """Check that a lane has a state only for what is its own."""
        placement = self.engine.placement
        for number, lane in enumerate(self.engine.lanes):
            for cleaner in lane._cleaners:
                check_invariants(cleaner.state)
                if number not in placement.lanes_of(cleaner.name):
                    assert cleaner.state.n_super_cells() == 0

    def step(self, step: Any) -> None:
        """Do the same with both, but for a second rule of an attribute that is split, which is refused."""
        if step[0] == "add":
            rule = step[1][0]
            others = [other for other in self.engine.rules if other.rhs == rule.rhs]
            if others and self.engine.placement.is_split(rule.rhs):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuleWarning)  # both may say the same thing
                    with pytest.raises(RuleError, match=f"{rule.rhs!r} is split over lanes"):
                        self.engine.add_rule(rule)
                return
        super().step(step)


@one_in(2)
@given(cases(), st.integers(1, 4))
def test_lanes_equal_reference(case: Case, n_lanes: int) -> None:
    """Every cell, every audit row and every count is the reference's, and no lane has more than its share."""
    pair = LanesPair(case, n_lanes)
    for step in case.steps:
        pair.step(step)


@pytest.mark.parametrize(("windowing", "repair"), [("bleach", "class"), ("basic", "vote")])
@one_in(10)
@given(seed=st.integers(0, 2**32), n_lanes=st.integers(2, 3))
def test_lanes_equal_reference_on_long_streams(windowing: str, repair: str, seed: int, n_lanes: int) -> None:
    """So it is while the window slides, groups merge and split, and rules come and go."""
    simulate(seed, windowing, repair, 200, lambda case: LanesPair(case, n_lanes))


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 3), max_size=8), st.integers(1, 5))
def test_attributes_are_placed(n_rules: dict[str, int], n_lanes: int) -> None:
    """Each attribute has a place, only those with one rule are split, and only if that is of use."""
    placement = place(n_rules, n_lanes)
    assert placement.attributes == set(n_rules)
    assert len(placement.lanes) == n_lanes
    assert all(n_rules[name] == 1 for name in n_rules if placement.is_split(name))
    whole = Placement(((),) * n_lanes).with_attributes(n_rules)
    assert max(placement.loads(n_rules)) <= max(whole.loads(n_rules))
    assert place(dict(reversed(n_rules.items())), n_lanes) == placement
    assert Placement.from_lists(placement.to_lists()) == placement


def test_placement_by_load() -> None:
    """Rules that share an attribute weigh more; what cannot be balanced whole is split."""
    assert str(place({"city": 2, "rate": 1, "day": 1}, 2)) == "lane 0: city; lane 1: day, rate"
    assert str(place({"city": 1}, 2)) == "lane 0: city (split); lane 1: city (split)"
    assert str(place({"city": 2}, 2)) == "lane 0: city; lane 1: nothing"
    with_day = place({"city": 2, "rate": 1}, 2).with_attributes({"city": 2, "rate": 1, "day": 1})
    assert with_day.to_lists() == [["city"], ["day", "rate"]]


def test_a_split_attribute_is_shared_by_hash() -> None:
    """Both lanes of a split attribute have some of its groups, about half of them each."""
    schema = pa.schema([("a", pa.int64()), ("v", pa.int64())])
    rule = Rule("r", "a", "v", tableau=[["_", "_"], [3, 7]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lanes = Lanes(2, [rule], schema, window=None)
    batch = pa.RecordBatch.from_pydict({"a": list(range(1_000)), "v": [1] * 1_000}, schema)
    clean, audit = lanes.process(batch)
    assert clean.column("v").to_pylist() == [7 if a == 3 else 1 for a in range(1_000)]
    assert audit.num_rows == 1
    cells = [lane.super_cells for lane in lanes.lanes]
    assert sum(cells) == 1_000
    assert min(cells) > 400
