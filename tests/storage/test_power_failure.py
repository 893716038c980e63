"""A power failure before each step that reaches the disk: what is left is some committed epoch, and every one that was
acknowledged, whatever the disk has kept of what was not synced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.crashing import LAST, live
from tests.storage.lossy_disk import LossyDisk, PowerFailure, fates
from tests.storage.test_crash import check
from tidemill.model.errors import StorageError
from tidemill.storage.folder_store import FolderStore

STEP = 71
"""One step in so many is tried; ``make fuzz`` tries all."""


def life(disk: LossyDisk, acknowledged: list[int]) -> None:
    for last in (LAST // 2, LAST):
        with FolderStore.open(disk.root) as store:
            live(store, last, acknowledged.append)


def survives(folder: Path, at: int, kept: Callable[[], bool]) -> None:
    disk, acknowledged = LossyDisk(folder), list[int]()
    disk.fails_at = at
    with suppress(PowerFailure):
        life(disk, acknowledged)
    after = disk.after_failure(kept)
    last = max(acknowledged, default=0)
    with FolderStore.open(after.root) as store:
        assert store.epoch in (last, last + 1)
        check(store)
        live(store, LAST, acknowledged.append)
        check(store)


def try_all(folder: Path, step: int) -> None:
    disk = LossyDisk(folder)
    life(disk, [])
    for at in range(1, disk.steps + 1, step):
        for kept in fates(at):
            survives(folder, at, kept)


def test_power_failures(tmp_path: Path) -> None:
    try_all(tmp_path, STEP)


@pytest.mark.long
def test_every_power_failure(tmp_path: Path) -> None:
    try_all(tmp_path, 1)


@pytest.mark.parametrize("missing", [None, "Opened.sync", "LossyDisk.sync", "LossyDisk.sync_folder"])
def test_a_missing_sync_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str | None) -> None:
    disk = LossyDisk(tmp_path)
    store = FolderStore.open(disk.root)
    with monkeypatch.context() as patch:
        if missing is not None:
            patch.setattr(f"tests.storage.lossy_disk.{missing}", lambda *_: None)
        live(store, LAST - 1, lambda number: None)
    after = disk.after_failure(lambda: False)
    try:
        with FolderStore.open(after.root, read_only=True) as reader:
            check(reader)
            found = reader.epoch
    except StorageError:
        found = None
    assert (found == LAST - 1) == (missing is None)
