"""What must be true of an attribute's state between any two tuples, checked the slow way."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from sparkbleach.kernel.attribute import Attribute
from sparkbleach.kernel.graph import Graph, find_candidate, find_root
from sparkbleach.kernel.table import NONE, Pool, Table


def check_invariants(attribute: Attribute) -> None:
    """Assert every invariant of the kernel's arrays."""
    store = attribute.store
    start = attribute.start
    cells = {x for x in range(int(store.cell_pool.state[1])) if store.cells[x]["value"] != NONE}
    groups = {
        g for g in range(int(store.groups.pool.state[1])) if store.groups.records[g]["column"] != NONE
    }
    _check_pool(store.cell_pool, store.cells, len(cells))
    _check_pool(store.groups.pool, store.groups.records, len(groups))
    assert _in_table(store.cell_table, store.cells) == cells
    assert _in_table(store.groups.table, store.groups.records) <= groups
    refs = Counter(int(store.cells[x]["value"]) for x in cells)
    assert _in_table(store.values.table, store.values.records) == set(refs)
    assert all(store.values.records[v]["refs"] == n for v, n in refs.items())

    members: dict[int, set[int]] = defaultdict(set)
    for x in cells:
        assert any(store.members[x, j]["group"] != NONE for j in range(attribute.n_columns))
        for j in range(attribute.n_columns):
            if store.members[x, j]["group"] != NONE:
                members[int(store.members[x, j]["group"])].add(x)
    assert set(members) == groups
    for g in groups:
        group = store.groups.records[g]
        listed = []
        x = group["first_cell"]
        while x != NONE:
            listed.append(int(x))
            x = store.members[x, group["column"]]["next"]
        assert len(listed) == group["n_cells"]
        assert set(listed) == members[g]

    _check_graph(attribute, attribute.current, cells, start)
    if attribute.sweeping:
        done = {x for x in cells if x < attribute.sweep_at or x >= attribute.sweep_end}
        _check_graph(attribute, attribute.upcoming, cells, attribute.start_after_slide, only=done)


def _check_graph(
    attribute: Attribute, graph: Graph, cells: set[int], start: int, only: set[int] | None = None
) -> None:
    """Assert that the graph is what the super cells say, or while it is being built, a part of it.

    Args:
        attribute: Whose graph it is.
        graph: The graph.
        cells: All super cells.
        start: The first pane of the graph's window.
        only: The super cells that must be in it by now; None for all.
    """
    store = attribute.store
    assert graph.state[3] == start
    generation = int(graph.state[0])
    counts: Counter[tuple[int, int]] = Counter()
    roots = {}
    n_links = 0
    for x in cells:
        weight = _weight(attribute, x, start)
        for slot in range(graph.links.shape[1]):
            columns = [slot] if attribute.mode.vote else range(attribute.n_columns)
            mine = []
            for j in columns:
                g = int(store.members[x, j]["group"])
                if g != NONE and store.groups.records[g]["in_graph"] == 1:
                    if store.groups.records[g]["last_pane"] >= start:
                        mine.append(g)
            linked = int(graph.links[x, slot]) >> 32 == generation
            n_links += linked
            if only is None or x in only:
                assert linked == bool(weight and mine)
            if not linked:
                continue
            candidate = find_candidate(graph, int(graph.links[x, slot]) & 0xFFFFFFFF)
            root = find_root(graph.subgraphs, mine[0])
            assert all(find_root(graph.subgraphs, g) == root for g in mine)
            assert find_root(graph.subgraphs, graph.candidates[candidate]["subgraph"]) == root
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
                listed[int(graph.candidates[c]["value"])] = int(graph.candidates[c]["count"])
            c = graph.candidates[c]["sibling"]
        assert listed == {v: n for (r, v), n in counts.items() if r == root}
        assert value in listed
        best = [int(c) for c in graph.top[root] if c != NONE]
        assert len(best) == min(5, len(listed))
        ranked = [int(graph.candidates[c]["count"]) for c in best]
        assert ranked == sorted(listed.values(), reverse=True)[:5]


def _weight(attribute: Attribute, x: int, start: int) -> int:
    store = attribute.store
    if not attribute.mode.basic:
        return int(store.cells[x]["cumulative"])
    panes = {int(store.cells[x]["pane"]): int(store.cells[x]["count"])}
    node = store.cells[x]["older"]
    while node != NONE:
        panes[int(store.panes[node]["pane"])] = int(store.panes[node]["count"])
        node = store.panes[node]["next"]
    return sum(count for pane, count in panes.items() if pane >= start)


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
