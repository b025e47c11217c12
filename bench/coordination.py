"""How much repair workers talk to the coordinator: the paper's topology in one process, on a stream like its.

Run with `python -m bench.coordination [tuples] [repair workers]`. A coordination message is a merge proposal
of one worker, or a decision to one worker, about one cell. The paper: RW-dr has 7 % of RW-basic's.
"""

from __future__ import annotations

import sys
import time

from bench.stream import RULES, SCHEMA, SalesStream
from sparkbleach import Rule, Window
from sparkbleach.distributed import COORDINATIONS, DistributedEngine

BATCH_TUPLES = 10_000


def main(n_tuples: int, repair_workers: int) -> None:
    """Print one line for each way of coordination."""
    rules = [Rule.parse(text, id) for id, text in RULES.items()]
    window = Window.tuples(n_tuples // 2, slide=n_tuples // 4)
    print(f"{n_tuples} tuples, {repair_workers} repair workers, window {window.size}, slide {window.slide}")
    print("mode   messages  of basic's  broadcast  super cells  tuples/s (all workers in one process)")
    of_basic = None
    for mode in sorted(COORDINATIONS):
        engine = DistributedEngine(
            SCHEMA, rules, id="id", window=window, coordination=mode, repair_workers=repair_workers
        )
        stream = SalesStream(seed=1)
        seconds = 0.0
        for batch in stream.batches(n_tuples, BATCH_TUPLES):
            begun = time.perf_counter()
            engine.process(batch)
            seconds += time.perf_counter() - begun
        messages = engine.coordinator.messages
        of_basic = messages if mode == "basic" else of_basic
        share = messages / of_basic if of_basic else 0.0
        cells = sum(worker.n_super_cells for worker in engine.repair_workers)
        copies = engine.egress_router.sent / engine.egress_router.received
        print(
            f"{mode:6} {messages:8} {share:11.1%} {copies:10.2f} {cells:12} {n_tuples / seconds:9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    main(*(arguments + [100_000, 3][len(arguments) :]))
