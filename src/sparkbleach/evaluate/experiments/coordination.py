"""Coordination: how many messages repair workers need to know the same subgraphs, and the latency."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from ...config import Window
from ...paper.in_process import DistributedEngine
from ...paper.link_worker import LinkWorker
from ...paper.stages import EGRESS_ROUTER, LINK, REPAIR
from ...paper.topology import PaperTopology
from ..dirt import paper_errors
from ..engine_run import run_engine
from ..laboratory import DIRT, PAPER_MS, Laboratory
from ..measures import differ
from ..ratios import percent
from ..result import Claim, Figure, Mark, Panel, Result, Series
from ..sales import SIX_RULES
from ..spark_run import Arrival, SteadyRun
from ..spoil import spoil
from ..streams import write_steady
from ..topologies import WORKERS, clean_arriving, paper_way
from ..watch import describe_others

_PAPER_SHARE = 0.07
_PAPER_DR = "dr (paper)"
_MECHANISMS = ("basic", _PAPER_DR, "dr", "ir", "hinge")
_EXACT = ("basic", _PAPER_DR, "dr", "hinge")
_WORKERS = (1, 2, 3, 5)
#: the number of repair workers where mechanisms are compared
_COMPARED = 3
_MICRO_BATCHES = 10
#: the mechanisms that are timed on Spark
_TIMED = ("basic", "dr", "ir", "hinge")


class PaperLinkWorker(LinkWorker):
    """RW-dr exactly as in the paper: asks even where the tuple's own cell makes the same link."""

    def must_propose(self, linked: set[bytes], links_itself: frozenset[bytes]) -> bool:  # noqa: ARG002
        """Return whether an old cell is in the graph through another rule."""
        return len(linked) > 1


