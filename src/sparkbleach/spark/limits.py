"""How much is done at once."""

from __future__ import annotations

from dataclasses import dataclass

from ..rules.condition_process import DEFAULT_CONDITION_LIMITS, ConditionLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a cleaning does at once.

    No limit changes a result, with two exceptions. With `repair: bayes` and a `look_ahead` of more than one
    tuple, no decision waits for tuples of the next blob; only micro-batches with `order_by` are put together.
    And a rule whose condition breaks its limits is withdrawn.

    Attributes:
        blob_rows_max: The ingress ends a blob with this many rows. Larger blobs compress better; with several
            of them in a micro-batch stages overlap.
        blob_bytes_max: The ingress ends a blob with this many bytes before compression: rows may be wide.
        blobs_decided_at_once: The engine decides on this many blobs together. Enough that the state of an
            attribute stays in the CPU cache, few enough that repairs are packed meanwhile.
        snapshot_bytes: A snapshot begins when there are this many bytes of deltas, at the earliest. They are
            some five seconds of work to replay after a restart.
        snapshot_batch_bytes: A micro-batch writes this much of a snapshot, so that none takes long.
        snapshot_bytes_per_delta_byte: A micro-batch writes this multiple of its own delta if that is more: a
            snapshot ends long before the next one is due.
        snapshot_chunk_bytes: A chunk of a snapshot has this many bytes before compression.
        deletions_per_batch: A micro-batch deletes this many old entries of the state store.
        cached_queries_max: A Python worker caches the replicas of this many queries.
        garbage_seconds_max: An object in a reference cycle stays in memory for this long, if it was dropped
            after its task had ended. A search for such objects takes as long as a small micro-batch.
        conditions: How much time and memory conditions may use; a rule that breaks a limit is withdrawn.
    """

    blob_rows_max: int = 50_000
    blob_bytes_max: int = 32 << 20
    blobs_decided_at_once: int = 4
    snapshot_bytes: int = 64 << 20
    snapshot_batch_bytes: int = 1 << 19
    snapshot_bytes_per_delta_byte: int = 4
    snapshot_chunk_bytes: int = 1 << 20
    deletions_per_batch: int = 32
    cached_queries_max: int = 8
    garbage_seconds_max: float = 300.0
    conditions: ConditionLimits = DEFAULT_CONDITION_LIMITS


DEFAULT_LIMITS = Limits()
