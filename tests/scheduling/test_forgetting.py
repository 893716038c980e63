"""Late views over a stream that forgets, sharing what they keep: in the end as those that followed at once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tidemill
from tests.scheduling.test_sharing import NATIVE, QUERIES

STREAM = """
CREATE STREAM s (ts TIMESTAMP, k INT, n INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 4 MINUTES RETAIN 8 MINUTES
"""


def feed(wh: tidemill.Warehouse, pick: random.Random, head: int) -> None:
    minutes = (max(0, head - pick.randrange(8)) for _ in range(3))
    times = [f"2026-01-01 {minute // 60:02}:{minute % 60:02}:00" for minute in minutes]
    wh.apply({"s": [(+1, (at, pick.randrange(3), pick.randrange(9))) for at in times]})


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))])
def test_as_those_that_followed_at_once(seed: int) -> None:
    pick, head = random.Random(seed), 10
    with tidemill.open(":memory:", **NATIVE) as wh:
        wh.sql(STREAM)
        for name, refresh in [
            *((name, "scheduled") for name in QUERIES),
            *((f"now_{n}", "immediate") for n in QUERIES),
        ]:
            query = f"UPDATE {name}[i] AS {QUERIES[name.removeprefix('now_')]}"
            wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = '{refresh}') AS {query}")
        for _ in range(30):
            match pick.randrange(10):
                case 0:
                    wh.compact()
                case 1:
                    wh.vacuum(keep=2)
                case 2 | 3 | 4:
                    wh._engine.scheduler.turn(pick.choice((1, 2, None)))
                case _:
                    head += pick.randrange(3)
                    feed(wh, pick, head)
        wh.schedule()
        for name in QUERIES:
            assert Counter(wh.view(name).rows()) == Counter(wh.view(f"now_{name}").rows())
