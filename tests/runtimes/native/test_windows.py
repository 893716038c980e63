"""Windows and top-k over longer partitions: sessions, the cost of a change, and failing epochs."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

import tidemill
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.operators.windows import WindowOutput
from tidemill.runtimes.native.state.ordered_groups import NewGroup, SortKey

DDL = "CREATE TABLE visits (who INT, at TIMESTAMP NOT NULL, pages INT, spent DOUBLE)"
TABLES = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}

VIEWS = {
    "sessions": "SELECT who, session_window(at, '10 minutes') AS s, COUNT(*) AS n FROM visits GROUP BY who, 2",
    "sessions_of_all": "SELECT session_window(at, '2 minutes') AS s, SUM(pages) AS p FROM visits GROUP BY 1",
    "gaps": """SELECT who, session_window AS s, COUNT(*) AS n, SUM(spent) AS x FROM visits
        GROUP BY who, session_window(at, CASE pages WHEN 1 THEN '9 minutes' WHEN 2 THEN '0 days' ELSE '1 hour' END)""",
    "open_gaps": """SELECT session_window AS s, COUNT(*) AS n, MAX(pages) AS p FROM visits
        GROUP BY session_window(at, make_interval(0, 0, 0, 0, 0, pages))""",
    "hour": """SELECT who, at, SUM(pages) OVER (PARTITION BY who ORDER BY at
        RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND INTERVAL 2 MINUTES FOLLOWING) AS p FROM visits""",
    "running": "SELECT who, at, AVG(spent) OVER (PARTITION BY who ORDER BY at) AS a FROM visits",
    "several": """SELECT who, at, ROW_NUMBER() OVER w AS n, LAG(pages, 2, 0) OVER w AS b,
        MAX(pages) OVER (PARTITION BY who ORDER BY at, pages ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS m
        FROM visits WINDOW w AS (PARTITION BY who ORDER BY at, pages)""",
    "down": "SELECT who, at, RANK() OVER (PARTITION BY who ORDER BY at DESC, pages DESC NULLS FIRST) AS r FROM visits",
}


def fresh(sql: str) -> tuple[Any, Harness]:
    relation = translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation
    return relation, Harness(compile_view("v", relation, TABLES, "delta"), TABLES)


def visit(chance: Random, who: int | None = None) -> tuple[Any, ...]:
    at = datetime(2024, 1, 1) + timedelta(minutes=chance.randint(0, 300))
    return (chance.choice((1, 2, None)) if who is None else who, at, chance.choice((None, 1, 2, 5)), chance.random())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("view", VIEWS)
def test_longer_parts_are_kept_fresh(view: str, seed: int) -> None:
    chance = Random(seed)
    relation, harness = fresh(VIEWS[view])
    rows = ZSet.of(visit(chance) for _ in range(60))
    harness.seed({"visits": rows})
    total = harness.load()
    for _ in range(25):
        change = ZSet.of(visit(chance) for _ in range(chance.randint(0, 3)))
        for row in chance.sample(list(rows.expand()), chance.randint(0, 3)):
            change.add(row, -1)
        rows = rows + change
        total = total + harness.apply({"visits": change})
        assert total == evaluate(relation, {"visits": rows})


LENGTH = 2_000


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each excerpt has that window functions look at, and how many entries are read."""
    found: list[int] = []
    excerpt, ascending = WindowOutput._excerpt, NewGroup.ascending

    def counted(self: WindowOutput, *arguments: Any) -> Any:
        result = excerpt(self, *arguments)
        found.append(len(result[0].rows))
        return result

    def reading(self: NewGroup, lower: SortKey | None = None) -> Any:
        for pair in ascending(self, lower):
            found.append(1)
            yield pair

    monkeypatch.setattr(WindowOutput, "_excerpt", counted)
    monkeypatch.setattr(NewGroup, "ascending", reading)
    return found


def long(sql: str) -> Harness:
    _, harness = fresh(sql)
    start = datetime(2024, 1, 1)
    harness.seed({"visits": ZSet.of((1, start + timedelta(minutes=number), 1, 0.5) for number in range(LENGTH))})
    harness.load()
    return harness


LAST = datetime(2024, 1, 1) + timedelta(minutes=LENGTH)
MIDDLE = datetime(2024, 1, 1) + timedelta(minutes=LENGTH // 2, seconds=30)


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("SELECT at, ROW_NUMBER() OVER (PARTITION BY who ORDER BY at) AS n FROM visits", LAST),
        ("SELECT at, SUM(spent) OVER (PARTITION BY who ORDER BY at) AS n FROM visits", LAST),
        ("SELECT at, RANK() OVER (PARTITION BY who ORDER BY at) AS n FROM visits", LAST),
        ("SELECT at, LAG(pages) OVER (PARTITION BY who ORDER BY at) AS n FROM visits", MIDDLE),
        (
            "SELECT at, AVG(spent) OVER (PARTITION BY who ORDER BY at ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS n "
            "FROM visits",
            MIDDLE,
        ),
        (
            "SELECT at, MIN(spent) OVER (PARTITION BY who ORDER BY at "
            "RANGE BETWEEN INTERVAL 3 MINUTES PRECEDING AND CURRENT ROW) AS n FROM visits",
            MIDDLE,
        ),
        ("SELECT at, FIRST_VALUE(spent) OVER (PARTITION BY who ORDER BY at) AS n FROM visits", MIDDLE),
        ("SELECT who, at FROM visits ORDER BY at LIMIT 3", MIDDLE),
        ("SELECT who, MIN(at) AS a FROM visits GROUP BY who", MIDDLE),
    ],
)
def test_a_change_costs_the_rows_that_it_reaches(sql: str, at: datetime, read: list[int]) -> None:
    harness = long(sql)
    read.clear()
    harness.apply({"visits": ZSet({(1, at, 7, 0.25): 1})})
    assert 0 < sum(read) < 120


