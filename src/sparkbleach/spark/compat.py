"""All that the package uses of PySpark beyond its public API, apart from `hadoop.py`.

Each function says what it replaces and in which versions of PySpark it was seen to work. When a version moves
something, the functions here and `tests/spark/test_compat.py` say so by name.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StructType

from ..errors import SparkbleachError

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import DataFrame, SparkSession

#: what a call into the JVM raises: PySpark turns some of Java's exceptions into its own, and not others
JVM_ERRORS = (Py4JJavaError, PySparkException)
#: what it raises when there is no JVM any more
JVM_GONE = (Py4JNetworkError, ConnectionError)

_ARROW = "pyspark.sql.pandas.types"
_UINT32 = 0xFFFFFFFF


def moved(what: str) -> SparkbleachError:
    """Return the error that names a private part of PySpark which is no longer where it was."""
    return SparkbleachError(
        f"PySpark {pyspark.__version__} moved {what}; see spark/compat.py and spark/hadoop.py, "
        "or install a version of PySpark that sparkbleach is tested with"
    )


@cache
def private(module: str, name: str) -> Any:
    """Return a private function or class of PySpark."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise moved(f"{module}.{name}") from error


def spark_type(type: pa.DataType) -> DataType:
    """Return an Arrow type in Spark's types.

    PySpark has no public conversion from Arrow. Seen in 4.1, 4.2 and 4.3.
    """
    found: DataType = private(_ARROW, "from_arrow_type")(type)
    return found


def spark_schema(schema: pa.Schema) -> StructType:
    """Return an Arrow schema in Spark's types.

    PySpark has no public conversion from Arrow. Seen in 4.1, 4.2 and 4.3.
    """
    found: StructType = private(_ARROW, "from_arrow_schema")(schema)
    return found


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema in Arrow's types, with times in UTC whatever the session's time zone is.

    PySpark has no public conversion to Arrow. Seen in 4.1, which always means UTC, 4.2 and 4.3.
    """
    convert = private(_ARROW, "to_arrow_schema")
    has_timezone = "timezone" in inspect.signature(convert).parameters
    return convert(schema, timezone="UTC") if has_timezone else convert(schema)


def launch_jvm(conf: SparkConf, stderr: int | None) -> None:
    """Start the JVM of this process, if it has none, with standard error going to a file.

    The builder of a session starts it too, but cannot redirect what it writes. Seen in 4.1, 4.2 and 4.3.
    """
    context = private("pyspark", "SparkContext")
    launch = private("pyspark.java_gateway", "launch_gateway")
    try:
        if context._gateway is None:
            gateway = launch(conf, popen_kwargs={} if stderr is None else {"stderr": stderr})
            context._ensure_initialized(gateway=gateway, conf=conf)
    except (AttributeError, TypeError) as error:
        raise moved("SparkContext._gateway, its _ensure_initialized or launch_gateway") from error


def memory_bytes(session: SparkSession) -> int:
    """Return how much memory the JVM of a session may take.

    PySpark has no public way to the JVM. Seen in 4.1, 4.2 and 4.3.
    """
    inner: Any = session
    try:
        return int(inner._jvm.java.lang.Runtime.getRuntime().maxMemory())
    except (AttributeError, TypeError) as error:
        raise moved("SparkSession._jvm") from error


def silence_accumulators(context: SparkContext) -> None:
    """Have nothing printed when the JVM ends before the server in this process that adds up for it.

    Python's `socketserver` prints a traceback, which says less than the error that the JVM's end leads to.
    Seen in 4.1, 4.2 and 4.3.
    """
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is None:
        raise moved("SparkContext._accumulatorServer")
    server.handle_error = lambda *_: None


def spark_hash(key: int) -> int:
    """Return what Spark's `hash` gives for an int: MurmurHash3, 32 bits, with the seed 42.

    A shuffle sends a row to the partition `hash(key) mod n`, and only the JVM has this function. Seen in 4.1,
    4.2 and 4.3.
    """
    k = key * 0xCC9E2D51 & _UINT32
    k = (k << 15 | k >> 17) * 0x1B873593 & _UINT32
    h = 42 ^ k
    h = ((h << 13 | h >> 19) & _UINT32) * 5 + 0xE6546B64 & _UINT32
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _UINT32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _UINT32
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def error_message(error: Exception) -> str:
    """Return what a JVM error says is wrong, in one line without the error class."""
    if isinstance(error, Py4JJavaError):
        text = str(error.java_exception.getMessage())
    else:
        text = (error.getMessage() if isinstance(error, PySparkException) else None) or str(error)
    line = next((line for line in text.splitlines() if line.strip()), "unknown error")
    return re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line).strip().rstrip(".")


def rows_of_text(texts: DataFrame) -> Any:
    """Return rows of one text column as `read.csv` and `read.json` take them.

    They take a DataFrame from 4.2 on, and an RDD before.
    """
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2):
        return texts
    return texts.rdd.map(lambda row: row[0])
