"""A kill -9 during a build: it goes on from its last slice, and its view is right; no other view is touched."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.builds.building import LAST, VIEWS, live
from tests.builds.stepping import IdleWorker
from tests.faults import fault_points
from tidemill.engine.builds import builds
from tidemill.model.errors import StillBuilding
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PASSINGS = {
    "build-slice": (6, 1),
    "build-filled": (1, 2),
    "build-caught-up": (4, 1),
    "build-stored": (3, 1),
    "build-before-swap": (2, 1),
    "build-swapped": (1, 2),
    "before-manifest": (12, 9, 20),
    "after-manifest": (16, 10),
}
"""At which passings of which point to die."""

ALWAYS = ("build-slice", "build-stored", "build-before-swap", "build-swapped")
"""The points at which a process is killed in every run, at their first passing."""


def test_every_point_is_tried() -> None:
    assert set(PASSINGS) > {point for point in fault_points("engine") if point.startswith("build-")}


@pytest.mark.parametrize("point", ALWAYS)
def test_killed_at(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _kill(tmp_path, point, PASSINGS[point][0], monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("point", PASSINGS)
def test_killed_later(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for passing in PASSINGS[point][point in ALWAYS :]:
        _kill(tmp_path / str(passing), point, passing, monkeypatch)


def _kill(tmp_path: Path, point: str, passing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a process that builds, look at what it has left, and let another one go on."""
    died = forked_children.run("tests.builds.building", tmp_path, timeout=60, **{FAULT_VARIABLE: f"{point}:{passing}"})
    assert died.returncode == -signal.SIGKILL, died.stderr
    with monkeypatch.context() as patched:
        patched.setattr(builds, "Worker", IdleWorker)
        with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
            building = {one.view for one in wh.builds}
            assert building.isdisjoint(wh.views())
            assert all(one.ok for one in wh.verify())
            for name in building:
                with pytest.raises(StillBuilding):
                    wh.view(name)
    forked_children.run("tests.builds.building", tmp_path, timeout=60)
    with tidemill.open(tmp_path, runtime="native", read_only=True) as wh:
        assert not list(wh.builds)
        assert set(wh.views()) == set(VIEWS)
        assert max(row[0] for row in wh.table("t").rows()) == LAST - 1
        assert all(one.ok for one in wh.verify())
    assert not list((tmp_path / "builds").iterdir())


def test_whole_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "Worker", IdleWorker)
    live(tmp_path)
    live(tmp_path)
