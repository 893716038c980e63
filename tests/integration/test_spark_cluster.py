"""A cluster of processes on this machine: a master, two workers with an executor each, and a driver.

The workers live in mount namespaces of their own. There a folder can be another place than it is for the driver, as it
is on machines that do not share a disk: a task that writes to it succeeds, and the driver sees nothing of that.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import tidemill
from tests.integration.clustering import CHANGED, FAULTS, ROWS, replaced
from tests.storage.samples import child_environment
from tidemill.runtimes.spark.sessions.standalone_cluster import cluster_environment, standalone_cluster

pytestmark = pytest.mark.spark

UNSHARED = ("unshare", "--user", "--map-root-user", "--mount")
HIDDEN = ("split", "apart")


def why_no_namespaces() -> str | None:
    """The reason for which a process here cannot have mounts of its own; None if it can."""
    if shutil.which("unshare") is None:
        return "there is no program unshare"
    tried = subprocess.run([*UNSHARED, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"{' '.join(UNSHARED)} mount: {tried.stderr.strip()}"


NO_NAMESPACES = why_no_namespaces()


def hiding(folders: Sequence[Path], command: Sequence[str]) -> list[str]:
    """A command for which these folders are other, empty ones."""
    if not folders or NO_NAMESPACES is not None:
        return list(command)
    mounts = "".join(f'mount -t tmpfs none "${number}"; ' for number in range(1, len(folders) + 1))
    return [*UNSHARED, "sh", "-ec", f'{mounts}shift {len(folders)}; exec "$@"', "sh", *map(str, folders), *command]


def bare_python(folder: Path, *packages: str) -> str:
    """A new Python without Tidemill that has these packages and no others."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    ours = Path(pyarrow.__file__).parents[1]
    [theirs] = folder.glob("lib/python*/site-packages")
    for name in packages:
        for found in (
            ours / name,
            *ours.glob(f"{name}-*.dist-info"),
            *ours.glob(f"{name}.libs"),
            *ours.glob(f"{name}.py"),
            *ours.glob(f"{name}.*.so"),
        ):
            if found.exists():
                (theirs / found.name).symlink_to(found)
    return str(folder / "bin" / "python")


def worker_on_its_own(root: Path, number: int, usual: list[str]) -> list[str]:
    """The command of a worker that has another address than the other one, and other folders under the same names.

    Spark repeats a slow task on another host alone.
    """
    host = f"127.0.0.{number + 1}"
    hidden = [root / name for name in (HIDDEN if number == 0 else HIDDEN[1:])]
    options = [host if word == "127.0.0.1" else word for word in usual]
    return hiding(hidden, ["env", f"SPARK_LOCAL_IP={host}", *options])


@dataclass(frozen=True)
class Outcome:
    """The answers of a driver, its folders, and the faults that it met."""

    told: dict[str, Any]
    root: Path
    faults: list[str]


