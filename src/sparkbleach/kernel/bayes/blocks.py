"""Blocks: their tuples are counted, then decided, one block after the other."""

from __future__ import annotations

from ..jit import entry
from ..refs import ref
from ..truth import Acceptances
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
    last: int,
    look_ahead: int,
    position: int,
    pane: int,
    window_start: int,
    start: int,
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
    """Count and decide the tuples `first` to `last` in blocks, or go on with that; there are no sources.

    Returns:
        The first tuple of the block in which there is no room for what is found; `last` when all is done.
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
    for block in range(first, last, look_ahead):
        end = min(block + look_ahead, last)
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
                window_start,
                start,
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
    return last
