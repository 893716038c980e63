"""Sums of long frames: looked up for few rows, by search for the ends of frames, and always those of the evaluator."""

from __future__ import annotations

import decimal
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.runtimes.native.operators import frame_reach, windows
from tidemill.runtimes.native.operators.frame_sums import RangeFrameSums, RowsFrameSums
from tidemill.runtimes.native.python import windows as written_windows
from tidemill.runtimes.native.state.ordered_sums import OrderedSums

DDL = "CREATE TABLE visits (who INT, at TIMESTAMP, day DATE, n INT, price DECIMAL(10,2), x DOUBLE)"
TABLES = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}

FRAMES = {
    "time": "ORDER BY at RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND INTERVAL 2 MINUTES FOLLOWING",
    "time before": "ORDER BY at RANGE BETWEEN INTERVAL 20 MINUTES PRECEDING AND INTERVAL 2 MINUTES PRECEDING",
    "falling": "ORDER BY at DESC NULLS LAST RANGE BETWEEN INTERVAL 9 MINUTES PRECEDING AND CURRENT ROW",
    "days": "ORDER BY day RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
    "whole numbers": "ORDER BY n DESC RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING",
    "decimals": "ORDER BY price NULLS LAST RANGE BETWEEN 2.5 PRECEDING AND 1.25 FOLLOWING",
    "doubles": "ORDER BY x RANGE BETWEEN 0.25D PRECEDING AND 0.25D FOLLOWING",
    "rows": "ORDER BY at, n ROWS BETWEEN 5 PRECEDING AND CURRENT ROW",
    "rows around": "ORDER BY n ROWS BETWEEN 7 PRECEDING AND 4 FOLLOWING",
    "rows after": "ORDER BY at DESC ROWS BETWEEN 2 FOLLOWING AND 9 FOLLOWING",
}

CALLS = {
    "sums": "SUM(n) OVER (PARTITION BY who {0}) AS a, AVG(price) OVER (PARTITION BY who {0}) AS b",
    "doubles": "SUM(x) OVER ({0}) AS a, COUNT(n) FILTER (WHERE n > 1) OVER ({0}) AS b",
    "others": "MIN(n) OVER (PARTITION BY who {0}) AS a, FIRST_VALUE(x) IGNORE NULLS OVER (PARTITION BY who {0}) AS b",
    "beside others": "SUM(n) OVER (PARTITION BY who {0}) AS a, MAX(n) OVER (PARTITION BY who {0}) AS b",
}


def visit(chance: Random) -> Row:
    return (
        chance.choice((1, 2, None)),
        None if chance.random() < 0.1 else datetime(2024, 1, 1) + timedelta(minutes=chance.randint(0, 90)),
        None if chance.random() < 0.1 else date(2024, 1, 1) + timedelta(days=chance.randint(0, 12)),
        chance.choice((None, *range(8))),
        None if chance.random() < 0.1 else Decimal(chance.randint(0, 60)).scaleb(-1),
        chance.choice((None, 0.1, 0.35, 0.5, 1.5, float("inf"))),
    )


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look the sums of all frames up, and find all ends by search."""
    monkeypatch.setattr(windows, "LOOKUP_ROWS", 1000)
    monkeypatch.setattr(windows, "READ_FRAMES", 1000)
    monkeypatch.setattr(windows, "LOOKUP_FACTOR", 0)
    monkeypatch.setattr(frame_reach, "WALKED_ROWS", 0)
    monkeypatch.setattr(written_windows, "LONG_FRAME", 0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("frame", FRAMES)
def test_looked_up_sums_are_those_of_the_evaluator(frame: str, calls: str, seed: int) -> None:
    sql = f"SELECT who, at, day, n, price, x, {CALLS[calls].format(FRAMES[frame])} FROM visits"
    chance = Random(seed)
    relation = translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation
    harness = Harness(compile_view("v", relation, TABLES, "delta"), TABLES)
    rows = ZSet.of(visit(chance) for _ in range(50))
    harness.seed({"visits": rows})
    total = harness.load()
    for _ in range(12):
        change = ZSet()
        for _ in range(chance.randint(0, 3)):
            change.add(visit(chance), chance.choice((1, 1, 2)))
        for row in chance.sample(sorted(rows.expand(), key=repr), 2):
            change.add(row, -1)
        rows = rows + change
        total = total + harness.apply({"visits": change})
        with decimal.localcontext(EXACT):
            assert total == evaluate(relation, {"visits": rows})


@pytest.mark.parametrize(
    "frame",
    [
        "RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW",
        "RANGE BETWEEN INTERVAL 2 HOURS PRECEDING AND INTERVAL 1 HOUR PRECEDING",
        "ROWS BETWEEN 1200 PRECEDING AND CURRENT ROW",
    ],
)
def test_a_row_that_comes_last_reads_few_entries(frame: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over = f"OVER (PARTITION BY who ORDER BY at {frame})"
    sql = f"SELECT at, SUM(n) {over} AS s, AVG(x) {over} AS a FROM visits"
    relation = translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation
    harness = Harness(compile_view("v", relation, TABLES, "delta"), TABLES)
    harness.load()
    start = datetime(2024, 1, 1)
    rows = ZSet.of((1, start + timedelta(seconds=3 * i), None, i % 7, None, i / 8) for i in range(4000))
    total = harness.apply({"visits": rows})
    read: list[Any] = []
    looked_up: list[type] = []

    def counted(name: str) -> None:
        walk = getattr(OrderedSums, name)

        def counting(self: OrderedSums, bound: Any = None) -> Any:
            for pair in walk(self, bound):
                read.append(pair)
                yield pair

        monkeypatch.setattr(OrderedSums, name, counting)

    for kind in (RangeFrameSums, RowsFrameSums):
        ends = kind.ends
        monkeypatch.setattr(kind, "ends", lambda *given, ends=ends: looked_up.append(type(given[0])) or ends(*given))
    counted("ascending")
    counted("descending")
    last = (1, start + timedelta(seconds=3 * 4000), None, 5, None, 0.5)
    change = harness.apply({"visits": ZSet({last: 1})})
    assert len(read) < 60
    assert looked_up
    assert total + change == evaluate(relation, {"visits": rows + ZSet({last: 1})})
    assert len(change) == 1
