"""Copies of runs on this machine: verified, fetched again when they are damaged, and within their budget."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.storage.object_stores import MemoryObjects, root
from tests.storage.samples import commit, contents, files
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Corrupt, SetupError
from tidemill.storage import runs
from tidemill.storage.filesystem import checksums
from tidemill.storage.filesystem.objects import run_copies
from tidemill.storage.folder_store import FolderStore

ROWS = ZSet({(number, "x"): 1 for number in range(1, 7)})


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryObjects:
    """A warehouse with six runs, of which this machine has no copies."""
    monkeypatch.setenv("TIDEMILL_CACHE", str(tmp_path / "writer"))
    made = MemoryObjects()
    with FolderStore.open(root(made)) as store:
        for number in range(1, 7):
            commit(store, number, [((number, "x"), 1)], catalog={"n": number})
    monkeypatch.setenv("TIDEMILL_CACHE", str(tmp_path / "reader"))
    return made


def test_a_run_is_fetched_and_compared_once(objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Path] = []
    real = checksums.checksum
    monkeypatch.setattr(checksums, "checksum", lambda file: compared.append(file) or real(file))
    for _ in range(2):
        with FolderStore.open(root(objects), read_only=True) as reader:
            for _ in range(3):
                assert contents(reader) == ROWS
    assert len([name for kind, name in objects.requests if kind == "get" and name.endswith(".parquet")]) == 6
    assert len(compared) == 6


def test_a_damaged_copy_is_fetched_again(objects: MemoryObjects, tmp_path: Path) -> None:
    with FolderStore.open(root(objects), read_only=True) as reader:
        assert contents(reader) == ROWS
        damaged = files(tmp_path / "reader")[0]
        damaged.write_bytes(b"x" * damaged.stat().st_size)
        assert contents(reader) == ROWS


def test_a_lookup_in_a_damaged_copy_fetches_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_CACHE", str(tmp_path))
    monkeypatch.setattr(runs, "ROW_GROUP", 10)
    monkeypatch.setattr(runs, "PARQUET_OPTIONS", {**runs.PARQUET_OPTIONS, "row_group_size": 10})
    objects, sought = MemoryObjects(), {"id": pa.array([5, 25])}
    with FolderStore.open(root(objects)) as store:
        commit(store, 1, [((number, "x"), 1) for number in range(30)], catalog={"n": 1})
        for damage in (b"", b"x" * 100, None):
            assert contents(store, where=sought) == ZSet({(5, "x"): 1, (25, "x"): 1})
            if damage is not None:
                files(tmp_path)[0].write_bytes(damage)
        (name,) = [name for name in objects.contents if name.endswith(".parquet")]
        objects.contents[name] = files(tmp_path)[0].read_bytes()[::-1]
        files(tmp_path)[0].write_bytes(b"")
        with pytest.raises(Corrupt, match="damaged") as caught:
            contents(store, where=sought)
        assert caught.value.where == f"s3://bucket/shop/{name}"


def test_a_damaged_run_is_told_by_its_address(objects: MemoryObjects) -> None:
    name = next(name for name in objects.contents if name.endswith(".parquet"))
    objects.contents[name] = b"x" * len(objects.contents[name])
    with FolderStore.open(root(objects), read_only=True) as reader:
        with pytest.raises(Corrupt, match="damaged") as caught:
            contents(reader)
        assert caught.value.where == f"s3://bucket/shop/{name}"
        del objects.contents[name]
        with pytest.raises(Corrupt, match="missing"):
            contents(reader)


def test_check_reads_the_objects_and_not_their_copies(objects: MemoryObjects) -> None:
    name = next(name for name in objects.contents if name.endswith(".parquet"))
    with FolderStore.open(root(objects), read_only=True) as reader:
        assert contents(reader) == ROWS
        objects.contents[name] = b"x" * len(objects.contents[name])
        assert contents(reader) == ROWS
        with pytest.raises(Corrupt, match="1 of 6 files"):
            reader.check()


def test_copies_stay_within_their_budget(
    objects: MemoryObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 3 * max(len(content) for name, content in objects.contents.items() if name.endswith(".parquet"))
    monkeypatch.setenv("TIDEMILL_CACHE_BYTES", str(most))
    with FolderStore.open(root(objects), read_only=True) as reader:
        assert contents(reader) == ROWS
        assert len(files(tmp_path / "reader")) == 6  # they were just read
    monkeypatch.setattr(run_copies, "IN_USE_SECONDS", -1.0)
    for file in files(tmp_path / "reader")[:2]:
        file.unlink()
    with FolderStore.open(root(objects), read_only=True) as reader:
        for _ in range(2):
            assert contents(reader) == ROWS
            assert sum(file.stat().st_size for file in files(tmp_path / "reader")) <= most


def test_a_budget_is_a_number(objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_CACHE_BYTES", "much")
    with pytest.raises(SetupError, match="not a number of bytes"):
        root(objects)
