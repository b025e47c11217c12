"""How the kernel is compiled: once, kept on disk, and thrown away when any of its files changes."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba.core.dispatcher import Dispatcher

import sparkbleach.kernel
from sparkbleach import Engine, Rule, Window
from sparkbleach.kernel import attribute, jit
from sparkbleach.kernel.bayes import state
from sparkbleach.kernel.clean import clean_segment
from sparkbleach.kernel.hinged import build_graphs, clean_hinged
from sparkbleach.kernel.solo import clean_solo
from sparkbleach.kernel.window import sweep
from tests.support.compiled import give_machine_code

ROOT = Path(__file__).parents[3]
KERNEL = Path(jit.__file__).parent
STARTUP_SECONDS = 2.0
#: on a slow or busy machine instead: of the time that the import of other packages takes there
STARTUP_IMPORTS = 4.0
STARTUP = """
import time
began = time.process_time()
import duckdb, numba, pyarrow as pa
imported = time.process_time() - began
from sparkbleach import Engine
schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.string()), ("w", pa.string())])
engine = Engine(schema, ["a -> v", "b -> v", "a -> w"])
batch = pa.RecordBatch.from_pylist([{"a": 1, "b": "k", "v": v, "w": v} for v in "xxyx"], schema)
clean, audit = engine.process(batch)
assert audit.num_rows == 2
print(imported, time.process_time() - began)
"""

compiled_only = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0",
    reason="the JIT is off: there is nothing compiled to look at",
)


def dispatchers() -> dict[str, Any]:
    """Return every compiled function of the kernel by its full name."""
    found: dict[str, Any] = {}
    for info in pkgutil.walk_packages(sparkbleach.kernel.__path__, "sparkbleach.kernel."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__:
                found[f"{info.name}.{name}"] = value
    return found


def run_python(*arguments: str, timeout: float = 900, **variables: str) -> str:
    """Run Python in another process, from the root of the repository; return what it printed."""
    paths = [str(Path(sparkbleach.__file__).parents[1]), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}
    environment = {name: value for name, value in environment.items() if value}
    done = subprocess.run(  # noqa: S603 - it is this interpreter
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def clean_everything() -> None:
    """Run engines over all kinds of columns, rules and options, with slides, updates and a restore."""
    rng = np.random.default_rng(0)
    n = 200
    number = rng.integers(0, 4, n)
    for cells in (
        pa.array(number.astype(str), pa.string()),
        pa.array(number),
        pa.array(number / 2, mask=number == 3),
        pa.array(number.astype(str), pa.string()).cast(pa.string_view()),
        pa.array([None] * n, pa.binary()),
    ):
        schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", cells.type)])
        keys = [pa.array(rng.integers(0, 5, n)), pa.array(rng.integers(0, 5, n).astype(str), pa.string())]
        stream = pa.RecordBatch.from_arrays([*keys, cells], schema=schema)
        tableau = (
            [["_", "_"]]
            if pa.types.is_binary(cells.type)
            else [[1, cells.drop_null()[0].as_py()], ["_", "_"]]
        )
        rules = [Rule("av", "a", "v", nulls="fill", tableau=tableau), Rule("bv", "b", "v", when="a > 1")]
        for n_rules in (1, 2):
            for windowing in ("bleach", "basic"):
                for repair in ("class", "vote"):
                    for window in (None, Window(40, 10)):
                        engine = Engine(
                            schema, rules[:n_rules], window=window, windowing=windowing, repair=repair
                        )
                        engine.process(stream.slice(0, 55))
                        engine = Engine.restore(engine.snapshot())
                        engine.process(stream.slice(55, 1))
                        engine.add_rule("more: a, b -> v")
                        engine.process(stream.slice(56))
                        engine.delete_rule("av")
                        engine.process(stream)


def clean_probably() -> None:
    """Run engines that look for the most probable readings: options, slides, updates, a restore."""
    rng = np.random.default_rng(0)
    n = 400
    number = rng.integers(0, 4, n)
    names = ("s", "a", "b", "v", "w")
    for cells in (pa.array(number.astype(str), pa.string()), pa.array(number / 2, mask=number == 3)):
        wrong = [rng.integers(0, 4, n), *(np.where(rng.random(n) < 0.2, rng.integers(0, 4, n), number),) * 2]
        columns = [pa.array(one.astype(str), pa.string()) for one in wrong]
        stream = pa.RecordBatch.from_arrays([*columns, cells, pa.array(wrong[1])], names)
        rules = [Rule("av", "a", "v", nulls="fill"), Rule("bv", "b", "v", when="w > 1"), Rule("ab", "a", "b")]
        for window in (None, Window(40, 10)):
            for options in ({}, {"trust": "s", "left": "repair", "implied": True, "look_ahead": 30}):
                engine = Engine(stream.schema, rules, window=window, repair="bayes", **options)  # type: ignore[arg-type]
                engine.process(stream.slice(0, 155))
                engine = Engine.restore(engine.snapshot())
                engine.process(stream.slice(155, 1))
                engine.add_rule("more: w -> v")
                engine.process(stream.slice(156))
                engine.delete_rule("more")
                engine.delete_rule("ab")
                engine.process(stream)


class TestSignatures:
    """Each function that Python calls is compiled once."""

    @pytest.mark.no_cover  # to trace the compiler takes long, and other tests reach the same lines
    @compiled_only
    def test_one_signature_each(self) -> None:
        """Columns of every kind, any number of rules, any options: one signature, one compilation."""
        clean_everything()
        called: list[Any] = [clean_hinged, clean_solo, build_graphs]
        assert [len(function.signatures) for function in called] == [1] * len(called)
        # Python knows of none if those were not compiled, but read from the cache.
        within: list[Any] = [clean_segment, sweep]
        assert all(len(function.signatures) <= 1 for function in within)

    @pytest.mark.no_cover  # likewise
    @compiled_only
    def test_one_signature_each_for_bayes(self) -> None:
        """The same of the functions that look for the most probable reading."""
        clean_probably()
        used = {name: value for name, value in vars(state).items() if isinstance(value, Dispatcher)}
        found = {name: len(function.signatures) for name, function in used.items()}
        assert {"clean_blocks", "count_tuples", "search", "note_row", "estimate_accuracy"} <= set(found)
        assert found == dict.fromkeys(found, 1)

    @compiled_only
    def test_what_the_attribute_calls(self) -> None:
        """These two, and smaller ones, are all the compiled functions that an attribute calls."""
        used = {name for name, value in vars(attribute).items() if isinstance(value, Dispatcher)}
        assert used == {"clean_hinged", "clean_solo", "build_graphs", "recycle_values"}


class TestStart:
    """A second process does not compile."""

    @compiled_only
    def test_in_under_two_seconds(self) -> None:
        """Import, an engine and a first small batch take less than two seconds of one core once compiled."""
        run_python("-c", STARTUP)  # compiles, if nobody has before
        seconds: list[float] = []
        for _ in range(3):  # the machine may be busy
            imported, whole = map(float, run_python("-c", STARTUP).split())
            seconds.append(whole)
            if whole < max(STARTUP_SECONDS, STARTUP_IMPORTS * imported):
                return
        pytest.fail(f"it took {', '.join(f'{s:.2f}' for s in seconds)} s")


class TestCache:
    """What is kept on disk belongs to all kernel files as they are."""

    @compiled_only
    def test_every_function_has_the_stamp(self) -> None:
        """The stamp of each function's cache is that of all kernel files."""
        found = dispatchers()
        assert len(found) > 150
        assert {
            name for name, function in found.items() if not hasattr(function._cache, "_cache_file")
        } == set()
        stamps = {function._cache._cache_file._source_stamp for function in found.values()}
        assert stamps == {jit._STAMP}

    def test_any_change_changes_the_stamp(self, tmp_path: Path) -> None:
        """A changed, new or missing kernel file gives another stamp, whichever it is; a copy the same."""
        shutil.copytree(KERNEL, tmp_path, dirs_exist_ok=True)
        stamps = [jit._kernel_stamp(tmp_path)]
        assert stamps == [jit._STAMP]
        for path in sorted(tmp_path.rglob("*.py")):
            with path.open("a") as file:
                file.write("\n")
            stamps.append(jit._kernel_stamp(tmp_path))
        (tmp_path / "new.py").write_text("")
        stamps.append(jit._kernel_stamp(tmp_path))
        (tmp_path / "rank.py").unlink()
        stamps.append(jit._kernel_stamp(tmp_path))
        assert len({*stamps}) == len(stamps) > 15

    @compiled_only
    def test_another_stamp_is_not_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Numba reads what has the stamp, and nothing that has another one."""
        clean_solo_signatures()
        file = clean_solo._cache._cache_file  # type: ignore[attr-defined]
        assert file._load_index()
        monkeypatch.setattr(file, "_source_stamp", jit._STAMP[::-1])
        assert file._load_index() == {}


class TestArchive:
    """In an archive, as executors get the package, machine code is in the user's cache."""

    @pytest.mark.slow
    @compiled_only
    def test_does_not_compile_again(self, tmp_path: Path) -> None:
        """An archive at any path finds what was compiled for the same kernel."""
        run_python("-c", STARTUP)  # compiles, if nobody has before
        give_machine_code(tmp_path / "cache")
        files = set((tmp_path / "cache").rglob("*"))
        run_python("-c", STARTUP, PYTHONPATH=archive(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert set((tmp_path / "cache").rglob("*")) == files

    @compiled_only
    def test_a_cache_that_cannot_be_written(self, tmp_path: Path) -> None:
        """Without a cache the kernel is compiled, and not kept."""
        look = "from sparkbleach.kernel.hinged import clean_hinged; print(clean_hinged._cache.cache_path)"
        printed = run_python("-c", look, PYTHONPATH=archive(tmp_path), XDG_CACHE_HOME=os.devnull)
        assert printed == "None\n"


def archive(directory: Path) -> str:
    """Make an archive of the package; return its path."""
    package = Path(sparkbleach.__file__).parent
    return shutil.make_archive(str(directory / "sparkbleach"), "zip", package.parent, package.name)


def clean_solo_signatures() -> None:
    """Make sure that clean_solo was compiled, and written to disk."""
    schema = pa.schema([("a", pa.int64()), ("v", pa.int64())])
    Engine(schema, ["a -> v"], repair="class").process(pa.RecordBatch.from_pylist([{"a": 1, "v": 1}], schema))
    assert clean_solo.signatures  # type: ignore[attr-defined]


class TestInterpreted:
    """The kernel is plain Python that happens to be compiled."""

    @pytest.mark.slow
    def test_properties_hold_without_the_jit(self) -> None:
        """With the JIT off the engine equals the reference as well: compiled code does what is written.

        Nor does it write where no room was reserved.
        """
        printed = run_python(
            "-m",
            "pytest",
            "tests/property/test_equivalence.py",
            "tests/property/test_simulation.py",
            "tests/property/test_bayes.py",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "tests.support.exact_room",
            "-W",
            "ignore::RuntimeWarning",  # the hashes overflow on purpose
            NUMBA_DISABLE_JIT="1",
            HYPOTHESIS_PROFILE="interpreted",
            COV_CORE_SOURCE="",
        )
        assert " passed" in printed
        assert "failed" not in printed
