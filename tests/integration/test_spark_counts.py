"""Rows that Spark writes are counted by Spark: where this process finds others, nothing is committed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tidemill.engine.epochs import placement
from tidemill.model.errors import ArithmeticFault, StorageError
from tidemill.runtimes.spark.execution import ingest, results
from tidemill.runtimes.spark.execution import parquet_files as spark_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DDL = """CREATE TABLE t (id BIGINT PRIMARY KEY, k INT);
CREATE MATERIALIZED VIEW v AS SELECT id, k + 1 AS k FROM t"""


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark write whatever it computes."""
    monkeypatch.setattr(ingest, "COLLECT_ROWS", 10)
    monkeypatch.setattr(results, "COLLECT_ROWS", 10)
    monkeypatch.setattr(placement, "DRIVER_WORK", -1)
    monkeypatch.setattr(placement, "MOST_TASK_WORK", -1)


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("id", "CAST(id % 3 AS INT) AS k")


Loss = Callable[[list[Path]], list[Path]]

LOSSES: dict[str, Loss] = {
    "all files are elsewhere": lambda found: [],
    "one file is elsewhere": lambda found: found[:-1],
}


Write = Callable[["DataFrame", Path, str], dict[Path, int]]


def losing(write: Write, loss: Loss, *arguments: Any) -> dict[Path, int]:
    """Write files of which this process does not find all."""
    glob = Path.glob
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "glob", lambda folder, pattern: loss(sorted(glob(folder, pattern))))
        return write(*arguments)


@pytest.mark.parametrize("loss", LOSSES)
def test_files_that_are_not_found_are_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    with tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"t": rows(spark, 40)})
        for module in (ingest, results):
            with monkeypatch.context() as patched:
                patched.setattr(module, "write_files", partial(losing, spark_files.write_files, LOSSES[loss]))
                with pytest.raises(StorageError, match=r"Spark wrote .* rows of .* are here"):
                    wh.apply({"t": rows(spark, 80).where("id >= 40")})
            assert (wh.epoch, len(wh.table("t")), len(wh.view("v"))) == (1, 40, 40)
        wh.apply({"t": rows(spark, 80).where("id >= 40")})
        assert (wh.epoch, len(wh.table("t")), len(wh.view("v"))) == (2, 80, 80)


@pytest.mark.parametrize("name", ["w[1] {a,b} %41 *", "w\\[1]#f?q=1"])
def test_names_with_signs_that_mean_something_to_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """As patterns such paths may stand for none of the warehouse's files, for each several times, or for others."""
    with tidemill.open(tmp_path / name, runtime="spark", spark=spark) as wh:
        wh.sql(f"{DDL}; CREATE MATERIALIZED VIEW g AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        wh.apply({"t": rows(spark, 40)})
        # Another one whose files have the same names, which the pattern matches too.
        for other in ("w1 a A x", "w1 b %41 y", "w[1]#f?q=1", "w[1]#fxq=1"):
            shutil.copytree(tmp_path / name, tmp_path / other)
        wh.apply({"t": rows(spark, 80).where("id >= 40")})
        wh.apply({"t": [(-1, (3, 0))]})
        assert (wh.epoch, len(wh.table("t")), wh.table("t").df().count()) == (3, 79, 79)
        assert sorted(wh.view("v").rows()) == [(n, n % 3 + 1) for n in range(80) if n != 3]
        assert sorted(wh.view("g").df().collect()) == [(0, 26), (1, 27), (2, 26)]
        assert all(wh.verify())


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
