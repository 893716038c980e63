"""Rows that Spark writes are counted by Spark: where this process finds others, nothing is committed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidemill
from tests.storage.samples import child_environment
from tidemill.engine import placement
from tidemill.model.errors import ArithmeticFault, StorageError
from tidemill.runtimes.spark import files as spark_files
from tidemill.runtimes.spark import intake, land

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DDL = """CREATE TABLE t (id BIGINT PRIMARY KEY, k INT);
CREATE MATERIALIZED VIEW v AS SELECT id, k + 1 AS k FROM t"""


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark write whatever it computes."""
    monkeypatch.setattr(intake, "COLLECT_ROWS", 10)
    monkeypatch.setattr(land, "COLLECT_ROWS", 10)
    monkeypatch.setattr(placement, "DRIVER_WORK", -1)


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("id", "CAST(id % 3 AS INT) AS k")


Loss = Callable[[list[Path]], list[Path]]

LOSSES: dict[str, Loss] = {
    "all files are elsewhere": lambda found: [],
    "one file is elsewhere": lambda found: found[1:],
}


Write = Callable[["DataFrame", Path, str], dict[Path, int]]


def losing(write: Write, loss: Loss, frame: DataFrame, folder: Path, name: str) -> dict[Path, int]:
    """Write files of which this process does not find all."""
    glob = Path.glob
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "glob", lambda folder, pattern: loss(sorted(glob(folder, pattern))))
        return write(frame, folder, name)


@pytest.mark.parametrize("loss", LOSSES)
def test_files_that_are_not_found_are_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    with tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"t": rows(spark, 40)})
        for module in (intake, land):
            with monkeypatch.context() as patched:
                patched.setattr(module, "write_files", partial(losing, spark_files.write_files, LOSSES[loss]))
                with pytest.raises(StorageError, match=r"Spark wrote .* rows of .* are here"):
                    wh.apply({"t": rows(spark, 80).where("id >= 40")})
            assert (wh.epoch, len(wh.table("t")), len(wh.view("v"))) == (1, 40, 40)
        wh.apply({"t": rows(spark, 80).where("id >= 40")})
        assert (wh.epoch, len(wh.table("t")), len(wh.view("v"))) == (2, 80, 80)


def test_names_with_signs_that_mean_something_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "w[1] {a,b} %41 *"
    with tidemill.open(folder, runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"t": rows(spark, 40)})
        wh.apply({"t": [(-1, (1, 1))]})
        assert wh.view("v").verify()
        assert len(wh.view("v")) == 39


def test_a_view_is_replaced_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"t": rows(spark, 40)})
        with pytest.raises(ArithmeticFault):
            wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id, 1 / k AS k FROM t")
        wh.apply({"t": [(1, (100, 7))]})
        assert (len(wh.view("v")), bool(wh.view("v").verify())) == (41, True)
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        wh.apply({"t": [(1, (101, 7))]})
        assert sorted(wh.view("v").rows()) == [(0, 14), (1, 13), (2, 13), (7, 2)]


CLUSTER = """
import sys
from pathlib import Path
import pyspark
from pyspark.sql import SparkSession
import tidemill
from tidemill.model.errors import StorageError
from tidemill.runtimes.spark import files, intake
from tidemill.runtimes.spark.java import java_home

import os
os.environ["JAVA_HOME"] = str(java_home())
os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
intake.COLLECT_ROWS = 10
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
with tidemill.open(sys.argv[1], spark=spark, runtime="native") as wh:
    wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    wh.apply({"t": spark.range(1000)})
    print("shared", wh.epoch, len(wh.table("t")))
    # As where machines share no disk: each worker writes below its own folder, and the driver commits what it sees.
    files._url = lambda path: f"file:./elsewhere/{path.name}"
    try:
        wh.apply({"t": spark.range(1000, 2000)})
    except StorageError as error:
        print("refused", error.what)
    print("then", wh.epoch, len(wh.table("t")))
"""


@pytest.mark.long
def test_workers_that_write_to_their_own_disks(tmp_path: Path) -> None:
    """Every worker of a cluster has a working folder of its own, which stands for a disk of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, str(tmp_path / "w")],
        env=child_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line]
    assert told == [
        "shared 1 1000",
        'refused Spark wrote 1,000 rows of "t", and 0 of them are here',
        "then 1 1000",
    ], done.stderr[-3000:]
