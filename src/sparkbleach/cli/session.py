"""A quiet Spark session on this machine, and the Java that it needs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ..errors import SparkbleachError
from ..spark.compat import JVM_GONE, launch_jvm, silence_accumulators
from ..spark.settings import PATIENCE_S, SPARK_SETTINGS
from .failure import is_known
from .signals import put_off

_JAVA_MIN = 17
_REMEDY = (
    f"install Java {_JAVA_MIN} or newer (Debian and Ubuntu: apt install openjdk-{_JAVA_MIN}-jre-headless; "
    f"macOS: brew install openjdk@{_JAVA_MIN}) and have JAVA_HOME or PATH point to it"
)
_STOP_SECONDS = 20  # less than the grace that most supervisors give
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def check_java() -> None:
    """Check that Java is there, in a version that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise SparkbleachError(f"Java: there is none on PATH, and JAVA_HOME is not set; {_REMEDY}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkbleachError(f"Java: {java} does not run ({error}); {_REMEDY}") from error
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if version is None:
        raise SparkbleachError(f"Java: {java} -version does not show a version; {_REMEDY}")
    if int(version[1]) < _JAVA_MIN:
        raise SparkbleachError(f"Java: {java} is version {version[1]}, which is too old for Spark; {_REMEDY}")


@contextmanager
def spark_session(
    master: str | None,
    *,
    debug: bool,
    settings: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[SparkSession]:
    """Give the session of this process, or a new one, with further settings, that ends afterwards.

    Spark runs where `master` or SPARK_MASTER says, or on all cores of this machine. Unless `debug`, what it
    and its workers write to standard error goes to a log file. An error whose cause is not clear gets a note
    with the path of the log; in all other cases the log is deleted. `say` is called when a new one starts.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    check_java()
    say("starting Spark")
    log = tempfile.NamedTemporaryFile(prefix="sparkbleach-", suffix=".log", delete=False)  # noqa: SIM115
    try:
        where = master or os.environ.get("SPARK_MASTER") or "local[*]"
        session = _start(where, None if debug else log.fileno(), settings or {})
        try:
            yield session
        finally:
            # A JVM that was killed cannot be stopped, which must not hide why it was used no longer.
            with contextlib.suppress(*JVM_GONE):
                session.stop()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SparkbleachError(f"Spark does not start; {log.name} says why") from error
    except Exception as error:
        if debug or is_known(error):
            os.unlink(log.name)
        else:
            error.add_note(f"the log of Spark is in {log.name}")
        raise
    except BaseException:
        os.unlink(log.name)
        raise
    else:
        os.unlink(log.name)
    finally:
        log.close()


def _start(master: str, stderr: int | None, more: Mapping[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.master": master,
        "spark.app.name": "sparkbleach",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # A query that waits for a broker does not stop before the broker's client gives up.
        "spark.sql.streaming.stopTimeout": f"{_STOP_SECONDS}s",
        **SPARK_SETTINGS,
        **more,
    }
    if stderr is not None:
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
    if master.startswith("local"):
        # A machine without network has no other name that it can be reached by. And there is no other machine
        # whose end would show by its silence.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.network.timeout": f"{PATIENCE_S}s",
            "spark.python.authenticate.socketTimeout": f"{PATIENCE_S}s",
        }
    conf = SparkConf(loadDefaults=False).setAll([(key, str(value)) for key, value in settings.items()])
    with put_off():  # a JVM that is cut off while it starts would wait for ever
        launch_jvm(conf, stderr)
    session = SparkSession.builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    silence_accumulators(session.sparkContext)
    return session
