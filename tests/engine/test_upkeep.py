"""Maintenance over many epochs: time and space stay bounded, readable epochs do not change, failures fail no epoch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidemill
from tidemill.changes.zset import ZSet
from tidemill.engine.maintenance import compaction_schedule
from tidemill.engine.maintenance.compaction_schedule import EPOCHS_BETWEEN_PASSES, MEMORY_EPOCHS
from tidemill.model.errors import EpochGone, StorageError
from tidemill.storage import folder_writer
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import COMPACT_AT, MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
  CREATE TABLE t (id INT PRIMARY KEY, k INT);
  CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(id) AS s, COUNT(*) AS n FROM t GROUP BY k;
"""


def live(wh: tidemill.Warehouse, epochs: int) -> None:
    """So many epochs more; each brings a row, and takes one away once there are twenty."""
    last = max((row[0] for row in wh.table("t").rows()), default=0)
    for number in range(last + 1, last + epochs + 1):
        gone = [(-1, (number - 20, number % 4))] if number > 20 else []
        wh.apply({"t": [(+1, (number, number % 4)), *gone]})


@pytest.fixture
def memory() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SCRIPT)
        yield wh


def stored_rows(wh: tidemill.Warehouse) -> int:
    return max(wh._engine.store.rows(name) for name in ("t", "sums", "sums/groups"))


BOUND = 2 * (2 * (MEMORY_EPOCHS + EPOCHS_BETWEEN_PASSES) + 20) + COMPACT_AT
"""Two rows for each epoch that is kept, twice, and what must come before a look is worth while."""


