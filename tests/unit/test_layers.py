"""Imports run one way through the rooms of the package; what is imported for type checking counts, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
#: from the bottom: a room imports rooms below it; rooms of one layer do not know each other
LAYERS = [
    {"errors", "config", "schema_text"},
    {"kernel"},
    {"rules"},
    {"control", "engine"},
    {"paper"},
    {"spark"},
    {"kafka"},
    {"evaluate"},
    {"cli"},
    {"bench"},  # programs of evaluate/, which start sessions as commands do
]
#: every room may import it; it imports the package inside functions only
TESTING = "testing"
#: by library: the rooms that know it
KNOWN_BY = {
    "pyspark": {"spark", "kafka", "evaluate", "cli", "bench"},
    "py4j": {"spark", "kafka", "evaluate", "cli", "bench"},
    "confluent_kafka": {"kafka"},
    "typer": {"cli"},
}
#: libraries that the kernel does not know: it computes on arrays
NOT_IN_KERNEL = {"pyarrow", "duckdb", "pandas", "yaml"}


def imported(path: Path, root: Path, nodes: Iterator[ast.AST] | None = None) -> set[str]:
    """Return the full names that a module imports anywhere, also inside functions."""
    module = path.relative_to(root).with_suffix("").parts
    names: set[str] = set()
    for node in nodes or ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = module[: len(module) - node.level] if node.level else ()
            base = ".".join([*package, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def room_of(path: Path) -> str:
    """Return the room that a module of the package is in."""
    parts = path.relative_to(SOURCE / "sparkbleach").parts
    return "bench" if parts[:2] == ("evaluate", "bench") else parts[0].removesuffix(".py")


MODULES = {
    str(path.relative_to(SOURCE)): path
    for path in sorted((SOURCE / "sparkbleach").rglob("*.py"))
    if path.parent.name != "sparkbleach" or path.stem not in ("__init__", TESTING)
}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_what_is_below(module: str) -> None:
    """A module knows its own room, the rooms below, and the libraries that are for its room."""
    path = MODULES[module]
    room = room_of(path)
    layers = [number for number, rooms in enumerate(LAYERS) if room in rooms]
    assert layers, f"{room} has no layer: give it one"
    below = {TESTING, room}.union(*LAYERS[: layers[0] or 1])
    names = [name.split(".") for name in imported(path, SOURCE)]
    rooms = {parts[1] for parts in names if parts[0] == "sparkbleach" and len(parts) > 1}
    libraries = {parts[0] for parts in names}
    if room in ("evaluate", "cli", "bench"):
        rooms -= set(public_names())  # they use the package as its users do
    assert rooms <= below
    assert {library for library in libraries if room not in KNOWN_BY.get(library, {room})} == set()
    if room == "kernel":
        assert not libraries & NOT_IN_KERNEL


def public_names() -> list[str]:
    """Return the names that users import from the package itself."""
    import sparkbleach

    return sparkbleach.__all__


def test_testing_imports_nothing_at_first() -> None:
    """Every room may import `sparkbleach.testing`, so it imports no room before it is used."""
    path = SOURCE / "sparkbleach" / f"{TESTING}.py"
    top = iter(ast.parse(path.read_text()).body)
    assert not any(name.startswith("sparkbleach") for name in imported(path, SOURCE, top))


def test_only_commands_start_the_evaluation() -> None:
    """The evaluation is a user of the package: nothing below the commands needs it."""
    users = {
        room_of(path) for path in MODULES.values() if any(".evaluate." in n for n in imported(path, SOURCE))
    }
    assert users <= {"cli", "evaluate", "bench"}


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: path.stem)
def test_tests_share_by_support_only(path: Path) -> None:
    """No test module imports another one, a conftest or a benchmark: what is shared is in tests/support."""
    for name in imported(path, ROOT):
        parts = name.split(".")
        assert not (parts[0] == "tests" and any(p.startswith("test_") or p == "conftest" for p in parts)), (
            name
        )
        assert not name.startswith("sparkbleach.evaluate.bench"), name
