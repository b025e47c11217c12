"""The paper's topology does what the reference does, however many workers there are."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import ConfigError, Engine, PaperTopology, Rule, RuleError, RuleWarning, SchemaError, Window
from sparkbleach.evaluate.dirt import paper_errors
from sparkbleach.evaluate.sales import SCHEMA, SalesStream
from sparkbleach.evaluate.spoil import spoil
from sparkbleach.paper.in_process import DistributedEngine
from sparkbleach.paper.messages import Envelope
from sparkbleach.paper.stages import COORDINATOR, DETECT, LINK, REPAIR
from sparkbleach.rules.update import RuleUpdate
from tests.naive.reference import NaiveAttribute, NaiveRule
from tests.support.cases import Case, Pair, as_live, cases
from tests.support.profiles import one_in
from tests.support.sales import SALES_RULES
from tests.support.simulation import simulate

EXACT = ("basic", "dr", "hinge")
TOPOLOGIES = st.fixed_dictionaries(
    {"detect_workers": st.integers(1, 3), "repair_workers": st.sampled_from([1, 2, 3, 5])}
)


class DistributedPair(Pair):
    """A distributed engine and the reference."""

    def __init__(self, case: Case, **topology: Any) -> None:
        self.topology = PaperTopology(**{"detect_workers": 1, "repair_workers": 1, **topology})
        live = [as_live(*pair) for pair in case.rules]
        super().__init__(replace(case, rules=live, remember=None, accept_after=None))

    def more_options(self, case: Case) -> dict[str, Any]:  # noqa: ARG002
        """Return nothing: the paper's topology is by the paper's letter."""
        return {}

    def compare_accepted(self) -> None:
        """Compare nothing: no change is accepted."""

    def step(self, step: Any) -> None:
        """Do the same with both; rules that would be shadow rules are live here."""
        super().step(("add", as_live(*step[1])) if step[0] == "add" else step)

    def new_engine(self, **options: Any) -> DistributedEngine:
        """Return an engine that has seen nothing."""
        self.options = options
        return DistributedEngine(**options, topology=self.topology)

    def restore(self) -> None:
        """Replace the engine by one that is restored from its state."""
        saved = self.engine.save()
        self.engine = self.new_engine(**self.options)
        self.engine.load(*saved)

    def check(self) -> None:
        """Check what workers know against each other and against the reference."""
        check_workers(self.engine)
        if not self.engine.sequencer.deletions:  # which workers hear of with the next micro-batch
            for attribute, state in self.reference.states.items():
                check_state(self.engine, attribute, state)


def check_state(engine: DistributedEngine, attribute: str, state: NaiveAttribute) -> None:
    """Check that the workers together hold the reference's super cells, and nothing that it has dropped."""
    graphs = [worker.states[attribute] for worker in engine.workers[REPAIR] if attribute in worker.states]
    cells = [(key, cell) for graph in graphs for key, cell in graph.cells.items()]
    assert len({key for key, _ in cells}) == len(state.super_cells)
    window = sum(sum(cell.window.values()) for _, cell in cells)
    assert window == sum(cell.window_count for cell in state.super_cells.values())
    if state.windowing == "bleach":
        cumulative = sum(cell.cumulative for _, cell in cells if cell.anchor is not None)
        assert cumulative == sum(cell.cumulative or 0 for cell in state.super_cells.values())
    hinges = {groups for groups, _ in state.super_cells if len(groups) > 1}
    links = [
        worker.states[attribute] for worker in engine.workers.get(LINK, ()) if attribute in worker.states
    ]
    for graph, known in [(one.graph, one.hinges) for one in graphs] + [
        (one.graph, one.hinges) for one in links
    ]:
        assert len(graph) == len(state.graph)
        assert len(known.panes) <= len(hinges)
    held = [worker.states.get(attribute, {}) for worker in engine.workers[DETECT]]
    assert sum(map(len, held)) == len({group for groups, _ in state.super_cells for group in groups})


def subgraphs_of(graph: Any) -> dict[bytes, tuple[frozenset[bytes], dict[Any, int]]]:
    """Return the subgraph of each group: its groups and its counts."""
    return {
        key: (frozenset(one.key for one in group.subgraph.groups), group.subgraph.counts)
        for key, group in graph.graph.items()
    }


