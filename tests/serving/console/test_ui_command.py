"""The command ``tidemill ui``: beside a writer it only reads, and goes on with it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.serving.console.browser import require_browser
from tidemill.engine.warehouse import Warehouse

COMMAND = [sys.executable, "-c", "from tidemill.serving.cli.entry import main; main()", "ui", "--no-open"]


def get(url: str) -> tuple[dict[str, str], str]:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return {name.lower(): value for name, value in answer.headers.items()}, answer.read().decode()


def status(url: str) -> Any:
    return json.loads(get(f"{url}/v1/status")[1])


def changed_nodes(url: str, wh: Warehouse) -> Any:
    """The nodes of the first event that has some, while rows are applied by the writer."""
    with urllib.request.urlopen(f"{url}/v1/status/stream", timeout=20) as stream:
        until = time.monotonic() + 15
        while time.monotonic() < until:
            wh.apply({"t": [(+1, (0,))]})
            time.sleep(0.3)
            line = stream.readline().decode()
            nodes = json.loads(line[5:])["nodes"] if line.startswith("data:") else {}
            if nodes:
                return nodes
    raise AssertionError("no event told what views have done")


def test_it_is_served_beside_a_writer(tmp_path: Path) -> None:
    require_browser()
    with tidemill.open(tmp_path / "shop", runtime="native") as wh:
        wh.sql(
            "CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS n FROM t; INSERT INTO t VALUES (1)"
        )
        process = subprocess.Popen([*COMMAND, "-w", str(tmp_path / "shop")], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert "cannot be changed here" in process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found
            headers, page = get(found[0])
            assert "<script" in page and "script-src 'self'" in headers["content-security-policy"]
            assert status(found[0])["epoch"] == 1
            wh.apply({"t": [(+1, (2,))]})
            waited = time.monotonic() + 10
            while status(found[0])["epoch"] < 2:
                assert time.monotonic() < waited
                time.sleep(0.05)
            rows = json.loads(get(f"{found[0]}/v1/views/v")[1])["rows"]
            assert rows == [[3]]
            assert changed_nodes(found[0], wh)["v"]["rows_in"] > 0
        finally:
            process.terminate()
            process.communicate(timeout=60)
        assert process.returncode == 0


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    ended = subprocess.run([*COMMAND, "-w", str(tmp_path / "none")], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
