"""Damaged and foreign files: a clear error that names the file, or no notice at all; never a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.storage.samples import FIELDS, commit, contents, files
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Corrupt
from tidemill.model.types import BIGINT, Field
from tidemill.storage import runs
from tidemill.storage.folder_store import FolderStore

ANN, BOB = (1, "ann"), (2, "bob")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with FolderStore.open(tmp_path) as store:
        commit(store, 1, [(ANN, 1)])
        store.checkpoint()
        commit(store, 2, [(BOB, 1)])
    return tmp_path


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_missing_run_is_named(folder: Path) -> None:
    lost = files(folder)[0]
    lost.unlink()
    with FolderStore.open(folder) as store:
        with pytest.raises(Corrupt, match=f"{lost.name} is missing") as caught:
            store.read("people", FIELDS)
        assert caught.value.where == str(lost)
        with pytest.raises(Corrupt, match="1 of 2 files are damaged"):
            store.check()


def test_a_lookup_verifies_the_row_groups_that_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is damaged elsewhere still answers lookups; a damaged footer is found by all of them."""
    monkeypatch.setattr(runs, "ROW_GROUP", 10)
    monkeypatch.setattr(runs, "PARQUET_OPTIONS", {**runs.PARQUET_OPTIONS, "row_group_size": 10})
    with FolderStore.open(tmp_path) as store:
        commit(store, 1, [((n, f"n{n}"), 1) for n in range(100)])
    file = files(tmp_path)[0]
    sound, column = file.read_bytes(), pq.read_metadata(file).row_group(5).column(1)
    for place, lost in ((column.data_page_offset + 2, {50}), (len(sound) - 20, {5, 50, 500})):
        damaged = bytearray(sound)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        with FolderStore.open(tmp_path, read_only=True) as store:
            for key in (5, 50, 500, 5):
                where = {"id": pa.array([key])}
                if key in lost:
                    with pytest.raises(Corrupt):
                        store.read("people", FIELDS, where=where)
                else:
                    assert store.read("people", FIELDS, where=where).num_rows == (key < 100)
            with pytest.raises(Corrupt):
                store.read("people", FIELDS)


@pytest.mark.parametrize("damage", [b"", b"garbage"])
def test_a_run_of_another_length_is_named(folder: Path, damage: bytes) -> None:
    files(folder)[0].write_bytes(damage)
    with FolderStore.open(folder) as store, pytest.raises(Corrupt, match="bytes where its manifest says"):
        store.read("people", FIELDS)


def test_a_run_that_is_no_parquet_is_named(folder: Path) -> None:
    file = files(folder)[0]
    file.write_bytes(b"x" * file.stat().st_size)
    with FolderStore.open(folder) as store, pytest.raises(Corrupt, match="does not match its checksum"):
        store.read("people", FIELDS)


def test_a_run_without_a_column_is_named(folder: Path) -> None:
    with FolderStore.open(folder) as store, pytest.raises(Corrupt, match="no column age"):
        store.read("people", [Field("age", BIGINT)])


def test_check_finds_one_changed_bit(folder: Path) -> None:
    with FolderStore.open(folder) as store:
        assert store.check().files == 2
    flip(files(folder)[1])
    with FolderStore.open(folder) as store, pytest.raises(Corrupt, match="does not match its checksum"):
        store.check()


def test_epochs_before_the_damage_can_be_read(folder: Path) -> None:
    with FolderStore.open(folder) as store:
        late = next(run.file for run in store.runs("people") if run.first_epoch == 2)
        late.unlink()
        assert contents(store, until=1) == ZSet({ANN: 1})


GARBAGE: dict[str, Callable[[Path], object]] = {
    "a note": lambda folder: (folder / "notes.txt").write_text("mine"),
    "a folder": lambda folder: (folder / "manifests" / "old").mkdir(),
    "a strange log": lambda folder: (folder / "log" / "x.log").write_bytes(b"\0" * 99),
    "a log of the past": lambda folder: (folder / "log" / f"{1:020}-{1:08}.log").write_bytes(b"TdMl"),
    "a log of the future": lambda folder: (folder / "log" / f"{77:020}-{1:08}.log").write_bytes(b"TdMl"),
    "a file among the runs": lambda folder: (folder / "maps" / "stray.parquet").write_bytes(b"PAR1"),
    "a staged file": lambda folder: (folder / "staging" / "x.parquet").write_bytes(b"PAR1"),
    "a draft": lambda folder: (folder / "manifests" / ".x.draft").write_text("{"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_does_no_harm(folder: Path, kind: str) -> None:
    GARBAGE[kind](folder)
    with FolderStore.open(folder) as store:
        assert contents(store) == ZSet({ANN: 1, BOB: 1})
        commit(store, 3, [(ANN, -1)])
        store.vacuum(keep=1)
        assert store.check().strays == ()
    with FolderStore.open(folder, read_only=True) as reader:
        assert contents(reader) == ZSet({BOB: 1})
    if kind == "a note":
        assert (folder / "notes.txt").read_text() == "mine"
