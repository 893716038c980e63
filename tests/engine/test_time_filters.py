"""One property of views over a clock: they are what the evaluator and DuckDB say of the tables and the clock.

Rows come late, early, twice and with NULLs, are updated and deleted before and after their time; the clock goes in
small steps and large ones, and the warehouse is closed and opened in between.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.answers import Answers, differ, empty_duckdb, inner
from tests.ways import opened
from tidemill import Warehouse
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse

BEGIN = datetime(2024, 2, 27)
COLUMNS = "(id INT, k INT, x INT, ts TIMESTAMP, te TIMESTAMP, d DATE)"
VIEWS = {
    "age": "SELECT id, k, ts FROM t WHERE ts > now() - INTERVAL 1 HOUR",
    "groups_": "SELECT k, COUNT(*) AS n, SUM(x) AS s, MAX(x) AS m FROM t WHERE ts > now() - INTERVAL 90 MINUTES "
    "GROUP BY k",
    "busy": "SELECT k, n FROM groups_ WHERE n > 1",
    "valid": "SELECT id FROM t WHERE now() BETWEEN ts AND te",
    "begun": "SELECT id FROM t WHERE ts < now()",
    "open_": "SELECT COUNT(*) AS n FROM t WHERE te IS NULL OR te > current_timestamp()",
    "joined": "SELECT t.id, u.k FROM t JOIN u ON t.k = u.k WHERE t.ts <= now() AND u.te > now()",
    "best": "SELECT id, x FROM t WHERE ts > now() - INTERVAL 3 HOURS ORDER BY x DESC NULLS LAST, id, ts, te, d LIMIT 3",
    "exists_": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.ts > now() - INTERVAL 2 HOURS)",
    "days": "SELECT id, d FROM t WHERE d >= current_date() - INTERVAL 1 DAY",
    "distinct_": "SELECT DISTINCT k FROM t WHERE ts <= now() AND (te IS NULL OR te > now())",
    "outer_": "SELECT a.id, b.id AS other FROM t a LEFT JOIN (SELECT * FROM u WHERE ts > now() - INTERVAL 1 HOUR) b "
    "ON a.k = b.k WHERE a.te > now()",
    "sum_": "SELECT id FROM t WHERE ts > now() - INTERVAL 1 DAY UNION ALL SELECT id FROM u WHERE ts > now()",
    "kept": "SELECT t.id FROM t LEFT JOIN u ON t.id = u.id "
    "WHERE t.ts > now() - INTERVAL 1 HOUR AND (u.x IS NULL OR u.x > 2)",
    "own": "SELECT id FROM t WHERE now() - ts < make_dt_interval(0, x)",
}
NOT_DUCKDB = frozenset({"own"})
STRATEGIES = ("delta", "auto", "viewlet", "joingraph", "lineage", "recompute")


class History:
    """A random history of two tables and a clock, and what views must show."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.answers = Answers()
        self.now = BEGIN
        self._rows: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}
        for name in self._rows:
            (statement,) = parse(f"CREATE TABLE {name} {COLUMNS}")
            assert isinstance(statement, CreateTable)
            self.answers.declare(statement.table)
        self.answers.set_clock(str(self.now))

    def instant(self) -> datetime | None:
        if self.rng.random() < 0.1:
            return None
        return self.now + timedelta(minutes=self.rng.randint(-200, 200), microseconds=self.rng.choice([0, 0, 1]))

    def row(self) -> tuple[Any, ...]:
        day = self.instant() or BEGIN
        small = self.rng.randint(0, 3), self.rng.choice([None, 1, 2, 3])
        return self.rng.randint(0, 9), *small, self.instant(), self.instant(), day.date()

    def rows(self) -> dict[str, list[tuple[int, tuple[Any, ...]]]]:
        """The changes of an epoch."""
        return {name: self._changes(name) for name in self.rng.sample(["t", "u"], self.rng.randint(1, 2))}

    def _changes(self, name: str) -> list[tuple[int, tuple[Any, ...]]]:
        held, found = self._rows[name], []
        for _ in range(self.rng.randint(1, 5)):
            turn = self.rng.random()
            if turn < 0.6 and held:
                found.append((-1, held.pop(self.rng.randrange(len(held)))))
            if turn > 0.3 or not held:
                held.append(self.row())
                found.append((+1, held[-1]))
        self.answers.rows[name].update_by(ZSet.summed((row, weight) for weight, row in found))
        return found

    def tick(self) -> datetime:
        """The next instant of the clock."""
        self.now += timedelta(minutes=self.rng.choice([1, 7, 30, 60, 61, 200]), microseconds=self.rng.choice([0, 1]))
        self.answers.set_clock(str(self.now))
        return self.now


def play(history: History, warehouse: Warehouse, steps: int, folder: Path | None = None) -> None:
    """Play so many epochs, and compare every view after each."""
    warehouse.advance_clock(history.now)
    for name in ("t", "u"):
        warehouse.sql(f"CREATE TABLE {name} {COLUMNS}")
    warehouse.apply(history.rows())
    for name, query in VIEWS.items():
        strategy = history.rng.choice(STRATEGIES)
        warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")
        history.answers.define(name, query)
    emitted = {name: shown(history, warehouse, name) for name in VIEWS}
    for step in range(steps):
        before = warehouse.epoch
        if history.rng.random() < 0.4:
            warehouse.advance_clock(history.tick())
        else:
            warehouse.apply(history.rows())
        wanted = history.answers.evaluator()
        for name, total in emitted.items():
            total.update_by(changed(history, warehouse, name, before))
            fields, found = history.answers.fields(name), shown(history, warehouse, name)
            difference = differ(wanted[name], found, fields)
            assert not difference, f"{name}, step {step}:\n{difference}"
            assert not differ(total, found, fields), f"{name}, step {step}: the changes are not the view's"
        if folder is not None and history.rng.random() < 0.2:
            warehouse.close()
            warehouse = tidemill.open(folder, runtime="native")
    with empty_duckdb() as duckdb:
        for name, rows in history.answers.duckdb(duckdb, leaving=NOT_DUCKDB).items():
            assert not differ(rows, wanted[name], history.answers.fields(name)), f"{name} is not what DuckDB says"
    for name in VIEWS:
        assert warehouse.view(name).verify()
    warehouse.close()


def changed(history: History, warehouse: Warehouse, name: str, since: int) -> ZSet:
    changes, fields = warehouse.view(name).changes(since=since), history.answers.fields(name)
    rows = inner((row for _, row in changes), fields, name)
    return ZSet.summed(zip(rows, (weight for weight, _ in changes), strict=True))


def shown(history: History, warehouse: Warehouse, name: str) -> ZSet:
    return ZSet.of(inner(warehouse.view(name).rows(), history.answers.fields(name), name))


@pytest.fixture
def history(random_seed: int, request: pytest.FixtureRequest) -> History:
    return History(f"{random_seed} {request.node.name}")


@pytest.mark.turns("way")
@pytest.mark.parametrize("way", ["held", "columns", "llvm", "stored", "budget"])
def test_views_are_what_their_conditions_say_at_the_clock(history: History, way: str) -> None:
    with opened(way) as warehouse:
        play(history, warehouse, 40)


def test_so_they_are_after_restarts(history: History, tmp_path: Path) -> None:
    play(history, tidemill.open(tmp_path / "w", runtime="native"), 30, tmp_path / "w")
