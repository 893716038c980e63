"""A warehouse in an object store on a cluster whose workers see nothing of the driver's disk.

The store is an S3 server of this machine. Workers live in mount namespaces of their own, in which the folder of the
driver's copies is empty, with a Python that has no Tidemill, and without the variables that name the store.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.integration.clustering import ROWS
from tests.integration.object_clustering import ADDRESS, FAULTS, changed
from tests.integration.test_spark_cluster import NO_NAMESPACES, bare_python, hiding
from tests.storage.samples import child_environment
from tidemill.runtimes.spark.sessions.standalone_cluster import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.skipif(NO_NAMESPACES is not None, reason=str(NO_NAMESPACES))]

SECRET = "aSecretThatNobodyMayRead"

PACKAGES = ("duckdb", "_duckdb", "numpy", "pandas", "pyarrow", "dateutil", "pytz", "six")


@dataclass(frozen=True)
class Outcome:
    """The answers of a driver, its folder, its variables, all that it has written, and the faults that it met."""

    told: dict[str, Any]
    root: Path
    environment: dict[str, str]
    said: str
    faults: list[str]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")).read()
    yield f"http://{host}:{port}"
    moto.stop()


def worker_apart(root: Path, number: int, usual: list[str]) -> list[str]:
    """The command of a worker that does not see the driver's copies, and has a folder of its own for its copies."""
    return hiding([root / "driver"], ["env", f"TIDEMILL_CACHE={root / f'worker {number} copies'}", *usual])


