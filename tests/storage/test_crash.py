"""A kill -9 at each named point of a commit, then reopen, verify, continue: nothing lost, nothing twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked_children
from tests.faults import OF_COPIES, fault_points
from tests.storage.crashing import CHECKPOINT, LAST, live, people_at
from tests.storage.samples import TOTAL_FIELDS, child_environment, contents
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE
from tidemill.storage.folder_store import FolderStore

PASSINGS = {
    "before-data": (1, 4),
    "between-files": (1, 8),
    "before-manifest": (1, 7),
    "after-manifest": (2, 7),
    "before-log": (1, 9),
    "torn-log": (2, 9),
    "after-log": (1, 9),
    "during-compaction": (1, 3),
    "during-vacuum": (1, 5),
}


def run_to_its_death(folder: Path, fault: str) -> int:
    """Let a child process live until the fault kills it; returns the last epoch whose commit it saw return."""
    return _died(forked_children.run("tests.storage.crashing", folder, LAST, timeout=60, **{FAULT_VARIABLE: fault}))


def _died(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == -signal.SIGKILL, done.stderr
    return int((done.stdout.split() or ["0"])[-1])


def check(store: FolderStore) -> None:
    """The store holds exactly the epochs of the life up to its own."""
    epoch = store.epoch
    assert contents(store) == people_at(epoch)
    for past in range(max(store.oldest, 1), epoch):
        assert contents(store, until=past) == people_at(past)
    entries = store.read("totals", TOTAL_FIELDS).to_pylist()
    assert sum(entry["_weight"] for entry in entries) == epoch
    assert sum(entry["n"] for entry in entries) == epoch * (epoch + 1) // 2
    assert sum(entry["x"] for entry in entries) == epoch * 0.5
    assert store.positions == ({"source": str(epoch)} if epoch else {})
    assert store.catalog.get("epoch", 0) == epoch - epoch % CHECKPOINT


def test_every_point_is_tried() -> None:
    assert set(PASSINGS) == fault_points("storage") - OF_COPIES


@pytest.mark.parametrize(("point", "passing"), [(point, n) for point, passings in PASSINGS.items() for n in passings])
def test_killed_at(tmp_path: Path, point: str, passing: int) -> None:
    acknowledged = run_to_its_death(tmp_path, f"{point}:{passing}")
    with FolderStore.open(tmp_path, read_only=True) as reader:
        assert reader.epoch in (acknowledged, acknowledged + 1)
        check(reader)
    with FolderStore.open(tmp_path) as store:
        assert store.epoch == reader.epoch
        check(store)
        live(store, LAST)
        check(store)
        store.vacuum(keep=2)
        assert store.check().strays == ()
        assert list((tmp_path / "staging").iterdir()) == []
    with FolderStore.open(tmp_path) as store:
        assert store.epoch == LAST
        check(store)


def test_killed_in_a_process_that_starts_anew(tmp_path: Path) -> None:
    """The fault is armed by the environment alone."""
    command = [sys.executable, "-m", "tests.storage.crashing", str(tmp_path), str(LAST)]
    environment = child_environment(**{FAULT_VARIABLE: "after-log:9"})
    epoch = _died(subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60))
    with FolderStore.open(tmp_path, read_only=True) as reader:
        assert reader.epoch == epoch + 1
        check(reader)


def test_killed_again_and_again(tmp_path: Path) -> None:
    acknowledged = 0
    for fault in (
        "torn-log:2",
        "after-manifest",
        "between-files",
        "before-manifest",
        "during-compaction",
        "after-log:2",
    ):
        acknowledged = max(acknowledged, run_to_its_death(tmp_path, fault))
        with FolderStore.open(tmp_path, read_only=True) as reader:
            assert reader.epoch >= acknowledged
            check(reader)
    with FolderStore.open(tmp_path) as store:
        live(store, LAST)
        check(store)


def test_orphans_are_named_by_check_and_go_with_vacuum(tmp_path: Path) -> None:
    run_to_its_death(tmp_path, "before-manifest:2")
    with FolderStore.open(tmp_path) as store:
        store.checkpoint()
        assert store.check().strays != ()
        store.vacuum(keep=100)
        assert store.check().strays == ()
        check(store)
