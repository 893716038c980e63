"""A kill -9 between our commit of a streamed batch and Spark's: Spark repeats it, and it is an epoch once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill
from tests.storage.samples import child_environment
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

FILES = 3


def deliver(inbox: Path) -> None:
    """A file for each minute; Spark takes them in the order of their times."""
    inbox.mkdir()
    for number in range(FILES):
        file = inbox / f"{number}.json"
        file.write_text(json.dumps({"ts": f"2026-01-01T00:0{number}:00", "n": number + 1}))
        os.utime(file, (1_700_000_000 + number,) * 2)


@pytest.mark.long
@pytest.mark.spark
def test_killed_between_the_commits(tmp_path: Path) -> None:
    deliver(tmp_path / "inbox")
    codes = []
    for fault in ("before-log:2", "after-log:1", ""):
        command = [sys.executable, "-m", "tests.integration.streaming", str(tmp_path)]
        ended = subprocess.run(
            command, env=child_environment(**{FAULT_VARIABLE: fault}), capture_output=True, text=True, timeout=300
        )
        codes.append(ended.returncode)
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0], ended.stderr
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh:
        assert wh.epoch == FILES
        assert sorted(n for _, n in wh.view("running").rows()) == [1, 3, 6]
        assert json.loads(wh.positions["stream:s"])["batch"] == FILES - 1
