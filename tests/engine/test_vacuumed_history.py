"""Deferred views whose changes were vacuumed before their refresh: views that read them get the difference."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tidemill

DEFERRED = "SELECT a, SUM(b) AS s FROM t GROUP BY a"
READERS = {
    "counted": "SELECT s, COUNT(*) AS n FROM deferred GROUP BY s",
    "joined": "SELECT d.a, d.s, u.c FROM deferred d JOIN u ON u.a = d.a",
    "twice": "SELECT n, COUNT(*) AS m FROM counted GROUP BY n",
}


def define(wh: tidemill.Warehouse, strategy: str) -> None:
    wh.sql("CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT, c INT)")
    wh.sql(
        f"CREATE MATERIALIZED VIEW deferred WITH (refresh = 'deferred', strategy = '{strategy}') AS {DEFERRED};"
        f"CREATE MATERIALIZED VIEW later WITH (refresh = 'deferred') AS {READERS['counted']};"
    )
    for name, query in READERS.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")


def change(wh: tidemill.Warehouse, chance: random.Random) -> None:
    row = (chance.randrange(4), chance.randrange(3))
    weight = -1 if row in wh.table("t").rows() and chance.random() < 0.4 else 1
    wh.apply({"t": [(weight, row)], "u": [(1, (chance.randrange(4), chance.randrange(3)))]})


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("strategy", ["delta", "viewlet", "recompute"])
def test_readers_of_a_view_that_is_computed_anew(strategy: str, place: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    with tidemill.open(":memory:" if place == "memory" else tmp_path, runtime="native") as wh:
        define(wh, strategy)
        for step in range(12):
            for _ in range(chance.randrange(1, 4)):
                change(wh, chance)
            if chance.random() < 0.7:
                wh.compact()
                wh.vacuum(keep=1)
            if chance.random() < 0.6 or step == 11:
                wh.sql("REFRESH VIEW deferred")
            if chance.random() < 0.4 or step == 11:
                wh.sql("REFRESH VIEW later")
            for name in READERS:
                assert wh.view(name).verify(), (step, name)
        assert all(wh.view(name).verify() for name in wh.views())
