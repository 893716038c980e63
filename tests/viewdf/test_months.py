"""Partitions of calendar months: the same arithmetic in Python, in machine code and in Spark; what is refused."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta

import pytest

import tidemill
from tidemill.engine.partitions.listing import Partition
from tidemill.model.errors import ParseError, TidemillError, TypeMismatch, Unsupported
from tidemill.model.partition_lengths import DAY, MONTH, period_number, period_start

SINCE = date(1970, 1, 1).toordinal()


def test_months_are_those_of_the_calendar() -> None:
    for day in range(date(1, 1, 1).toordinal(), date(9999, 12, 31).toordinal() + 1, 17):
        of = date.fromordinal(day)
        number = (of.year - 1970) * 12 + of.month - 1
        instant = (day - SINCE) * DAY
        assert period_number(instant, MONTH) == period_number(instant + DAY - 1, MONTH) == number
        assert period_start(number, MONTH) == (of.replace(day=1).toordinal() - SINCE) * DAY
        assert period_number(instant, 3 * MONTH) == number // 3
        assert period_start(number // 12, 12 * MONTH) == (date(of.year, 1, 1).toordinal() - SINCE) * DAY


def times(seed: int, count: int) -> Iterator[datetime]:
    """Instants around the ends of months, of leap years and of 1970, and others."""
    drawn = random.Random(seed)
    firsts = [datetime(year, month, 1) for year in (1899, 1969, 1970, 2000, 2023, 2024) for month in (1, 2, 3, 12)]
    for _ in range(count):
        if drawn.random() < 0.5:
            yield drawn.choice(firsts) + timedelta(microseconds=drawn.choice([-1, 0, 1, 86_399_999_999]))
        else:
            yield datetime(1900, 1, 1) + timedelta(seconds=drawn.randint(0, 4_000_000_000))


BACK_ENDS = {
    "python": {"runtime": "native", "backend": "python"},
    "llvm": {"runtime": "native", "backend": "llvm"},
    "spark": {"runtime": "spark"},
}


@pytest.mark.parametrize("way", ["python", "llvm", pytest.param("spark", marks=pytest.mark.spark)])
def test_every_runtime_numbers_alike(way: str, request: pytest.FixtureRequest) -> None:
    """Numbers where rows are grouped, and first instants where they are shown."""
    options = dict(BACK_ENDS[way])
    if way == "spark":
        options["spark"] = request.getfixturevalue("spark")
    script = """
    CREATE TABLE d (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 HOUR;
    CREATE MATERIALIZED VIEW m AS UPDATE m[i] AS SELECT COUNT(*) AS c FROM d [WINDOW 1 MONTH] GROUP BY 1 = 1
      PARTITION BY 1 MONTH;
    CREATE MATERIALIZED VIEW q AS UPDATE q[i] AS SELECT SUM(n) AS c FROM d [WINDOW 1 QUARTER] GROUP BY 1 = 1
      PARTITION BY 1 QUARTER;
    """
    with tidemill.open(":memory:", **options) as warehouse:  # type: ignore[arg-type]
        warehouse.sql(script)
        drawn = list(times(3, 300))
        for part in (drawn[:200], drawn[200:]):
            warehouse.apply({"d": [(+1, (at, 1)) for at in part]})
        for view, months in (("m", 1), ("q", 3)):
            expected: dict[datetime, int] = defaultdict(int)
            for at in drawn:
                expected[datetime(at.year, (at.month - 1) // months * months + 1, 1)] += 1
            assert dict(warehouse.view(view).rows()) == expected, view


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(
            "CREATE TABLE m (ts TIMESTAMP NOT NULL, n INT) "
            "PARTITION BY ts EVERY 1 QUARTER LATENESS 40 DAYS RETAIN 100 DAYS;"
            "CREATE TABLE d (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 DAY;"
            "CREATE TABLE weeks (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 WEEK;"
        )
        yield warehouse


def test_lists_and_shows(wh: tidemill.Warehouse) -> None:
    ((text,),) = wh.sql("SHOW CREATE TABLE m").rows()
    assert "PARTITION BY `ts` EVERY 3 MONTHS LATENESS 40 DAYS RETAIN 100 DAYS" in text
    wh.sql("CREATE MATERIALIZED VIEW y PARTITION BY ts EVERY 2 YEARS AS SELECT ts FROM d")
    wh.sql("INSERT INTO d VALUES (TIMESTAMP '2023-05-01 00:00:00', 1), (TIMESTAMP '1969-05-01 00:00:00', 1)")
    assert "of 2 YEARS, by ts" in wh.view("y").explain()
    assert wh.view("y").partitions() == [
        Partition("y_-1", -1, datetime(1968, 1, 1), 1),
        Partition("y_26", 26, datetime(2022, 1, 1), 1),
    ]


def test_late_rows_are_judged_by_their_time(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE VIEW v AS SELECT SUM(n) AS n FROM m [WINDOW 2 QUARTERS]")
    for day in ("2024-01-10", "2024-04-02", "2024-02-22", "2024-02-21"):
        wh.sql(f"INSERT INTO m VALUES (TIMESTAMP '{day} 00:00:00', 1)")
    assert wh.sql("SELECT COUNT(*) FROM m_late").rows() == [(1,)]
    assert sorted(wh.view("v").rows()) == [(datetime(2024, 1, 1), 2), (datetime(2024, 4, 1), 3)]
    wh.sql("INSERT INTO m VALUES (TIMESTAMP '2024-12-31 00:00:00', 1)")
    wh.compact()
    assert "can change      from 2024-07-01 00:00:00 on" in wh.view("v").explain()
    assert [one.state for one in wh.view("v").partitions()] == ["closed", "closed", "replay", "open"]
    assert sorted(wh.view("v").rows())[-1] == (datetime(2024, 10, 1), 1)


def test_a_view_forgets_whole_months() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(
            "CREATE STREAM s (ts TIMESTAMP NOT NULL, n INT) PARTITION BY ts EVERY 1 DAY LATENESS 2 DAYS;"
            "CREATE VIEW v WITH (retain = '40 days') AS UPDATE v[i] AS SELECT SUM(n) AS n FROM s [WINDOW 1 MONTH] "
            "PARTITION BY 1 MONTH"
        )
        for day in range(200):
            warehouse.apply({"s": [(+1, (datetime(2024, 1, 1) + timedelta(days=day), 1))]})
        warehouse.compact()
        kept = sorted(warehouse.view("v").rows())
        assert kept == [(datetime(2024, 5, 1), 31), (datetime(2024, 6, 1), 30), (datetime(2024, 7, 1), 18)]


@pytest.mark.parametrize(
    ("definition", "error", "words"),
    [
        ("UPDATE v[i] AS SELECT n FROM d[30*i .. 30*i+29] PARTITION BY 1 MONTH", Unsupported, "WINDOW 1 MONTH"),
        ("UPDATE v[i] AS SELECT n FROM weeks PARTITION BY 1 MONTH", Unsupported, "do not end with each month"),
        ("UPDATE v[i] AS SELECT n FROM m[i/90] PARTITION BY 1 DAY", Unsupported, "months differ in length"),
        ("UPDATE v[i] AS SELECT n FROM m PARTITION BY 1 DAY", Unsupported, "months differ in length"),
        ("UPDATE v[i] AS SELECT n FROM m[i] PARTITION BY 1 MONTH", Unsupported, "does not advance"),
        ("SELECT COUNT(*) AS n FROM d [WINDOW 2 MONTHS]", Unsupported, "SLIDE 1 MONTH"),
        ("SELECT COUNT(*) AS n FROM d [WINDOW 60 DAYS SLIDE 1 MONTH]", Unsupported, "not made of whole partitions"),
        ("SELECT COUNT(*) AS n FROM m [WINDOW 4 MONTHS]", Unsupported, 'Those of "m" are 3 MONTHS long'),
        ("SELECT COUNT(*) AS n FROM m [WINDOW 0 MONTHS]", ParseError, "a duration is positive"),
        ("UPDATE v[i] AS SELECT n FROM d, m PARTITION BY 1 DAY", Unsupported, "months differ in length"),
        ("UPDATE v[i] AS SELECT d.n FROM d, m", ParseError, "of 1 DAY and 3 MONTHS"),
    ],
)
def test_refused(wh: tidemill.Warehouse, definition: str, error: type[TidemillError], words: str) -> None:
    with pytest.raises(error) as refused:
        wh.sql(f"CREATE VIEW v AS {definition}")
    assert words in str(refused.value)


def test_lateness_is_no_number_of_months(wh: tidemill.Warehouse) -> None:
    for clause in ("LATENESS 1 MONTH", "LATENESS 1 DAY RETAIN 2 MONTHS"):
        with pytest.raises(TypeMismatch, match="no number of months"):
            wh.sql(f"CREATE STREAM s (ts TIMESTAMP) PARTITION BY ts EVERY 1 MONTH {clause}")
    with pytest.raises(TypeMismatch, match="no number of months"):
        wh.sql("CREATE VIEW v WITH (retain = '1 month') AS SELECT COUNT(*) AS n FROM m [WINDOW 2 QUARTERS]")
