"""Backups, restored warehouses and clones: equal to what they were made of, independent of it, and whole or absent."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.storage.samples import child_environment
from tidemill.model import errors
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE, checksum

SCRIPT = """
  CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT);
  CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
  CREATE MATERIALIZED VIEW top AS SELECT MAX(total) AS most FROM spend;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(SCRIPT)
        for number in range(1, 6):
            order(wh, number)
        wh._engine.store.checkpoint()  # type: ignore[attr-defined]
        order(wh, 6)  # in the log
        yield wh


def order(wh: tidemill.Warehouse, number: int) -> int:
    changes = [(+1, (number, "ann" if number % 2 else "bob", number))]
    return wh.apply({"orders": changes}, positions={"queue": str(number)})


def opened(path: Path, *, read_only: bool = False) -> tidemill.Warehouse:
    return tidemill.open(path, runtime="native", backend="python", read_only=read_only)


def everything(wh: tidemill.Warehouse) -> dict[str, list[tuple[object, ...]]]:
    tables = {name: sorted(wh.table(name).rows()) for name in wh.tables()}
    return tables | {name: sorted(wh.view(name).rows()) for name in wh.views()}


def checksums(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): checksum(file) for file in folder.rglob("*.parquet")}


def test_a_clone_is_equal_and_independent(shop: tidemill.Warehouse, tmp_path: Path) -> None:
    before, files = everything(shop), checksums(tmp_path / "w" / "maps")
    made = tidemill.clone(tmp_path / "w", tmp_path / "c")
    assert made.epoch == 6 and made.files.linked >= 3 and made.notes == ()
    with opened(tmp_path / "c") as copy:
        assert (copy.epoch, copy.positions, everything(copy)) == (6, {"queue": "6"}, before)
        assert copy.at(3).view("spend").rows() == shop.at(3).view("spend").rows()
        for number in range(7, 12):
            order(copy, number)
            copy._engine.store.checkpoint()  # type: ignore[attr-defined]
        copy.compact()
        copy.vacuum()
        assert all(copy.verify()) and copy.sql("SELECT COUNT(*) FROM orders") == [(11,)]
        assert everything(shop) == before and shop.check_files()
        assert files.items() <= checksums(tmp_path / "w" / "maps").items()
        order(shop, 7)
        shop.compact()
        shop.vacuum()
        assert len(copy.table("orders").rows()) == 11 and copy.check_files()
    assert tidemill.check(tmp_path / "c").ok and tidemill.check(tmp_path / "w").ok


@pytest.mark.parametrize("epoch", [0, 3, 6])
def test_a_clone_as_of_an_epoch_has_the_rows_of_then(shop: tidemill.Warehouse, tmp_path: Path, epoch: int) -> None:
    made = tidemill.clone(tmp_path / "w", tmp_path / "c", epoch=epoch)
    with opened(tmp_path / "c") as copy:
        assert made.epoch == copy.epoch == epoch and made.rebuilt == ()
        then = shop.at(epoch)
        assert sorted(copy.table("orders").rows()) == sorted(then.table("orders").rows())
        assert sorted(copy.view("spend").rows()) == sorted(then.view("spend").rows())
        assert copy.positions == ({"queue": str(epoch)} if epoch else {})
        order(copy, epoch + 1)
        assert all(copy.verify())


def test_views_that_came_later_are_computed_from_the_rows_of_then(shop: tidemill.Warehouse, tmp_path: Path) -> None:
    shop.sql("CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM orders")
    shop.sql("CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT MAX(id) AS last FROM orders")
    order(shop, 7)
    shop.view("late").refresh()
    made = tidemill.clone(tmp_path / "w", tmp_path / "c", epoch=4)
    assert made.rebuilt == ("many", "late")
    with opened(tmp_path / "c", read_only=True) as copy:
        assert everything(copy) | {"orders": []} == {
            "orders": [],
            "spend": [("ann", 4), ("bob", 6)],
            "top": [(6,)],
            "many": [(4,)],
            "late": [(4,)],
        }


def test_an_epoch_that_is_not_kept_is_gone(shop: tidemill.Warehouse, tmp_path: Path) -> None:
    shop.vacuum()
    for epoch in (3, 9):
        with pytest.raises(errors.EpochGone, match=f"epoch {epoch} cannot be copied"):
            tidemill.clone(tmp_path / "w", tmp_path / "c", epoch=epoch)
    assert not (tmp_path / "c").exists()