@pytest.mark.parametrize("epochs", [6_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_memory_does_not_grow_with_the_number_of_epochs(memory: tidemill.Warehouse, epochs: int) -> None:
    most = 0
    for _ in range(epochs // 500):
        live(memory, 500)
        most = max(most, stored_rows(memory))
    assert memory.epoch == epochs
    assert most <= BOUND
    assert len(memory.table("t")) == 20
    assert memory.view("sums").verify()


def test_memory_reaches_back_as_far_as_it_says(memory: tidemill.Warehouse) -> None:
    assert memory.at(0).view("sums").rows() == []
    live(memory, 5_000)
    oldest = memory.epoch - MEMORY_EPOCHS + 1
    past = memory.at(oldest)
    assert sorted(past.table("t").rows()) == [(n, n % 4) for n in range(oldest - 19, oldest + 1)]
    total = ZSet.of(past.view("sums").rows())
    total.update_by(ZSet.summed((row, weight) for weight, row in memory.view("sums").changes(since=oldest)))
    assert total == ZSet.of(memory.view("sums").rows())
    with pytest.raises(EpochGone, match="epoch 1 "):
        memory.at(1)
    with pytest.raises(EpochGone, match="no longer kept"):
        memory.view("sums").changes()


@pytest.mark.parametrize("keep", [10, 3_000])
def test_vacuum_says_how_far_memory_reaches_from_then_on(memory: tidemill.Warehouse, keep: int) -> None:
    live(memory, 50)
    memory.vacuum(keep)
    live(memory, 4_000)
    memory.at(memory.epoch - keep + 1)
    with pytest.raises(EpochGone):
        memory.at(memory.epoch - keep - EPOCHS_BETWEEN_PASSES)


def test_what_a_deferred_view_has_not_seen_is_kept(memory: tidemill.Warehouse) -> None:
    memory.sql("""CREATE STREAM clicks (page STRING);
        CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT k, SUM(id) AS s FROM t GROUP BY k;
        CREATE MATERIALIZED VIEW pages WITH (refresh = 'deferred') AS
          SELECT page, COUNT(*) AS n FROM clicks GROUP BY page""")
    memory.apply({"clicks": [(+1, ("home",))]})
    memory.vacuum(keep=10)
    live(memory, 200)
    assert memory.view("late").rows() == []
    assert memory.view("late").verify()
    memory.sql("REFRESH VIEW late; REFRESH VIEW pages")
    assert memory.view("pages").rows() == [("home", 1)]
    assert memory.view("late").verify()
    assert len(memory.view("late")) == 4
    live(memory, 200)
    assert memory.view("late").verify()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tidemill.Warehouse]:
    """A warehouse that takes its log into runs every second epoch and looks after them every fourth."""
    monkeypatch.setattr(folder_writer, "CHECKPOINT_EPOCHS", 2)
    monkeypatch.setattr(compaction_schedule, "EPOCHS_BETWEEN_PASSES", 4)
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(SCRIPT)
        yield wh


def runs(wh: tidemill.Warehouse) -> int:
    return max(len(wh._engine.store.runs(name)) for name in ("t", "sums", "sums/groups"))


def test_runs_are_merged_as_epochs_go_by(folder: tidemill.Warehouse) -> None:
    most = 0
    for _ in range(60):
        live(folder, 2)
        most = max(most, runs(folder))
    assert most < 20
    past = folder.at(50)
    assert sorted(past.table("t").rows()) == [(n, n % 4) for n in range(31, 51)]
    assert past.sql("SELECT k, SUM(id), COUNT(*) FROM t GROUP BY k ORDER BY k") == sorted(past.view("sums").rows())
    assert folder.view("sums").verify()


def test_reopening_after_merges(folder: tidemill.Warehouse) -> None:
    live(folder, 60)
    folder.close()
    with tidemill.open(folder._folder, runtime="native") as wh:
        live(wh, 10)
        assert wh.view("sums").verify()
        assert sorted(wh.table("t").rows()) == [(n, n % 4) for n in range(51, 71)]


def test_large_runs_are_left_to_those_who_ask(folder: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_schedule, "MAX_MERGED_ROWS", 0)
    live(folder, 40)
    assert runs(folder) >= 20
    folder.compact()
    assert runs(folder) == 1


def test_only_what_was_touched_is_looked_at(folder: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.sql("CREATE TABLE other (id INT)")
    looked: list[str] = []
    due = FolderStore.compaction_due
    monkeypatch.setattr(
        FolderStore, "compaction_due", lambda self, name, most=None: looked.append(name) or due(self, name, most)
    )
    live(folder, 3)
    folder.apply({"other": [(+1, (1,))]})
    live(folder, 4)
    assert looked.count("other") == 1
    assert looked.count("t") == 2


def test_merging_leaves_the_log_alone(folder: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps are merged one after the other. That makes no runs of what waits: they would have to be merged in turn."""
    monkeypatch.setattr(folder_writer, "CHECKPOINT_EPOCHS", 16)
    monkeypatch.setattr(compaction_schedule, "MERGE_BATCH_ROWS", 1)
    folder.sql("; ".join(f"CREATE MATERIALIZED VIEW v{n} AS SELECT id + {n} AS id FROM t" for n in range(6)))
    written = [len(list(folder._folder.glob("ma*/**/*.*")))]
    for _ in range(5):
        live(folder, 160)
        written.append(len(list(folder._folder.glob("ma*/**/*.*"))))
    grown = [after - before for before, after in pairwise(written)]
    checkpoints = 160 // 16
    assert max(grown) <= 2 * checkpoints * 9  # a manifest, a table and seven views
    folder.close()
    with tidemill.open(folder._folder, runtime="native") as wh:
        assert all(wh.view(name).verify() for name in wh.views())


@pytest.mark.parametrize("trouble", [StorageError("the disk is full"), OSError(28, "no space"), ValueError("a bug")])
def test_trouble_is_a_warning_and_the_epochs_stand(
    memory: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def refuse(self: MemoryStore, maps: object, most: object = None) -> int:
        raise trouble

    monkeypatch.setattr(MemoryStore, "compaction_due", lambda self, name, most=None: True)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "compact", refuse)
        with pytest.warns(RuntimeWarning, match="could not be merged"):
            live(memory, EPOCHS_BETWEEN_PASSES)
    live(memory, EPOCHS_BETWEEN_PASSES)
    assert memory.epoch == 2 * EPOCHS_BETWEEN_PASSES
    assert memory.view("sums").verify()


@pytest.mark.spark
def test_what_spark_looks_up_survives_upkeep(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An in-memory warehouse on Spark has its files in a temporary folder: they go while epochs look rows up there."""
    from tidemill.runtimes.spark.driver_runtime import DriverRuntime

    monkeypatch.setattr(DriverRuntime.__init__, "__defaults__", (0,))  # no relation is small enough to be read whole
    monkeypatch.setattr(compaction_schedule, "EPOCHS_BETWEEN_PASSES", 2)
    with tidemill.open(":memory:", spark=spark, runtime="spark") as wh:
        wh.sql(SCRIPT)
        live(wh, 22)
        wh.vacuum(keep=1)
        live(wh, 8)
        assert wh._engine.store.oldest >= 28
        assert wh.view("sums").verify()
