"""The settings of a Spark session: what is needed, what makes it fast, what a busy machine needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from functools import cache

from pyspark.sql import DataFrame

from ..errors import ConfigError, SessionWarning

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PARTITIONS = "spark.sql.shuffle.partitions"
_PARTITIONS_MAX = 8
#: for how many seconds Spark waits on a busy machine before it gives up
PATIENCE_S = 600

#: for `SparkSession.builder.config(map=SPARK_SETTINGS)`: the first is needed, the last is for busy machines,
#: the others make it fast
SPARK_SETTINGS: dict[str, bool | float | int | str | None] = {
    # transformWithState works on this state store only.
    _PROVIDER: _ROCKSDB,
    # A micro-batch stores what it changed, and Spark makes snapshots of the store in the background.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A lane is one task; every further partition is an empty state store to open and to commit.
    PARTITIONS: "1",
    # Two log files are written per micro-batch; these two settings make that 30 ms instead of 130 on a disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # There are no timers: a micro-batch without data would do nothing.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # How many micro-batches one can go back by hand. Each keeps what it wrote: at Spark's 100 the checkpoint
    # is several times as large as the state.
    "spark.sql.streaming.minBatchesToRetain": "20",
    # What is shuffled are blobs, and they are compressed.
    "spark.shuffle.compress": "false",
    # Rows cross between the JVM and Python a quarter faster.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # No limit: to keep one, Spark would compute the size of the whole Arrow batch at each row of it.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # On a busy machine a task may take longer than a minute, Spark's limit, to let go of the state store.
    "spark.sql.streaming.stateStore.rocksdb.lockAcquireTimeoutMs": str(1000 * PATIENCE_S),
}


def check_session(df: DataFrame, n_lanes: int | None) -> None:
    """Check that the session of a DataFrame can clean it.

    In the paper's topology, which works with any number of partitions, `n_lanes` is None.
    """
    _check_python(df)
    if not df.isStreaming:
        return
    conf = df.sparkSession.conf
    remedy = "build the session with SparkSession.builder.config(map=sparkbleach.SPARK_SETTINGS)"
    if conf.get(_PROVIDER) != _ROCKSDB:
        raise ConfigError(
            f"session: {_PROVIDER} is {conf.get(_PROVIDER)}, but the state needs {_ROCKSDB}; {remedy}"
        )
    if n_lanes is None:
        return
    n_partitions = int(conf.get(PARTITIONS) or 200)
    if n_partitions > max(_PARTITIONS_MAX, n_lanes):
        warnings.warn(
            f"session: {PARTITIONS} is {n_partitions}, and each micro-batch commits as many state stores, "
            f"all but {n_lanes} of them empty; {remedy}, or set it to {n_lanes} before the query starts",
            SessionWarning,
            stacklevel=3,
        )
    if n_partitions < n_lanes:
        warnings.warn(
            f"session: {PARTITIONS} is {n_partitions}, so that {n_lanes} lanes have to wait for each other; "
            f"set it to {n_lanes} before the query starts",
            SessionWarning,
            stacklevel=3,
        )


def _check_python(df: DataFrame) -> None:
    """Warn if the Python that Spark starts on this machine does not have the package.

    That is so in a virtual environment that is not activated: Spark starts the `python3` of the PATH.
    """
    context = df.sparkSession.sparkContext
    python = shutil.which(context.pythonExec) or context.pythonExec
    local = str(context.master).startswith("local")
    if local and os.path.dirname(python) != os.path.dirname(sys.executable) and not _has_package(python):
        warnings.warn(
            f"session: Spark starts {python} for its workers, which does not have sparkbleach; activate the "
            f"virtual environment, or set PYSPARK_PYTHON={sys.executable}, before the session starts",
            SessionWarning,
            stacklevel=4,
        )


@cache
def _has_package(python: str) -> bool:
    test = "import importlib.util, sys; sys.exit(importlib.util.find_spec('sparkbleach') is None)"
    try:
        done = subprocess.run([python, "-c", test], capture_output=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
