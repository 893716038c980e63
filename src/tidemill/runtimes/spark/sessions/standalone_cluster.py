"""A standalone cluster of Spark on this machine: a master and workers, processes of their own that end with a block.

It is the same Spark as on many machines: executors are processes beside the driver, and tasks, shuffles and files go
through the same code. All addresses are 127.0.0.1, on ports that are free.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from tidemill.model.errors import SetupError
from tidemill.runtimes.spark.sessions.java import find_java, java_home
from tidemill.runtimes.spark.sessions.session import start_session

__all__ = ["cluster_environment", "cluster_session", "standalone_cluster"]

START_SECONDS = 90
"""Seconds within which a master or a worker has started."""

STOP_SECONDS = 20
"""Seconds within which a process that was asked to end has ended: a worker ends its executors first."""

# The shell ends the process when its own input ends: by us, or because this process was killed.
_GUARDED = '"$@" </dev/null & child=$!; read -r _; kill "$child" 2>/dev/null; wait "$child"'

_ADDRESS = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")

_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

WorkerCommand = Callable[[int, list[str]], list[str]]
"""The command by which a worker is started, given its number and the usual command."""


@contextmanager
def standalone_cluster(
    folder: Path,
    workers: int,
    *,
    cores: int = 1,
    memory: str = "1g",
    environment: Mapping[str, str] = os.environ,
    command: WorkerCommand = lambda number, usual: usual,
) -> Iterator[str]:
    """The address of a new cluster, whose logs and working folders are in ``folder``; it is stopped with the block."""
    settings = {**environment, **cluster_environment(folder)}
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_process(_java("master.Master", *_ADDRESS), log, settings))
        master = logged(log, r"Starting Spark master at (spark://\S+)")
        logs = [folder / f"worker {number}.log" for number in range(workers)]
        for number, log in enumerate(logs):
            room = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"work {number}"))
            usual = _java("worker.Worker", *_ADDRESS, *room, master)
            stack.enter_context(_process(command(number, usual), log, settings))
        for log in logs:
            logged(log, r"Successfully registered with master (\S+)")
        yield master


@contextmanager
def cluster_session(
    folder: Path, workers: int, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A session on a new cluster with one executor of one core in each worker; both are stopped with the block."""
    ours = {
        "spark.default.parallelism": str(workers),
        "spark.cores.max": str(workers),
        "spark.executor.cores": "1",
        "spark.executor.memory": "1g",
        "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.locality.wait": "0s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_SECONDS}s",
    }
    environment = {"PYSPARK_PYTHON": sys.executable, **os.environ}
    with standalone_cluster(folder, workers, memory="1500m", environment=environment) as master:
        session = start_session(master, {**ours, **settings})
        try:
            yield session
        finally:
            session.stop()


def logged(log: Path, pattern: str, seconds: float = START_SECONDS) -> str:
    """The first group of a pattern, once a log has it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace")) if log.exists() else None
        if found is not None:
            return found[1]
        time.sleep(0.05)
    lines = log.read_text(errors="replace").splitlines()
    raise SetupError("a process of the cluster does not start", where=str(log), detail=lines[-1] if lines else None)


@contextmanager
def _process(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A process that ends with the block, with all that it has started; Ctrl-C does not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    guarded = ["sh", "-c", _GUARDED, "sh", *command]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            guarded, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True
        ) as running,
    ):
        assert running.stdin is not None
        try:
            yield
        finally:
            running.stdin.close()
            try:
                running.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)


def _java(kind: str, *options: str) -> list[str]:
    java = [str(find_java().binary), *_JAVA_OPTIONS, "-cp", f"{_find_spark_home()}/jars/*"]
    return [*java, f"org.apache.spark.deploy.{kind}", *options]


def cluster_environment(folder: Path) -> dict[str, str]:
    """Variables by which workers find Spark and Java. Settings of this machine do not count, since logs are read."""
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_HOME": _find_spark_home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Workers look for it in a folder that a download of Spark has, and the package of pyspark has not.
        "SPARK_SCALA_VERSION": scala_version(),
    }


def scala_version() -> str:
    """The version in the name of Spark's own library.

    >>> scala_version()
    '2.13'
    """
    library = next(Path(_find_spark_home(), "jars").glob("spark-core_*.jar"))
    return library.name.removeprefix("spark-core_").partition("-")[0]
