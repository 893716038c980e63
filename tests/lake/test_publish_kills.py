"""Kills of a process that publishes, between its commit and that of the lake table and at random times.

After each kill every published table must show some epoch, and every row of the table of epochs be true; a process that
is started again must go on to the end, with each epoch published once.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests import forked_children
from tests.faults import fault_points
from tests.lake import test_crash
from tests.lake.publishing import EPOCHS, FORMATS, MODES, live, require_recorded, require_some_epoch, table_of
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

POINTS = ("lake-write", "lake-written", "lake-compacted", "lake-record", "lake-recorded", "torn-log", "before-manifest")
"""Points between our commit and the last one of the lake, and within ours."""

KILLS = 300


def test_every_point_is_tried() -> None:
    elsewhere = {"lake-altered"}  # by test_schema_change
    tried = {*POINTS, *elsewhere, *(passing.partition(":")[0] for passing in test_crash.PASSINGS)}
    assert tried >= {point for point in fault_points("engine") if point.startswith("lake-")}


class Campaign:
    """Lives of a process in one folder after another, each cut short, until there were enough kills."""

    def __init__(self, folder: Path, format: str, seed: int) -> None:
        self._folder, self._format, self._rng = folder, format, random.Random(seed)
        self.kills, self.finished = 0, 0
        self._seconds = 1.0
        """At most so long after its start a process is killed: the shortest life that came to its end."""

    @property
    def _here(self) -> Path:
        """The folder of this life."""
        here = self._folder / str(self.finished)
        here.mkdir(parents=True, exist_ok=True)
        return here

    def run(self, kills: int) -> None:
        """Kill so often, and finish."""
        while self.kills < kills:
            if self._rng.random() < 0.5:
                self._kill_at_point()
            else:
                self._kill_at_some_time()
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

    def _kill_at_point(self) -> None:
        point = f"{self._rng.choice(POINTS)}:{self._rng.randrange(1, 8)}"
        died = forked_children.run(
            "tests.lake.publishing", self._here, self._format, timeout=120, **{FAULT_VARIABLE: point}
        )
        self._count(died.returncode, died.stderr)

    def _kill_at_some_time(self) -> None:
        begun = time.monotonic()
        with forked_children.start("tests.lake.publishing", self._here, self._format) as child:
            time.sleep(self._rng.uniform(0, self._seconds))
            child.kill()
            _, told = child.communicate(120)
        if child.wait() == 0:
            self._seconds = min(self._seconds, time.monotonic() - begun)
        self._count(child.wait(), told)

    def _count(self, status: int, told: str) -> None:
        """A process was killed, or came to its end."""
        assert status in (0, -signal.SIGKILL), told
        if status:
            self.kills += 1
        else:
            self._require_finished()


@pytest.mark.parametrize("format", FORMATS)
def test_some_kills(tmp_path: Path, random_seed: int, format: str) -> None:
    Campaign(tmp_path, format, random_seed).run(3)


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_kills(tmp_path: Path, random_seed: int, format: str) -> None:
    campaign = Campaign(tmp_path, format, random_seed)
    campaign.run(KILLS)
    print(f"{format}: {campaign.kills} kills, {campaign.finished} folders finished, seed {random_seed}")
