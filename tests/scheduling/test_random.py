"""Random lives of a warehouse with views that wait for their turn: each shows exactly the epochs it says it does."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import tidemill
from tidemill.engine.engine import Engine

DDL = """
CREATE STREAM s (ts TIMESTAMP, k STRING, n INT) PARTITION BY ts EVERY 1 MINUTE;
CREATE TABLE t (k STRING PRIMARY KEY, city STRING)
"""

VIEWS = {
    "sums": ("scheduled", "SELECT k, SUM(n) AS n, COUNT(*) AS c FROM s GROUP BY k"),
    "minutes": ("scheduled", "UPDATE minutes[i] AS SELECT COUNT(*) AS c, SUM(n) AS n FROM s[i-1 .. i]"),
    "longer": ("scheduled", "UPDATE longer[i] AS SELECT COUNT(*) AS c, SUM(n) AS n FROM s[i-3 .. i]"),
    "cities": ("scheduled", "SELECT t.city, SUM(a.n) AS n FROM sums a JOIN t ON a.k = t.k GROUP BY t.city"),
    "large": ("immediate", "SELECT k, n FROM sums WHERE n > 3"),
    "places": ("deferred", "SELECT city, COUNT(*) AS c FROM t GROUP BY city"),
    "ranked": ("scheduled", "SELECT c.city, c.n, p.c FROM cities c JOIN places p ON c.city = p.city"),
}
"""Each with when it is refreshed, and how it is defined: late views over late ones, and an immediate one in between."""

KEYS, CITIES = "abcd", ("oslo", "rome")


def define(wh: tidemill.Warehouse, prefix: str = "", refresh: str | None = None) -> None:
    """Make the views; with a prefix, twins of them that read one another."""
    for name, (when, query) in VIEWS.items():
        text = query
        for other, word in product(VIEWS, ("FROM", "JOIN", "UPDATE")):
            text = re.sub(rf"\b{word} {other}\b", f"{word} {prefix}{other}", text)
        wh.sql(f"CREATE MATERIALIZED VIEW {prefix}{name} WITH (refresh = '{refresh or when}') AS {text}")


class Life:
    """What happens to a warehouse, and what its tables held after each epoch."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: list[tuple[str, str, int]] = []
        self.people: dict[str, str] = {}
        self.fed: list[int] = []

    def change(self, wh: tidemill.Warehouse) -> None:
        pick, changes = self.random, {}
        if pick.random() < 0.8:
            come = [(f"2026-01-01 00:0{pick.randrange(8)}:00", pick.choice(KEYS), pick.randrange(5)) for _ in range(3)]
            gone = [self.rows.pop(pick.randrange(len(self.rows)))] if len(self.rows) > 5 else []
            self.rows += come
            changes["s"] = [*((+1, row) for row in come), *((-1, row) for row in gone)]
        key, city = pick.choice(KEYS), pick.choice(CITIES)
        if self.people.get(key) != city:
            moved = [(-1, (key, self.people[key]))] if key in self.people else []
            changes["t"] = [*moved, (+1, (key, city))]
            self.people[key] = city
        epoch = wh.apply(changes) if changes else 0
        if "s" in changes:
            self.fed.append(epoch)

    def step(self, wh: tidemill.Warehouse) -> None:
        match self.random.randrange(10):
            case 0:
                engine(wh).refresh(*self.random.sample(list(VIEWS), self.random.randrange(1, 4)))
            case 1:
                wh.vacuum(keep=self.random.randrange(1, 4))
            case 2:
                wh.compact()
            case 3 | 4 | 5:
                engine(wh).scheduler.turn(self.random.choice((None, 1, 2)))
            case _:
                self.change(wh)


def engine(wh: tidemill.Warehouse) -> Engine:
    return wh._engine


def rows_of(wh: tidemill.Warehouse, name: str) -> Counter[tuple[object, ...]]:
    return Counter(wh.view(name).rows())


def check(wh: tidemill.Warehouse, life: Life) -> None:
    """Views over streams show all up to the epoch that they name, as their twins did then; others are verified."""
    views = engine(wh).catalog.views
    for name in ("sums", "minutes", "longer"):
        fresh = views[name].fresh
        unseen = [epoch for epoch in life.fed if epoch > fresh]
        assert wh.view(name).staleness().epochs == len(unseen)
        then = wh.at(fresh).view(f"twin_{name}") if fresh >= engine(wh).store.oldest else None
        assert then is None or rows_of(wh, name) == Counter(then.rows())
    for name in ("cities", "large", "places", "ranked"):
        if views[name].fresh >= engine(wh).store.oldest:
            assert wh.view(name).verify(), name
    late = wh.view("sums").staleness()
    assert wh.view("large").staleness().epochs == late.epochs
    assert wh.view("cities").staleness().seconds >= late.seconds - 0.5


def finish(wh: tidemill.Warehouse, life: Life) -> None:
    """Let everybody catch up: late views are then as their twins."""
    life.change(wh)
    wh.view("places").refresh()
    wh.schedule()
    for name in VIEWS:
        assert rows_of(wh, name) == rows_of(wh, f"twin_{name}")
        assert wh.view(name).staleness().epochs == 0 == wh.view(name).staleness().seconds
    assert wh.schedule() == []


@pytest.mark.parametrize("seed", range(3))
def test_views_show_the_epochs_that_they_name(seed: int) -> None:
    life = Life(seed)
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(DDL)
        define(wh)
        define(wh, "twin_", "immediate")
        assert engine(wh).catalog.views["longer"].shares
        for _ in range(30):
            life.step(wh)
            check(wh, life)
        finish(wh, life)


def test_after_a_restart(tmp_path: Path) -> None:
    life = Life(7)
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        wh.sql(DDL)
        define(wh)
        define(wh, "twin_", "immediate")
        for _ in range(12):
            life.step(wh)
    with tidemill.open(tmp_path, runtime="native", read_only=True) as reader:
        check(reader, life)
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        finish(wh, life)
