"""Kills of a process that publishes, between its commit and the last one of the lake, and elsewhere.

Those between are counted by themselves, and each is checked to be one: the warehouse has an epoch that the lake does
not show, or has not recorded. After each kill every published table must show some epoch, and every row of the table of
epochs be true; a process that is started again must go on to the end, with each epoch published once.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.faults import fault_points
from tests.lake import test_crash
from tests.lake.publishing import (
    EPOCHS,
    FORMATS,
    MODES,
    live,
    recorded_epochs,
    require_recorded,
    require_some_epoch,
    table_of,
)
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

BETWEEN = ("lake-write", "lake-written", "lake-compacted", "lake-record")
"""Points after our commit and before the last one of the lake."""

ELSEWHERE = ("lake-recorded", "torn-log", "before-manifest")
"""Points after the last commit of the lake, and within ours."""

KILLS = 300
"""Kills of the long form between both commits; about as many are elsewhere or at random times."""


def test_every_point_is_tried() -> None:
    elsewhere = {"lake-altered"}  # by test_schema_change
    tried = {*BETWEEN, *ELSEWHERE, *elsewhere, *(passing.partition(":")[0] for passing in test_crash.PASSINGS)}
    assert tried >= {point for point in fault_points("engine") if point.startswith("lake-")}


class Campaign:
    """Lives of a process in one folder after another, each cut short, until enough were between both commits."""

    def __init__(self, folder: Path, format: str, seed: int) -> None:
        self._folder, self._format, self._rng = folder, format, random.Random(seed)
        self.between = self.elsewhere = self.finished = 0
        self._seconds = 1.0
        """At most so long after its start a process is killed: the shortest life that came to its end."""

    @property
    def _here(self) -> Path:
        """The folder of this life."""
        here = self._folder / str(self.finished)
        here.mkdir(parents=True, exist_ok=True)
        return here

    def run(self, between: int) -> None:
        """Kill so often between both commits, and about as often elsewhere, and finish."""
        while self.between < between:
            if self._rng.random() < 0.5:
                self.between += self._kill_between()
            elif self._rng.random() < 0.5:
                self.elsewhere += self._kill_at(self._rng.choice(ELSEWHERE))
            else:
                self.elsewhere += self._kill_at_some_time()
            require_some_epoch(self._here, self._format)
            require_recorded(self._here, self._format)
        self._finish()

    def _finish(self) -> None:
        """Go on to the end in this process, and begin with another folder."""
        live(self._here, self._format)
        self._require_finished()

    def _require_finished(self) -> None:
        assert require_some_epoch(self._here, self._format) == dict.fromkeys(MODES, EPOCHS)
        require_recorded(self._here, self._format)
        changes = table_of(self._here, self._format, "changes")
        assert changes is not None and max(changes.column("_epoch").to_pylist()) == EPOCHS
        self.finished += 1

    def _kill_between(self) -> bool:
        """Kill after our commit and before the last one of the lake, and see that it was there."""
        point = self._rng.choice(BETWEEN)
        killed = self._kill_at(point)
        if killed:
            with tidemill.open(self._here / "w", runtime="native", read_only=True) as wh:
                ours = wh.epoch
            shown, recorded = require_some_epoch(self._here, self._format), recorded_epochs(self._here, self._format)
            behind = shown if point == "lake-write" else recorded
            assert any(behind.get(mode, -1) < ours for mode in MODES), (point, ours, shown, recorded)
        return killed

    def _kill_at(self, point: str) -> bool:
        """Kill at a point that is passed for the first time, or some times later; false if it came to its end."""
        passing = f"{point}:{self._rng.randrange(1, 8)}"
        died = forked_children.run(
            "tests.lake.publishing", self._here, self._format, timeout=120, **{FAULT_VARIABLE: passing}
        )
        return self._was_killed(died.returncode, died.stderr)

    def _kill_at_some_time(self) -> bool:
        begun = time.monotonic()
        with forked_children.start("tests.lake.publishing", self._here, self._format) as child:
            time.sleep(self._rng.uniform(0, self._seconds))
            child.kill()
            _, told = child.communicate(120)
        if child.wait() == 0:
            self._seconds = min(self._seconds, time.monotonic() - begun)
        return self._was_killed(child.wait(), told)

    def _was_killed(self, status: int, told: str) -> bool:
        """True for a process that was killed; false for one that came to its end, which is checked."""
        assert status in (0, -signal.SIGKILL), told
        if status == 0:
            self._require_finished()
        return status != 0


@pytest.mark.parametrize("format", FORMATS)
def test_some_kills(tmp_path: Path, random_seed: int, format: str) -> None:
    Campaign(tmp_path, format, random_seed).run(2)


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_kills(tmp_path: Path, random_seed: int, format: str) -> None:
    campaign = Campaign(tmp_path, format, random_seed)
    campaign.run(KILLS)
    told = f"{campaign.between} kills between both commits, {campaign.elsewhere} elsewhere"
    print(f"{format}: {told}, {campaign.finished} folders finished, seed {random_seed}")
