"""A session of Spark Connect in place of a classic one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.connecting import ROWS
from tests.storage.samples import child_environment


@pytest.mark.spark
def test_a_session_of_spark_connect_runs_epochs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.connecting", str(tmp_path)]
    told = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=900)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "session": "pyspark.sql.connect.session",
        "epoch": 3,
        "verified": True,
        "groups": [0, 1, 2, 3, 4, 7],
        "rows": ROWS + 1,
        "attached": [0, 1, 2, 3, 4, 7],
        "stream": "a streaming query of Spark Connect cannot be followed",
        "written": [[5, 2], [6, 1]],
    }
