"""Manifests: immutable, small, and complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.storage.samples import ANY_TIME, commit, contents
from tidemill.changes.changeset import Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Corrupt, LockHeld
from tidemill.storage.commits.manifest import (
    FULL_EVERY,
    Manifest,
    WarehouseState,
    latest_state,
    manifest_file,
    manifest_sequences,
    read_manifest,
    write_manifest,
)
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.runs import RunEntry


def manifest(sequence: int, **more: object) -> Manifest:
    base = Manifest(sequence, sequence - 1, sequence == 1, token=1, epoch=sequence, oldest=0, written=ANY_TIME)
    return Manifest(**{field: getattr(base, field) for field in base.__slots__} | more)


def run(file: str, ended: int | None = None) -> RunEntry:
    return RunEntry(file, rows=1, bytes=10, checksum=7, first=1, last=1, ended=ended)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = manifest(
        1,
        positions={"s": "5"},
        catalog={"tables": ["ä", "\ud800"]},
        ids={"people": "ab"},
        dropped=("x",),
        replaced=("y",),
        removed=("ab/1",),
        added={"people": (run("ab/2"),)},
    )
    write_manifest(tmp_path, written)
    assert read_manifest(tmp_path, 1) == written


def test_a_manifest_is_never_overwritten(tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest(1))
    with pytest.raises(FileExistsError):
        write_manifest(tmp_path, manifest(1, epoch=9))
    assert read_manifest(tmp_path, 1).epoch == 1
    assert [file.name for file in tmp_path.iterdir()] == [manifest_file(tmp_path, 1).name]


def test_a_commit_that_another_writer_made_is_refused(tmp_path: Path) -> None:
    store = FolderStore.open(tmp_path)
    write_manifest(tmp_path / "manifests", manifest(1, token=99))
    with pytest.raises(LockHeld, match="taken over"):
        store.commit(Epoch(0, catalog={"a": 1}))
    assert store.catalog == {}
    with pytest.raises(LockHeld, match="taken over"):
        store.close()


def test_states_add_up() -> None:
    first = manifest(1, added={"a": (run("a/1"),), "b": (run("b/1"),)}, ids={"a": "a", "b": "b"}).apply(
        WarehouseState()
    )
    second = manifest(2, replaced=("a",), dropped=("b",), added={"a": (run("a/2"),)}).apply(first)
    assert second.runs == {"a": (run("a/1", ended=2), run("a/2"))}
    assert second.ids == {"a": "a"}
    third = manifest(3, removed=("a/1", "a/2")).apply(second)
    assert third.runs == {}


def test_the_whole_manifest_says_the_same() -> None:
    before = manifest(1, added={"a": (run("a/1"),)}, ids={"a": "a"}, catalog={"c": 1}).apply(WarehouseState())
    commit = manifest(2, positions={"s": "1"}, removed=("a/1",), added={"a": (run("a/2"),)})
    after = commit.apply(before)
    assert commit.whole(after).apply(WarehouseState()) == after


def test_the_size_of_a_commit_follows_the_change(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        sizes = []
        for number in range(1, FULL_EVERY + 2):
            commit(store, number, [((number, "x"), 1)])
            store.checkpoint()
            sizes.append(manifest_file(tmp_path / "manifests", number).stat().st_size)
    assert max(sizes[1:FULL_EVERY]) < 1.2 * min(sizes[1:FULL_EVERY])
    assert read_manifest(tmp_path / "manifests", FULL_EVERY + 1).full
    assert sizes[FULL_EVERY] > 10 * sizes[1]


def test_opening_starts_at_the_last_full_manifest(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        for number in range(1, FULL_EVERY + 4):
            commit(store, number, [((number, "x"), 1)])
            store.checkpoint()
    for number in range(1, FULL_EVERY + 1):
        manifest_file(tmp_path / "manifests", number).unlink()
    with FolderStore.open(tmp_path) as store:
        assert contents(store) == ZSet({(n, "x"): 1 for n in range(1, FULL_EVERY + 4)})


def test_a_gap_is_found(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write_manifest(tmp_path, manifest(number))
    manifest_file(tmp_path, 2).unlink()
    with pytest.raises(Corrupt, match="manifest 2 is missing"):
        latest_state(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"sequence": 1}\ncrc32 00000000\n', b"\xff\xfe"])
def test_a_damaged_manifest_is_named(tmp_path: Path, damage: bytes) -> None:
    write_manifest(tmp_path, manifest(1))
    manifest_file(tmp_path, 1).write_bytes(damage)
    with pytest.raises(Corrupt, match=r"00000000000000000001\.json is damaged") as caught:
        latest_state(tmp_path)
    assert caught.value.hint


def test_one_changed_byte_is_noticed(tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest(1))
    file = manifest_file(tmp_path, 1)
    file.write_bytes(file.read_bytes().replace(b'"epoch": 1', b'"epoch": 2'))
    with pytest.raises(Corrupt, match="checksum"):
        read_manifest(tmp_path, 1)


def test_other_files_are_not_looked_at(tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest(1))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".00000000000000000002.json.17.draft").write_text("{")
    (tmp_path / "2.json").write_text("{")
    assert manifest_sequences(tmp_path) == [1]
    assert latest_state(tmp_path).epoch == 1


def test_manifests_are_json_lines(tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest(1, positions={"s": "5"}))
    said = json.loads(manifest_file(tmp_path, 1).read_text().splitlines()[0])
    assert said["positions"] == {"s": "5"}
