"""A kill -9 of a feed, at each of its points and within its commits: every file is taken in once, and none is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.faults import fault_points
from tests.feeds.feeding import FILES, live, rows_of
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PASSINGS = {"fed": 2, "put-away": 2, "set-aside": 1, "torn-log": 3, "before-manifest": 6}
"""Which passing of each point to die at; the sixth manifest is that of a refresh."""


def test_every_point_is_tried() -> None:
    points = fault_points("engine", "sources")
    elsewhere = {f"{when}-{what}" for when in ("before", "after") for what in ("alter", "swap", "joint")}
    elsewhere |= {point for point in points if point.startswith(("lake-", "build-", "replacement-", "during-deploy"))}
    assert set(PASSINGS) > points - elsewhere


@pytest.mark.parametrize("point", PASSINGS)
def test_killed_at(tmp_path: Path, point: str) -> None:
    fault = {FAULT_VARIABLE: f"{point}:{PASSINGS[point]}"}
    died = forked_children.run("tests.feeds.feeding", tmp_path, timeout=60, **fault)
    assert died.returncode == -signal.SIGKILL, died.stderr
    live(tmp_path)
    inbox = tmp_path / "inbox"
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh:
        expected = [(*row, 1) for number in range(FILES) if number != 2 for row in rows_of(number)]
        assert sorted(wh.view("v").rows()) == sorted(wh.view("late").rows()) == expected
        assert wh.view("late").staleness().epochs == 0
    assert sorted(file.name for file in (inbox / "_aside").iterdir()) == ["file-2.csv", "file-2.csv.reason"]
    assert len(list((inbox / "_taken").iterdir())) == FILES - 1
    assert not [file for file in inbox.iterdir() if file.suffix == ".csv"]
