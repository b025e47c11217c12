"""How much repair workers talk to the coordinator: the paper's topology in one process, on a stream like its.

Run with `python -m bench.coordination [tuples] [repair workers]`. A coordination message is a merge proposal
of one worker, or a decision to one worker, about one cell. The paper: RW-dr has 7 % of RW-basic's.
"""

from __future__ import annotations

import sys
import time

from bench.stream import dirty_batches
from sparkbleach import Rule, Window
from sparkbleach.distributed import DistributedEngine
from sparkbleach.evaluate.sales import RULES, SCHEMA
from sparkbleach.stage.link_worker import LinkWorker

BATCH_TUPLES = 10_000
MODES = ("basic", "dr, as written", "dr", "ir", "hinge")


class AsWritten(LinkWorker):
    """RW-dr by the letter: asks even where the tuple's own cell makes the same link."""

    def must_ask(self, linked: set[bytes], links_itself: frozenset[bytes]) -> bool:  # noqa: ARG002
        """Tell whether an old cell is in the graph through another rule."""
        return len(linked) > 1


def main(n_tuples: int, repair_workers: int) -> None:
    """Print one line for each way of coordination."""
    rules = [Rule.parse(text, id) for id, text in RULES.items()]
    window = Window.tuples(n_tuples // 2, slide=n_tuples // 4)
    print(f"{n_tuples} tuples, {repair_workers} repair workers, window {window.size}, slide {window.slide}")
    print("mode            messages  of basic's  sent per cell  super cells  tuples per CPU second")
    of_basic = None
    for mode in MODES:
        engine = DistributedEngine(
            SCHEMA,
            rules,
            id="id",
            window=window,
            coordination=mode.partition(",")[0],
            repair_workers=repair_workers,
        )
        if mode == "dr, as written":
            engine.link_workers = [AsWritten(window, "bleach", always=False) for _ in range(repair_workers)]
        seconds = 0.0
        for batch in dirty_batches(n_tuples, BATCH_TUPLES, seed=1):
            begun = time.process_time()
            engine.process(batch)
            seconds += time.process_time() - begun
        messages = engine.coordinator.messages
        of_basic = messages if mode == "basic" else of_basic
        share = messages / of_basic if of_basic else 0.0
        cells = sum(worker.n_super_cells for worker in engine.repair_workers)
        copies = engine.egress_router.sent / engine.egress_router.received
        print(
            f"{mode:15} {messages:8} {share:11.1%} {copies:14.2f} {cells:12} {n_tuples / seconds:9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    main(*(arguments + [60_000, 3][len(arguments) :]))
