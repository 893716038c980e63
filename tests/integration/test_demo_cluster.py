"""``tidemill demo --cluster``: the demo on a cluster that it starts, of which nothing is left however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.storage.samples import child_environment

pytestmark = [pytest.mark.spark, pytest.mark.long]

DEMO = """
from tidemill.serving.cli.app import main
from tidemill.serving.demo import run_demo
from tidemill.serving.demo.shop import Shop

run_demo.Shop = lambda seed: Shop(seed=seed, customers=50, orders=300)
main()
"""


def processes(folder: Path) -> Iterator[str]:
    """The processes that name a folder in their command or environment."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in (process / "cmdline").read_text() + (process / "environ").read_text():
                yield (process / "cmdline").read_text()
        except OSError:
            continue


@pytest.mark.parametrize("end", [None, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_the_cluster(tmp_path: Path, end: signal.Signals | None) -> None:
    command = [sys.executable, "-c", DEMO, "demo", "--cluster", "--seconds", "1" if end is None else "600"]
    log = tmp_path / "log"
    environment = child_environment(TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1")
    with log.open("w") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as running:
        until(lambda: "now the changes" in log.read_text() or running.poll() is not None, 200)
        assert any("deploy.worker.Worker" in line for line in processes(tmp_path)), log.read_text()
        if end is not None:
            running.send_signal(end)
        code = running.wait(200)
    said = log.read_text()
    if end is signal.SIGKILL:
        assert code == -signal.SIGKILL
    else:
        assert code == 0, said
        assert "6 of 6 views equal their recomputation" in said
    assert ("stopped; verifying every view" in said) == (end is signal.SIGINT)
    until(lambda: not list(processes(tmp_path)), 60)
    assert list(processes(tmp_path)) == []


def until(done: Callable[[], bool], seconds: float) -> None:
    """Wait for something, up to so many seconds."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.1)
