"""A kill -9 between reading a version and its commit, and within commits: nothing is lost, nothing comes twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.lake.delta_history import rows_of
from tests.lake.taking import VERSIONS, live
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PASSINGS = ["lake-read:1", "lake-read:3", "lake-taken:1", "lake-taken:2", "torn-log:2", "before-manifest:2"]
"""At which passing of which point to die; the first version is taken when the table is created."""


@pytest.mark.parametrize("passing", PASSINGS)
def test_killed_at(tmp_path: Path, passing: str) -> None:
    died = forked_children.run("tests.lake.taking", tmp_path, timeout=60, **{FAULT_VARIABLE: passing})
    assert died.returncode == -signal.SIGKILL, died.stderr
    live(tmp_path)
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh:
        expected = rows_of(str(tmp_path / "lake"))
        assert sorted(wh.table("orders").rows()) == sorted(expected.elements())
        assert wh.positions["lake:orders"].startswith(f"{VERSIONS} ")
        assert all(one.ok for one in wh.verify())