def check_workers(engine: DistributedEngine) -> None:
    """Check what must be true of repair workers between two micro-batches."""
    seen: dict[str, set[frozenset[bytes]]] = {}
    for worker in engine.workers[REPAIR]:
        for attribute, graph in worker.states.items():
            found = {groups for groups, _ in subgraphs_of(graph).values()}
            assert seen.setdefault(attribute, found) == found
            # A graph that is built anew from what was saved is the same.
            again = type(graph).load(graph.basic, graph.vote, graph.save())
            assert set(again.cells) == set(graph.cells)
            assert set(again.groups) == set(graph.groups)
            assert subgraphs_of(again) == subgraphs_of(graph)


@pytest.mark.parametrize("coordination", EXACT)
@one_in(4)
@given(cases(timed=False), TOPOLOGIES)
def test_equals_reference(coordination: str, case: Case, topology: dict[str, int]) -> None:
    """Every cell and every audit row is the reference's, after every step."""
    pair = DistributedPair(case, coordination=coordination, **topology)
    for step in case.steps:
        pair.step(step)


@pytest.mark.parametrize("coordination", EXACT)
@pytest.mark.parametrize("windowing", ["bleach", "basic"])
@one_in(12)
@given(seed=st.integers(0, 2**32), topology=TOPOLOGIES)
def test_long_streams_equal_reference(
    windowing: str, coordination: str, seed: int, topology: dict[str, int]
) -> None:
    """Every cell and every audit row of a long stream is the reference's."""
    simulate(
        seed,
        windowing,
        "class",
        200,
        lambda case: DistributedPair(case, coordination=coordination, **topology),
        timed=False,
    )


@one_in(6)
@given(cases(timed=False), st.sampled_from([*EXACT, "ir"]), TOPOLOGIES, st.integers(0, 2**32))
def test_updates_within_a_micro_batch(
    case: Case, coordination: str, topology: dict[str, int], seed: int
) -> None:
    """Rules that come and go between the tuples of a micro-batch do so as between two micro-batches."""
    if coordination == "ir":  # whose results depend on where micro-batches begin
        topology = {**topology, "repair_workers": 1}
    rng = random.Random(seed)  # noqa: S311 - a simulation
    pair = DistributedPair(case, coordination=coordination, **topology)
    position = 0
    rows: list[dict[str, Any]] = []
    updates: list[RuleUpdate] = []
    audits: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random rules may say the same thing
        whole = pair.new_engine(**pair.options)
        for step in case.steps:
            match step:
                case ("tuples", batch):
                    rows += batch
                    position += len(batch)
                    audits += pair.engine.process(pa.RecordBatch.from_pylist(batch, case.schema))[
                        1
                    ].to_pylist()
                case ("add", pair_of_rules):
                    rule, _ = as_live(*pair_of_rules)
                    updates.append(RuleUpdate(position, rule=rule))
                    pair.engine.add_rule(rule)
                case ("delete", which) if pair.engine.rules:
                    id = pair.engine.rules[which % len(pair.engine.rules)].id
                    updates.append(RuleUpdate(position, delete=id))
                    pair.engine.delete_rule(id)
            if rng.random() < 0.3:
                _, audit = whole.process(pa.RecordBatch.from_pylist(rows, case.schema), updates)
                assert audit.to_pylist() == audits
                rows, updates, audits = [], [], []
        _, audit = whole.process(pa.RecordBatch.from_pylist(rows, case.schema), updates)
    assert audit.to_pylist() == audits
    assert whole.violations == pair.engine.violations
    assert whole.version == pair.engine.version


