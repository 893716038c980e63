"""Sliding windows through the engine: every method has the rows of the direct one."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import ArithmeticFault, Unsupported

START = datetime(2024, 1, 1)

TABLE = "CREATE TABLE s (ts TIMESTAMP, src STRING, loss INT) PARTITION BY ts EVERY 1 MINUTE"

SUMS = "SUM(loss) AS total, AVG(loss) AS mean, COUNT(*) AS n"

EXTREMES = "MAX(loss) AS most, COUNT(loss) AS n"

HOLISTIC = "MEDIAN(loss) AS middle, MODE(loss) AS often, SORT_ARRAY(COLLECT_LIST(loss)) AS losses"

DISTINCT = "COUNT(DISTINCT loss) AS kinds, SUM(CAST(loss AS DOUBLE) / 10) AS tenths"


def view(name: str, method: str, aggregates: str, slide: int) -> str:
    window = f"WINDOW {6 * slide} MINUTES SLIDE {slide} MINUTES"
    query = f"SELECT src, {aggregates} FROM s [{window}] WHERE loss <> 7 GROUP BY src"
    return f"CREATE MATERIALIZED VIEW {name} WITH (method = '{method}') AS {query}"


@pytest.mark.parametrize(
    ("method", "aggregates"),
    [(method, SUMS) for method in ("panes", "prefix", "subtract", "intervals", "rolling")]
    + [(method, EXTREMES) for method in ("panes", "intervals", "rolling")]
    + [("rolling", HOLISTIC), ("rolling", DISTINCT)],
)
@pytest.mark.parametrize("slide", [1, 2])
def test_every_method_keeps_what_the_direct_one_does(method: str, aggregates: str, slide: int) -> None:
    chance = random.Random(slide)
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(TABLE)
        warehouse.sql(view("direct", "direct", aggregates, slide))
        warehouse.sql(view("kept", method, aggregates, slide))
        there: list[tuple[datetime, str, int]] = []
        for minute in range(25):
            late = [chance.choice([0, 0, 0, 4, 11]) for _ in range(chance.randrange(5))]
            moments = [datetime(2024, 1, 1) + timedelta(minutes=minute - ago) for ago in late]
            come = [(moment, chance.choice("ab"), chance.randrange(9)) for moment in moments]
            gone = chance.sample(there, min(len(there), chance.randrange(2)))
            there = [row for row in there if row not in gone] + come
            warehouse.apply({"s": [*((+1, row) for row in come), *((-1, row) for row in gone)]})
            assert sorted(warehouse.view("kept").rows()) == sorted(warehouse.view("direct").rows())
        assert warehouse.view("kept").rows()
        assert warehouse.view("kept").verify().ok
        assert f"made by method {method}" in warehouse.view("kept").explain()


def test_a_window_that_rolls_is_right_after_an_epoch_that_was_refused() -> None:
    chance = random.Random(1)
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(TABLE)
        warehouse.sql(view("direct", "direct", HOLISTIC, 1))
        warehouse.sql(view("kept", "rolling", HOLISTIC, 1))
        warehouse.sql("CREATE MATERIALIZED VIEW last AS SELECT 1 / loss AS x FROM s")
        refused = 0
        for minute in range(40):
            moment = datetime(2024, 1, 1) + timedelta(minutes=minute - chance.choice([0, 0, 3]))
            come = [(+1, (moment, chance.choice("ab"), chance.randrange(8))) for _ in range(3)]
            try:
                warehouse.apply({"s": come})
            except ArithmeticFault:
                refused += 1
            assert sorted(warehouse.view("kept").rows()) == sorted(warehouse.view("direct").rows())
        assert 5 < refused < 35


def test_the_method_is_chosen_and_said() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(TABLE)
        warehouse.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(loss) AS x FROM s [WINDOW 60 MINUTES]")
        warehouse.sql("CREATE MATERIALIZED VIEW m AS SELECT src, MAX(loss) AS x FROM s [WINDOW 1 HOUR] GROUP BY src")
        assert "window       made by method subtract: it takes least" in warehouse.view("w").explain()
        assert "made by method panes" in warehouse.view("m").explain()
        warehouse.sql("CREATE MATERIALIZED VIEW p AS SELECT MEDIAN(loss) AS x FROM s [WINDOW 1 HOUR]")
        assert "made by method rolling: PERCENTILE_CONT needs all values" in warehouse.view("p").explain()


@pytest.mark.parametrize(("sources", "a_minute", "method"), [(600, 10, "direct"), (2, 1_000, "subtract")])
def test_the_method_follows_from_the_rows_that_are_there(
    sources: int, a_minute: int, method: str, tmp_path: Path
) -> None:
    """Where each row has a group of its own, groups are no fewer than rows."""
    rows = [(START + timedelta(minutes=n // a_minute), str(n % sources), n % 7) for n in range(12 * a_minute)]
    select = "SELECT src, SUM(loss) AS x FROM s [WINDOW 30 MINUTES] GROUP BY src"
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        warehouse.sql(TABLE)
        warehouse.apply({"s": [(+1, row) for row in rows]})
        warehouse.sql(f"CREATE MATERIALIZED VIEW w AS {select}")
        said = f"made by method {method}: it takes least for each slide of a window of 30 (relative: {method} 1,"
        assert said in warehouse.view("w").explain()
        assert f"with {a_minute:,} rows and {min(sources, a_minute)} groups a slide" in warehouse.view("w").explain()
        before = sorted(warehouse.view("w").rows())
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        assert said in warehouse.view("w").explain()
        assert sorted(warehouse.view("w").rows()) == before
        warehouse.apply({"s": [(-1, rows[3]), (+1, (START + timedelta(hours=1), "0", 5))]})
        assert warehouse.view("w").verify().ok


def test_the_method_is_chosen_anew_when_the_rows_have_become_others() -> None:
    """Ten rows a minute in groups of their own, and then thousands in few groups: rows are grouped once a slide."""
    select = "SELECT src, SUM(loss) AS x FROM s [WINDOW 30 MINUTES] GROUP BY src"
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(TABLE)
        warehouse.apply({"s": [(+1, (START + timedelta(minutes=n // 10), str(n), 1)) for n in range(40)]})
        warehouse.sql(f"CREATE MATERIALIZED VIEW w AS {select}")
        warehouse.sql(f"CREATE MATERIALIZED VIEW direct WITH (method = 'direct') AS {select}")
        assert "made by method direct" in warehouse.view("w").explain()
        for minute in range(4, 12):
            moment = START + timedelta(minutes=minute)
            warehouse.apply({"s": [(+1, (moment, str(n % 3), n % 5)) for n in range(3_000)]})
        told = warehouse.view("w").explain()
        assert "made by method subtract" in told
        assert "planned anew, its windows by another method: subtract" in told
        late = START + timedelta(minutes=2)
        warehouse.apply({"s": [(+1, (late, "1", 9)), (-1, (START, "0", 1)), (+1, (moment, "7", 2))]})
        assert sorted(warehouse.view("w").rows()) == sorted(warehouse.view("direct").rows())
        assert warehouse.view("w").verify().ok


def test_a_method_needs_a_window() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE t (n INT)")
        with pytest.raises(Unsupported, match="no sliding window"):
            warehouse.sql("CREATE MATERIALIZED VIEW v WITH (method = 'panes') AS SELECT n FROM t")


def test_windows_are_there_when_the_warehouse_is_opened_again(tmp_path: Path) -> None:
    path = f"{tmp_path}/warehouse"
    with tidemill.open(path, runtime="native") as warehouse:
        warehouse.sql(TABLE)
        warehouse.sql(view("kept", "subtract", SUMS, 2))
        warehouse.sql(view("rolled", "rolling", HOLISTIC, 1))
        warehouse.apply({"s": [(+1, (datetime(2024, 1, 1, 9, minute), "a", minute)) for minute in range(5)]})
    with tidemill.open(path, runtime="native") as warehouse:
        warehouse.apply({"s": [(+1, (datetime(2024, 1, 1, 9, minute), "a", 1)) for minute in (6, 30)]})
        last = max(row[0] for row in warehouse.view("kept").rows())
        assert last == datetime(2024, 1, 1, 9, 30)
        assert len(warehouse.view("kept").rows()) == 10
        assert warehouse.view("rolled").verify().ok
