"""Clocks of views: conditions on now(), advanced by hand, by rows, and by the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill import Warehouse
from tidemill.engine.clocks import clocks as engine_clocks
from tidemill.model.clocks import machine_time
from tidemill.model.errors import InvalidArgument, ParseError, TypeMismatch, UnknownName, Unsupported
from tidemill.runtimes.native.state.column_order import ColumnOrder

TEN = datetime(2024, 1, 1, 10)
RECENT = "CREATE MATERIALIZED VIEW recent AS SELECT id, at FROM logins WHERE at > now() - INTERVAL 1 HOUR"


def at(minutes: float) -> datetime:
    """So many minutes after ten o'clock."""
    return TEN + timedelta(minutes=minutes)


@pytest.fixture
def wh() -> Iterator[Warehouse]:
    with tidemill.open(":memory:") as warehouse:
        warehouse.advance_clock(TEN)
        warehouse.sql("CREATE TABLE logins (id INT PRIMARY KEY, at TIMESTAMP)")
        yield warehouse


def insert(warehouse: Warehouse, **minutes: float | None) -> None:
    """Logins with these numbers, so many minutes after ten."""
    rows = [(+1, (int(name[1:]), None if m is None else at(m))) for name, m in minutes.items()]
    warehouse.apply({"logins": rows})


def ids(warehouse: Warehouse, view: str = "recent") -> list[Any]:
    return sorted(row[0] for row in warehouse.view(view).rows())


# -- the wall clock by hand -----------------------------------------------------------------------------------------


def test_rows_leave_at_their_time_and_not_before(wh: Warehouse) -> None:
    wh.sql(RECENT)
    insert(wh, n1=-59, n2=-30, n3=-60, n4=None)
    assert ids(wh) == [1, 2]
    epoch = wh.advance_clock(at(1) - timedelta(microseconds=1))
    assert ids(wh) == [1, 2]
    wh.advance_clock(at(1))
    assert ids(wh) == [2]
    assert wh.view("recent").changes(since=epoch) == [(-1, (1, at(-59)))]
    assert wh.view("recent").verify()


def test_a_clock_goes_forward_alone(wh: Warehouse) -> None:
    wh.sql(RECENT)
    insert(wh, n1=-59)
    epoch = wh.advance_clock(at(30))
    assert wh.advance_clock(at(0)) == epoch == wh.advance_clock(at(30))
    assert wh.clocks == {"wall": at(30)}
    with pytest.raises(InvalidArgument, match="cannot stand"):
        wh.advance_clock(datetime(9999, 1, 1))
    assert wh.clocks == {"wall": at(30)}


def test_a_clock_is_no_position_and_no_table_of_users(wh: Warehouse) -> None:
    wh.sql(RECENT)
    assert not wh.positions
    assert wh.tables() == ("logins",)
    with pytest.raises(ParseError):
        wh.sql("INSERT INTO `clock@wall` VALUES (TIMESTAMP '2025-01-01 00:00:00')")
    with pytest.raises(Unsupported, match="clock"):
        wh.apply({"clock@wall": [(+1, (at(5),))]})
    with pytest.raises(UnknownName, match="There is: logins, recent"):
        wh.sql("SELECT * FROM clocks")


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w") as warehouse:
        warehouse.advance_clock(TEN)
        warehouse.sql("CREATE TABLE logins (id INT PRIMARY KEY, at TIMESTAMP)")
        warehouse.sql(RECENT)
        insert(warehouse, n1=-30, n2=-10)
        warehouse.advance_clock(at(20))
    with tidemill.open(tmp_path / "w") as warehouse:
        assert warehouse.clocks == {"wall": at(20)}
        assert ids(warehouse) == [1, 2]
        epoch = warehouse.advance_clock(at(30))
        assert ids(warehouse) == [2]
        assert sorted(row[0] for row in warehouse.at(epoch - 1).view("recent").rows()) == [1, 2]
    with tidemill.open(tmp_path / "w") as warehouse:
        warehouse.advance_clock(at(90))
        assert ids(warehouse) == []
        assert warehouse.view("recent").verify()


