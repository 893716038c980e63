"""Readers beside a writer: they stand still, advance when told, or follow; vacuumed epochs are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.model import errors

SCRIPT = """
  CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT);
  CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(SCRIPT)
        yield wh


def reader_of(tmp_path: Path, *, follow: bool = False) -> tidemill.Warehouse:
    return tidemill.open(tmp_path / "w", runtime="native", backend="python", read_only=True, follow=follow)


def order(wh: tidemill.Warehouse, number: int) -> int:
    return wh.apply({"orders": [(+1, (number, "ann", number))]})


def merge_and_vacuum(wh: tidemill.Warehouse, numbers: range) -> None:
    """Epochs in runs of their own, merged into one run; the old files are deleted."""
    for number in numbers:
        order(wh, number)
        wh._engine.store.checkpoint()  # type: ignore[attr-defined]
    wh.compact()
    wh.vacuum()


def test_a_reader_stands_still_until_it_is_told_to_advance(writer: tidemill.Warehouse, tmp_path: Path) -> None:
    with reader_of(tmp_path) as reader:
        order(writer, 1)
        assert reader.epoch == 0 and reader.view("spend").rows() == []
        assert reader.advance() == 1 and reader.view("spend").rows() == [("ann", 1)]
        writer.sql("CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM orders")
        assert reader.views() == ("spend",)
        assert reader.advance() == 1 and reader.view("many").rows() == [(1,)]
        assert writer.advance() == 1


def test_a_following_reader_moves_by_itself(writer: tidemill.Warehouse, tmp_path: Path) -> None:
    with reader_of(tmp_path, follow=True) as reader, reader.subscribe("spend", timeout=10) as heard:
        for number in (1, 2, 3):
            order(writer, number)
        end = time.monotonic() + 10
        while reader.epoch < 3 and time.monotonic() < end:
            time.sleep(0.02)
        assert reader.view("spend").rows() == [("ann", 6)] == reader.sql("SELECT * FROM spend")
        assert [next(heard).epoch for _ in range(3)] == [1, 2, 3]
        assert reader.troubles() == {}
        assert reader.at(2).view("spend").rows() == [("ann", 3)]


def test_follow_may_be_called_later(writer: tidemill.Warehouse, tmp_path: Path) -> None:
    with reader_of(tmp_path) as reader:
        reader.follow()
        order(writer, 1)
        end = time.monotonic() + 10
        while reader.epoch < 1 and time.monotonic() < end:
            time.sleep(0.02)
        assert reader.sql("SELECT total FROM spend") == [(1,)]


def test_an_epoch_whose_files_were_vacuumed_is_gone_and_not_corrupt(writer: tidemill.Warehouse, tmp_path: Path) -> None:
    merge_and_vacuum(writer, range(1, 4))
    with reader_of(tmp_path) as reader:
        merge_and_vacuum(writer, range(4, 12))
        for read in (
            lambda: reader.table("orders").rows(),
            lambda: reader.sql("SELECT COUNT(*) FROM orders"),
            lambda: reader.at(3).table("orders").rows(),
            reader.check_files,
        ):
            with pytest.raises(errors.EpochGone, match="vacuumed by another process") as caught:
                read()
            assert "epochs 11 to 11" in str(caught.value.detail) and "wh.advance()" in str(caught.value.hint)
        assert reader.advance() == 11
        assert len(reader.table("orders").rows()) == 11


def test_a_following_reader_begins_again_when_its_files_are_vacuumed(
    writer: tidemill.Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.engine.following.POLL_SECONDS", 600.0)
    merge_and_vacuum(writer, range(1, 4))
    with reader_of(tmp_path, follow=True) as reader:
        end = time.monotonic() + 10
        while not reader._engine.follower._workers and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05)  # the first turn of its thread; the next is ten minutes later
        merge_and_vacuum(writer, range(4, 12))
        assert reader.epoch == 3
        assert reader.sql("SELECT COUNT(*) AS n FROM orders") == [(11,)]
        assert reader.epoch == 11


def test_a_file_that_is_lost_is_still_damage(writer: tidemill.Warehouse, tmp_path: Path) -> None:
    merge_and_vacuum(writer, range(1, 4))
    with reader_of(tmp_path) as reader:
        order(writer, 4)
        writer._engine.store.checkpoint()  # type: ignore[attr-defined]
        for file in (tmp_path / "w" / "maps").rglob("*.parquet"):
            file.unlink()
        with pytest.raises(errors.Corrupt, match="is missing"):
            reader.table("orders").rows()


def test_the_merge_of_a_writer_by_itself_leaves_the_files_of_readers(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(SCRIPT)
        for number in range(1, 5):
            order(wh, number)
            wh._engine.store.checkpoint()  # type: ignore[attr-defined]
        with reader_of(tmp_path) as reader:
            wh.compact()
            order(wh, 9)
            assert len(reader.table("orders").rows()) == 4
