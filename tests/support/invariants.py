"""What must be true of an attribute's state between any two tuples, checked the slow way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from sparkbleach.kernel.attribute import Attribute, HingedAttribute, SoloAttribute
from sparkbleach.kernel.clock import SWEEP_AT, SWEEP_END, SWEEPING
from sparkbleach.kernel.graph import Graph
from sparkbleach.kernel.groups import DEAD
from sparkbleach.kernel.table import NONE, Pool, Table


def check_invariants(attribute: Attribute) -> None:
    """Assert every invariant of the kernel's arrays."""
    if isinstance(attribute, HingedAttribute):
        _check_hinged(attribute)
    else:
        assert isinstance(attribute, SoloAttribute)
        _check_solo(attribute)


def _check_solo(attribute: SoloAttribute) -> None:
    solo = attribute.store
    start, remembered = attribute.start, attribute.remembered
    cells = _check_tables(solo)
    members: dict[int, set[int]] = defaultdict(set)
    for x in cells:
        members[int(solo.cells[x]["group"])].add(x)
    for g, mine in members.items():
        group = solo.groups.records[g]
        assert group["column"] == 0
        assert _listed(group["first_cell"], lambda x: solo.cells[x]["next_cell"]) == mine
        assert len(mine) == group["n_cells"]
        if not group["in_graph"] or group["last_pane"] < start:
            continue
        if group["as_of"] < remembered:
            continue  # not brought up to date since the last slide
        assert all(solo.cells[x]["pane"] >= remembered or solo.cells[x]["weight"] == 0 for x in mine)
        weights = {int(solo.cells[x]["value"]): int(solo.cells[x]["weight"]) for x in mine}
        if attribute.mode.basic:
            assert weights == {int(solo.cells[x]["value"]): _window_count(solo, x, start) for x in mine}
        assert group["total"] == sum(weights.values())
        _check_top([int(solo.cells[c]["weight"]) for c in group["top"] if c != NONE], weights)


def _check_top(ranked: list[int], weights: dict[int, int]) -> None:
    assert ranked == sorted((w for w in weights.values() if w), reverse=True)[:5]


def _check_tables(store: Any) -> set[int]:
    """Assert that pools, tables and references agree; return the super cells."""
    cells = {x for x in range(int(store.cell_pool.state[1])) if store.cells[x]["value"] != NONE}
    groups = {g for g in range(int(store.groups.pool.state[1])) if store.groups.records[g]["column"] != NONE}
    _check_pool(store.cell_pool, store.cells, len(cells))
    _check_pool(store.groups.pool, store.groups.records, len(groups))
    assert _in_table(store.cell_table, store.cells) == cells
    assert _in_table(store.groups.table, store.groups.records) <= groups
    refs = Counter(int(store.cells[x]["value"]) for x in cells)
    for g in groups:
        refs.update(int(v) for v in store.groups.records[g][["held", "challenger"]].tolist() if v != NONE)
    assert _in_table(store.values.table, store.values.records) == set(refs)
    assert all(store.values.records[v]["refs"] == n for v, n in refs.items())
    return cells


def _listed(first: Any, following: Callable[[int], Any]) -> set[int]:
    found = []
    x = int(first)
    while x != NONE:
        found.append(x)
        x = int(following(x))
    assert len(found) == len(set(found))
    return set(found)


def _check_hinged(attribute: HingedAttribute) -> None:
    store = attribute.store
    start = attribute.start
    cells = _check_tables(store)
    members: dict[int, set[int]] = defaultdict(set)
    for x in cells:
        assert any(store.members[x, j]["group"] != NONE for j in range(attribute.n_columns))
        for j in range(attribute.n_columns):
            if store.members[x, j]["group"] != NONE:
                members[int(store.members[x, j]["group"])].add(x)
    for g, mine in members.items():
        group = store.groups.records[g]
        column = int(group["column"])
        assert _listed(group["first_cell"], lambda x: store.members[x, column]["next"]) == mine  # noqa: B023
        assert len(mine) == group["n_cells"]

    _check_graph(attribute, attribute.current, cells, start, attribute.remembered)
    _check_unions(attribute, cells)
    clock = attribute.clock
    if clock[SWEEPING] and not attribute.upcoming.state[7]:  # or it is put right at the slide
        done = {x for x in cells if x < clock[SWEEP_AT] or x >= clock[SWEEP_END]}
        after = DEAD if attribute.remembered == DEAD else attribute.remembered + 1
        _check_graph(attribute, attribute.upcoming, cells, start + 1, after, only=done)