TICKING = """
import sys
from datetime import datetime, timedelta
import tidemill

ten = datetime(2024, 1, 1, 10)
wh = tidemill.open(sys.argv[1])
wh.advance_clock(ten)
wh.sql("CREATE TABLE logins (id INT PRIMARY KEY, at TIMESTAMP)")
wh.sql(sys.argv[2])
wh.apply({"logins": [(+1, (n, ten + timedelta(minutes=n - 59))) for n in range(600)]})
for minute in range(1, 600):
    wh.advance_clock(ten + timedelta(minutes=minute))
    print(minute, flush=True)
"""


def test_a_kill_between_ticks_leaves_the_clock_and_its_views_in_step(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", TICKING, str(tmp_path / "w"), RECENT], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    told = [int(child.stdout.readline()) for _ in range(20)]
    child.kill()
    told += [int(line) for line in child.stdout.read().split()]
    child.wait()
    with tidemill.open(tmp_path / "w") as warehouse:
        minute = (warehouse.clocks["wall"] - TEN) // timedelta(minutes=1)
        assert minute in (told[-1], told[-1] + 1)
        assert ids(warehouse) == list(range(minute, 600))
        assert waiting(warehouse) == 600 - minute
        assert warehouse.view("recent").verify()
        warehouse.advance_clock(at(minute + 10))
        assert ids(warehouse) == list(range(minute + 10, 600))


def test_what_has_left_is_forgotten_and_may_be_deleted(wh: Warehouse) -> None:
    wh.sql(RECENT)
    insert(wh, **{f"n{n}": -n for n in range(60)})
    assert waiting(wh) == 60
    wh.advance_clock(at(30))
    assert waiting(wh) == 30
    wh.sql("DELETE FROM logins WHERE id >= 30")
    assert (ids(wh), waiting(wh)) == (list(range(30)), 30)
    insert(wh, n99=-500)
    wh.sql("DELETE FROM logins")
    assert (ids(wh), waiting(wh)) == ([], 0)
    wh.advance_clock(at(500))
    assert ids(wh) == []


def waiting(warehouse: Warehouse) -> int:
    return sum(row[3] for row in warehouse.sql("SHOW CLOCKS"))


def test_a_tick_visits_what_comes_and_goes_alone(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    wh.sql(RECENT)
    wh.apply({"logins": [(+1, (n, at(n / 100))) for n in range(10_000)]})
    wh.advance_clock(at(60))
    visited = []
    between = ColumnOrder.between

    def counted(order: ColumnOrder, *bounds: Any) -> Any:
        found = between(order, *bounds)
        visited.append(len(found))
        return found

    monkeypatch.setattr(ColumnOrder, "between", counted)
    wh.advance_clock(at(60.05))
    assert visited == [5, 5]  # once to leave the view, and once to be forgotten
    assert len(ids(wh)) == 9_994


def test_rows_wait_for_their_time(wh: Warehouse) -> None:
    wh.sql("CREATE TABLE offers (id INT PRIMARY KEY, since TIMESTAMP, until TIMESTAMP)")
    wh.sql("CREATE MATERIALIZED VIEW offered AS SELECT id FROM offers WHERE now() >= since AND now() < until")
    wh.apply({"offers": [(+1, (1, at(10), at(20))), (+1, (2, at(5), at(15))), (+1, (3, at(12), at(11)))]})
    assert ids(wh, "offered") == []
    wh.advance_clock(at(10))
    assert ids(wh, "offered") == [1, 2]
    wh.sql(f"UPDATE offers SET since = TIMESTAMP '{at(14)}', until = TIMESTAMP '{at(16)}' WHERE id = 1")
    assert ids(wh, "offered") == [2]
    wh.advance_clock(at(14))
    assert ids(wh, "offered") == [1, 2]
    wh.advance_clock(at(40))
    assert ids(wh, "offered") == []
    assert waiting(wh) == 0


def test_a_view_that_is_made_late_sees_the_clock_of_the_others(wh: Warehouse) -> None:
    wh.sql(RECENT)
    insert(wh, n1=-30, n2=10)
    wh.advance_clock(at(45))
    wh.sql(RECENT.replace("recent", "again"))
    wh.sql("CREATE OR REPLACE MATERIALIZED VIEW recent AS SELECT id FROM logins WHERE at > now() - INTERVAL 10 MINUTES")
    assert (ids(wh, "again"), ids(wh)) == ([2], [])
    wh.sql("ALTER VIEW recent AS SELECT id FROM logins WHERE at > now() - INTERVAL 40 MINUTES")
    assert ids(wh) == [2]
    wh.advance_clock(at(50))
    assert (ids(wh, "again"), ids(wh)) == ([2], [])
    wh.sql("DROP VIEW again")
    wh.sql("DROP VIEW recent")
    wh.advance_clock(at(60))
    wh.sql(RECENT)
    assert ids(wh) == [2]


def test_a_view_that_is_refreshed_late_catches_up_over_several_ticks(wh: Warehouse) -> None:
    wh.sql(RECENT.replace("recent AS", "recent WITH (refresh = 'deferred') AS"))
    insert(wh, n1=-30)
    wh.advance_clock(at(10))
    insert(wh, n2=5)
    wh.advance_clock(at(31))
    insert(wh, n3=30)
    wh.sql("REFRESH VIEW recent")
    assert ids(wh) == [2, 3]
    wh.advance_clock(at(100))
    assert ids(wh) == [2, 3]
    wh.sql("REFRESH VIEW recent")
    assert ids(wh) == []


def test_a_view_that_is_not_materialized_brings_its_condition(wh: Warehouse) -> None:
    wh.sql("CREATE VIEW fresh AS SELECT id, at FROM logins WHERE at > now() - INTERVAL 1 HOUR")
    wh.sql("CREATE MATERIALIZED VIEW recent AS SELECT id FROM fresh WHERE id < 10")
    insert(wh, n1=-30, n2=-61, n11=0)
    assert ids(wh) == [1]
    wh.advance_clock(at(31))
    assert ids(wh) == []
    assert wh.sql("SELECT COUNT(*) FROM fresh") == [(0,)]  # a one-off query has the time of the machine


def test_deletes_before_inserts_leave_the_clock_where_it_is(wh: Warehouse) -> None:
    wh.sql("CREATE TABLE rates (at TIMESTAMP, x INT)")
    wh.sql(
        "CREATE MATERIALIZED VIEW shares AS SELECT r.at, 100 / SUM(r.x) AS share FROM rates r "
        "WHERE r.at > now() - INTERVAL 1 HOUR GROUP BY r.at"
    )
    wh.sql("CREATE MATERIALIZED VIEW parts WITH (clock = 'rates.at') AS SELECT x FROM rates WHERE at >= now()")
    wh.apply({"rates": [(+1, (at(0), 5))]})
    wh.apply({"rates": [(-1, (at(0), 5)), (+1, (at(0), 4)), (+1, (at(1), 2))]})
    assert sorted(wh.view("shares").rows()) == [(at(0), 25.0), (at(1), 50.0)]
    assert wh.view("parts").rows() == [(2,)]
    assert wh.clocks["rates.at"] == at(1)


# -- event clocks ---------------------------------------------------------------------------------------------------

BY_EVENTS = RECENT.replace("recent AS", "recent WITH (clock = 'event') AS")


def test_rows_advance_an_event_clock_in_their_own_epoch(wh: Warehouse) -> None:
    insert(wh, n1=0)
    wh.sql(BY_EVENTS)
    assert wh.clocks == {"wall": TEN, "logins.at": at(0)}
    insert(wh, n2=50, n3=-20)
    assert ids(wh) == [1, 2]
    epoch = wh.epoch
    insert(wh, n4=70)
    assert wh.epoch == epoch + 1
    assert ids(wh) == [2, 4]
    wh.sql("DELETE FROM logins WHERE id = 4")
    assert wh.clocks["logins.at"] == at(70)
    assert ids(wh) == [2]
    wh.advance_clock(at(110), clock="logins.at")
    assert ids(wh) == []
    assert wh.view("recent").verify()


def test_events_one_by_one_advance_it(wh: Warehouse) -> None:
    wh.sql(BY_EVENTS)
    login = wh.feed("logins")
    for n, minutes in enumerate((0, 30, 61, 20, 59)):
        login(+1, n, at(minutes))
    assert ids(wh) == [1, 2, 3, 4]
    assert wh.clocks["logins.at"] == at(61)
    wh.replay({"logins": [(+1, (9, at(100)))]}, ["logins"])
    assert ids(wh) == [2, 4, 9]


def test_a_stream_forgets_what_has_left(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w") as warehouse:
        warehouse.sql("CREATE STREAM clicks (at TIMESTAMP, page STRING)")
        warehouse.sql(
            "CREATE MATERIALIZED VIEW hits WITH (clock = 'event') AS SELECT page, COUNT(*) AS n FROM clicks "
            "WHERE at > now() - INTERVAL 10 MINUTES GROUP BY page"
        )
        for minute in range(0, 500, 5):
            warehouse.apply({"clicks": [(+1, (at(minute), "home")), (+1, (at(minute - 3), "late"))]})
            assert waiting(warehouse) <= 4
        assert sorted(warehouse.view("hits").rows()) == [("home", 2), ("late", 2)]
    with tidemill.open(tmp_path / "w") as warehouse:
        warehouse.apply({"clicks": [(+1, (at(1_000), "home"))]})
        assert warehouse.view("hits").rows() == [("home", 1)]


@pytest.mark.parametrize(
    ("option", "error", "says"),
    [
        ("moon", Unsupported, 'no clock = "moon"'),
        ("nothing.at", UnknownName, 'no table "nothing"'),
        ("logins.since", UnknownName, "since"),
        ("logins.id", TypeMismatch, "no time"),
    ],
)
def test_a_clock_must_be_one(wh: Warehouse, option: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        wh.sql(RECENT.replace("recent AS", f"recent WITH (clock = '{option}') AS"))
    assert not wh.views()


def test_an_event_clock_follows_one_column(wh: Warehouse) -> None:
    wh.sql("CREATE TABLE offers (id INT, since TIMESTAMP, until TIMESTAMP)")
    query = "SELECT id FROM offers WHERE now() BETWEEN since AND until"
    with pytest.raises(Unsupported, match=r"offers.since, offers.until"):
        wh.sql(f"CREATE MATERIALIZED VIEW offered WITH (clock = 'event') AS {query}")
    wh.sql(f"CREATE MATERIALIZED VIEW offered WITH (clock = 'offers.since') AS {query}")
    wh.apply({"offers": [(+1, (1, at(0), at(9))), (+1, (2, at(5), at(9)))]})
    assert ids(wh, "offered") == [1, 2]


def test_dates_advance_a_clock(wh: Warehouse) -> None:
    wh.sql("CREATE TABLE bills (id INT, due DATE)")
    wh.sql(
        "CREATE MATERIALIZED VIEW week WITH (clock = 'event') AS "
        "SELECT id FROM bills WHERE due > current_date - INTERVAL 7 DAYS"
    )
    wh.apply({"bills": [(+1, (n, (TEN + timedelta(days=n)).date())) for n in range(10)]})
    assert ids(wh, "week") == [3, 4, 5, 6, 7, 8, 9]


def test_what_a_clock_follows_stays_as_it_is(wh: Warehouse) -> None:
    wh.sql(BY_EVENTS)
    for text in (
        "ALTER TABLE logins RENAME TO visits",
        "ALTER TABLE logins RENAME COLUMN at TO seen",
        "DROP TABLE logins",
        "ALTER VIEW recent SET (clock = 'wall')",
    ):
        with pytest.raises(Unsupported):
            wh.sql(text)
    wh.sql("ALTER TABLE logins ADD COLUMN page STRING")
    insert_ = "INSERT INTO logins VALUES (1, TIMESTAMP '2024-01-01 12:00:00', 'home')"
    wh.sql(insert_)
    assert wh.clocks["logins.at"] == at(120)
    wh.sql("DROP VIEW recent")
    assert set(wh.clocks) == {"wall"}
    wh.sql("ALTER TABLE logins RENAME COLUMN at TO seen")
    wh.sql("DROP TABLE logins")


def test_definitions_that_come_to_read_a_clock_begin_it(wh: Warehouse) -> None:
    insert(wh, **{f"n{n}": n for n in range(100)})
    wh.sql("CREATE VIEW shown AS SELECT id, at FROM logins")
    wh.sql("CREATE MATERIALIZED VIEW listed AS SELECT id, at FROM shown")
    wh.sql("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM listed")
    wh.sql("CREATE OR REPLACE VIEW shown AS SELECT id, at FROM logins WHERE at > now() + INTERVAL 10 MINUTES")
    assert wh.view("counted").rows() == [(89,)]
    wh.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW listed WITH (clock = 'event') AS "
        "SELECT id, at FROM logins WHERE at > now() - INTERVAL 30 MINUTES"
    )
    assert wh.view("counted").rows() == [(30,)]
    insert(wh, n100=109)
    assert wh.view("counted").rows() == [(21,)]


@pytest.mark.parametrize("option", ["build = 'background'", "on_error = 'quarantine'"])
def test_options_that_a_clock_does_not_go_with(wh: Warehouse, option: str) -> None:
    with pytest.raises(Unsupported, match="clock"):
        wh.sql(RECENT.replace("recent AS", f"recent WITH ({option}) AS"))
    assert not wh.views()


# -- the machine's clock --------------------------------------------------------------------------------------------


def test_a_tick_is_an_epoch_if_a_row_comes_or_goes(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    wh.sql(RECENT)
    insert(wh, n1=-59, n2=0)
    epoch = wh.epoch
    for minutes, shown, epochs in ((0.5, [1, 2], 0), (1.0, [2], 1), (1.9, [2], 1), (2.1, [2], 2), (-5, [2], 2)):
        monkeypatch.setattr(engine_clocks, "machine_time", partial(at, minutes))
        wh._engine.clocks.tick()
        assert (ids(wh), wh.epoch - epoch) == (shown, epochs), minutes
    assert wh.view("recent").verify()


def test_the_clock_ticks_by_itself(wh: Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW brief AS SELECT id FROM logins WHERE at > now()")
    with wh.subscribe("brief", timeout=20) as changes:
        soon = machine_time() + timedelta(seconds=0.6)
        wh.apply({"logins": [(+1, (1, soon))]})
        wh.tick_clock(every=0.05)
        found = [next(changes).changes, next(changes).changes]
    assert found == [[(+1, (1,))], [(-1, (1,))]]
    assert wh.clocks["wall"] >= soon
    with pytest.raises(InvalidArgument):
        wh.tick_clock(every=0)


def test_a_clock_begins_at_the_present() -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE logins (id INT, at TIMESTAMP)")
        before = machine_time()
        warehouse.sql(RECENT)
        assert before <= warehouse.clocks["wall"] <= machine_time()
        warehouse.advance_clock()
        assert warehouse.clocks["wall"] > before


# -- partitions ---------------------------------------------------------------------------------------------------

WINDOW = "SELECT page, SUM(n) AS total FROM clicks [WINDOW 30 MINUTES] WHERE n > 0 GROUP BY page"
PARTITIONED = {
    "each": "UPDATE each[i] AS SELECT COUNT(*) AS rows FROM clicks[i]",
    "kept": "INITIALIZE kept[i] AS SELECT page FROM clicks[i] UPDATE kept[i] AS SELECT page FROM kept[i-1]",
    "wide": "UPDATE wide[i] AS SELECT SUM(n) AS total FROM clicks[2*i..2*i+1] PARTITION BY 20 MINUTES",
    **dict.fromkeys(("direct", "panes", "prefix", "subtract", "intervals", "rolling"), WINDOW),
}


def clicks(warehouse: Warehouse, *rows: tuple[float, str, int]) -> None:
    warehouse.apply({"clicks": [(+1, (at(minutes), page, n)) for minutes, page, n in rows]})


def starts(warehouse: Warehouse, view: str) -> list[Any]:
    """The rows of a view by partitions, with the minutes after ten at which these begin."""
    return sorted(((row[0] - TEN) // timedelta(minutes=1), *row[1:]) for row in warehouse.view(view).rows())


def test_windows_advance_without_rows(wh: Warehouse) -> None:
    wh.sql("CREATE TABLE clicks (at TIMESTAMP, page STRING, n INT) PARTITION BY at EVERY 10 MINUTES")
    methods = [name for name in PARTITIONED if PARTITIONED[name] == WINDOW]
    for name, query in PARTITIONED.items():
        method = f", method = '{name}'" if name in methods else ""
        wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (clock = 'wall'{method}) AS {query}")
    assert not any(wh.view(name).rows() for name in PARTITIONED)
    clicks(wh, (-5, "home", 1), (5, "news", 2))
    steps: list[tuple[float, Any, Any]] = [
        (9, [(-10, 1), (0, 1)], [(-10, "home", 1), (0, "home", 1), (0, "news", 2)]),
        (21, [(-10, 1), (0, 1), (10, 0), (20, 0)], [(10, "home", 1), (10, "news", 2), (20, "news", 2)]),
        (49, [(-10, 1), (0, 1), (10, 0), (20, 0), (30, 0), (40, 0)], []),
    ]
    windows: list[Any] = []
    for minutes, each, new in steps:
        wh.advance_clock(at(minutes))
        windows += new
        assert starts(wh, "each") == each
        for name in methods:
            assert starts(wh, name) == windows, name
    assert [row[:1] for row in starts(wh, "wide")] == [(-20,), (0,), (20,), (40,)]
    assert starts(wh, "kept") == [(m, "home") for m in range(-10, 50, 10)]
    clicks(wh, (15, "home", 5))
    assert all(wh.view(name).verify() for name in PARTITIONED)
    wh.sql("DELETE FROM clicks")
    assert not any(wh.view(name).rows() for name in PARTITIONED)


def test_partitions_follow_the_events_of_another_table(wh: Warehouse) -> None:
    wh.sql("CREATE TABLE clicks (at TIMESTAMP, page STRING, n INT) PARTITION BY at EVERY 10 MINUTES")
    wh.sql(f"CREATE MATERIALIZED VIEW each WITH (clock = 'logins.at') AS {PARTITIONED['each']}")
    wh.sql(f"CREATE MATERIALIZED VIEW own WITH (clock = 'event') AS {PARTITIONED['each'].replace('each', 'own')}")
    clicks(wh, (0, "home", 1), (10, "home", 1))
    insert(wh, n1=35)
    assert [row[0] for row in starts(wh, "each")] == [0, 10, 20, 30]
    assert [row[0] for row in starts(wh, "own")] == [0, 10]
    wh.sql("DELETE FROM clicks WHERE at > TIMESTAMP '2024-01-01 10:05:00'")
    assert [row[0] for row in starts(wh, "own")] == [0, 10]
    assert set(wh.clocks) == {"wall", "logins.at", "clicks.at"}


# -- what is refused, and what is told ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, now() AS n FROM logins",
        "SELECT id FROM logins GROUP BY id HAVING MAX(at) > now()",
        "SELECT id FROM logins ORDER BY now() LIMIT 1",
        "SELECT a.id FROM logins a JOIN logins b ON a.id = b.id AND b.at > now()",
        "SELECT id FROM logins WHERE date_format(now(), 'HH') = '10'",
        "SELECT id FROM logins WHERE at <> now()",
        "SELECT id FROM logins WHERE now() > now() - INTERVAL 1 HOUR",
        "SELECT id FROM logins WHERE at < now() OR at > now() + INTERVAL 1 HOUR",
        "SELECT id FROM logins WHERE COALESCE(at, now()) > TIMESTAMP '2024-01-01 00:00:00'",
    ],
)
def test_other_conditions_are_refused_where_they_stand(wh: Warehouse, query: str) -> None:
    with pytest.raises(Unsupported) as refused:
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert refused.value.detail
    assert refused.value.hint
    assert "now()" in str(refused.value)
    assert not wh.views()


def test_such_views_are_incremental(wh: Warehouse) -> None:
    wh.sql(RECENT.replace("recent AS", "recent WITH (require = 'incremental') AS"))
    with pytest.raises(Unsupported, match="not incremental"):
        wh.sql(
            "CREATE MATERIALIZED VIEW v WITH (require = 'incremental', strategy = 'recompute') AS "
            "SELECT COUNT(*) AS n FROM logins WHERE at > now()"
        )


def test_a_clock_that_is_not_read_is_refused(wh: Warehouse) -> None:
    with pytest.raises(Unsupported, match="no condition on it"):
        wh.sql("CREATE MATERIALIZED VIEW v WITH (clock = 'wall') AS SELECT id FROM logins")


def test_explain_has_the_clock_the_instants_and_who_waits(wh: Warehouse) -> None:
    wh.sql(RECENT)
    insert(wh, n1=-59, n2=0)
    told = str(wh.view("recent").explain())
    assert "wall, at 2024-01-01 10:00:00" in told
    assert "rows count until logins.at + INTERVAL 1 HOUR; 2 wait" in told
    assert "a change of clock@wall costs O(log n)" in told
    assert "O(data)" not in told
    assert wh.sql("SHOW CLOCKS") == [("wall", TEN, "recent", 2)]
