"""Runs that are older than the columns of their map: scanned, looked up, merged, sliced, rewritten, and on Spark."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tidemill
import tidemill.spark
from tidemill.changes.alterations import Alteration
from tidemill.changes.arrow import arrow_type
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.model.types import BIGINT, INT, STRING, Field
from tidemill.program.maps import Map
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.scans.scan_parts import row_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = (Field("id", INT), Field("a", INT), Field("gone", STRING))
NEW = (Field("id", BIGINT), Field("b", INT), Field("c", STRING), Field("d", BIGINT))
STEPS = (
    Alteration("drop", "gone"),
    Alteration("rename", "a", to="b"),
    Alteration.widen(Field("id", BIGINT)),
    Alteration.compute(Field("half", BIGINT), ["div", "int64", ["column", "id"], ["value", "int64", 2]]),
    Alteration("rename", "half", to="d"),
    Alteration.add(Field("c", STRING), "new"),
)
ROWS = 40_000
"""Rows of a run of several row groups."""


def altered_store(store: FolderStore | MemoryStore, rows: int = ROWS) -> None:
    """Rows from before the alterations, deletions among them, and one from after."""
    store.commit(Epoch(1, {"t": ChangeSet.of([((n, n % 7, "x"), 1) for n in range(rows)], OLD)}))
    store.commit(Epoch(2, {"t": ChangeSet.of([((5, 5, "x"), -1)], OLD)}))
    store.commit(Epoch(2, catalog={"x": 1}, altered={"t": STEPS}))
    store.commit(Epoch(3, {"t": ChangeSet.of([((rows, 1, "own", 9), 1), ((6, 6, "new", 3), -1)], NEW)}))


def net(table: pa.Table) -> dict[tuple[object, ...], int]:
    found: dict[tuple[object, ...], int] = {}
    for row in table.to_pylist():
        key = row["id"], row["b"], row["c"], row["d"]
        found[key] = found.get(key, 0) + row["_weight"]
    return {key: weight for key, weight in found.items() if weight}


def expected(rows: int) -> dict[tuple[object, ...], int]:
    return {(n, n % 7, "new", n // 2): 1 for n in range(rows) if n not in (5, 6)} | {(rows, 1, "own", 9): 1}


@pytest.mark.parametrize("stage", ["fresh", "merged", "rewritten"])
def test_scans_and_lookups(tmp_path: Path, stage: str) -> None:
    with FolderStore.open(tmp_path) as store:
        altered_store(store)
        if stage == "merged":
            store.compact({"t": Map("t", NEW)})
        if stage == "rewritten":
            assert all(pa.parquet.read_schema(run.file).names[:1] == ["id"] for run in store.runs("t"))
        assert net(store.read("t", NEW)) == expected(ROWS)
        assert net(store.read("t", NEW, until=1))[(5, 5, "new", 2)] == 1
        for turn in range(4):  # until lookups have made files of their own
            for name, value, of in (
                ("id", 20_000 + turn, BIGINT),
                ("b", 3, INT),
                ("c", "own", STRING),
                ("c", "new", STRING),
                ("d", 5_000 + turn, BIGINT),
            ):
                where = {name: pa.array([value], arrow_type(of))}
                place = [f.name for f in NEW].index(name)
                wanted = {key: w for key, w in expected(ROWS).items() if key[place] == value}
                assert net(store.read("t", NEW, where=where)) == wanted


def test_parts_travel_to_other_processes(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        altered_store(store, rows=600_000)
        with store.pin() as snapshot:
            parts = pickle.loads(pickle.dumps(row_parts(snapshot, "t", NEW, None)))
            rows = pa.concat_tables([table for part in parts for table in part.tables()])
    assert (rows.num_rows, set(rows.column("c").to_pylist())) == (600_000 - 1, {"new", "own"})


def test_a_reader_has_files_with_the_present_columns(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        altered_store(store, rows=100)
    with FolderStore.open(tmp_path, read_only=True) as reader:
        files = reader.runs("t")
        assert reader.runs("t") == files
        rows = pa.concat_tables(
            [pa.parquet.read_table(run.file).select(["id", "b", "c", "d", "_weight"]) for run in files]
        )
        assert net(rows) == expected(100)


def test_names_move_with_their_runs(tmp_path: Path) -> None:
    for store in (FolderStore.open(tmp_path), MemoryStore()):
        altered_store(store, rows=100)
        store.commit(Epoch(3, catalog={"x": 2}, renamed={"t": "u"}))
        assert store.read("t", NEW).num_rows == 0
        assert net(store.read("u", NEW)) == expected(100)
        store.commit(Epoch(4, {"t": ChangeSet.of([((1, 1, "x"), 1)], OLD)}))
        store.vacuum(1)
        assert (net(store.read("u", NEW)), store.read("t", OLD).num_rows) == (expected(100), 1)
        store.close()
    with FolderStore.open(tmp_path) as again:
        assert net(again.read("u", NEW)) == expected(100)


@pytest.mark.spark
def test_spark_reads_old_runs(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "w")
    with tidemill.open(folder, runtime="native") as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v INT)")
        wh.apply({"t": [(1, (n, "abc"[n % 3], n)) for n in range(200)]})
        wh.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM t")
        wh.sql("ALTER TABLE t ADD COLUMN c DECIMAL(9,2) DEFAULT 1.5; ALTER TABLE t RENAME COLUMN k TO name")
        wh.sql("ALTER TABLE t ALTER COLUMN v TYPE BIGINT; DELETE FROM t WHERE id < 10")
        wh.sql("INSERT INTO t VALUES (900, 'd', 1, 2)")
        rows = sorted(wh.table("t").rows())
    tidemill.spark.register(spark)
    read = spark.read.format("tidemill").option("warehouse", folder)
    assert sorted(tuple(row) for row in read.load("t").collect()) == rows
    assert sorted(tuple(row) for row in read.load("every").collect()) == [row[:3] for row in rows]
    with tidemill.open(folder, spark=spark, runtime="spark") as wh:
        wh.sql(
            "CREATE MATERIALIZED VIEW s AS SELECT name, SUM(c) AS c, MAX(v) AS v, COUNT(*) AS n FROM t GROUP BY name"
        )
        wh.sql("ALTER TABLE t ADD COLUMN d INT DEFAULT 3; ALTER TABLE t RENAME COLUMN name TO k")
        wh.apply({"t": [(1, (901, "d", 5, Decimal("1"), 4)), (-1, (11, "c", 11, Decimal("1.5"), 3))]})
        assert wh.sql("SELECT SUM(d), COUNT(*) FROM t").rows() == [(3 * 190 + 4 + 3 - 3, 191)]
        for view in ("s", "every"):
            assert wh.view(view).verify("spark").ok
            assert wh.view(view).verify("evaluator").ok