def run(lab: Laboratory) -> Result:
    """Clean a stream with the paper's workers, with each mechanism and several numbers of workers."""
    n = lab.profile.coordination_tuples
    window = Window.tuples(n // 4 * 2, slide=n // 4)
    dirty = spoil(lab.truth.slice(0, n), paper_errors(SIX_RULES, DIRT), lab.seed).dirty
    exact = run_engine(dirty, SIX_RULES, window).cleaned
    rows = []
    with lab.progress("cleaning", n * len(_MECHANISMS) * len(_WORKERS)) as advance:
        for workers in _WORKERS:
            for mechanism in _MECHANISMS:
                rows.append(_counted(dirty, window, mechanism, workers, exact))
                advance(n)
    basic = {row["repair_workers"]: row["messages"] for row in rows if row["mechanism"] == "basic"}
    for row in rows:
        row["of_basic"] = row["messages"] / basic[row["repair_workers"]]
    compared = {row["mechanism"]: row for row in rows if row["repair_workers"] == _COMPARED}
    timed = _timed(lab, dirty, window)
    latencies = [_latency(mechanism, done) for mechanism, done in timed.items()]
    profile = lab.profile
    claims = [*_claims(compared, rows), _latency_claim(latencies, profile.coordination_rate)]
    return Result(
        title="Coordination of repair workers",
        question=(
            "A violation graph that is too large for one machine is spread over repair workers. Rules with "
            "the same right-hand side tie groups together, and all workers must know that at each tuple. "
            "How many messages does that take, and what does it add to the latency of a tuple?"
        ),
        method=(
            f"{n:,} tuples of {lab.stream_name}; rules r0 to r5 (r4 and r5 intersect), 10 % dirt, windows of "
            f"{window.size:,} tuples that slide by {window.slide:,}; {_COMPARED} repair workers unless "
            "others are named. All workers run in this process and share nothing but messages. A message is "
            "a proposal of one worker to the coordinator or a decision to one worker, about one cell; a "
            "single worker is counted as if it had to ask, too. basic asks for each violating cell; dr "
            "(paper) where a group enters the graph with an old cell that is in it through another rule; dr "
            "leaves out links that all workers know from the tuple's own cell; ir sends what dr sends, but "
            "goes on without waiting; hinge has no coordinator: detect workers send links with violations. "
            f"Latencies: the same tuples on Spark ({lab.spark().sparkContext.master}), over and over at "
            f"{profile.coordination_rate:,} tuples/s after a backlog of {window.slide:,}; {WORKERS} detect "
            f"and {WORKERS} repair workers; {profile.coordination_warm_up} micro-batches of warm-up each. "
            f"{describe_others([one for done in timed.values() for one in done.usage])}"
        ),
        claims=claims,
        figures=[_figure(compared, rows), _latency_figure(timed)],
        tables={"mechanisms": rows, "latency": latencies},
    )


def _timed(lab: Laboratory, dirty: pa.Table, window: Window) -> dict[str, SteadyRun]:
    """Clean tuples on Spark as they arrive, with each mechanism."""
    profile = lab.profile
    arrival = Arrival(
        rate=profile.coordination_rate,
        backlog=window.slide,
        warm_up=profile.coordination_warm_up,
        n_batches=profile.coordination_batches,
    )
    here = lab.directory()
    path = here / "stream.arrow"
    write_steady(dirty, path)
    timed = {}
    for mechanism in _TIMED:
        with lab.progress(f"cleaning on Spark, as tuples arrive: {mechanism}", None) as advance:
            timed[mechanism] = clean_arriving(
                lab.spark(), paper_way(mechanism), path, window, arrival, here / mechanism, advance
            )
    return timed


def _latency(mechanism: str, done: SteadyRun) -> dict[str, Any]:
    """Return the latency of a mechanism on Spark, and its messages since the stream began."""
    report = done.measured[-1].report or {}
    return {
        "mechanism": mechanism,
        "paper_ms": PAPER_MS.get(mechanism),
        "mean_ms": float(done.all_ms.mean()),
        "median_ms": float(np.median(done.all_ms)),
        "micro_batch_ms": done.mean_batch_ms,
        "micro_batches": len(done.measured),
        "tuples": report["position"],
        "messages": report["coordination_messages"],
    }


def _latency_claim(latencies: list[dict[str, Any]], rate: int) -> Claim:
    ms = {row["mechanism"]: row["mean_ms"] for row in latencies}
    by_mechanism = ", ".join(f"{name} {found:,.0f} ms" for name, found in ms.items())
    return Claim(
        "paper",
        "dr has a lower mean latency than basic: 323 ms for 364 (ir: 316)",
        f"{by_mechanism}, at {rate:,} tuples/s on Spark",
        ms["dr"] < ms["basic"],
    )


def _latency_figure(timed: dict[str, SteadyRun]) -> Figure:
    paper = [PAPER_MS.get(name, np.nan) for name in timed]
    mean = [float(done.all_ms.mean()) for done in timed.values()]
    bars = [
        Series("paper, 18 machines", list(timed), paper, "bars"),
        Series("on Spark, here", list(timed), mean, "bars"),
    ]
    lines = [Series(name, np.arange(1, len(done.measured) + 1), done.mean_ms) for name, done in timed.items()]
    return Figure(
        "coordination-latency",
        "The mean latency of each mechanism on Spark beside that of the paper, which had 18 machines and no "
        "hinge; and how far micro-batches differ from each other.",
        [
            Panel(f"Latency, {WORKERS} repair workers", "mechanism", "mean latency (ms)", bars),
            Panel("Latency over time", "micro-batch", "mean latency of a micro-batch (ms)", lines),
        ],
    )


def _counted(
    dirty: pa.Table, window: Window, mechanism: str, workers: int, exact: pa.Table
) -> dict[str, Any]:
    """Clean a stream; return messages, costs, and how many cells differ from those of one engine."""
    engine = DistributedEngine(
        dirty.schema,
        SIX_RULES,
        id="id",
        window=window,
        topology=PaperTopology(1, workers, "dr" if mechanism == _PAPER_DR else mechanism),
    )
    if mechanism == _PAPER_DR:
        engine.workers[LINK] = [PaperLinkWorker(window, "bleach", always=False) for _ in range(workers)]
    n = dirty.num_rows
    seconds = 0.0
    parts = []
    for batch in dirty.combine_chunks().to_batches(max_chunksize=-(-n // _MICRO_BATCHES)):
        began = time.process_time()
        parts.append(engine.process(batch)[0])
        seconds += time.process_time() - began
    cleaned = pa.Table.from_batches(parts)
    messages = engine.coordination_messages
    (egress_router,) = engine.workers[EGRESS_ROUTER]
    return {
        "mechanism": mechanism,
        "repair_workers": workers,
        "messages": messages,
        "messages_per_tuple": messages / n,
        "sent_per_cell": egress_router.sent / egress_router.received,
        "super_cells_per_worker": max(worker.n_super_cells for worker in engine.workers[REPAIR]),
        "tuples_per_cpu_s": n / seconds,
        "cells_not_exact": sum(
            int(differ(cleaned[rhs], exact[rhs]).sum()) for rhs in {rule.rhs for rule in SIX_RULES}
        ),
    }


def _claims(compared: dict[str, dict[str, Any]], rows: list[dict[str, Any]]) -> list[Claim]:
    shares = {name: compared[name]["of_basic"] for name in (_PAPER_DR, "dr")}
    sent = sum(row["messages"] for row in rows if row["mechanism"] == "hinge")
    wrong = {name: sum(row["cells_not_exact"] for row in rows if row["mechanism"] == name) for name in _EXACT}
    return [
        Claim(
            "goal",
            "dr sends less than 10 % of basic's messages (paper: 7 %)",
            f"{percent(shares[_PAPER_DR])} by the paper's condition, {percent(shares['dr'])} without links "
            f"that the tuple itself makes; basic {compared['basic']['messages_per_tuple']:.1f} per tuple",
            max(shares.values()) < 0.1,
        ),
        Claim("goal", "hinge needs no coordination message", f"{sent:,} messages", sent == 0),
        Claim(
            "goal",
            "all mechanisms but ir decide as one engine does, cell for cell, with any number of workers",
            f"{sum(wrong.values()):,} cells differ; ir, {_COMPARED} workers: "
            f"{compared['ir']['cells_not_exact']:,}",
            not any(wrong.values()),
        ),
    ]


def _figure(compared: dict[str, dict[str, Any]], rows: list[dict[str, Any]]) -> Figure:
    def over_workers(name: str, what: str) -> Series:
        return Series(name, _WORKERS, [row[what] for row in rows if row["mechanism"] == name], "dots")

    return Figure(
        "coordination",
        "Coordination messages by mechanism, and over the number of repair workers: ir sends what dr sends, "
        "hinge nothing. Right: how often a cell is sent to a repair worker; a violating one goes to all.",
        [
            Panel(
                f"Messages, {_COMPARED} repair workers",
                "mechanism",
                "of basic's messages",
                [
                    Series(
                        "messages", _MECHANISMS, [compared[name]["of_basic"] for name in _MECHANISMS], "bars"
                    )
                ],
                [Mark("y", _PAPER_SHARE, "paper, RW-dr: 7 %")],
                log_y=True,
                percent_y=True,
                y_floor=1e-4,
            ),
            Panel(
                "Messages over repair workers",
                "repair workers",
                "coordination messages per tuple",
                [over_workers(name, "messages_per_tuple") for name in _EXACT],
                log_y=True,
                y_floor=1e-3,
            ),
            Panel(
                "Cells sent over repair workers",
                "repair workers",
                "messages to repair workers per cell",
                [over_workers("hinge", "sent_per_cell")],
            ),
        ],
    )
