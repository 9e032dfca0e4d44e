"""A Spark session for a command: what it needs is checked first, and nothing of it is seen on stderr."""
from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import IO, TYPE_CHECKING

from tickwheel.extras import MissingExtra, require
from tickwheel.spark.failures import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17
MEMORY_MB_A_CORE = 512      # a Parquet writer a core, and room for what it sorts

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")


@contextmanager
def local_session(
    master: str, purpose: str, options: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session on `master` that ends with the block; `options`: more of Spark's, by name.

    MissingExtra, `<purpose> needs ...`: pyspark or Java is not there. ValueError: Spark cannot
    start there, or it failed in the block; in one line, that of the worker's Python where it
    was Python that raised. Starts in some 4 s.
    """
    for module in ("pyspark.sql", "numpy", "pandas", "pyarrow"):
        require(module, purpose, extra="spark")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    py4j = require("py4j.protocol", purpose, extra="spark")
    lost, failures = (py4j.Py4JNetworkError, ConnectionError), (PySparkException, py4j.Py4JError)
    check_java(purpose)
    if _LOCAL.fullmatch(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable   # else workers run the first python3 of PATH
    builder = SparkSession.builder.master(master).appName("tickwheel")
    for name, value in {**_settings(master), **(options or {})}.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile() as log, _quiet_python():
        interrupted = signal.getsignal(signal.SIGINT)
        try:
            with _stderr_to(log):
                spark = builder.getOrCreate()
        except failures as error:
            log.seek(0)
            problem = why(log.read().decode(errors="replace") or str(error))
            raise ValueError(f"master must be one that Spark starts on, got {master!r}: {problem}") from error
        try:
            if current_thread() is main_thread():
                # pyspark's own handler talks to the JVM in the middle of another talk, and fails.
                signal.signal(signal.SIGINT, interrupted)
            yield spark
        except BrokenPipeError:     # of the caller's own: what py4j loses it says in its own words
            raise
        except lost as error:
            if _interrupted(error):
                raise KeyboardInterrupt from error
            raise ValueError("Spark's Java process has ended before its time") from error
        except failures as error:
            raise ValueError(why(str(error))) from error
        finally:
            with suppress(*failures, *lost), warnings.catch_warnings():
                warnings.simplefilter("ignore")     # of a JVM that an interrupt has ended already
                spark.stop()


def _interrupted(error: BaseException) -> bool:
    """Whether a Ctrl-C came before: pyspark talks to the JVM once more on the way out, and that fails."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 16),
    }
    local = _LOCAL.fullmatch(master)
    if local:
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{max(1024, MEMORY_MB_A_CORE * cores)}m",
            "spark.sql.shuffle.partitions": str(cores),
        }
    return settings


def check_java(purpose: str) -> str:
    """The version of the Java that Spark runs on. MissingExtra: `<purpose> needs Java 17 or later: ...`."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    try:
        said = subprocess.run([java or "", "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        said = ""
    version = re.search(r'version "((\d+)[^"]*)"', said)
    if version is None or int(version[2]) < JAVA:
        where = "install a JDK and put java on PATH or set JAVA_HOME"
        raise MissingExtra(f"{purpose} needs Java {JAVA} or later: {where}")
    return version[1]


@contextmanager
def _quiet_python() -> Iterator[None]:
    """What pyspark and py4j log, they raise as well."""
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    root = logging.getLogger()      # where py4j logs an interrupted call

    def of_others(record: logging.LogRecord) -> bool:
        return record.module not in ("java_gateway", "clientserver")

    root.addFilter(of_others)
    try:
        yield
    finally:
        root.removeFilter(of_others)


@contextmanager
def _stderr_to(log: IO[bytes]) -> Iterator[None]:
    """What is started in the block has `log` for its stderr, as long as it lives."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
