"""PARTITION BY of an ordinary view, a pattern and a view over objects: listed, read by others, stored, replaced."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.model.errors import ParseError, TypeMismatch, UnknownName, Unsupported

START = datetime(2024, 1, 1, 9)
NUMBER = int((START - datetime(1970, 1, 1)).total_seconds()) // 60

TABLES = """
CREATE TABLE t (ts TIMESTAMP, k STRING, n INT);
CREATE STREAM s (ts TIMESTAMP NOT NULL, k STRING, n INT) LATENESS 10 MINUTES ON ts RETAIN 20 MINUTES;
"""
VIEWS = """
CREATE MATERIALIZED VIEW big PARTITION BY ts EVERY 1 MINUTE AS SELECT ts, k, n FROM t WHERE n > 1;
CREATE MATERIALIZED VIEW recent AS SELECT k, SUM(n) AS n FROM big [WINDOW 3 MINUTES] GROUP BY k;
"""


def opened(more: str = VIEWS, folder: Path | None = None) -> tidemill.Warehouse:
    warehouse = tidemill.open(folder or ":memory:", runtime="native")
    if "t" not in warehouse.tables():
        warehouse.sql(TABLES + more)
    return warehouse


def at(minute: float, k: str = "a", n: int = 5) -> tuple[int, tuple[datetime, str, int]]:
    return (+1, (START + timedelta(minutes=minute), k, n))


def shown(warehouse: tidemill.Warehouse, view: str) -> list[Any]:
    """The rows of a view, their times as minutes."""
    return sorted(((row[0] - START) / timedelta(minutes=1), *row[1:]) for row in warehouse.view(view).rows())


def test_partitions_are_listed() -> None:
    with opened() as warehouse:
        warehouse.apply({"t": [at(0), at(0.5), at(2), at(3, n=1), (+1, (None, "z", 9))]})
        listed = warehouse.view("big").partitions()
        assert [(one.name, one.number, one.rows, one.state) for one in listed] == [
            (f"big_{NUMBER}", NUMBER, 2, "open"),
            (f"big_{NUMBER + 2}", NUMBER + 2, 1, "open"),
        ]
        assert [tuple(row) for row in warehouse.sql("SHOW PARTITIONS big")] == [tuple(one) for one in listed]


def test_reopened_and_shown(tmp_path: Path) -> None:
    with opened(folder=tmp_path / "wh") as warehouse:
        warehouse.apply({"t": [at(0), at(1)]})
        ((text,),) = warehouse.sql("SHOW CREATE VIEW big").rows()
        assert text.startswith("CREATE MATERIALIZED VIEW `big` PARTITION BY ts EVERY 1 MINUTE AS SELECT")
    with opened(folder=tmp_path / "wh") as warehouse:
        warehouse.apply({"t": [at(0.5), at(2), (-1, at(1)[1])]})
        assert shown(warehouse, "recent") == [(0, "a", 10), (1, "a", 10), (2, "a", 15)]
        assert len(warehouse.view("big").partitions()) == 2
        assert all(warehouse.view(view).verify().ok for view in ("big", "recent"))
        ((again,),) = warehouse.sql("SHOW CREATE VIEW big").rows()
        assert again == text
        explained = warehouse.view("big").explain()
        assert "of 1 MINUTE, by ts" in explained


def test_the_statement_that_is_shown_creates_the_same() -> None:
    with opened(
        "CREATE VIEW `odd` WITH (strategy = 'delta') PARTITION BY `at the` EVERY 90 SECONDS AS "
        "SELECT ts AS `at the` FROM t"
    ) as one:
        ((text,),) = one.sql("SHOW CREATE VIEW odd").rows()
        with opened(text) as other:
            assert other.sql("SHOW CREATE VIEW odd").rows() == [(text,)]
            assert "of 90 SECONDS, by at the" in other.view("odd").explain()


def test_an_option_says_the_same() -> None:
    with opened(
        "CREATE MATERIALIZED VIEW big WITH (partition_by = 'ts EVERY 1 minute') AS SELECT * FROM t"
    ) as warehouse:
        warehouse.apply({"t": [at(0), at(1)]})
        assert len(warehouse.view("big").partitions()) == 2
        warehouse.sql("ALTER VIEW big SET (partition_by = 'ts EVERY 1 HOUR')")
        assert len(warehouse.view("big").partitions()) == 1
        warehouse.sql("ALTER VIEW big RESET (partition_by)")
        with pytest.raises(Unsupported, match="not cut into partitions"):
            warehouse.view("big").partitions()


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("PARTITION BY k EVERY 1 MINUTE AS SELECT * FROM t", TypeMismatch, 'by "k", which is STRING'),
        ("PARTITION BY nix EVERY 1 MINUTE AS SELECT * FROM t", UnknownName, '"nix"'),
        ("PARTITION BY ts EVERY 1 MINUTE LATENESS 1 HOUR AS SELECT * FROM t", Unsupported, "cannot have LATENESS"),
        ("PARTITION BY ts EVERY 1 MINUTE RETAIN 1 HOUR AS SELECT * FROM t", Unsupported, "cannot have RETAIN"),
        ("PARTITION BY ts AS SELECT * FROM t", ParseError, "EVERY was expected"),
        (
            "PARTITION BY ts EVERY 1 MINUTE AS SELECT k FROM big [WINDOW 2 MINUTES]",
            Unsupported,
            "PARTITION BY a column",
        ),
        ("PARTITION BY ts EVERY 1 MINUTE WITH (partition_by = 'x') AS SELECT * FROM t", ParseError, "given twice"),
        ("WITH (partition_by = 'ts') AS SELECT * FROM t", ParseError, "EVERY was expected"),
        ("WITH (partition_by = 'ts EVERY 1 HOUR twice') AS SELECT * FROM t", ParseError, "twice"),
    ],
)
def test_refused(text: str, error: type[Exception], words: str) -> None:
    with opened() as warehouse:
        with pytest.raises(error, match=words):
            warehouse.sql(f"CREATE MATERIALIZED VIEW v {text}")
        assert "v" not in warehouse.views()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE MATERIALIZED VIEW big PARTITION BY ts EVERY 2 MINUTES AS SELECT ts, k, n FROM t",
        "CREATE OR REPLACE MATERIALIZED VIEW big AS SELECT ts, k, n FROM t WHERE n > 1",
        "ALTER VIEW big SET (partition_by = 'ts EVERY 2 MINUTES')",
        "ALTER VIEW big RESET (partition_by)",
    ],
)
def test_partitions_that_are_read_stay(statement: str) -> None:
    with opened() as warehouse:
        warehouse.apply({"t": [at(0)]})
        with pytest.raises(Unsupported, match="cannot have other partitions") as refused:
            warehouse.sql(statement)
        assert "recent" in str(refused.value)
        warehouse.apply({"t": [at(1)]})
        assert warehouse.view("recent").verify().ok and len(warehouse.view("big").partitions()) == 2


def test_another_query_touches_the_partitions_whose_rows_differ() -> None:
    with opened() as warehouse:
        warehouse.apply({"t": [at(0), at(1, n=1), at(2, n=7)]})
        epoch = warehouse.epoch
        warehouse.sql(
            "CREATE OR REPLACE MATERIALIZED VIEW big PARTITION BY ts EVERY 1 MINUTE AS "
            "SELECT ts, k, n FROM t WHERE n > 6"
        )
        assert shown(warehouse, "recent") == [(2, "a", 7)]
        assert warehouse.view("recent").changes(since=epoch)
        assert warehouse.view("recent").verify().ok


def test_views_that_are_built_in_the_background_and_late_ones() -> None:
    script = """
    CREATE MATERIALIZED VIEW late PARTITION BY ts EVERY 1 MINUTE WITH (refresh = 'deferred') AS SELECT ts, k FROM t;
    CREATE MATERIALIZED VIEW counts AS UPDATE counts[i] AS SELECT COUNT(*) AS c FROM late[i-1 .. i];
    """
    with opened(script) as warehouse:
        warehouse.apply({"t": [at(0), at(1)]})
        assert shown(warehouse, "counts") == []
        warehouse.sql("REFRESH VIEW late")
        assert shown(warehouse, "counts") == [(0, 1), (1, 2)]


# -- lateness and retention --------------------------------------------------------------------------------------------

BOUNDED = """
CREATE MATERIALIZED VIEW sums PARTITION BY since EVERY 5 MINUTES AS
  SELECT window.start AS since, k, SUM(n) AS n FROM s GROUP BY window(ts, '1 minute'), k;