class LatePair(DistributedPair):
    """RW-ir and, instead of the reference, RW-dr: they may differ where a link comes a micro-batch late."""

    def __init__(self, case: Case, batch_tuples: int | None, **topology: Any) -> None:
        super().__init__(case, coordination="ir", **topology)
        self.batch_tuples = batch_tuples
        self.exact = DistributedPair(case, coordination="dr", **topology)
        self.links: list[tuple[str, int]] = []
        self.differences = 0
        (watched,) = self.exact.engine.workers[COORDINATOR]

        def process(envelopes: Iterable[Envelope]) -> list[Envelope]:
            envelopes = list(envelopes)
            for message in envelopes:
                self.links += [(message.attribute, n) for n in message.batch.column("position").to_pylist()]
            return list(type(watched).process(watched, envelopes))

        watched.process = process

    def step(self, step: Any) -> None:
        """Do the same with both; leave out restoring, which other tests do."""
        if step[0] != "restore":
            super().step(step)

    def tuples(self, batch: list[dict[str, Any]]) -> None:
        """Clean a batch with both and compare."""
        size = self.batch_tuples or max(1, len(batch))
        for first in range(0, len(batch), size):
            self.compare(batch[first : first + size])

    def compare(self, batch: list[dict[str, Any]]) -> None:
        """Check that each difference comes from a link that was found in this micro-batch."""
        schema = self.case.schema
        self.links.clear()
        _, late = self.engine.process(pa.RecordBatch.from_pylist(batch, schema))
        _, exact = self.exact.engine.process(pa.RecordBatch.from_pylist(batch, schema))
        for t in batch:
            self.reference.process(t)
        found = [{(row["attribute"], row["position"]): row for row in a.to_pylist()} for a in (late, exact)]
        for attribute, position in found[0].keys() | found[1].keys():
            if found[0].get((attribute, position)) != found[1].get((attribute, position)):
                self.differences += 1
                assert any(linked == attribute and n <= position for linked, n in self.links)
        # What came late has come: from here on both know the same.
        for one, other in zip(self.engine.workers[REPAIR], self.exact.engine.workers[REPAIR], strict=True):
            for attribute, graph in one.states.items():
                assert subgraphs_of(graph) == subgraphs_of(other.states[attribute])

    def check(self) -> None:
        """Keep the exact engine's rules the same."""
        super().check()
        rules = {rule.id: rule for rule in self.engine.rules}
        for rule in self.exact.engine.rules:
            if rule.id not in rules:
                self.exact.engine.delete_rule(rule.id)
        known = {rule.id for rule in self.exact.engine.rules}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for id, rule in rules.items():
                if id not in known:
                    self.exact.engine.add_rule(rule)


@one_in(12)
@given(cases(timed=False), TOPOLOGIES)
def test_ir_with_one_worker_equals_reference(case: Case, topology: dict[str, int]) -> None:
    """RW-ir is exact when there is no other worker to hear from."""
    pair = DistributedPair(case, coordination="ir", **{**topology, "repair_workers": 1})
    for step in case.steps:
        pair.step(step)


@pytest.mark.parametrize(("batch_tuples", "n_tuples"), [(1, 50), (None, 150)])
@pytest.mark.parametrize("windowing", ["bleach", "basic"])
@one_in(30)
@given(seed=st.integers(0, 2**32), workers=st.integers(2, 5))
def test_ir_differs_only_by_links_of_the_same_micro_batch(
    windowing: str, batch_tuples: int | None, n_tuples: int, seed: int, workers: int
) -> None:
    """A repair of RW-ir differs only if a link was found since its micro-batch began.

    With micro-batches of one tuple: only if it is that tuple which lets a group enter the graph, and the old
    cell that links the group is held by another worker. After each micro-batch both know the same subgraphs.
    """
    simulate(
        seed,
        windowing,
        "class",
        n_tuples,
        lambda case: LatePair(case, batch_tuples, repair_workers=workers),
        timed=False,
    )


def by_hand(windowing: str, window: tuple[int, int] | None, fill: bool) -> Case:
    """Return a case with the rules k -> v, g -> v and h -> v."""
    types = {"k": pa.int64(), "g": pa.int64(), "h": pa.int64(), "v": pa.string()}
    rules = [
        (Rule(x, x, "v", nulls="fill" if fill else "ignore"), NaiveRule(x, (x,), "v", fill=fill))
        for x in ("k", "g", "h")
    ]
    return Case(types, rules, window, windowing, "class", [])


def tuples_by_hand(*rows: tuple[int | None, int | None, int | None, str | None]) -> list[dict[str, Any]]:
    """Return tuples."""
    return [{"n": None, "k": k, "g": g, "h": h, "v": v} for k, g, h, v in rows]


