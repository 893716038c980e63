"""Damaged files on Spark, which reads them itself: told before it is given them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.engine.epochs import placement
from tidemill.model.errors import Corrupt
from tidemill.runtimes.spark.execution import ingest, results
from tidemill.storage.folder_store import FolderStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 40_000


@contextmanager
def written_by_spark() -> Iterator[None]:
    """Within this block Spark itself writes the rows of frames that it is given, and of views."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(placement, "DRIVER_WORK", -1)
        patched.setattr(placement, "MOST_TASK_WORK", -1)
        patched.setattr(ingest, "COLLECT_ROWS", 10)
        patched.setattr(results, "COLLECT_ROWS", 10)
        yield


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse whose runs were written by Spark, and adopted, or by this process."""
    root = tmp_path_factory.mktemp("built") / "w"
    with written_by_spark(), tidemill.open(root, spark=spark, runtime="spark") as wh:
        wh.sql("CREATE TABLE t (id BIGINT, k INT, s STRING)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(id) AS total FROM t GROUP BY k")
        wh.apply({"t": spark.range(ROWS).selectExpr("id", "CAST(id % 7 AS INT) AS k", "CAST(id * 31 AS STRING) AS s")})
        numbers = range(ROWS, 2 * ROWS)
        wh.apply({"t": pa.table({"id": numbers, "k": [n % 7 for n in numbers], "s": [str(n) for n in numbers]})})
    return root


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "w")
    return tmp_path / "w"


def answers(folder: Path, spark: SparkSession) -> tuple[int, list[tuple[object, ...]]]:
    with tidemill.open(folder, spark=spark, runtime="spark", read_only=True) as wh:
        counted = wh.table("t").df().selectExpr("SUM(id + k + CAST(s AS BIGINT))").collect()
        return counted[0][0], sorted(map(tuple, wh.view("v").df().collect()))


def flip(file: Path, at: int) -> None:
    """Change a byte as a disk does: the file looks as it did."""
    status = file.stat()
    content = bytearray(file.read_bytes())
    content[at] ^= 0x10
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_flips_in_runs_are_told(folder: Path, spark: SparkSession) -> None:
    with FolderStore.open(folder, read_only=True) as store:
        files = [run.file for name in ("t", "v") for run in store.runs(name)]
    assert len(files) >= 3
    for file in files:
        whole = file.read_bytes()
        for place in (2, 40, len(whole) // 2, len(whole) - 600, len(whole) - 6, len(whole) - 1):
            content = bytearray(whole)
            content[place] ^= 0x10
            file.write_bytes(content)
            with pytest.raises(Corrupt, match="does not match its checksum") as caught:
                answers(folder, spark)
            assert caught.value.where == str(file)
        file.write_bytes(whole)


def test_a_page_that_goes_bad_later_is_told_by_its_own_checksum(folder: Path, spark: SparkSession) -> None:
    with tidemill.open(folder, spark=spark, runtime="spark", read_only=True) as wh:
        assert wh.table("t").df().count() == 2 * ROWS
        for file in sorted((folder / "maps").rglob("*.parquet")):
            column = pq.read_metadata(file).row_group(0).column(0)
            if pq.read_metadata(file).num_rows > 1000:
                flip(file, column.data_page_offset + column.total_compressed_size // 2)
        with pytest.raises(Corrupt, match="could not verify page integrity"):
            wh.table("t").arrow()


@pytest.fixture
def joined(spark: SparkSession, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    """A warehouse with a join, so that what comes to one table makes Spark read the runs of the other."""
    with written_by_spark(), tidemill.open(tmp_path / "w[1] %41", spark=spark, runtime="spark") as wh:
        wh.sql("CREATE TABLE t (id BIGINT, k INT); CREATE TABLE u (k INT, name STRING)")
        wh.sql("""CREATE MATERIALIZED VIEW v WITH (strategy = 'delta') AS
                  SELECT name, SUM(id) AS total FROM t JOIN u ON t.k = u.k GROUP BY name""")
        wh.apply({"t": spark.range(ROWS).selectExpr("id", "CAST(id % 7 AS INT) AS k")})
        numbers = range(ROWS, 2 * ROWS)
        wh.apply({"t": pa.table({"id": numbers, "k": pa.array([n % 7 for n in numbers], pa.int32())})})
        yield wh


def test_a_page_that_goes_bad_later_is_told_by_spark(joined: tidemill.Warehouse, spark: SparkSession) -> None:
    """Of files that Spark wrote and of those that this process did; what reads them commits nothing."""
    names = spark.range(100).selectExpr("CAST(id % 7 AS INT) AS k", "CAST(id AS STRING) AS name")
    files = [run.file for run in joined._engine.store.runs("t")]
    assert len(files) >= 2
    for file in files:
        column = pq.read_metadata(file).row_group(0).column(0)
        middle = column.data_page_offset + column.total_compressed_size // 2
        flip(file, middle)
        with pytest.raises(Corrupt, match="is damaged") as caught:
            joined.apply({"u": names})
        assert caught.value.where == str(file)
        assert "CRC checksum verification failed" in str(caught.value.detail)
        assert (joined.epoch, len(joined.view("v"))) == (2, 0)
        flip(file, middle)
    joined.apply({"u": names})
    assert (joined.epoch, len(joined.view("v"))) == (3, 100)
    assert all(joined.verify())


def test_merging_never_gives_damage_a_good_checksum(folder: Path, spark: SparkSession) -> None:
    with tidemill.open(folder, spark=spark, runtime="spark") as wh:
        wh.vacuum(keep=1)
        large = max((folder / "maps").rglob("*.parquet"), key=lambda file: file.stat().st_size)
        wh.view("v").rows()
        flip(large, large.stat().st_size // 2)
        with pytest.raises(Corrupt, match="does not match its checksum"):
            wh.compact()
    assert [damage.file for damage in tidemill.check(folder).damages] == [str(large.relative_to(folder))]
