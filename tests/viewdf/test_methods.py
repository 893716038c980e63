"""One sliding window by each method of the thesis: all have the same rows, also with late changes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill

START = datetime(2024, 1, 1)

SCRIPT = """
CREATE TABLE s (ts TIMESTAMP, k STRING, n INT) PARTITION BY ts EVERY 1 MINUTE;

CREATE VIEW direct AS
UPDATE direct[i] AS SELECT k, SUM(n) AS n, COUNT(*) AS c FROM s[i-3 .. i] GROUP BY k;

CREATE VIEW panes AS
UPDATE panes[i] AS SELECT k, SUM(n) AS n, COUNT(*) AS c FROM s[i] GROUP BY k;

CREATE VIEW merged AS
UPDATE merged[i] AS SELECT k, SUM(n) AS n, SUM(c) AS c FROM panes[i-3 .. i] GROUP BY k;

CREATE VIEW prefixes AS
INITIALIZE prefixes[k] AS SELECT * FROM panes[k];
UPDATE prefixes[i] AS
  SELECT k, SUM(n) AS n, SUM(c) AS c FROM (SELECT * FROM prefixes[i-1] UNION ALL SELECT * FROM panes[i]) GROUP BY k;

CREATE VIEW subtracted AS
UPDATE subtracted[i] AS
  SELECT k, SUM(n) AS n, SUM(c) AS c
  FROM (SELECT * FROM prefixes[i] UNION ALL SELECT k, -n, -c FROM prefixes[i-4]) GROUP BY k HAVING SUM(c) > 0;

CREATE VIEW carried AS
INITIALIZE carried[k] AS SELECT k, SUM(n) AS n, SUM(c) AS c FROM panes[k-3 .. k] GROUP BY k;
UPDATE carried[i] AS
  SELECT k, SUM(n) AS n, SUM(c) AS c
  FROM (SELECT * FROM carried[i-1] UNION ALL SELECT * FROM panes[i] UNION ALL SELECT k, -n, -c FROM panes[i-4])
  GROUP BY k HAVING SUM(c) > 0;
PARTITION BY 1 MINUTE
"""

METHODS = ("merged", "subtracted", "carried")


@pytest.mark.parametrize("seed", range(3))
def test_all_methods_agree(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    kept: list[tuple[datetime | None, str, int]] = []
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.sql(SCRIPT)
        for now in range(12):
            warehouse.apply({"s": changes(draw, kept, now)})
            check(warehouse, kept)
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.apply({"s": changes(draw, kept, 12)})
        check(warehouse, kept)
        assert all(warehouse.view(name).verify() for name in METHODS)
        warehouse.apply({"s": [(-1, row) for row in kept]})
        check(warehouse, [])


def changes(draw: random.Random, kept: list[Any], now: int) -> list[tuple[int, Any]]:
    """Rows of the last minutes, some of them late, a few without a time; and some rows leave, where any have come."""
    made: list[tuple[int, Any]] = []
    for _ in range(draw.randrange(5)):
        time = START + timedelta(minutes=now - draw.choice((0, 0, 0, 1, 5)), seconds=draw.randrange(60))
        row = (None if draw.random() < 0.1 else time, draw.choice("ab"), draw.randrange(-3, 4))
        kept.append(row)
        made.append((+1, row))
    for row in draw.sample(kept, min(len(kept), draw.randrange(3))):
        kept.remove(row)
        made.append((-1, row))
    return made


def check(warehouse: tidemill.Warehouse, kept: list[Any]) -> None:
    expected = by_hand(kept)
    assert Counter(warehouse.view("direct").rows()) == expected
    for name in METHODS:
        assert Counter(warehouse.view(name).rows()) == expected, name


def by_hand(kept: list[Any]) -> Counter[tuple[datetime, str, int, int]]:
    """The sums of all windows, from the first minute in which a row came to the last one."""
    minutes = [(time.replace(second=0), k, n) for time, k, n in kept if time is not None]
    rows: Counter[tuple[datetime, str, int, int]] = Counter()
    minute = min((time for time, _, _ in minutes), default=START)
    while minutes and minute <= max(time for time, _, _ in minutes):
        for key in "ab":
            inside = [n for time, k, n in minutes if k == key and minute - timedelta(minutes=3) <= time <= minute]
            if inside:
                rows[minute, key, sum(inside), len(inside)] += 1
        minute += timedelta(minutes=1)
    return rows
