"""The mark: what was acknowledged, never more than was durable."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.storage.samples import commit, contents, files
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Corrupt, StorageError
from tidemill.storage.commits import commit_mark as mark_
from tidemill.storage.commits.commit_mark import CommitMark, encode_mark, read_mark
from tidemill.storage.filesystem.disk import DiskMark
from tidemill.storage.folder_store import FolderStore

ANN, BOB = (1, "ann"), (2, "bob")


def test_the_mark_follows_commits_and_manifests(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        seen = []
        for number in (1, 2, 3):
            commit(store, number, [(ANN, 1)])
            seen.append(read_mark(tmp_path))
        assert [mark.epoch for mark in seen if mark] == [1, 2, 3]
        [log] = files(tmp_path, ".log")
        assert seen[-1] is not None
        assert (seen[-1].sequence, seen[-1].length, seen[-1].boot) == (0, log.stat().st_size, "")
        store.checkpoint()
        assert read_mark(tmp_path) == CommitMark(1, store._now.state.seal, 1, 3)


def test_a_mark_is_stored_in_one_size(tmp_path: Path) -> None:
    least = CommitMark(0, 0, 1, 0)
    most = CommitMark(2**63, 2**32 - 1, 2**40, 2**63, 2**63, 2**32 - 1, mark_.boot_id())
    assert len(encode_mark(least)) == len(encode_mark(most))
    (tmp_path / "acknowledged").write_bytes(encode_mark(most))
    assert read_mark(tmp_path) == most


def test_an_older_mark_as_after_a_power_failure_is_no_loss(tmp_path: Path) -> None:
    marks = []
    with FolderStore.open(tmp_path) as store:
        for number in range(1, 6):
            commit(store, number, [((number, "x"), 1)])
            marks.append((tmp_path / "acknowledged").read_bytes())
            if number == 3:
                store.checkpoint()
        expected = contents(store)
        for mark in [*marks, b"", marks[0][:100], bytes(263)]:
            (tmp_path / "acknowledged").write_bytes(mark)
            with FolderStore.open(tmp_path, read_only=True) as reader:
                assert contents(reader) == expected


def test_nothing_is_vouched_for_before_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = FolderStore.open(tmp_path)
    commit(store, 1, [(ANN, 1)])
    before = read_mark(tmp_path)
    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(StorageError):
        commit(store, 2, [(BOB, 1)])
    assert read_mark(tmp_path) == before


def test_a_mark_that_cannot_be_written_fails_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FolderStore.open(tmp_path) as store:
        commit(store, 1, [(ANN, 1)])

        def refuse(mark: DiskMark, content: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(DiskMark, "write", refuse)
        commit(store, 2, [(BOB, 1)])
        assert contents(store) == ZSet({ANN: 1, BOB: 1})


def test_what_was_never_synced_counts_until_the_system_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FolderStore.open(tmp_path, durability="checkpoint") as store:
        commit(store, 1, [(ANN, 1)])
        store.checkpoint()
        commit(store, 2, [(BOB, 1)])
        [log] = files(tmp_path, ".log")
        whole = log.read_bytes()
        log.write_bytes(b"")
        with pytest.raises(Corrupt, match="Epoch 2 was acknowledged and is missing"):
            FolderStore.open(tmp_path, read_only=True)
        with monkeypatch.context() as patch:
            patch.setattr(mark_, "boot_id", lambda: "another")
            with FolderStore.open(tmp_path, read_only=True) as reader:
                assert contents(reader) == ZSet({ANN: 1})
        log.write_bytes(whole)
