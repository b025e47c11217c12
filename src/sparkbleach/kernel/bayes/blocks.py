"""Blocks: their tuples are counted, then decided, block after block. Between them the window slides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit import entry, i64
from ..refs import ref
from ..truth import Acceptances
from .clock import PANE, TUPLES, Clock, Horizon, slide_to, start_of, window_start_of
from .count import Ahead, Tuples, count_block
from .evidence import Parameters
from .explain import Reasons
from .found import Found
from .judge import Changes, Moves
from .layout import Layout
from .parameters import prepare_parameters, refresh_parameters
from .scores import Room
from .search import N_DOUBTFUL, NOT_BEGUN, Search, search_block
from .store import DUE, N_TUPLES, Store
from .votes import Sources

REFRESH_TUPLES = 100  #: from one computation of the parameters to the next


@entry
def clean_blocks(
    store: Store,
    layout: Layout,
    parameters: Parameters,
    sources: Sources,
    tuples: Tuples,
    first: int,
    ends: NDArray[np.int64],
    panes: NDArray[np.int64],
    look_ahead: int,
    position: int,
    clock: Clock,
    horizon: Horizon,
    ahead: Ahead,
    accepted: Acceptances,
    progress: Search,
    threshold: float,
    repair_left: bool,
    room: Room,
    moves: Moves,
    changes: Changes,
    reasons: Reasons,
    found: Found,
) -> int:
    """Count and decide tuples in blocks, and slide the window as they ask for; there are no sources.

    They come in parts, each of one pane: from `first` to the first of `ends`, from there to the next one.

    Returns:
        The first tuple of the block in which there is no room for what is found, or of the part before which
        there is no room for levels, as the clock then says; the last of `ends` when all is done.
    """
    store = ref(store)
    layout = ref(layout)
    parameters = ref(parameters)
    sources = ref(sources)
    tuples = ref(tuples)
    ahead = ref(ahead)
    accepted = ref(accepted)
    progress = ref(progress)
    room = ref(room)
    moves = ref(moves)
    changes = ref(changes)
    reasons = ref(reasons)
    found = ref(found)
    last = ends[-1]
    for part_end in ends:
        if first < part_end:
            n_left = last - first
            if progress.state[N_DOUBTFUL] == NOT_BEGUN and not slide_to(
                store, layout, sources, clock, horizon, i64(panes[first]), n_left
            ):
                return first
            pane = i64(clock[PANE])
            for block in range(first, part_end, look_ahead):
                end = min(block + look_ahead, part_end)
                if progress.state[N_DOUBTFUL] == NOT_BEGUN:
                    count_block(
                        store,
                        layout,
                        parameters,
                        room.texts,
                        tuples,
                        block,
                        end,
                        position,
                        pane,
                        window_start_of(horizon, pane),
                        start_of(horizon, pane),
                        room.left,
                        ahead,
                        accepted,
                    )
                    if store.state[N_TUPLES] >= store.state[DUE]:
                        store.state[DUE] = store.state[N_TUPLES] + REFRESH_TUPLES
                        refresh_parameters(store, layout, parameters, False)
                    prepare_parameters(store, layout, parameters, False)
                if not search_block(
                    store,
                    layout,
                    parameters,
                    sources,
                    tuples,
                    block,
                    end,
                    progress,
                    threshold,
                    repair_left,
                    room,
                    moves,
                    changes,
                    reasons,
                    found,
                ):
                    return block
                clock[TUPLES] += end - block
            first = part_end
    return first