def _check_graph(
    attribute: HingedAttribute,
    graph: Graph,
    cells: set[int],
    start: int,
    remembered: int,
    only: set[int] | None = None,
) -> None:
    """Assert that the graph is what the super cells say, or while it is being built, a part of it.

    Args:
        attribute: Whose graph it is.
        graph: The graph.
        cells: All super cells.
        start: The first pane of the graph's window.
        remembered: The first pane that is remembered then.
        only: The super cells that must be in it by now; None for all.
    """
    store = attribute.store
    assert (graph.state[3], graph.state[4]) == (start, remembered)
    generation = int(graph.state[0])
    counts: Counter[tuple[int, int]] = Counter()
    roots = {}
    n_links = 0
    for x in cells:
        weight = _weight(attribute, x, start, remembered)
        for slot in range(attribute.n_columns if attribute.mode.vote else 1):
            columns = [slot] if attribute.mode.vote else range(attribute.n_columns)
            mine = []
            for j in columns:
                g = int(store.members[x, j]["group"])
                group = store.groups.records[g]
                if g != NONE and group["in_graph"] == 1 and group["last_pane"] >= start:
                    mine.append(g)
            link = int(store.members[x, slot]["link"][graph.state[5]])
            linked = link >> 32 == generation
            n_links += linked
            if only is None or x in only:
                assert linked == bool(weight and mine)
            if not linked:
                continue
            candidate = _candidate(graph, link & 0xFFFFFFFF)
            root = _root(graph, mine[0])
            assert all(_root(graph, g) == root for g in mine)
            assert _root(graph, int(graph.candidates[candidate]["subgraph"])) == root
            assert graph.candidates[candidate]["value"] == store.cells[x]["value"]
            counts[root, int(store.cells[x]["value"])] += weight
            roots.update(dict.fromkeys(mine, root))
    assert n_links == graph.state[2]
    for root, value in counts:
        total = sum(n for (r, _), n in counts.items() if r == root)
        assert graph.subgraphs[root]["total"] == total
        listed = {}
        c = graph.subgraphs[root]["first"]
        while c != NONE:
            if graph.candidates[c]["forward"] == NONE:
                listed[int(graph.candidates[c]["value"])] = int(graph.candidates[c]["weight"])
            c = graph.candidates[c]["sibling"]
        assert listed == {v: n for (r, v), n in counts.items() if r == root}
        assert value in listed
        best = [int(c) for c in graph.subgraphs[root]["top"] if c != NONE]
        _check_top([int(graph.candidates[c]["weight"]) for c in best], listed)


def _check_unions(attribute: HingedAttribute, cells: set[int]) -> None:
    """Assert that each union whose groups have not grown since says what its super cells say."""
    unions, members = attribute.unions, attribute.store.members
    for u in _in_table(unions.table, unions.records):
        groups = unions.groups[u]
        own = [int(g) for g in groups if g != NONE]
        if (
            any(unions.born[g] > unions.records[u]["made"] for g in own)
            or unions.n_raises[own].sum() != unions.records[u]["n_raises"]
            or not all(attribute.store.groups.records[g]["in_graph"] for g in own)  # it was retired
        ):
            continue
        counts: Counter[int] = Counter()
        for x in cells:
            if any(g != NONE and members[x, j]["group"] == g for j, g in enumerate(groups)):
                weight = _weight(attribute, x, attribute.start, attribute.remembered)
                counts[int(attribute.store.cells[x]["value"])] += weight
        assert unions.records[u]["total"] == counts.total()
        best = [int(v) for v in unions.values[u] if v != NONE]
        assert [counts[v] for v in best] == unions.counts[u, : len(best)].tolist()
        _check_top([counts[v] for v in best], counts)


def _weight(attribute: HingedAttribute, x: int, start: int, remembered: int) -> int:
    if attribute.mode.basic:
        return _window_count(attribute.store, x, start)
    if attribute.store.cells[x]["pane"] < remembered:
        return 0
    return int(attribute.store.cells[x]["cumulative"])


def _window_count(store: Any, x: int, start: int) -> int:
    panes = {int(store.cells[x]["pane"]): int(store.cells[x]["count"])}
    node = store.cells[x]["older"]
    while node != NONE:
        panes[int(store.panes[node]["pane"])] = int(store.panes[node]["count"])
        node = store.panes[node]["next"]
    return sum(count for pane, count in panes.items() if pane >= start)


def _root(graph: Graph, g: int) -> int:
    while graph.subgraphs[g]["parent"] != g:
        g = int(graph.subgraphs[g]["parent"])
    return g


def _candidate(graph: Graph, c: int) -> int:
    while graph.candidates[c]["forward"] != NONE:
        c = int(graph.candidates[c]["forward"])
    return c


def _in_table(table: Table, records: Any) -> set[int]:
    found: list[int] = []
    for bucket in range(int(table.state[1])):
        i = table.heads[bucket]
        while i != NONE:
            found.append(int(i))
            i = records[i]["next"]
    assert len(found) == table.state[2]
    assert len(found) == len(set(found))
    return set(found)


def _check_pool(pool: Pool, records: Any, n_live: int) -> None:
    free = 0
    i = pool.state[0]
    while i != NONE:
        free += 1
        i = records[i]["next"]
    assert pool.state[2] == n_live
    assert pool.state[1] == n_live + free
