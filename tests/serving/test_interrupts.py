"""Ctrl-C at any time: within a second, one line, exit code 130, no traceback, and the warehouse whole."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import tidemill

ROOT = Path(__file__).parent.parent.parent
SECONDS = 1.0
STARTED = 0.5
"""Seconds after which Python has begun to run our code: before that, its own traceback is all that can come."""
SLACK = 4.0
"""Seconds that a machine with more processes than cores may take longer."""

ROWS = 150_000


@dataclass(frozen=True)
class Ended:
    """How a command ended: seconds from the signal to its end."""

    code: int
    err: str
    seconds: float


def interrupted(folder: Path, arguments: list[str], after: Callable[[subprocess.Popen[str]], None]) -> Ended:
    """Run a command and send it SIGINT once ``after`` returns."""
    with subprocess.Popen(
        [sys.executable, "-m", "tidemill", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "TIDEMILL_WAREHOUSE": "shop"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where tests run in the background of a shell, SIGINT is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        after(child)
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, err = child.communicate(timeout=60)
        return Ended(child.returncode, err, time.monotonic() - sent)


def seconds(count: float) -> Callable[[subprocess.Popen[str]], None]:
    """Waits so long."""
    return lambda _: time.sleep(count)


def line(text: str) -> Callable[[subprocess.Popen[str]], None]:
    """Waits for a line of output that has ``text`` in it."""

    def wait(child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for one in child.stdout:
            if text in one:
                return

    return wait


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    rows = "".join(f"{number},c{number % 900},{number % 1000}.50\n" for number in range(ROWS))
    (folder / "orders.csv").write_text("id,customer,amount\n" + rows)
    (folder / "inbox").mkdir()
    with tidemill.open(folder / "shop", runtime="native") as wh:
        wh.sql("CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount DECIMAL(9,2))")
        wh.sql("CREATE TABLE empty (id INT PRIMARY KEY, customer STRING, amount DECIMAL(9,2))")
        wh.sql("CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
        wh.load("orders", folder / "orders.csv")
    return folder


JOIN = "SELECT a.customer, COUNT(*) AS n FROM orders a JOIN orders b USING (customer) GROUP BY a.customer"
COMMANDS: dict[str, list[str]] = {
    "load": ["load", "empty", "orders.csv", "-r", "native"],
    "fill": ["sql", f"CREATE MATERIALIZED VIEW pairs AS {JOIN}", "-r", "native"],
    "script": ["sql", "UPDATE orders SET amount = amount + 1; UPDATE orders SET amount = amount - 1", "-r", "native"],
    "query": ["sql", "SELECT COUNT(*) FROM orders a, orders b WHERE a.amount * b.amount < 0", "-r", "native"],
    "verify": ["verify", "-r", "native"],
    "show": ["show", "orders", "--limit", "0", "--csv"],
    "follow": ["sync", "--follow", "-r", "native"],
    "feed": ["feed", "empty", "inbox", "--follow", "-r", "native"],
    "watch": ["watch", "spend"],
}
FINISHING = {"load", "fill", "script", "verify", "show"}
"""Commands that may end before they are interrupted."""


def check(folder: Path, name: str, ended: Ended) -> bool:
    """See that a command ended as it should, and left the warehouse whole; whether it was interrupted."""
    assert "Traceback" not in ended.err and "Exception ignored" not in ended.err, ended.err
    finished = ended.code == 0 and name in FINISHING
    # A signal may come before Python has begun to run our code, or after it has left it.
    assert finished or ended.code in (130, -signal.SIGINT), ended
    assert ended.seconds < SECONDS + SLACK, ended
    if ended.code == 130:
        assert len(re.findall(r"^interrupted: ", ended.err, flags=re.MULTILINE)) == 1, ended.err
    with tidemill.open(folder / "shop", runtime="native") as wh:
        assert len(wh.table("orders")) == ROWS
        assert len(wh.table("empty")) in (0, ROWS)
        assert wh.view("spend").verify(against="duckdb")
        for view in {*wh.views()} - {"spend"}:
            assert wh.view(view).verify(against="duckdb")
            wh.sql(f"DROP VIEW {view}")
        wh.sql("DELETE FROM empty")
    return not finished


@pytest.mark.parametrize(
    ("name", "after", "told"),
    [
        (
            "script",
            line("[1/2]"),
            r"statement 2 of 2 was interrupted; epoch \d+ is committed in shop",
        ),
        ("feed", line("epoch"), r"no epoch was committed: shop is at epoch \d+"),
        ("query", seconds(2.5), "no"),
    ],
)
def test_an_interrupted_command_says_what_was_committed(
    shop: Path, name: str, after: Callable[[subprocess.Popen[str]], None], told: str
) -> None:
    ended = interrupted(shop, COMMANDS[name], after)
    assert check(shop, name, ended)
    assert re.search(rf"^interrupted: {told}", ended.err, flags=re.MULTILINE), ended.err


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMMANDS))
def test_commands_interrupted_at_random_times(shop: Path, name: str) -> None:
    came = 0
    for _ in range(8):
        came += check(shop, name, interrupted(shop, COMMANDS[name], seconds(random.uniform(STARTED, 4))))
    assert came
