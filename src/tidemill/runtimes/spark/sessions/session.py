"""Sessions: a local one of our own, tuned for small steps, or a branch of the session that a user gave us.

Neither changes what is not ours. A given session is not configured but *branched*: ``newSession`` shares its cluster
and has settings and temporary views of its own, so ANSI arithmetic and UTC hold in ours whatever holds in theirs.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from tidemill.model.errors import SetupError
from tidemill.runtimes.spark.sessions.java import java_home

SEMANTIC_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
"""Settings that affect results. Both runtimes agree because these hold in every session that we use."""

MAX_LISTED_KEYS = 256
"""Number of values in an IN list up to which each is compared with file statistics; Spark's default is ten."""

LATENCY_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.pushdown.inFilterThreshold": str(MAX_LISTED_KEYS),
    "spark.sql.maxPlanStringLength": "100000",
}
"""Settings that make small steps fast: plans are not adapted while they run nor printed in full, and listing files is
not a job of its own."""

HADOOP_SETTINGS = {"parquet.hadoop.vectored.io.enabled": "false"}
"""Settings for reading files: vectored reads of Parquet gain nothing on a local disk, and Spark does not count their
bytes."""

PROCESS_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.python.daemon.module": "tidemill.runtimes.spark.sessions.python_daemon",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.buffer.pageSize": "2m",
    "spark.sql.ui.retainedExecutions": "100",
}
"""Settings that only a session that we start ourselves can have: they belong to the process, not the query.

A page is the minimum memory of a broadcast table, a sort or an aggregate, 64 MB by default: a few dozen small joins
whose tables are not collected yet would fill the heap.
"""

_JAVA_OPTIONS = "-XX:+UseParallelGC -XX:MetaspaceSize=256m"
"""Spark loads more than 20,000 classes; whenever the room for them is raised, Java looks through the whole heap."""

_BUSIEST = ("spark-catalyst", "spark-sql", "spark-core", "spark-sql-api", "spark-common-utils", "spark-unsafe")
"""The libraries that most classes of a query are from."""

_CLASSES = ("PythonUtils", "PythonSQLUtils", "functions", "org.apache.spark.sql.classic.SparkSession")
"""Names by which pyspark asks for Java classes whenever a query, a file or rows of this process become a DataFrame."""

# Errors of tasks are raised as exceptions, so the log would only repeat them, with Java's stack traces.
_LOG_SETTINGS = """rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = fatal
"""

ASSUMED_CORES = 8
"""Number of tasks that a server of Spark Connect is assumed to run at the same time."""

_branches: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()
_started: SparkSession | None = None


def local_session() -> SparkSession:
    """Spark in a process of this machine, started on first use and then shared.

    If the program already runs Spark, that session is branched: there can be only one in a process.
    """
    global _started
    running = SparkContext._active_spark_context
    if running is not None:
        # The active session may be one of our own branches, which are not branched again.
        if _started is not None and _started.sparkContext is running:
            return _started
        return given_session(SparkSession.getActiveSession() or SparkSession.builder.getOrCreate())
    _started = start_session("local[*]")
    return _started


