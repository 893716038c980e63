"""``tidemill sync`` and ``tidemill watch --sync``: views over sources followed from the command line."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.serving.test_cli import Outcome, Tidemill
from tidemill.serving.cli.keep_in_sync import Reporter

SCHEMA = "CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER); INSERT INTO orders VALUES (1, 5)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT id, 10 / amount AS share FROM shop.orders"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else's database, with a warehouse beside it that has a view over it."""
    app = sqlite3.connect(tmp_path / "shop.db", isolation_level=None, check_same_thread=False)
    app.executescript(SCHEMA)
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.sql(f"CREATE SOURCE shop TYPE sqlite OPTIONS (path = '{tmp_path / 'shop.db'}', setup = 'create')")
        warehouse.sql(VIEW)
    yield app
    app.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tidemill:
    monkeypatch.chdir(tmp_path)
    return Tidemill(capsys, monkeypatch)


def later(app: sqlite3.Connection, *statements: str) -> threading.Thread:
    """Carry them out one after the other, while something else goes on."""

    def write() -> None:
        for statement in statements:
            time.sleep(0.7)
            app.execute(statement)

    writer = threading.Thread(target=write)
    writer.start()
    return writer


def test_sync_once(run: Tidemill, app: sqlite3.Connection) -> None:
    app.execute("INSERT INTO orders VALUES (2, 2)")
    assert run("sync", "-w", "wh") == Outcome(0, "epoch 2: 1 row\n", "")
    assert '"share": 5.0' in run("show", "v", "-w", "wh", "--json").out


def test_sync_that_goes_on(run: Tidemill, app: sqlite3.Connection) -> None:
    writer = later(app, "INSERT INTO orders VALUES (2, 0)", "UPDATE orders SET amount = 1 WHERE id = 2")
    outcome = run("sync", "--follow", "--timeout", 4, "-w", "wh")
    writer.join()
    assert outcome.out == "epoch 2: 1 row\n"
    trouble, again = outcome.err.splitlines()
    assert trouble.startswith("v: division by zero") and "tried 1 times" in trouble
    assert again == "v: goes on"


def test_watch_keeps_in_sync(run: Tidemill, app: sqlite3.Connection) -> None:
    writer = later(app, "INSERT INTO orders VALUES (3, 4)")
    outcome = run("watch", "v", "--sync", "--since", 1, "--interval", 0.1, "--timeout", 2, "-w", "wh")
    writer.join()
    assert outcome.out.split("  ")[-2:] == ["+1", "[3, 2.5]\n"]


def test_troubles_are_told_once(app: sqlite3.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.execute("INSERT INTO orders VALUES (2, 0)")
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        reporter = Reporter(warehouse)
        warehouse.follow()
        while not warehouse.troubles():
            time.sleep(0.01)
        reporter.report()
        reporter.report()
    assert len(capsys.readouterr().err.splitlines()) == 1