def tell(root: Path, master: str, python: str, names: Sequence[str], faults: Sequence[str]) -> Outcome:
    """The answers of a driver about its warehouses on a cluster."""
    lacking = bare_python(root / "lacking", "duckdb", "_duckdb", "numpy")
    lists = [",".join(names), ",".join(faults)]
    driver = [sys.executable, "-m", "tests.integration.clustering", master, str(root), lacking, *lists]
    environment = child_environment(PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1")
    told = subprocess.run(driver, env=environment, capture_output=True, text=True, timeout=300)
    assert told.returncode == -signal.SIGKILL, told.stderr
    return Outcome(json.loads(told.stdout.splitlines()[-1]), root, list(faults))


@pytest.fixture(scope="module", params=["some faults", pytest.param("all faults", marks=pytest.mark.long)])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome on a cluster that has ended since. Its workers have no Tidemill."""
    root = tmp_path_factory.mktemp("cluster")
    for name in ("shared", *HIDDEN):
        (root / name).mkdir()
    python = bare_python(root / "bare", "duckdb", "_duckdb", "numpy", "pandas", "pyarrow", "dateutil", "pytz", "six")
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    names = ["shared", *(HIDDEN if NO_NAMESPACES is None else ())]
    faults = list(FAULTS) if request.param == "all faults" else ["an executor is killed"]
    alone = partial(worker_on_its_own, root)
    with standalone_cluster(root, 2, memory="600m", environment=outside, command=alone) as master:
        return tell(root, master, python, names, faults)


def named(count: int) -> list[list[object]]:
    """The view of ``count`` rows in bulk, and of the small epoch after them."""
    groups = {f"name {k}": range(k, count, 5) for k in range(5)}
    small = {"name 3": -1}
    rows = [[name, len(ids) + (name in small), sum(ids) + small.get(name, 0)] for name, ids in groups.items()]
    return [row for row in rows if row[1]]


def named_after(faults: int) -> list[list[object]]:
    """The view after epochs in tasks, beside the bulk."""
    rows = Counter({(id_, id_ % 5): 1 for id_ in range(2 * ROWS)}) + Counter({(-1, 3): 1})
    for number in range(faults):
        for weight, row in replaced(number * CHANGED):
            rows[row] += weight
    kept = list(rows.elements())
    return [[f"name {k}", len(ids), sum(ids)] for k in range(5) if (ids := [id_ for id_, group in kept if group == k])]


def test_bulk_epochs_on_a_cluster(outcome: Outcome) -> None:
    found = outcome.told["shared"]
    assert (outcome.told["executors"], found["error"], found["epoch"]) == (2, None, 4)
    assert found["rows"] == 2 * ROWS + 1
    assert found["doubled"] == [2 * ROWS, 4 * ROWS * 2]
    assert found["named"] == named(2 * ROWS) == named_after(0)


def test_workers_without_tidemill_get_it(outcome: Outcome) -> None:
    """All that tasks did here was done by a Python that has none."""
    python = str(outcome.root / "bare" / "bin" / "python")
    assert outcome.told["packages"] == [[python, {}]]
    command = [python, "-c", "import tidemill"]
    tried = subprocess.run(command, cwd=outcome.root, capture_output=True, text=True, env={})
    assert "No module named 'tidemill'" in tried.stderr


def test_what_workers_lack_is_named(outcome: Outcome) -> None:
    refused = outcome.told["lacking"]
    assert refused["kind"] == "SetupError"
    assert "Spark's workers need pandas>=2.2 and pyarrow>=18" in refused["what"]
    assert refused["where"].startswith(f"{outcome.root / 'lacking' / 'bin' / 'python'} on ")
    assert refused["detail"].endswith("/lacking/bin/python has no pandas and no pyarrow.")
    assert "Spark's workers do not find /nowhere/python" in outcome.told["absent"]["what"]


def test_epochs_in_tasks_meet_faults(outcome: Outcome) -> None:
    """One attempt more than there would be without a fault, and the same answer, once."""
    for number, name in enumerate(outcome.faults):
        found = outcome.told[name]
        assert (found["epoch"], found["runtimes"]) == (5 + number, ["spark tasks"])
        assert found["named"] == named_after(number + 1)
        attempts = {file.name.removeprefix(f"{name}.") for file in (outcome.root / "shared").glob(f"{name}.*")}
        assert attempts >= ({"0.0", "1.0"} if name == "no fault" else {"0.0", "0.1", "1.0"})


def test_the_driver_is_killed_between_tasks_and_commit(outcome: Outcome) -> None:
    """Nothing of its last epoch is there, and the same change can be given again."""
    faults = len(outcome.faults)
    with tidemill.open(outcome.root / "shared" / "w", runtime="native") as wh:
        assert wh.epoch == 4 + faults
        assert sorted(map(list, wh.view("named").rows())) == named_after(faults)
        wh.apply({"t": replaced(faults * CHANGED)})
        assert sorted(map(list, wh.view("named").rows())) == named_after(faults + 1)
        assert all(wh.verify())


@pytest.mark.long
def test_a_local_cluster(tmp_path: Path) -> None:
    """Spark's own cluster of processes, which it starts itself."""
    (tmp_path / "shared").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cluster_environment(tmp_path).items():
            patch.setenv(name, value)
        outcome = tell(tmp_path, "local-cluster[2,1,1024]", sys.executable, ["shared"], ["an executor is killed"])
    test_bulk_epochs_on_a_cluster(outcome)
    test_epochs_in_tasks_meet_faults(outcome)
    test_the_driver_is_killed_between_tasks_and_commit(outcome)


@pytest.mark.skipif(NO_NAMESPACES is not None, reason=str(NO_NAMESPACES))
@pytest.mark.parametrize("name", HIDDEN)
def test_files_that_only_workers_see_are_not_committed(outcome: Outcome, name: str) -> None:
    found, root = outcome.told[name], outcome.root
    there = ROWS // 2 if name == "split" else 0
    assert found["error"]["kind"] == "StorageError"
    assert f'Spark wrote {ROWS:,} rows of "t", and {there:,} of them are here' in found["error"]["what"]
    assert "disk that all machines of the cluster share. Nothing was committed." in found["error"]["hint"]
    assert (found["epoch"], found["rows"], found["named"]) == (2, 1, named(0))
    if name == "apart":
        assert found["unread"]["kind"] == "StorageError"
        assert "Spark's tasks do not find" in found["unread"]["what"]
        assert "Spark's tasks do not find" in found["in tasks"]["what"]
    assert tidemill.check(root / name / "w").damages == ()
    with tidemill.open(root / name / "w", runtime="native") as wh:
        wh.apply({"t": [(+1, (n, n % 5)) for n in range(100)]})
        assert (wh.epoch, sorted(map(list, wh.view("named").rows()))) == (3, named(100))
        assert all(wh.verify())
