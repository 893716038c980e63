"""A kill -9 of a whole warehouse, at every point of a commit and at random moments: nothing lost, nothing twice."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.faults import OF_COPIES, fault_points
from tests.integration.crashing import LAST, TABLES, VIEWS, contents_at, live
from tidemill.changes.zset import ZSet
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PASSINGS = {
    "before-data": (1, 3, 5),
    "between-files": (1, 9, 30),
    "before-manifest": (1, 4, 5, 6, 8, 17),
    "after-manifest": (1, 5, 8),
    "before-log": (1, 20),
    "torn-log": (1, 20),
    "after-log": (5,),
    "during-compaction": (2, 6),
    "during-vacuum": (1, 4),
}
"""Which passings of each point to die at. The manifests named here make a table, fill a view, take in the log, vacuum,
merge runs within an epoch, and merge them when asked."""


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent, which continues a life, works as the child did."""
    monkeypatch.setattr("tidemill.storage.folder_writer.CHECKPOINT_EPOCHS", 3)
    monkeypatch.setattr("tidemill.engine.maintenance.compaction_schedule.EPOCHS_BETWEEN_PASSES", 3)


def start(folder: Path, last: int, **environment: str) -> forked_children.Child:
    return forked_children.start("tests.integration.crashing", folder, last, **environment)


def run_to_its_death(folder: Path, fault: str) -> int:
    """Let a child live until the fault kills it; returns the last epoch whose ``apply`` it saw return."""
    with start(folder, LAST, **{FAULT_VARIABLE: fault}) as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, err
    return int((out.split() or ["0"])[-1])


def check(wh: tidemill.Warehouse) -> None:
    """Tables hold the numbered epochs up to the warehouse's own, positions say so, and every view agrees with them."""
    assert wh.positions == ({"numbers": str(wh.epoch)} if wh.epoch else {})
    expected = contents_at(wh.epoch)
    for name in wh.tables():
        assert ZSet.of(wh.table(name).rows()) == expected[name]
    for name in wh.views():
        assert wh.view(name).verify()
    check_feeds(wh)


def check_feeds(wh: tidemill.Warehouse) -> None:
    """The past that is kept and the feed from there add up to the present."""
    for name in wh.views():
        for since in (wh.epoch, max(wh.epoch - 2, VIEWS[name][0])):
            total = ZSet.of(wh.at(since).view(name).rows())
            total.update_by(ZSet.summed((row, weight) for weight, row in wh.view(name).changes(since=since)))
            assert total == ZSet.of(wh.view(name).rows())


def finish(folder: Path) -> None:
    """Continue the life to its end and beyond, and look again after another opening."""
    with tidemill.open(folder, runtime="native") as wh:
        check(wh)
        live(wh, LAST)
        assert wh.epoch == LAST
        assert (wh.tables(), wh.views()) == (tuple(TABLES), tuple(VIEWS))
        check(wh)
    with tidemill.open(folder, runtime="native") as wh:
        live(wh, LAST + 3)
        assert wh.epoch == LAST + 3
        check(wh)


def test_every_point_is_tried() -> None:
    assert set(PASSINGS) == fault_points("storage") - OF_COPIES


@pytest.mark.parametrize(("point", "passing"), [(point, n) for point, passings in PASSINGS.items() for n in passings])
def test_killed_at(tmp_path: Path, point: str, passing: int) -> None:
    acknowledged = run_to_its_death(tmp_path, f"{point}:{passing}")
    with tidemill.open(tmp_path, runtime="native", read_only=True) as reader:
        assert reader.epoch in (acknowledged, acknowledged + 1)
        check(reader)
    finish(tmp_path)


def test_killed_while_a_view_is_filled(tmp_path: Path) -> None:
    """The view, which is the first thing that the child does, is there with all of its rows, or it is not there."""
    seen = set()
    for point in ("before-data", "between-files", "before-manifest", "after-manifest"):
        folder = tmp_path / point
        with tidemill.open(folder, runtime="native") as wh:
            live(wh, VIEWS["cities"][0])
            assert wh.views() == ()
        assert run_to_its_death(folder, point) == 0
        with tidemill.open(folder, runtime="native", read_only=True) as reader:
            seen.add(reader.views())
            check(reader)
        finish(folder)
    assert seen == {(), ("cities",)}


def test_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(20260801)
    acknowledged, last = 0, 100_000
    for kill in range(4):
        with start(tmp_path, last) as child:
            for _ in range(chance.randrange(1, 40)):
                acknowledged = int(child.stdout.readline())
            time.sleep(chance.uniform(0, 0.03))
            child.kill()
            printed = child.stdout.read().split("\n")[:-1]
        acknowledged = int(printed[-1]) if printed else acknowledged
        # Every other time the next child finds the warehouse as the last one left it.
        with tidemill.open(tmp_path, runtime="native", read_only=kill % 2 == 0) as wh:
            assert wh.epoch in (acknowledged, acknowledged + 1)
            check(wh)
    with tidemill.open(tmp_path, runtime="native") as wh:
        live(wh, wh.epoch + 5)
        check(wh)
