"""What a build does while it holds the lock for which writers wait: little, however many rows it has taken in."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill
from tests.builds.stepping import _stepping, step, step_to_end
from tests.builds.test_builds import begin, load
from tests.held_lock import Watched
from tidemill.engine.builds import handover
from tidemill.engine.builds.build import ViewBuild
from tidemill.storage.folder_store import FolderStore

__all__ = ["_stepping"]


@pytest.mark.parametrize("end", ["built", "PAUSE", "CANCEL"])
def test_its_files_are_written_without_the_lock(
    stepping: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Nothing of what is deleted is written, and what stays is written before writers wait for the commit."""
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        load(wh)
        begin(wh)
        step(wh, 8)
        watched = Watched(wh, monkeypatch)
        for name in ("checkpoint", "close"):
            watched.watch(FolderStore, name, lambda store: store is not wh._engine.store)
        if end == "built":
            step_to_end(wh)
        else:
            wh.sql(f"{end} BUILD v")
        assert [held for _, held in watched.calls] == [False] * len(watched.calls)
        assert [name for name, _ in watched.calls if name == "close"] == ["close"]
        assert [name for name, _ in watched.calls if name == "checkpoint"] == ["checkpoint"] * (end == "PAUSE")


def test_few_epochs_are_taken_in_with_the_lock(stepping: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come while it is handed over: at most as many as a last commit may have, once it is near."""
    monkeypatch.setattr(handover, "PATIENT_ROUNDS", 1_000)  # on a slow machine, too, it gets near without the lock
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        load(wh)
        begin(wh)
        watched = Watched(wh, monkeypatch)
        watched.watch(ViewBuild, "take_in")
        while len(wh.builds):
            if wh.epoch < 60:
                wh.apply({"t": [(1, (1000 + wh.epoch, 1, 1))]})
            before = len(watched.calls)
            step(wh)
            assert sum(held for _, held in watched.calls[before:]) <= 1  # LAST_EPOCHS of these tests
        assert any(held for _, held in watched.calls) and wh.view("v").verify("evaluator").ok
