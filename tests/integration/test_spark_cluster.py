"""A cluster of processes on this machine: a master, two workers with an executor each, and a driver.

The workers live in mount namespaces of their own. There a folder can be another place than it is for the driver, as it
is on machines that do not share a disk: a task that writes to it succeeds, and the driver sees nothing of that.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

import tidemill
from tests.integration.clustering import QUICK, ROWS
from tests.storage.samples import child_environment
from tidemill.runtimes.spark.execution.java import find_java, java_home

pytestmark = pytest.mark.spark

HOME = Path(pyspark.__file__).parent
UNSHARED = ("unshare", "--user", "--map-root-user", "--mount")
HIDDEN = ("split", "apart")


def why_no_namespaces() -> str | None:
    """The reason for which a process here cannot have mounts of its own; None if it can."""
    if shutil.which("unshare") is None:
        return "there is no program unshare"
    tried = subprocess.run([*UNSHARED, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"{' '.join(UNSHARED)} mount: {tried.stderr.strip()}"


NO_NAMESPACES = why_no_namespaces()


@contextmanager
def process(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A process that ends with the block."""
    with log.open("wb") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as running:
        try:
            yield
        finally:
            # A worker that is asked to end sees to its executors.
            running.terminate()
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()


def said(log: Path, pattern: str, seconds: float = 90) -> str:
    """The first group of a pattern, once a log has it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace")) if log.exists() else None
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"no {pattern} in {log.read_text(errors='replace')}")


def deploy(kind: str, *options: str) -> list[str]:
    java = [str(find_java().binary), "-Xmx256m", *QUICK.split(), "-cp", f"{HOME}/jars/*"]
    return [*java, f"org.apache.spark.deploy.{kind}", *options]


def scala_version() -> str:
    """The version in the name of Spark's own library.

    >>> scala_version()
    '2.13'
    """
    [library] = (HOME / "jars").glob("spark-core_*.jar")
    return library.name.removeprefix("spark-core_").partition("-")[0]


def hiding(folders: Sequence[Path], command: Sequence[str]) -> list[str]:
    """A command for which these folders are other, empty ones."""
    if not folders or NO_NAMESPACES is not None:
        return list(command)
    mounts = "".join(f'mount -t tmpfs none "${number}"; ' for number in range(1, len(folders) + 1))
    return [*UNSHARED, "sh", "-ec", f'{mounts}shift {len(folders)}; exec "$@"', "sh", *map(str, folders), *command]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cluster")
    for name in ("shared", *HIDDEN):
        (root / name).mkdir()
    return root


@pytest.fixture(scope="module")
def outcome(root: Path) -> dict[str, Any]:
    """What a driver tells of its warehouses, on a cluster that has ended since."""
    environment = child_environment(
        JAVA_HOME=str(java_home()),
        PYSPARK_PYTHON=sys.executable,
        SPARK_HOME=str(HOME),
        SPARK_LOCAL_IP="127.0.0.1",
        # Workers look for it in a folder that a download of Spark has, and the package of pyspark has not.
        SPARK_SCALA_VERSION=scala_version(),
    )
    address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        log = root / "master.log"
        stack.enter_context(process(deploy("master.Master", *address), log, environment))
        master = said(log, r"Starting Spark master at (spark://\S+)")
        for number, hidden in enumerate((["split", "apart"], ["apart"])):
            work = ("--cores", "1", "--memory", "600m", "--work-dir", str(root / f"work {number}"))
            command = hiding([root / name for name in hidden], deploy("worker.Worker", *address, *work, master))
            stack.enter_context(process(command, root / f"worker {number}.log", environment))
        names = ["shared", *(HIDDEN if NO_NAMESPACES is None else ())]
        driver = [sys.executable, "-m", "tests.integration.clustering", master, str(root), *names]
        told = subprocess.run(driver, env=environment, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    return dict(json.loads(told.stdout.splitlines()[-1]))


def named(count: int) -> list[list[object]]:
    """The view of ``count`` rows in bulk, and of the small epoch after them."""
    groups = {f"name {k}": range(k, count, 5) for k in range(5)}
    small = {"name 3": -1}
    rows = [[name, len(ids) + (name in small), sum(ids) + small.get(name, 0)] for name, ids in groups.items()]
    return [row for row in rows if row[1]]


def test_bulk_epochs_on_a_cluster(outcome: dict[str, Any], root: Path) -> None:
    found = outcome["shared"]
    assert (outcome["executors"], found["error"], found["epoch"]) == (2, None, 4)
    assert found["rows"] == 2 * ROWS + 1
    assert found["doubled"] == [2 * ROWS, 4 * ROWS * 2]
    assert found["named"] == named(2 * ROWS)
    with tidemill.open(root / "shared" / "w", runtime="native") as wh:
        assert all(wh.verify())


@pytest.mark.skipif(NO_NAMESPACES is not None, reason=str(NO_NAMESPACES))
@pytest.mark.parametrize("name", HIDDEN)
def test_files_that_only_workers_see_are_not_committed(outcome: dict[str, Any], root: Path, name: str) -> None:
    found = outcome[name]
    there = ROWS // 2 if name == "split" else 0
    assert found["error"]["kind"] == "StorageError"
    assert f'Spark wrote {ROWS:,} rows of "t", and {there:,} of them are here' in found["error"]["what"]
    assert "disk that all machines of the cluster share. Nothing was committed." in found["error"]["hint"]
    assert (found["epoch"], found["rows"], found["named"]) == (2, 1, named(0))
    if name == "apart":
        assert found["unread"]["kind"] == "StorageError"
        assert "Spark's tasks do not find" in found["unread"]["what"]
    assert tidemill.check(root / name / "w").damages == ()
    with tidemill.open(root / name / "w", runtime="native") as wh:
        wh.apply({"t": [(+1, (n, n % 5)) for n in range(100)]})
        assert (wh.epoch, sorted(map(list, wh.view("named").rows()))) == (3, named(100))
        assert all(wh.verify())