@pytest.fixture(scope="module", params=["one fault", pytest.param("all faults", marks=pytest.mark.long)])
def outcome(request: pytest.FixtureRequest, server: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome on a cluster that has ended since."""
    root = tmp_path_factory.mktemp("objects")
    for name in ("driver", "events"):
        (root / name).mkdir()
    urllib.request.urlopen(urllib.request.Request(f"{server}/moto-api/reset", method="POST")).read()
    urllib.request.urlopen(urllib.request.Request(f"{server}/bucket", method="PUT")).read()
    python, lacking = bare_python(root / "bare", *PACKAGES, "obstore"), bare_python(root / "lacking", *PACKAGES)
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    faults = list(FAULTS) if request.param == "all faults" else ["answers are lost"]
    environment = child_environment(
        PYSPARK_PYTHON=python,
        SPARK_LOCAL_IP="127.0.0.1",
        AWS_ENDPOINT_URL=server,
        AWS_ACCESS_KEY_ID="somebody",
        AWS_SECRET_ACCESS_KEY=SECRET,
        AWS_REGION="us-east-1",
        TIDEMILL_CACHE=str(root / "driver" / "copies"),
    )
    alone = partial(worker_apart, root)
    with standalone_cluster(root, 2, memory="600m", environment=outside, command=alone) as master:
        driver = [sys.executable, "-m", "tests.integration.object_clustering", master, str(root), lacking]
        told = subprocess.run([*driver, ",".join(faults)], env=environment, capture_output=True, text=True, timeout=400)
    assert told.returncode == 0, told.stderr[-6_000:]
    return Outcome(json.loads(told.stdout.splitlines()[-1]), root, environment, told.stdout + told.stderr, faults)


def rows_after(epochs: int) -> list[tuple[int, int]]:
    """The rows of the table after the load, the row that follows it, and so many epochs in bulk."""
    rows = Counter({(id_, id_ % 5): 1 for id_ in range(ROWS)}) + Counter({(-1, 3): 1})
    for number in range(epochs):
        for weight, row in changed(number):
            rows[row] += weight
    return list(rows.elements())


def named(rows: list[tuple[int, int]]) -> list[list[object]]:
    """The view of these rows."""
    return [[f"name {k}", len(ids), sum(ids)] for k in range(5) if (ids := [id_ for id_, group in rows if group == k])]


def pairs(rows: list[tuple[int, int]]) -> list[int]:
    """How many rows the other view has, and two sums over them."""
    return [len(rows), sum(id_ for id_, _ in rows), sum(k for _, k in rows)]


def test_every_kind_of_epoch(outcome: Outcome) -> None:
    loaded = [row for row in rows_after(0) if row[0] >= 0]
    load, fill = outcome.told["load"], outcome.told["fill"]
    assert (load["named"], load["runtimes"]) == (named(loaded), ["spark dataframes"])
    assert (fill["pairs"], fill["epoch"]) == (pairs(loaded), load["epoch"])
    for epochs, name in enumerate(("one row", "tasks", "checked by tasks")):
        found, rows = outcome.told[name], rows_after(epochs)
        assert (found["named"], found["pairs"]) == (named(rows), pairs(rows)), name
        assert found["epoch"] == load["epoch"] + 1 + epochs
    assert outcome.told["tasks"]["runtimes"] == outcome.told["checked by tasks"]["runtimes"] == ["spark tasks"]


def test_answers_are_those_of_spark(outcome: Outcome) -> None:
    assert outcome.told["verify"]["verified"] == [True] * 3
    assert outcome.told["verify"]["doubled"]["kind"] == "DuplicateKey"


def test_workers_have_copies_of_their_own(outcome: Outcome) -> None:
    copies = [list((outcome.root / f"worker {number} copies").rglob("*.parquet")) for number in range(2)]
    assert any(copies)
    assert not list(outcome.root.glob("worker*copies/*/tidemill-*/*")), "drafts are deleted"


def test_faults_of_the_store(outcome: Outcome) -> None:
    """Requests are made again, and tasks are; nothing comes twice, and what is refused leaves nothing."""
    epoch, rows = outcome.told["checked by tasks"]["epoch"], rows_after(2)
    for number, name in enumerate(outcome.faults, start=2):
        found = outcome.told[name]
        if name == "the store is silent":
            assert found["refused"]["kind"] == "StorageError"
            assert "cannot read a run" in found["refused"]["what"]
        else:
            assert found["refused"] is None, name
            epoch += 1
            more = Counter(rows)
            for weight, row in changed(number):
                more[row] += weight
            ids = range(10**7 * number, 10**7 * number + ROWS)
            rows = list(more.elements()) if "task" not in name else rows + [(id_, id_ % 5) for id_ in ids]
        assert (found["named"], found["pairs"], found["epoch"]) == (named(rows), pairs(rows), epoch), name
        attempts = {file.name.removeprefix(f"{name}.") for file in outcome.root.glob(f"{name}.*")}
        assert attempts >= ({"0.0", "0.1"} if "task" in name else {"0.0"})


def test_what_workers_lack_is_named(outcome: Outcome) -> None:
    refused = outcome.told["lacking"]
    assert refused["kind"] == "SetupError"
    assert "Spark's workers need obstore>=0.8" in refused["what"]
    assert "has no obstore." in refused["detail"]


def test_secrets_are_nowhere(outcome: Outcome) -> None:
    """Neither in logs of the cluster, nor in Spark's own record of its jobs, nor in what the driver says."""
    files = [file for file in outcome.root.rglob("*") if file.is_file() and not file.is_symlink()]
    assert any("events" in file.parts for file in files)
    assert not [file for file in files if "site-packages" not in file.parts and SECRET.encode() in file.read_bytes()]
    assert SECRET not in outcome.said


def test_the_warehouse_is_whole(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process without Spark finds the same, and a vacuum deletes what other attempts have put."""
    for name, value in outcome.environment.items():
        if name.startswith(("AWS_", "TIDEMILL_")):
            monkeypatch.setenv(name, value)
    with tidemill.open(ADDRESS, runtime="native") as wh:
        assert sorted(map(list, wh.view("named").rows())) == outcome.told[outcome.faults[-1]]["named"]
        assert all(one.ok for one in wh.verify())
        wh.vacuum()
        assert wh.check_files().strays == ()
    assert tidemill.check(ADDRESS, full=True).ok
