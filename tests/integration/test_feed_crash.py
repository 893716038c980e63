"""A kill -9 while events are fed to machine code: the last committed epoch stands, and feeding goes on from there."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.faults import OF_COPIES, fault_points
from tests.integration.feeding import EVENTS, LAST, live, rows_at
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PASSINGS = {
    "before-data": (3,),
    "between-files": (5,),
    "before-manifest": (6,),
    "after-manifest": (6,),
    "before-log": (1,),
    "torn-log": (5,),
    "after-log": (1,),
    "during-compaction": (1,),
    "during-vacuum": (1,),
}
"""Which passings of each point to die at; the first four manifests are those of the streams and views."""

OPEN = (1, 3 * EVENTS + 4, 8 * EVENTS)
"""Events after which to die, while their epoch is open: the first, one in the middle, the last one of an epoch."""


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent, which continues a life, works as the child did."""
    monkeypatch.setattr("tidemill.storage.folder_writer.CHECKPOINT_EPOCHS", 3)
    monkeypatch.setattr("tidemill.engine.maintenance.compaction_schedule.EPOCHS_BETWEEN_PASSES", 3)


def run_to_its_death(folder: Path, way: str, *death: int, **environment: str) -> int:
    """Let a child live until it is killed; returns the last epoch whose commit it saw return."""
    done = forked_children.run("tests.integration.feeding", folder, way, LAST, *death, timeout=120, **environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return int((done.stdout.split() or ["0"])[-1])


def check(wh: tidemill.Warehouse) -> None:
    expected = rows_at(wh.epoch)
    for name in wh.views():
        assert set(wh.view(name).rows()) == expected[name]


def finish(folder: Path, way: str) -> None:
    """Continue the life to its end, and look again after another opening."""
    with tidemill.open(folder, runtime="native", backend="llvm") as wh:
        check(wh)
        live(wh, way, LAST)
        check(wh)
        assert "compiled with LLVM" in wh.view("spread").explain()
    with tidemill.open(folder, runtime="native", read_only=True) as wh:
        assert wh.epoch == LAST
        check(wh)


def test_every_point_is_tried() -> None:
    assert set(PASSINGS) == fault_points("storage") - OF_COPIES


@pytest.mark.parametrize("way", ["feed", "columns"])
@pytest.mark.parametrize("event", OPEN)
def test_killed_while_events_are_open(tmp_path: Path, way: str, event: int) -> None:
    acknowledged = run_to_its_death(tmp_path, way, event)
    assert acknowledged == (event - 1) // EVENTS
    with tidemill.open(tmp_path, runtime="native", read_only=True) as reader:
        assert reader.epoch == acknowledged
        check(reader)
    finish(tmp_path, way)


@pytest.mark.parametrize(("point", "passing"), [(point, n) for point, passings in PASSINGS.items() for n in passings])
def test_killed_while_events_are_committed(tmp_path: Path, point: str, passing: int) -> None:
    acknowledged = run_to_its_death(tmp_path, "feed", **{FAULT_VARIABLE: f"{point}:{passing}"})
    with tidemill.open(tmp_path, runtime="native", read_only=True) as reader:
        assert reader.epoch in (acknowledged, acknowledged + 1)
        check(reader)
    finish(tmp_path, "feed")
