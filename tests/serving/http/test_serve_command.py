"""The command ``tidemill serve``: how it begins, and how it ends by Ctrl-C and SIGTERM."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill
from tests.serving.http.conftest import SHOP

COMMAND = [sys.executable, "-c", "from tidemill.serving.cli.entry import main; main()", "serve", "--port", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "shop"
    with tidemill.open(folder, runtime="native") as wh:
        wh.sql(SHOP + "CREATE TABLE numbers (n BIGINT)")
        wh.apply({"numbers": pa.table({"n": range(300_000)})})
    return folder


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [*COMMAND, "-w", str(folder), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert found
    return process, int(found[1])


def run(port: int, text: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/v1/sql", f'{{"sql": "{text}"}}', {"content-type": "application/json"})
    return connection.getresponse().status


def test_what_runs_is_finished_and_the_warehouse_closed(folder: Path) -> None:
    process, port = started(folder)
    fill = (
        "CREATE MATERIALIZED VIEW tens AS SELECT n % 1000 AS n, COUNT(DISTINCT n) AS c FROM numbers GROUP BY n % 1000"
    )
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(run(port, fill)))
    asking.start()
    asking.join(0.1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    asking.join()
    assert (process.returncode, answers, err) == (0, [200], "")
    assert out == f"{folder} is closed\n"
    with tidemill.open(folder, runtime="native") as wh:
        assert len(wh.view("tens")) == 1000


def test_ctrl_c_tells_what_was_committed(folder: Path) -> None:
    process, port = started(folder, "-r", "native")
    assert run(port, "INSERT INTO orders VALUES (50, 'eve', 1)") == 200
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"interrupted: epoch \d+ is committed in .*shop, and nothing after", err)


def test_an_address_that_is_taken_is_an_error(folder: Path) -> None:
    process, port = started(folder, "--read-only")
    try:
        other = subprocess.run(
            [*COMMAND[:-1], str(port), "-w", str(folder), "--read-only"], capture_output=True, text=True, timeout=60
        )
        assert other.returncode == 1
        assert "error: the server cannot listen here" in other.stderr
        assert run(port, "INSERT INTO orders VALUES (51, 'eve', 1)") == 503
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_log_of_a_server_has_its_errors_unless_something_else_is_asked_for(folder: Path) -> None:
    code = (
        "import logging; from tidemill.serving.cli.observing.log_output import print_errors; print_errors(); "
        "log = logging.getLogger('tidemill.server'); log.error('fault 1'); log.warning('nothing')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.rstrip().endswith("ERROR tidemill.server: fault 1")
    silent = code.replace(
        "print_errors();",
        "logging.getLogger('tidemill').addHandler(logging.StreamHandler(sys.stdout)); print_errors();",
    )
    ran = subprocess.run([sys.executable, "-c", "import sys; " + silent], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("fault 1\nnothing\n", "")
