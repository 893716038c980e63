"""One writer: by the lock of the operating system, and by a token where that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.samples import child_environment, commit, contents
from tidemill.changes.zset import ZSet
from tidemill.model.errors import LockHeld, StorageError
from tidemill.storage.commits.manifest import latest_state
from tidemill.storage.filesystem.writer_lock import WriterLock, read_owner
from tidemill.storage.folder_store import FolderStore

ANN, BOB = (1, "ann"), (2, "bob")

HOLD = """
import sys
from tidemill.storage.folder_store import FolderStore
store = FolderStore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_told_who_is_first(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path):
        with pytest.raises(LockHeld) as caught:
            FolderStore.open(tmp_path)
        assert f"process {os.getpid()} on" in str(caught.value)
        assert "read_only" in str(caught.value.hint)
    FolderStore.open(tmp_path).close()


def test_a_killed_writer_frees_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(LockHeld, match=f"process {child.pid} "):
            FolderStore.open(tmp_path)
        with FolderStore.open(tmp_path, read_only=True) as reader:
            assert reader.epoch == 0
        child.send_signal(signal.SIGKILL)
        child.wait()
    FolderStore.open(tmp_path).close()


def test_tokens_only_rise(tmp_path: Path) -> None:
    tokens = []
    for _ in range(3):
        lock = WriterLock.acquire(tmp_path)
        tokens.append(lock.token)
        lock.release()
    assert tokens == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"token": "x"}'])
def test_a_lost_lock_file_does_not_reset_the_token(tmp_path: Path, content: bytes) -> None:
    for number in (1, 2, 3):
        with FolderStore.open(tmp_path) as store:
            commit(store, number, [(ANN, 1)])
    (tmp_path / "lock").write_bytes(content)
    with FolderStore.open(tmp_path) as store:
        commit(store, 4, [(ANN, 1)])
    assert latest_state(tmp_path / "manifests").token == 4


@pytest.mark.parametrize("by_manifest", [True, False])
def test_an_overtaken_writer_commits_no_more(tmp_path: Path, by_manifest: bool) -> None:
    stale = FolderStore.open(tmp_path)
    commit(stale, 1, [(ANN, 1)])
    # Where the system's locks do not work, a second writer gets in: here because the file was removed.
    (tmp_path / "lock").unlink()
    with FolderStore.open(tmp_path) as fresh:
        commit(fresh, 2, [(BOB, 1)])
        with pytest.raises(LockHeld, match="taken over"):
            commit(stale, 2, [(ANN, 5)], **({"catalog": {"x": 1}} if by_manifest else {}))
        with pytest.raises(LockHeld):
            stale.close()
    with FolderStore.open(tmp_path) as store:
        assert contents(store) == ZSet({ANN: 1, BOB: 1})


def test_the_owner_is_written_down(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path):
        owner = read_owner(tmp_path / "lock")
        assert owner is not None
        assert owner.pid == os.getpid()


def test_readers_do_not_write(tmp_path: Path) -> None:
    FolderStore.open(tmp_path).close()
    before = sorted(tmp_path.rglob("*"))
    with FolderStore.open(tmp_path, read_only=True) as reader:
        for attempt in (lambda: commit(reader, 1, [(ANN, 1)]), lambda: reader.compact({}), lambda: reader.vacuum(1)):
            with pytest.raises(StorageError, match="not open for writing"):
                attempt()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_closed_store_does_not_write(tmp_path: Path) -> None:
    store = FolderStore.open(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StorageError, match="not open for writing"):
        commit(store, 1, [(ANN, 1)])