def start_session(master: str, settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """A session of our own on a cluster or in a process of this machine, with further settings."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = {**SEMANTIC_SETTINGS, **LATENCY_SETTINGS, **PROCESS_SETTINGS, **_process_settings(), **settings}
    builder = SparkSession.builder.master(master).appName("tidemill")
    for key, value in ours.items():
        builder = builder.config(key, value)
    try:
        started = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SetupError("Spark does not start", detail=str(error), hint="Check JAVA_HOME and SPARK_HOME.") from error
    _keep_classes(started.sparkContext)
    return started


def _keep_classes(context: SparkContext) -> None:
    """Look up the Java classes that pyspark asks for in every query, once.

    By a short name Java looks for a class in each of the packages that pyspark imports, through all of Spark's
    libraries: a thirtieth of the time of small queries.
    """
    java: Any = context._jvm
    for name in _CLASSES:
        setattr(java, name, getattr(java, name))


def given_session(session: SparkSession, packages: Iterable[str] = ()) -> SparkSession:
    """A branch of a session that a user gave us: same cluster, settings of our own. Theirs stay as they are.

    Its workers must have ``packages`` besides those that they always need.
    """
    from tidemill.runtimes.spark.sessions.worker_packages import require_packages  # it asks for kinds of sessions

    branch = _branch(session)
    require_packages(branch, packages)
    return branch


def _branch(session: SparkSession) -> SparkSession:
    branch = _branches.get(session)
    if branch is None:
        if not hasattr(session, "newSession"):
            raise SetupError(
                "this Spark Connect session cannot be used",
                detail="Tidemill needs settings of its own, and before Spark 4.3 such a session has no newSession().",
                hint="Install pyspark 4.3, or give a classic session: SparkSession.builder.master(...).getOrCreate().",
            )
        branch = session.newSession()
        for key, value in {**SEMANTIC_SETTINGS, **LATENCY_SETTINGS, **HADOOP_SETTINGS}.items():
            branch.conf.set(key, value)
        if is_remote(branch):
            # Left to the end of the interpreter, the connection would wait for threads that have ended.
            atexit.register(branch.client.close)
        _branches[session] = branch
    return branch


@contextmanager
def active_session_kept(spark: SparkSession) -> Iterator[None]:
    """Context at whose end the active session is the one before it: a frame that is made of rows makes its own session
    the active one, and Spark looks there for formats that a user has registered."""
    if is_remote(spark):
        yield
        return
    sessions = _session_class(spark)
    before, known = sessions.getActiveSession(), SparkSession._activeSession
    try:
        yield
    finally:
        SparkSession._activeSession = known
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def activate(spark: SparkSession) -> None:
    """Make a session the active one, in which Spark looks for formats that are registered in Python."""
    if not is_remote(spark):
        SparkSession._activeSession = spark
        _session_class(spark).setActiveSession(spark._jsparkSession)


def _session_class(spark: SparkSession) -> Any:
    """The class of sessions in Java: Spark 4 has another one for those of Spark Connect."""
    jvm: Any = spark._jvm
    named = getattr(SparkSession, "_get_j_spark_session_class", None)
    return jvm.SparkSession if named is None else named(jvm)


def is_remote(session: SparkSession) -> bool:
    """True for a session of Spark Connect, whose driver is another process."""
    return not hasattr(session, "_jsparkSession")


def is_local(context: SparkContext) -> bool:
    """True if the tasks of a session run in the driver's own process."""
    return str(context.master).partition("[")[0] == "local"


def cores_of(session: SparkSession) -> int:
    """The number of tasks that run at the same time; an assumed one for Spark Connect, which does not say."""
    if is_remote(session):
        return ASSUMED_CORES
    context = session.sparkContext
    local = _LOCAL_MASTER.fullmatch(context.master)
    if local is None:
        return int(context.defaultParallelism)
    # Our own sessions have a low default parallelism, for short jobs over few rows.
    return (os.cpu_count() or 1) if local["cores"] == "*" else int(local["cores"] or 1)


_LOCAL_MASTER = re.compile(r"local(?:\[(?P<cores>\*|\d+)(?:,[^\]]*)?\])?")


def stop_local_session() -> None:
    """Stop the session that ``local_session`` started, if it did; never one that a user started."""
    global _started
    if _started is not None:
        _started.stop()
        _started = None


def _process_settings() -> dict[str, str]:
    settings = Path(tempfile.mkdtemp(prefix="tidemill-log-"), "log4j2.properties")
    settings.write_text(_LOG_SETTINGS)
    return {
        "spark.driver.memory": f"{driver_memory(_machine_bytes())}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings.as_uri()} {_JAVA_OPTIONS}",
        "spark.sql.warehouse.dir": (settings.parent / "spark-warehouse").as_uri(),
        **_class_path(Path(_find_spark_home())),
    }


def _class_path(home: Path) -> dict[str, str]:
    """Spark's own libraries as the first of the class path, unless it is configured by files.

    Java looks through nearly three hundred libraries in the order of their names, for each class and each time that
    Spark reads one again to see what a function refers to, which it does several times in every job.
    """
    if "SPARK_CONF_DIR" in os.environ or (home / "conf").exists():
        return {}
    first = [str(jar) for stem in _BUSIEST for jar in sorted((home / "jars").glob(f"{stem}_*.jar"))]
    return {"spark.driver.extraClassPath": os.pathsep.join(first)} if first else {}


def driver_memory(machine: int) -> int:
    """Memory for Spark in MiB on a machine with that many bytes: a quarter, at least 1 GiB, at most 16.

    >>> driver_memory(8 << 30), driver_memory(2 << 30)
    (2048, 1024)
    """
    return max(1 << 10, min(16 << 10, machine // 4 >> 20))


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