CREATE MATERIALIZED VIEW above AS UPDATE above[i] AS SELECT k, SUM(n) AS n FROM sums[i-1 .. i] GROUP BY k;
"""
UNBOUNDED = """
CREATE MATERIALIZED VIEW first_seen PARTITION BY since EVERY 5 MINUTES AS
  SELECT k, MIN(ts) AS since, COUNT(*) AS n FROM s GROUP BY k;
CREATE MATERIALIZED VIEW above AS UPDATE above[i] AS SELECT COUNT(*) AS n FROM first_seen[i-1 .. i];
"""


def feed(warehouse: tidemill.Warehouse, minutes: int) -> None:
    for minute in range(minutes):
        warehouse.apply({"s": [at(minute, k=f"k{minute % 3}")]})


def test_what_follows_from_the_inputs_is_forgotten() -> None:
    with opened(BOUNDED) as warehouse:
        feed(warehouse, 240)
        warehouse.compact()
        view, states = warehouse.view("sums"), {one.state for one in warehouse.view("sums").partitions()}
        assert states == {"open", "replay", "closed"}
        assert "can change" in view.explain() and "as a whole" not in view.explain()
        kept = warehouse.view("above").explain()
        assert "forgotten with partitions" in kept and "never forgotten" not in kept
        with opened(BOUNDED.replace("FROM s ", "FROM t ")) as other:
            other.apply({"t": [at(minute, k=f"k{minute % 3}") for minute in range(240)]})
            assert shown(other, "above") == shown(warehouse, "above")


def test_nothing_is_forgotten_where_no_bound_follows() -> None:
    """A row of long ago changes when one comes that is as new as can be: its group begins there."""
    with opened(UNBOUNDED) as warehouse:
        feed(warehouse, 240)
        assert "no bound of since follows from what it reads" in warehouse.view("first_seen").explain()
        assert "never forgotten" in warehouse.view("above").explain()
        warehouse.compact()
        assert {one.state for one in warehouse.view("first_seen").partitions()} == {"open"}
        warehouse.apply({"s": [at(239, k="new")]})
        assert [one.rows for one in warehouse.view("first_seen").partitions()] == [3, 1]
        assert shown(warehouse, "above")[0] == (0, 3)
        with pytest.raises(Unsupported, match="cannot forget its partitions"):
            warehouse.sql(
                "CREATE MATERIALIZED VIEW f PARTITION BY since EVERY 5 MINUTES WITH (retain = '1 hour') AS "
                "SELECT k, MIN(ts) AS since FROM s GROUP BY k"
            )


def test_a_view_forgets_its_own_rows() -> None:
    options = "PARTITION BY since EVERY 5 MINUTES WITH (retain = '30 minutes') AS"
    with opened(BOUNDED.replace("PARTITION BY since EVERY 5 MINUTES AS", options)) as warehouse:
        feed(warehouse, 240)
        warehouse.compact()
        assert len(warehouse.view("sums").partitions()) <= 8
        assert len(warehouse.view("above").partitions()) == 48


@pytest.mark.parametrize(
    ("skip", "ends"), [("AFTER MATCH SKIP TO NEXT ROW", True), ("AFTER MATCH SKIP PAST LAST ROW", False)]
)
def test_runs_that_begin_at_every_row_end_where_the_change_is(skip: str, ends: bool) -> None:
    """Otherwise a run that comes to nothing lets the search go back, so rows before the change may come out."""
    script = f"""
    CREATE MATERIALIZED VIEW runs PARTITION BY ts EVERY 5 MINUTES AS
      SELECT ts, k, COUNT(*) AS c FROM s PATTERN (a, b+) {skip} WHERE a.n > 1 AND b.n > 2 GROUP BY k;
    CREATE MATERIALIZED VIEW above AS UPDATE above[i] AS SELECT COUNT(*) AS n FROM runs[i-1 .. i];
    """
    with opened(script) as warehouse:
        warehouse.apply({"s": [at(minute, n=minute % 7) for minute in range(30)]})
        assert ("as a whole: no bound of ts" not in warehouse.view("runs").explain()) is ends
        assert ("never forgotten" not in warehouse.view("above").explain()) is ends


# -- objects -----------------------------------------------------------------------------------------------------------


def test_views_over_objects() -> None:
    """The option is the clause of a view in OQL, too."""
    classes = """
    module m {
        class Reading (extent Readings) { attribute timestamp at; attribute string who; attribute long n; };
    };
    """
    with tidemill.open(":memory:", runtime="native") as warehouse:
        db = tidemill.objects(warehouse, odl=classes)
        warehouse.sql(
            "DEFINE large() PARTITION BY at EVERY 1 MINUTE AS "
            "select struct(at: r.at, who: r.who, n: r.n) from r in Readings where r.n > 1;"
            "CREATE VIEW recent AS UPDATE recent[i] AS SELECT SUM(n) AS n FROM large[i-1 .. i]"
        )
        for minute in range(3):
            db.create("Reading", at=START + timedelta(minutes=minute), who="a", n=minute + 1)
        assert [one.rows for one in warehouse.view("large").partitions()] == [1, 1]
        assert shown(warehouse, "recent") == [(1, 2), (2, 5)]
        ((text,),) = warehouse.sql("SHOW CREATE VIEW large").rows()
        assert "PARTITION BY at EVERY 1 MINUTE WITH (strategy = 'lineage') AS select" in " ".join(text.split())