def test_what_makes_up_for_a_change_ends_it(read: list[int]) -> None:
    """A row that moves a few places renumbers the rows between, and no others."""
    harness = long("SELECT at, ROW_NUMBER() OVER (PARTITION BY who ORDER BY at) AS n FROM visits")
    start = datetime(2024, 1, 1)
    gone, come = start + timedelta(minutes=50), start + timedelta(minutes=60, seconds=1)
    read.clear()
    change = harness.apply({"visits": ZSet({(1, gone, 1, 0.5): -1, (1, come, 1, 0.5): 1})})
    assert len(change) == 2 * 11
    assert sum(read) < 120


def test_frames_end_with_the_calendar() -> None:
    """Nothing is farther away than the last moment, so rows there read each other in a frame that comes after them."""
    relation, harness = fresh("""SELECT pages, SUM(pages) OVER (ORDER BY at
        RANGE BETWEEN INTERVAL 1 MINUTES FOLLOWING AND INTERVAL 2 MINUTES FOLLOWING) AS s FROM visits""")
    rows = ZSet({(1, datetime.max, pages, 0.5): 1 for pages in (5, 10)})
    harness.seed({"visits": rows})
    change = ZSet({(1, datetime.max, 7, 0.5): 1})
    total = harness.load() + harness.apply({"visits": change})
    assert total == evaluate(relation, {"visits": rows + change}) == ZSet({(pages, 22): 1 for pages in (5, 7, 10)})


def test_an_epoch_that_fails_leaves_bags_and_parts_as_they_were() -> None:
    views = {
        "most": "SELECT who, 10 / MAX(pages) AS share FROM visits GROUP BY who",
        "first": "SELECT who, 10 / pages AS share FROM visits ORDER BY pages LIMIT 2",
        "next": "SELECT who, 10 / (pages + LAG(pages, 1, 0) OVER (PARTITION BY who ORDER BY at)) AS share FROM visits",
        "sums": "SELECT who, SUM(10 / pages) OVER (PARTITION BY who ORDER BY at) AS s, ROW_NUMBER() OVER "
        "(PARTITION BY who ORDER BY at) AS n, SUM(pages) OVER (PARTITION BY who ORDER BY at) AS p FROM visits",
    }
    one, two, three = (datetime(2024, 1, day) for day in (1, 2, 3))
    for sql in views.values():
        relation, harness = fresh(sql)
        harness.load()
        rows = ZSet({(1, one, 2, 0.0): 1, (1, three, 5, 0.0): 2})
        total = harness.apply({"visits": rows})
        with pytest.raises(ArithmeticFault):
            harness.run({"visits": ZSet({(1, two, -2, 0.0): 1, (2, one, 0, 0.0): 1, (1, one, 2, 0.0): -1})})
        change = ZSet({(1, one, 2, 0.0): -1, (2, two, 4, 0.0): 1})
        total = total + harness.apply({"visits": change})
        assert total == evaluate(relation, {"visits": rows + change})


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k, MAX(a.x / b.y) AS m, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k",
        "SELECT a.k, a.x / b.y AS m FROM a JOIN b ON a.k = b.k ORDER BY m DESC LIMIT 1",
        "SELECT a.k, a.x / b.y AS m, ROW_NUMBER() OVER (ORDER BY a.x / b.y, a.k) AS n FROM a JOIN b ON a.k = b.k",
    ],
)
def test_rows_that_never_stood_beside_each_other_do_not_fail_an_epoch(query: str) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        warehouse.apply({"a": [(1, (2, 8))], "b": [(1, (1, 0)), (1, (2, 4))]})
        warehouse.apply({"a": [(1, (1, 10))], "b": [(-1, (1, 0)), (1, (1, 2))]})
        assert warehouse.view("v").verify()
        assert 5.0 in [row[1] for row in warehouse.view("v").rows()]
