"""The union-find of the violation graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach import Engine, Window
from sparkbleach.kernel.attribute import HingedAttribute
from sparkbleach.kernel.graph import Graph, find_candidate, find_root, new_graph
from sparkbleach.kernel.table import NONE, Records, grow
from tests.support.invariants import check_invariants

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a driver of kernel functions, which cannot be called from Python themselves."""
    return cast(F, numba.njit(function))


@compiled
def _find_root(subgraphs: Records, g: int) -> int:
    return find_root(subgraphs, g)


@compiled
def _find_candidate(graph: Graph, c: int) -> int:
    return find_candidate(graph, c)


def chain_of_groups(n: int) -> Records:
    """Return a tree that is one path: group 0 is the root, each other hangs on the one before."""
    subgraphs = new_graph(0).subgraphs
    grow(subgraphs, n)
    subgraphs["parent"][:n] = np.maximum(np.arange(n) - 1, 0)
    return subgraphs


def chain_of_candidates(n: int) -> Graph:
    """Return a graph in which each candidate was taken over by the one before."""
    graph = new_graph(0)
    grow(graph.candidates, n)
    graph.candidates["forward"][:n] = np.arange(n) - 1
    assert graph.candidates["forward"][0] == NONE
    return graph


def depth(subgraphs: Records, g: int) -> int:
    """Return how many steps a group is from its root."""
    steps = 0
    while subgraphs[g]["parent"] != g:
        g = int(subgraphs[g]["parent"])
        steps += 1
    return steps


def distance(graph: Graph, c: int) -> int:
    """Return how many steps a candidate is from the one that took over in the end."""
    steps = 0
    while graph.candidates[c]["forward"] != NONE:
        c = int(graph.candidates[c]["forward"])
        steps += 1
    return steps


@pytest.mark.parametrize("n", [3, 4, 5, 10, 101, 1000])
def test_find_root_halves_the_path(n: int) -> None:
    """After one call the path from the end of a long chain is half as long, and again after the next."""
    subgraphs = chain_of_groups(n)
    last = n - 1
    before = depth(subgraphs, last)
    while before > 1:
        assert int(_find_root(subgraphs, np.int64(last))) == 0  # type: ignore[arg-type]
        after = depth(subgraphs, last)
        assert after < before
        assert after <= (before + 1) // 2
        before = after
    assert subgraphs[last]["parent"] == 0


@pytest.mark.parametrize("n", [3, 4, 5, 10, 101, 1000])
def test_find_candidate_halves_the_path(n: int) -> None:
    """After one call the path of candidates that were taken over is about half as long."""
    graph = chain_of_candidates(n)
    last = n - 1
    before = distance(graph, last)
    while before > 2:
        assert int(_find_candidate(graph, np.int64(last))) == 0  # type: ignore[arg-type]
        after = distance(graph, last)
        assert after < before
        assert after <= before // 2 + 1
        before = after


def test_short_paths_stay() -> None:
    """A root is its own root, and a child of the root stays one."""
    subgraphs = chain_of_groups(2)
    for g in (0, 1):
        assert int(_find_root(subgraphs, np.int64(g))) == 0  # type: ignore[arg-type]
    assert subgraphs["parent"][:2].tolist() == [0, 0]
    graph = chain_of_candidates(2)
    for c in (0, 1):
        assert int(_find_candidate(graph, np.int64(c))) == 0  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60), st.lists(st.integers(0, 59), max_size=30))
def test_find_root_changes_no_root(parents: list[int], asked: list[int]) -> None:
    """In any forest every group keeps its root, and no path becomes longer, whoever is asked for."""
    n = len(parents)
    subgraphs = new_graph(0).subgraphs
    grow(subgraphs, n)
    for g, parent in enumerate(parents):
        subgraphs[g]["parent"] = parent % (g + 1)  # itself or an earlier one
    roots = [_plain_root(subgraphs, g) for g in range(n)]
    for which in asked:
        depths = [depth(subgraphs, g) for g in range(n)]
        g = which % n
        assert int(_find_root(subgraphs, np.int64(g))) == roots[g]  # type: ignore[arg-type]
        assert [_plain_root(subgraphs, h) for h in range(n)] == roots
        assert all(depth(subgraphs, h) <= d for h, d in enumerate(depths))


def _plain_root(subgraphs: Records, g: int) -> int:
    while subgraphs[g]["parent"] != g:
        g = int(subgraphs[g]["parent"])
    return g


def test_generations_begin_again() -> None:
    """When the generations of a graph are used up they begin again, and nothing of an old one comes back."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.int64())])
    rng = np.random.default_rng(3)
    engines = [
        Engine(schema, ["a -> v", "b -> v"], window=Window.tuples(8, slide=4), repair="class")
        for _ in range(2)
    ]
    state = engines[1]._cleaners.live["v"].state
    assert isinstance(state, HingedAttribute)
    for step in range(20):
        if step == 4:
            for graph in (state.current, state.upcoming):
                graph.state[0] = 2**31 - 3
            state._build()
        cells = rng.integers(0, 3, (3, 5))
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in cells], schema=schema)
        expected, got = (engine.process(batch) for engine in engines)
        assert got == expected
        for engine in engines:
            check_invariants(engine._cleaners.live["v"].state)
    assert all(graph.state[0] < 100 for graph in (state.current, state.upcoming))