@pytest.mark.parametrize("coordination", EXACT)
@pytest.mark.parametrize("windowing", ["bleach", "basic"])
def test_a_null_lets_two_groups_enter_but_links_nothing(coordination: str, windowing: str) -> None:
    """Groups that enter with a null cell are linked by an old cell only, wherever that is held."""
    pair = DistributedPair(
        by_hand(windowing, None, fill=True), coordination=coordination, repair_workers=2, detect_workers=2
    )
    pair.step(("tuples", tuples_by_hand((1, 1, None, "x"), (None, 1, None, "x"), (1, 1, None, None))))
    pair.step(("tuples", tuples_by_hand((1, None, None, "y"))))
    pair = DistributedPair(
        by_hand(windowing, None, fill=True), coordination=coordination, repair_workers=2, detect_workers=2
    )
    pair.step(("tuples", tuples_by_hand((1, None, None, "x"), (None, 1, None, "x"), (1, 1, None, None))))
    pair.step(("tuples", tuples_by_hand((1, None, None, "y"), (None, 1, None, "x"), (1, None, None, "x"))))
    pair.step(("tuples", tuples_by_hand((1, None, None, "y"))))


@pytest.mark.parametrize("coordination", EXACT)
@pytest.mark.parametrize("repair_workers", [1, 2, 3])
def test_a_cell_that_left_window_and_graph_links_nothing(coordination: str, repair_workers: int) -> None:
    """A hinge whose cells are in neither is forgotten, though two of its groups live on and enter later."""
    pair = DistributedPair(
        by_hand("bleach", (8, 4), fill=False), coordination=coordination, repair_workers=repair_workers
    )
    idle = (None, None, None, "x")
    pair.step(("tuples", tuples_by_hand((1, 1, 1, "x"), (1, None, None, "y"), idle, idle)))
    pair.step(("tuples", tuples_by_hand(*[(None, 1, None, "x"), (None, None, 1, "x")] * 2)))
    pair.step(("tuples", tuples_by_hand((None, 1, None, "z"), (None, None, 1, "z"))))


@pytest.mark.parametrize("coordination", [*EXACT, "ir"])
def test_ir_hears_of_a_link_one_micro_batch_late(coordination: str) -> None:
    """The tuple that lets a group enter is repaired without another worker's link; the next one with it."""
    case = by_hand("bleach", None, fill=False)
    engine = DistributedEngine(
        case.schema, [rule for rule, _ in case.rules], window=None, topology=PaperTopology(1, 2, coordination)
    )
    before = tuples_by_hand((1, 1, None, "x"), (1, None, None, "y"), (1, None, None, "y"))
    engine.process(pa.RecordBatch.from_pylist(before, case.schema))
    found = []
    for value in ("z", "w"):
        batch = pa.RecordBatch.from_pylist(tuples_by_hand((None, 1, None, value)), case.schema)
        _, audit = engine.process(batch)
        found.append([{c["value"]: c["count"] for c in row["candidates"]} for row in audit.to_pylist()])
    exact = [{"y": 2, "x": 1, "z": 1}]
    late: list[dict[str, int]] = []  # x, y and z with one cell each: a tie, which keeps z
    assert found == [late if coordination == "ir" else exact, [{"y": 2, "w": 1, "x": 1, "z": 1}]]
    check_workers(engine)


@pytest.mark.parametrize("coordination", EXACT)
def test_equals_the_engine_on_a_stream_like_the_papers(coordination: str) -> None:
    """Eight rules, two of them added and one deleted on the way, over several windows: the same audit."""
    rules = {rule.id: rule for rule in SALES_RULES}
    first = [rule for id, rule in rules.items() if id not in ("r6", "r7")]
    window = Window.tuples(1_000, slide=500)
    engine = Engine(SCHEMA, first, id="id", window=window, repair="class", accept_after=None, remember=None)
    distributed = DistributedEngine(
        SCHEMA, first, id="id", window=window, topology=PaperTopology(2, 3, coordination)
    )
    sales = pa.Table.from_batches([SalesStream(3).batch(4_000)])
    dirty = spoil(sales, paper_errors(SALES_RULES, 0.1), seed=3).dirty.combine_chunks()
    for number, batch in enumerate(dirty.to_batches(max_chunksize=800)):
        for one in (engine, distributed):
            if number == 2:
                one.delete_rule("r5")
            if number == 3:
                one.add_rule(rules["r6"])
                one.add_rule(rules["r7"])
        assert distributed.process(batch) == engine.process(batch)
    assert distributed.violations == engine.violations
    check_workers(distributed)


