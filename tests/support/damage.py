"""Snapshots that are damaged but whose checksum is right again, and a process that restores them.

`python -m tests.support.damage 1000 --seed 7` restores a thousand of them, each followed by some tuples and
rule updates, in processes of their own: a crash or an endless loop ends a process, which is seen from here.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import json
import os
import random
import struct
import subprocess
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparkbleach import Engine, Rule, SnapshotError, Window
from sparkbleach.engine.snapshot import FORMAT_VERSION, MAGIC, pack
from tests.support.streams import SCHEMA, tuples

ROOT = Path(__file__).parents[2]
#: how long a damaged snapshot and the tuples after it may take before they count as an endless loop
PATIENCE_S = 60
_HEAD = struct.Struct("<8sIIQ")
_N_BEFORE, _N_AFTER = 270, 300
_STREAM = functools.cache(lambda: tuples(_N_BEFORE + _N_AFTER, 5).combine_chunks().to_batches()[0])

ZIP_CITY = "zip_city: zipcode -> city"
FILLED = [ZIP_CITY, Rule("client_city", "client", "city", nulls="fill"), "price_city: price -> city"]
MANY: list[Any] = [
    *FILLED,
    Rule("zip_rate", "zipcode", "rate", nulls="fill"),
    "client_day: client, zipcode -> day",
    Rule("day_open", "day", "open", mode="shadow"),
]
BLEACH: dict[str, Any] = {"window": Window.tuples(120, slide=30), "remember": 180}
BASIC: dict[str, Any] = {"window": Window.tuples(120, slide=30), "windowing": "basic"}
TIMED: dict[str, Any] = {"window": Window.time("at", "2 days", "1 day")}
ENDLESS: dict[str, Any] = {"window": None}

#: by name: rules and options of an engine
KINDS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "solo": ([ZIP_CITY], {"repair": "class", **ENDLESS}),
    "solo, bleach": ([ZIP_CITY], {"repair": "class", "accept_after": 2, **BLEACH}),
    "solo, basic": ([FILLED[1]], {"repair": "vote", **BASIC}),
    "solo, codes": (["zip_rate: zipcode -> rate"], {"repair": "class", **TIMED}),
    "class, bleach": (FILLED, {"repair": "class", "accept_after": 2, **BLEACH}),
    "class, endless": (MANY, {"repair": "class", **ENDLESS}),
    "class, timed": (MANY, {"repair": "class", **TIMED}),
    "vote, basic": (MANY, {"repair": "vote", "accept_after": 3, **BASIC}),
    "vote, bleach": (FILLED[:2], {"repair": "vote", **BLEACH}),
    "bayes, endless": (MANY, {**ENDLESS}),
    "bayes, bleach": (MANY, {"accept_after": 2, "look_ahead": 7, **BLEACH}),
    "bayes, basic": (FILLED, {"left": "repair", "implied": True, **BASIC}),
    "bayes, trust": (MANY, {"trust": "open", "accept_after": 2, **BLEACH}),
    "bayes, timed": (MANY[:5], {"implied": True, **TIMED}),
}


@functools.cache
def parts_of(kind: str) -> tuple[bytes, list[np.ndarray]]:
    """Return the snapshot of an engine in the middle of a pane, in parts."""
    rules, options = KINDS[kind]
    if options.get("trust") == "open":
        rules = [rule for rule in rules if getattr(rule, "rhs", "") != "open"]
    engine = Engine(SCHEMA, rules, id="id", **options)
    for first in range(0, _N_BEFORE, 45):
        engine.process(_STREAM().slice(first, 45))
    return engine.snapshot_parts()


# -------------------------------------------------------------------------------------------- damage


def damaged(header: bytes, arrays: list[np.ndarray], draw: random.Random) -> bytes:
    """Return a snapshot with some damage, and a checksum that is right."""
    arrays = [array.copy() for array in arrays]
    what = draw.choice(["field"] * 12 + ["header", "shape", "bytes", "rows"])
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        if what == "header":
            header = _spoil_header(header, draw)
        elif what != "bytes":
            {"field": _spoil_field, "shape": _spoil_shape, "rows": _swap_rows}[what](arrays, draw)
    data = pack(header, arrays)
    if what != "bytes":
        return data
    body = bytearray(data[_HEAD.size :])
    for _ in range(draw.choice([1, 1, 3])):
        body[draw.randrange(len(body))] = draw.randrange(256)
    if draw.random() < 0.2:
        del body[draw.randrange(len(body)) :]
    return _HEAD.pack(MAGIC, FORMAT_VERSION, zlib.crc32(body), len(body)) + bytes(body)


def _spoil_field(arrays: list[np.ndarray], draw: random.Random) -> None:
    """Write another number to a field of a record, or to a place of an array."""
    at = draw.choice([k for k, one in enumerate(arrays) if one.size])
    array = arrays[at]
    while array.dtype.names:
        array = array[draw.choice(array.dtype.names)]
    place = tuple(draw.randrange(n) for n in array.shape)
    old = array[place]
    if array.dtype.kind == "f":
        array[place] = draw.choice([0.0, -1.0, 1.0, 1e300, float("nan"), float("-inf"), float(old) + 0.1])
        return
    if array.dtype.kind == "b":
        array[place] = not old
        return
    span = np.iinfo(array.dtype)
    n = max(1, array.shape[0])
    other = array[tuple(draw.randrange(n) for n in array.shape)]
    wanted = draw.choice(
        [
            *(-1, -2, 0, 1, n, n - 1, n + 1, draw.randrange(2 * n), span.max, span.min, span.max // 2, 2**40),
            *(int(old) + 1, int(old) - 1, int(old) ^ 1 << draw.randrange(span.bits - 1)),
            *(int(other), int(other)),
        ]
    )
    array[place] = min(max(wanted, span.min), span.max)


def _swap_rows(arrays: list[np.ndarray], draw: random.Random) -> None:
    array = arrays[draw.choice([k for k, one in enumerate(arrays) if one.size])]
    i, j = draw.randrange(array.shape[0]), draw.randrange(array.shape[0])
    array[[i, j]] = array[[j, i]]


def _spoil_shape(arrays: list[np.ndarray], draw: random.Random) -> None:
    """Cut rows off an array, or add some, or put another array in its place."""
    at = draw.randrange(len(arrays))
    array = arrays[at]
    n = array.shape[0]
    change = draw.randrange(4)
    if change == 0:
        arrays[at] = array[: draw.randrange(n + 1)].copy()
    elif change == 1:
        arrays[at] = np.concatenate([array, array[: draw.randrange(n + 1)]])
    elif change == 2 and array.ndim > 1 and array.shape[1]:
        arrays[at] = array[:, : draw.randrange(array.shape[1])].copy()
    else:
        arrays[at] = draw.choice(
            [one for one in arrays if (one.dtype, one.ndim) == (array.dtype, array.ndim)]
        )


def _spoil_header(header: bytes, draw: random.Random) -> bytes:
    """Put another value somewhere in the JSON header, or leave one out."""
    read = json.loads(header)
    places = list(_places(read))
    holder, key = draw.choice(places)
    if draw.random() < 0.1:
        del holder[key]
    else:
        value = draw.choice(
            [None, True, -1, 0, 1, 2, 7, 10**6, 2**63, 10**30, 1.5, "", "x", "city", [], [1], {}, {"a": 1}]
            + [value[where] for value, where in places]
        )
        holder[key] = json.loads(json.dumps(value))
    return json.dumps(read).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


# -------------------------------------------------------------------------------------------- what follows


def outcome(data: bytes) -> str:
    """Restore a damaged snapshot and go on; return `refused`, or `went on`; other errors are a failure."""
    try:
        engine = Engine.restore(data)
    except SnapshotError:
        return "refused"
    go_on(engine)
    return "went on"


def go_on(engine: Engine) -> None:
    """Process more tuples, with rule updates and a restore in between."""
    if engine.schema != SCHEMA:
        return
    stream = _STREAM().slice(_N_BEFORE)
    steps: list[Callable[[], object]] = [
        lambda: engine.process(stream.slice(0, 100)),
        lambda: engine.process(stream.slice(100, 20)),
        engine.report,
        lambda: engine.add_rule("added: day, rate -> city") if "added" not in engine.violations else None,
        lambda: engine.process(stream.slice(120, 100)),
        lambda: engine.delete_rule(engine.rules[0].id) if engine.rules else None,
        lambda: engine.process(stream.slice(220, 80)),
        engine.snapshot,
    ]
    for step in steps:
        step()


def case(number: int) -> tuple[str, bytes]:
    """Return the kind of a damaged snapshot by its number, and the snapshot."""
    draw = random.Random(number)  # noqa: S311 - nothing secret
    kind = list(KINDS)[number % len(KINDS)]
    return kind, damaged(*parts_of(kind), draw)


def restore_all(numbers: range) -> Iterator[tuple[int, str]]:
    """Restore damaged snapshots in processes of their own; yield the outcome of each."""
    first = numbers.start
    while first < numbers.stop:
        worker = subprocess.Popen(  # noqa: S603 - it is this interpreter
            [sys.executable, "-m", "tests.support.damage", "--work", str(first), str(numbers.stop)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        out, errors = worker.communicate()
        for line in out.splitlines():
            _, _, found = line.partition(" ")
            yield first, found
            first += 1
        if first < numbers.stop:
            yield first, f"ended the process ({worker.returncode}): {errors[:3000]}"
            first += 1


def _work(first: int, last: int) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    faulthandler.enable()
    for number in range(first, last):
        _, data = case(number)
        faulthandler.dump_traceback_later(PATIENCE_S if number > first else 10 * PATIENCE_S, exit=True)
        try:
            found = outcome(data)
        except Exception as error:
            found = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(number, found, flush=True)  # noqa: T201 - it is read by the parent


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", action="store_true")
    given = parser.parse_args()
    if given.work:
        _work(*given.n)
        return
    counts: Counter[str] = Counter()
    for number, found in restore_all(range(given.seed, given.seed + given.n[0])):
        known = found if found in ("refused", "went on") else found.split(":")[0]
        counts[known] += 1
        if found != known or "ended" in found:
            print(number, list(KINDS)[number % len(KINDS)], found[:600], flush=True)  # noqa: T201
    print(dict(counts))  # noqa: T201


if __name__ == "__main__":
    _main()
