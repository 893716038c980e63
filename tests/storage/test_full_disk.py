"""A disk that the warehouse has filled: it is opened, read and vacuumed there, and nothing is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.samples import PEOPLE, change, commit, contents
from tidemill.changes.changeset import Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import StorageError
from tidemill.storage.folder_store import FolderStore

ROWS = ZSet({(n, "x" * 50): 1 for n in range(2_000)})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    filler.write(b"\0" * size)
            except OSError:
                continue


def living(disk: Path) -> FolderStore:
    """A warehouse with runs, runs that were merged into them, and an epoch in the log."""
    store = FolderStore.open(disk / "w")
    for number in range(1, 11):
        part = [((n, "x" * 50), 1) for n in range((number - 1) * 200, number * 200)]
        store.commit(Epoch(number, {"people": change(part)}))
        store.checkpoint()
    store.compact({"people": PEOPLE})
    commit(store, 11, [((5_000, "waits"), 1)])
    return store


def killed(store: FolderStore) -> None:
    """Leave the folder as a process does that was killed."""
    assert store._commits.writer is not None
    store._commits.writer.close()
    store._commits.writer = None


def test_what_was_committed_is_read_and_vacuumed(disk: Path) -> None:
    killed(living(disk))
    fill(disk)
    rows = ROWS + ZSet({(5_000, "waits"): 1})
    with pytest.warns(RuntimeWarning, match="waits for room on the disk"):
        store = FolderStore.open(disk / "w")
    with store:
        assert contents(store) == rows
        with pytest.raises(StorageError, match="cannot commit") as refused:
            commit(store, 12, [((6_000, "more"), 1)])
        assert "No space left on device" in (refused.value.detail or "")
        assert contents(store) == rows
        assert store.vacuum(keep=1) > 0
        commit(store, 12, [((6_000, "more"), 1)])
    with FolderStore.open(disk / "w") as store:
        assert contents(store) == rows + ZSet({(6_000, "more"): 1})


def test_closing_on_a_full_disk_leaves_what_waits_in_the_log(disk: Path) -> None:
    store = living(disk)
    fill(disk)
    store.close()
    (disk / "filler").unlink()
    with FolderStore.open(disk / "w") as store:
        assert contents(store) == ROWS + ZSet({(5_000, "waits"): 1})