def test_backups_share_what_is_unchanged(shop: tidemill.Warehouse, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    first = tidemill.backup(tmp_path / "w", place)
    now = everything(shop)
    order(shop, 7)
    second = tidemill.backup(tmp_path / "w", place)
    assert (first.backup.epoch, second.backup.epoch) == (6, 7)
    assert first.files.shared == 0 and second.files.shared == first.files.linked >= 3
    assert [found.number for found in tidemill.backups(place)] == [1, 2]
    tidemill.restore(place, tmp_path / "r1", backup=1)
    tidemill.restore(place, tmp_path / "r2")
    with opened(tmp_path / "r1") as one, opened(tmp_path / "r2") as two:
        assert everything(one) == now and everything(two) == everything(shop) != now
        order(one, 9)
        assert all(one.verify()) and all(two.verify())
        assert one.positions == {"queue": "9"} and two.at(2).view("spend").rows()
    third = tidemill.backup(tmp_path / "w", place, keep=1)
    assert [found.number for found in tidemill.backups(place)] == [third.backup.number]
    assert len(list((place / "maps").rglob("*.parquet"))) == third.files.files


def test_backups_of_another_warehouse_and_other_folders_are_refused(shop: tidemill.Warehouse, tmp_path: Path) -> None:
    tidemill.backup(tmp_path / "w", tmp_path / "backups")
    tidemill.clone(tmp_path / "w", tmp_path / "c")
    with pytest.raises(errors.StorageError, match="another warehouse"):
        tidemill.backup(tmp_path / "c", tmp_path / "backups")
    with pytest.raises(errors.StorageError, match="is a warehouse"):
        tidemill.backup(tmp_path / "w", tmp_path / "c")
    with pytest.raises(errors.StorageError, match="is not empty"):
        tidemill.clone(tmp_path / "w", tmp_path / "backups")
    with pytest.raises(errors.StorageError, match="no tidemill.json|not a warehouse"):
        opened(tmp_path / "backups")
    with pytest.raises(errors.StorageError, match="there is no backup"):
        tidemill.restore(tmp_path / "c", tmp_path / "d")
    with pytest.raises(errors.StorageError, match="there is no warehouse"):
        tidemill.clone(tmp_path / "nothing", tmp_path / "d")


def test_a_damaged_file_is_not_backed_up_as_a_good_one(shop: tidemill.Warehouse, tmp_path: Path) -> None:
    file = next((tmp_path / "w" / "maps").rglob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(errors.Corrupt, match="is damaged"):
        tidemill.backup(tmp_path / "w", tmp_path / "backups")
    with pytest.raises(errors.StorageError, match="there is no backup"):
        tidemill.backups(tmp_path / "backups")


KILLS = ["during-copy:2", "before-manifest", "before-name"]


@pytest.mark.parametrize("death", KILLS)
def test_a_clone_that_is_killed_is_not_there(shop: tidemill.Warehouse, tmp_path: Path, death: str) -> None:
    assert _run(death, "clone", str(tmp_path / "c"), "-w", str(tmp_path / "w")) == -9
    assert not (tmp_path / "c").exists()
    tidemill.clone(tmp_path / "w", tmp_path / "c")
    with opened(tmp_path / "c") as copy:
        assert everything(copy) == everything(shop)
    assert {entry.name for entry in tmp_path.iterdir()} == {"w", "c"}


@pytest.mark.parametrize("death", ["during-copy:2", "before-manifest", "after-manifest"])
def test_a_backup_that_is_killed_leaves_the_earlier_ones(shop: tidemill.Warehouse, tmp_path: Path, death: str) -> None:
    place = tmp_path / "backups"
    tidemill.backup(tmp_path / "w", place)
    then = everything(shop)
    order(shop, 7)
    assert _run(death, "backup", str(place), "-w", str(tmp_path / "w")) == -9
    assert len(tidemill.backups(place)) == (2 if death == "after-manifest" else 1)
    tidemill.restore(place, tmp_path / "r", backup=1)
    with opened(tmp_path / "r") as one:
        assert everything(one) == then
    tidemill.backup(tmp_path / "w", place)
    tidemill.restore(place, tmp_path / "n")
    with opened(tmp_path / "n") as newest:
        assert everything(newest) == everything(shop)


def _run(death: str, *arguments: str) -> int:
    environment = {**child_environment(), FAULT_VARIABLE: death}
    command = [sys.executable, "-m", "tidemill", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode


def test_copies_are_consistent_beside_a_writer_that_vacuums(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.balancing", str(tmp_path / "w"), "600", "7"]
    with subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None and writer.stdout.readline() == "open\n"
            for turn in range(3):
                tidemill.clone(tmp_path / "w", tmp_path / f"c{turn}")
                tidemill.backup(tmp_path / "w", tmp_path / "backups", keep=2)
        finally:
            writer.kill()
    tidemill.restore(tmp_path / "backups", tmp_path / "r")
    for name in ("c0", "c1", "c2", "r"):
        with opened(tmp_path / name) as copy:
            debit, credit = sorted(copy.view("debit").rows()), sorted(copy.view("credit").rows())
            now = range(max(copy.epoch - 29, 1), copy.epoch + 1)
            assert debit == credit and sum(total for _, total in debit) == sum(now)
            assert all(copy.verify())


def test_a_copy_publishes_nothing_and_reads_sources_under_another_name(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "crm.db") as crm:
        crm.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        crm.execute("INSERT INTO people VALUES (1, 'ann')")
    with opened(tmp_path / "w") as wh:
        wh.sql(f"{SCRIPT} CREATE SOURCE crm TYPE sqlite OPTIONS (path = '{tmp_path / 'crm.db'}', setup = 'create')")
        wh.sql("CREATE MATERIALIZED VIEW names AS SELECT id, name FROM crm.people")
        location = tmp_path / "lake"
        wh.sql(
            f"CREATE MATERIALIZED VIEW shown WITH (publish = 'delta', location = '{location}') AS "
            "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
        )
        wh.sync()
        made = tidemill.clone(tmp_path / "w", tmp_path / "c")
        assert [note.split('"')[1] for note in made.notes] == ["shown", "crm"]
        with opened(tmp_path / "c") as copy:
            assert copy.view("names").rows() == [(1, "ann")]
            order(copy, 1)
            assert copy.publish() == {}
            assert "publish" not in copy.view("shown").definition
        order(wh, 2)
        with sqlite3.connect(tmp_path / "crm.db") as crm:
            crm.execute("INSERT INTO people VALUES (2, 'bob')")
        wh.sync()
        assert sorted(wh.view("names").rows()) == [(1, "ann"), (2, "bob")]
        assert wh.publish() == {"shown": wh.epoch}
        tidemill.backup(tmp_path / "w", tmp_path / "backups")
    restored = tidemill.restore(tmp_path / "backups", tmp_path / "r", take_over=True)
    assert restored.notes == ()
    with opened(tmp_path / "r") as again:
        assert "publish" in again.view("shown").definition