def test_a_rule_whose_condition_needs_too_much_is_withdrawn() -> None:
    """It is deleted before the tuples for which it needs too much, as in an engine whose rule is deleted."""
    case = by_hand("bleach", None, fill=False)
    rules = [rule for rule, _ in case.rules]
    poison = replace(rules[0], when="length(repeat('x', CASE v WHEN 'x' THEN 2000000000 ELSE 1 END)) > 0")
    distributed = DistributedEngine(case.schema, [poison, *rules[1:]], topology=PaperTopology(2, 2))
    engine = Engine(case.schema, rules, repair="class", accept_after=None)
    for value in "yx":
        rows = tuples_by_hand(*[(1, 1, 1, value)] * 3, (1, 1, 1, "z"))
        batch = pa.RecordBatch.from_pylist(rows, case.schema)
        if value == "x":
            engine.delete_rule(poison.id)
            with pytest.warns(RuleWarning, match=f"withdrawn: rule {poison.id!r}, from position 4 on"):
                found = distributed.process(batch)
        else:
            found = distributed.process(batch)
        assert found == engine.process(batch)
    assert (distributed.rules, distributed.version) == (tuple(rules[1:]), 2)


def test_what_is_refused_changes_nothing() -> None:
    """A batch of another schema, and a batch with a refused update, leave the engine as it was."""
    case = by_hand("bleach", (4, 2), fill=False)
    engine = DistributedEngine(case.schema, [rule for rule, _ in case.rules], window=Window(4, 2))
    batch = pa.RecordBatch.from_pylist(tuples_by_hand((1, 1, 1, "x"), (1, 1, 1, "y")), case.schema)
    engine.process(batch)
    before = engine.save()
    with pytest.raises(SchemaError, match="batch at position 2"):
        engine.process(batch.drop_columns("k"))
    gone, unknown = RuleUpdate(2, delete="k"), RuleUpdate(3, delete="no such rule")
    with pytest.raises(RuleError, match="no active rule has this id"):
        engine.process(batch, [gone, unknown])
    with pytest.raises(RuleError, match="rule update at 2: the tuples from 3 to 4 are being read"):
        engine.process(batch, [RuleUpdate(3, delete="k"), RuleUpdate(2, delete="g")])
    with pytest.raises(RuleError, match="rule 's', mode: shadow rules are not supported here"):
        engine.add_rule(Rule("s", "g", "v", mode="shadow"))
    with pytest.raises(RuleError, match="rule 'g': cannot be promoted, it is live already"):
        engine.process(batch, [RuleUpdate(3, delete="k"), RuleUpdate(3, promote="g")])
    assert engine.save() == before
    with pytest.raises(ConfigError, match="repair_workers: 0 must be a positive integer"):
        PaperTopology(repair_workers=0)
    with pytest.raises(ConfigError, match="coordination: 'rw' is unknown; choose one of hinge, basic"):
        PaperTopology(coordination="rw")


def test_only_the_best_candidates_travel_if_asked() -> None:
    """With `top`, each worker proposes its best candidates; totals stay exact."""
    case = by_hand("bleach", None, fill=False)
    engine = DistributedEngine(
        case.schema, [rule for rule, _ in case.rules], window=None, topology=PaperTopology(top=1)
    )
    values = ["x", "x", "x", "x", "y", "z", "z"]
    batch = pa.RecordBatch.from_pylist(tuples_by_hand(*((1, None, None, v) for v in values)), case.schema)
    _, audit = engine.process(batch)
    last = audit.to_pylist()[-1]
    assert (last["new_value"], last["confidence"]) == ("x", 4 / 7)
    assert last["candidates"] == [{"value": "x", "count": 4}]


@pytest.mark.parametrize(
    ("coordination", "received", "sent"), [("basic", 6, 6), ("dr", 1, 2), ("ir", 1, 2), ("hinge", 0, 0)]
)
def test_coordination_messages(coordination: str, received: int, sent: int) -> None:
    """RW-basic asks for each violating cell, RW-dr and RW-ir where an old cell links, RW-hinge never."""
    pair = DistributedPair(
        by_hand("bleach", None, fill=False), coordination=coordination, repair_workers=2, detect_workers=2
    )
    engine = pair.engine
    batch = tuples_by_hand(
        (1, 1, None, "x"),
        (1, None, None, "y"),  # k enters; nothing else is in the graph
        (1, 1, None, "x"),  # violates k only
        (None, 1, None, "y"),  # g enters with an old cell that is in the graph through k
    )
    engine.process(pa.RecordBatch.from_pylist(batch, pair.case.schema))
    assert engine.coordination_messages == received + sent
    for coordinator in engine.workers.get(COORDINATOR, ()):
        assert (coordinator.received, coordinator.sent) == (received, sent)
