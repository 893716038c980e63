"""Several readers follow a writer that merges, vacuums and is killed: each read is of one epoch."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tidemill
from tests.storage.samples import child_environment

DIFFERENT = """
  SELECT COUNT(*) FROM debit d FULL OUTER JOIN credit c ON d.account = c.account
  WHERE d.account IS NULL OR c.account IS NULL OR d.total <> c.total
"""
"""The accounts whose totals differ: none in any epoch."""


def follow(folder: Path, seconds: float) -> set[int]:
    """The epochs that a following reader meets; every read is of a whole epoch, and epochs only rise."""
    seen = [0]
    with tidemill.open(folder, runtime="native", backend="python", read_only=True, follow=True) as reader:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert reader.sql(DIFFERENT) == [(0,)]
            assert len(reader.table("paid").rows()) <= 30
            assert len(reader.view("debit").rows()) <= 7
            assert reader.epoch >= seen[-1]
            seen.append(reader.epoch)
        assert reader.troubles() == {}
    return set(seen)


def run(folder: Path, seconds: float, kills: int) -> int:
    """Writers one after the other, each killed, beside three readers; returns the number of epochs that were met."""
    command = [sys.executable, "-m", "tests.integration.balancing", str(folder), "600", "25"]
    with ThreadPoolExecutor(3) as pool:
        readers = []
        for _ in range(kills):
            with subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout is not None and writer.stdout.readline() == "open\n"
                readers = readers or [pool.submit(follow, folder, seconds) for _ in range(3)]
                time.sleep(seconds / kills)
                writer.kill()
        return min(len(reader.result()) for reader in readers)


def test_readers_follow_a_writer_that_vacuums_and_is_killed(tmp_path: Path) -> None:
    assert run(tmp_path, seconds=3, kills=2) > 1
    with tidemill.open(tmp_path, runtime="native") as wh:
        assert wh.sql(DIFFERENT) == [(0,)] and all(wh.verify())


@pytest.mark.long
def test_readers_follow_for_long(tmp_path: Path) -> None:
    epochs = run(tmp_path, seconds=60, kills=12)
    print(f"each of three readers met at least {epochs} epochs of twelve killed writers")
    assert epochs > 20
