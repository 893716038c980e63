"""Rows that come too late, partitions that are forgotten: views are what the accepted changes make of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tidemill
from tests import ways
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.partitions.late_replay import LateReplay
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import ArithmeticFault, MissingRow, NameTaken, SqlError, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2024, 1, 1, 9)
Row = tuple[datetime, str, int]
Change = tuple[int, Row]

DECLARED = "s (ts TIMESTAMP, k STRING, n INT) PARTITION BY ts EVERY 1 MINUTE"

VIEWS = """
CREATE VIEW panes AS UPDATE panes[i] AS SELECT k, SUM(n) AS n, MAX(n) AS m FROM s[i] GROUP BY k;
CREATE VIEW running AS
INITIALIZE running[k] AS SELECT k, SUM(n) AS n FROM s[k] GROUP BY k
UPDATE running[i] AS
  SELECT k, SUM(n) AS n FROM (SELECT * FROM running[i-1] UNION ALL SELECT k, n FROM s[i]) AS x GROUP BY k
PARTITION BY 1 MINUTE;
CREATE MATERIALIZED VIEW summed AS SELECT k, SUM(n) AS n FROM s [WINDOW 5 MINUTES] GROUP BY k;
CREATE MATERIALIZED VIEW highest AS SELECT k, MAX(n) AS n FROM s [WINDOW 6 MINUTES SLIDE 2 MINUTES] GROUP BY k;
CREATE VIEW five AS UPDATE five[i] AS SELECT k, n FROM panes[5*i+1 .. 5*i+2] PARTITION BY 5 MINUTES;
CREATE VIEW beside AS UPDATE beside[i] AS
  SELECT a.k, a.n, b.n AS five FROM panes[i] a LEFT JOIN five[i/5] b ON a.k = b.k PARTITION BY 1 MINUTE;
CREATE VIEW pairs AS UPDATE pairs[i] AS
  SELECT a.k, SUM(b.n) AS n, COUNT(DISTINCT b.n) AS d FROM s[i] a JOIN s[i] b ON a.k = b.k WHERE a.n < b.n GROUP BY a.k;
CREATE VIEW ranked AS UPDATE ranked[i] AS SELECT k, n, RANK() OVER (ORDER BY n) AS r FROM s[i];
CREATE MATERIALIZED VIEW total AS SELECT k, SUM(n) AS n FROM s GROUP BY k;
CREATE MATERIALIZED VIEW runs AS
  SELECT k, FIRST(b.n) AS n FROM s PATTERN (a, b+) WHERE a.n > 5 AND b.n < 5 GROUP BY k;
CREATE MATERIALIZED VIEW behind WITH (refresh = 'deferred') AS
  SELECT k, SUM(n) AS n FROM s [WINDOW 4 MINUTES] GROUP BY k
"""

IMMEDIATE = VIEWS.rsplit(";", 1)[0]
FEW = ";".join(VIEWS.split(";")[:3])


def minute(number: float, k: str = "a", n: int = 1) -> Row:
    return START + timedelta(minutes=number), k, n


def rows(*minutes: float) -> dict[str, list[Change]]:
    return {"s": [(+1, minute(number)) for number in minutes]}


def opened(declared: str = "STREAM", bounds: str = "LATENESS 2 MINUTES", views: str = "") -> Warehouse:
    warehouse = tidemill.open(":memory:", runtime="native")
    warehouse.sql(f"CREATE {declared} {DECLARED} {bounds}; {views}")
    return warehouse


class World:
    """Random changes of ``s``, some of them too late, and what a warehouse should make of them."""

    def __init__(self, seed: int, lateness: int, retain: int) -> None:
        self.random = random.Random(seed)
        self.lateness, self.retain = lateness, retain
        self.head: int | None = None
        self.now = 0
        self.accepted = ZSet()
        self.late: list[Change] = []
        self._there: list[Row] = []

    def changes(self) -> list[Change]:
        """Some rows around now, and deletions of rows that came at any time."""
        self.now += self.random.choice([0, 0, 1, 1, 2, 4])
        behind = [0, 0, 0, 0, 1, 1, 2, 3, 6, 13]
        found = [(+1, self._row(self.now - self.random.choice(behind))) for _ in range(self.random.randint(1, 4))]
        leaving = [self._there.pop(self.random.randrange(len(self._there))) for _ in range(2) if self._there]
        return [*found, *((-1, row) for row in leaving[: self.random.randint(0, 2)])]

    def _row(self, number: int) -> Row:
        return minute(number + self.random.random() * 0.9, self.random.choice("abc"), self.random.randint(-5, 9))

    def take(self, changes: list[Change]) -> None:
        """An epoch: all are judged by the head before it."""
        fine = [change for change in changes if self.head is None or _number(change) >= self.head - self.lateness]
        self._accept(fine)
        self.late += [change for change in changes if change not in fine]
        self.head = max([_number(change) for change in changes] + ([] if self.head is None else [self.head]))

    def replay(self) -> tuple[int, int]:
        """How many late changes can be replayed, and how many cannot."""
        assert self.head is not None
        fine = [change for change in self.late if _number(change) >= self.head - self.retain]
        self._accept(fine)
        self.late = [change for change in self.late if change not in fine]
        return len(fine), len(self.late)

    def _accept(self, changes: Iterable[Change]) -> None:
        for weight, row in changes:
            self.accepted.add(row, weight)
            if weight > 0:
                self._there.append(row)

    def move(self, warehouse: Warehouse, epoch: int) -> None:
        """Let a warehouse take some changes, and now and then replay late ones."""
        changes = self.changes()
        self.take(changes)
        warehouse.apply({"s": changes})
        if epoch % 9 == 4:
            assert tuple(warehouse.replay_late("s"))[1:] == self.replay()

    def check(self, warehouse: Warehouse) -> None:
        """All views are what the evaluator says of the accepted rows, and late ones are where they should be."""
        known = {"s": self.accepted}
        for name, view in warehouse._engine.catalog.views.items():
            known[name] = evaluate(push_down_filters(view.relation), known)
            assert ZSet.summed((row, 1) for row in warehouse.view(name).rows()) == known[name], name
        stored = sorted((row[3], row[:3]) for row in warehouse.table("s_late").rows())
        assert stored == sorted(self.late)


def _number(change: Change) -> int:
    return (change[1][0] - START) // timedelta(minutes=1)


def entries(warehouse: Warehouse) -> dict[str, int]:
    names = [view for view in warehouse.views() if view not in ("total", "runs", "s_late")]
    return {view: sum(size.entries for size in warehouse.view(view).sizes()) for view in names}


@pytest.mark.parametrize(
    ("kind", "lateness", "retain", "way"),
    [("STREAM", 2, 2, "held"), ("STREAM", 4, 6, "columns"), ("TABLE", 3, 8, "llvm")],
)
def test_views_are_what_was_accepted(kind: str, lateness: int, retain: int, way: str) -> None:
    """Whatever is late, replayed, deleted or forgotten."""
    world = World(lateness, lateness, retain)
    with ways.opened(way) as warehouse:
        bounds = f"LATENESS {lateness} MINUTES RETAIN {retain} MINUTES"
        warehouse.sql(f"CREATE {kind} {DECLARED} {bounds}; {VIEWS if kind == 'STREAM' else IMMEDIATE}")
        for epoch in range(30):
            world.move(warehouse, epoch)
            if epoch % 4 == 3:
                warehouse.compact()
        if kind == "STREAM":
            warehouse.sql("REFRESH VIEW behind")
        world.check(warehouse)
        warehouse.compact()
        assert world.late and max(entries(warehouse).values()) < 60 + 15 * retain


def test_views_are_the_same_after_a_restart(tmp_path: Path) -> None:
    """Heads, late rows and what is forgotten are in the warehouse, and nowhere else."""
    world = World(seed=5, lateness=2, retain=4)
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.sql(f"CREATE STREAM {DECLARED} LATENESS 2 MINUTES RETAIN 4 MINUTES; {FEW}")
    for opening in range(3):
        with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
            for epoch in range(10 * opening, 10 * opening + 8):
                world.move(warehouse, epoch)
            warehouse.compact()
            world.check(warehouse)
            assert max(entries(warehouse).values()) < 120


@pytest.mark.spark
def test_spark_forgets_too(spark: SparkSession) -> None:
    world = World(seed=3, lateness=2, retain=2)
    panes, _, summed = FEW.split(";")
    with ways.opened("driver", spark) as warehouse:
        warehouse.sql(f"CREATE STREAM {DECLARED} LATENESS 2 MINUTES; {panes}; {summed}")
        for epoch in range(3):
            world.now += 4
            world.move(warehouse, epoch)
        warehouse.compact()
        assert max(entries(warehouse).values()) < 60
        world.move(warehouse, epoch=4)
        world.check(warehouse)


@pytest.mark.spark
def test_late_rows_as_frames(spark: SparkSession) -> None:
    """Set aside, replayed and forgotten, where every stage is a query of Spark and every partition a job."""
    world = World(seed=3, lateness=1, retain=2)
    with ways.opened("frames", spark) as warehouse:
        warehouse.sql(f"CREATE STREAM {DECLARED} LATENESS 1 MINUTE RETAIN 2 MINUTES; {FEW.split(';')[1]}")

        def bring(*minutes: int) -> None:
            changes = [(+1, minute(number, n=number)) for number in minutes]
            world.take(changes)
            # Spark by itself takes the empty chunk after a row for the end.
            rows = [changes_as_arrow([change]) for change in changes]
            warehouse.apply({"s": pa.concat_tables(part for row in rows for part in (row, row.slice(0, 0)))})

        bring(0, 1, 3)
        bring(3, 1, 0, 3)
        assert len(warehouse.table("s_late").rows()) == 2
        assert tuple(warehouse.replay_late("s"))[1:] == world.replay() == (1, 1)
        bring(6)
        warehouse.compact()
        assert entries(warehouse)["running"] < 20, "it would be 27 rows, those of all epochs counted"
        bring(5)
        world.check(warehouse)


def test_events_are_judged_by_those_before_them() -> None:
    """One by one, with whoever looks in between, as if each were an epoch."""
    world = World(seed=7, lateness=2, retain=2)
    with opened(bounds="LATENESS 2 MINUTES", views=IMMEDIATE) as warehouse:
        feed = warehouse.feed("s")
        for weight, row in [change for _ in range(12) for change in world.changes()]:
            feed(weight, *row)
            world.take([(weight, row)])
            if row[2] == 0:
                warehouse.flush()
        world.check(warehouse)
        assert world.late and {epoch for *_, epoch in warehouse.table("s_late").rows()} != {1}


def test_late_rows_are_kept_replayed_and_left() -> None:
    with opened(bounds="LATENESS 2 MINUTES RETAIN 4 MINUTES", views=VIEWS) as warehouse:
        warehouse.sql("CREATE MATERIALIZED VIEW seen AS SELECT COUNT(*) AS n FROM s_late")
        warehouse.apply(rows(0, 10))
        late = {"s": [(+2, minute(7)), (-1, minute(3)), (+1, minute(8))]}
        warehouse.apply({name: changes_as_arrow(pairs) for name, pairs in late.items()})
        assert sorted(warehouse.table("s_late").rows()) == [
            (*minute(3), -1, 2),
            (*minute(7), 1, 2),
            (*minute(7), 1, 2),
        ]
        assert warehouse.view("total").rows() == [("a", 3)] and warehouse.view("seen").rows() == [(3,)]
        assert warehouse.replay_late("s", where="n > 100") == LateReplay(2, 0, 0)
        said = warehouse.sql("REPLAY LATE s WHERE change = 1 OR k = 'a'").message
        left = "left in s_late, for their partitions are forgotten, or far ahead: 1"
        assert said == f"late changes of s replayed in epoch 3: 2; {left}"
        assert warehouse.view("total").rows() == [("a", 5)] and warehouse.view("seen").rows() == [(1,)]
        warehouse.sql("DELETE FROM s_late")
        assert warehouse.positions == {}
    with opened(bounds="") as warehouse, pytest.raises(Unsupported, match="has no late changes"):
        warehouse.replay_late("s")


def changes_as_arrow(pairs: list[Change]) -> pa.Table:
    columns = zip(*(row for _, row in pairs), strict=True)
    named = dict(zip(("ts", "k", "n"), map(list, columns), strict=True))
    return pa.table({**named, "_weight": [weight for weight, _ in pairs]})


def test_a_replay_that_cannot_be_changes_nothing() -> None:
    with opened("TABLE", "LATENESS 2 MINUTES") as warehouse:
        warehouse.apply(rows(0, 10))
        warehouse.apply({"s": [(-1, minute(4)), (-1, minute(0))]})
        assert len(warehouse.table("s").rows()) == 2
        with pytest.raises(MissingRow):
            warehouse.replay_late("s")
        assert warehouse.replay_late("s", where="ts < TIMESTAMP '2024-01-01 09:01:00'") == LateReplay(3, 1, 0)
        assert warehouse.table("s").rows() == [minute(10)]


def test_a_row_far_ahead_waits_until_it_is_right() -> None:
    """It moves no head, so nothing else becomes late; a gap in time is skipped over when somebody says so."""
    far = (datetime(9024, 1, 1), "a", 1)
    with opened(views=IMMEDIATE) as warehouse:
        warehouse.apply(rows(0))
        warehouse.apply({"s": [(+1, minute(0)), (+1, far)]})
        warehouse.apply(rows(1))
        assert warehouse.table("s_late").rows() == [(*far, 1, 2)] and warehouse.view("total").rows() == [("a", 3)]
        assert warehouse.replay_late("s") == LateReplay(3, 0, 1), "it may be a clock that went wrong"
        later = (far[0] + timedelta(minutes=1), "a", 1)
        warehouse.apply({"s": [(+1, later)]})
        with pytest.raises(ArithmeticFault, match="partitions, of which most are empty"):
            warehouse.sql("REPLAY LATE s AHEAD")
        warehouse.sql("DROP VIEW running")  # it has rows in each partition
        said = warehouse.sql("REPLAY LATE s AHEAD WHERE ts < TIMESTAMP '9024-01-01 00:01:00'").message
        assert said == "late changes of s replayed in epoch 5: 1"
        assert warehouse.view("total").rows() == [("a", 4)]
        assert warehouse.replay_late("s") == LateReplay(6, 1, 0), "the head has moved"
        warehouse.apply({"s": [(+1, later)]})
        warehouse.apply(rows(2))
        assert warehouse.view("total").rows() == [("a", 6)] and len(warehouse.table("s_late").rows()) == 1
        assert [n for *_, n in sorted(warehouse.view("summed").rows())][-2:] == [1, 3]


def test_lateness_by_value() -> None:
    """Each change is judged by its own time and the greatest before the epoch, with partitions or without."""
    clauses = ("PARTITION BY ts EVERY 1 MINUTE LATENESS 90 SECONDS RETAIN 150 SECONDS",
               "LATENESS 90 SECONDS ON ts RETAIN 150 SECONDS")  # fmt: skip
    for clause, backend in ((clause, backend) for clause in clauses for backend in ("python", "llvm")):
        with tidemill.open(":memory:", runtime="native", backend=backend) as warehouse:
            warehouse.sql(f"CREATE STREAM s (ts TIMESTAMP, k STRING, n INT) {clause}")
            warehouse.sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n FROM s")
            assert clause.replace(" ts", " `ts`") in str(warehouse.sql("SHOW CREATE TABLE s").rows())
            warehouse.apply({"s": [(+1, minute(0.5)), (+1, minute(10))]})
            warehouse.apply({"s": [(+1, minute(8.5)), (+1, minute(8.4, n=10)), (+1, minute(7.4, n=20))]})
            feed = warehouse.feed("s")
            feed(+1, *minute(11))
            feed(+1, *minute(9.4, n=40))
            warehouse.flush()
            assert warehouse.view("total").rows() == [(4,)]
            assert sorted(n for _, _, n, *_ in warehouse.table("s_late").rows()) == [10, 20, 40]
            assert warehouse.replay_late("s") == LateReplay(4, 1, 2) and warehouse.view("total").rows() == [(44,)]


def test_tables_and_views_that_retain_forget_rows() -> None:
    """To views over them it is as if nothing had been forgotten."""
    views = """
        CREATE VIEW panes WITH (retain = '6 minutes') AS UPDATE panes[i] AS SELECT k, SUM(n) AS n FROM s[i] GROUP BY k;
        CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS c, MAX(n) AS m FROM panes;
        CREATE MATERIALIZED VIEW met AS SELECT COUNT(*) AS c FROM s JOIN panes ON s.k = panes.k
    """
    with opened("TABLE", "RETAIN 4 MINUTES", views) as warehouse:
        for number in range(20):
            warehouse.apply(rows(number))
        warehouse.compact()
        assert [row[0].minute for row in sorted(warehouse.table("s").rows())] == [15, 16, 17, 18, 19]
        assert [row[0].minute for row in sorted(warehouse.view("panes").rows())] == [*range(13, 20)]
        assert warehouse.view("total").rows() == [(20, 1)] and warehouse.view("met").rows() == [(400,)]
        listed = warehouse.view("panes").partitions()
        assert [p.state for p in listed] == ["closed"] * 2 + ["open"] * 5
        assert [p.state for p in warehouse.table("s").partitions()] == ["open"] * 5
        with pytest.raises(Unsupported, match="forgets rows"):
            warehouse.view("panes").verify()
        explained = warehouse.view("panes").explain()
        assert "more than 4 MINUTES behind go to s_late, to be replayed up to 4 MINUTES behind" in explained
        assert "from 2024-01-01 09:15:00 on" in explained and "6 MINUTES of its rows" in explained
        warehouse.sql("CREATE VIEW later AS UPDATE later[i] AS SELECT k, COUNT(*) AS n FROM s[i-1 .. i] GROUP BY k")
        warehouse.apply({"s": [(-1, minute(16))]})
        counted = [(start.minute, n) for start, _, n in sorted(warehouse.view("later").rows())]
        assert counted == [(15, 1), (16, 1), (17, 1), (18, 2), (19, 2)], "it begins with what is left"
        for refused in ("refresh = 'deferred'", "retain = '90 seconds'"):
            with pytest.raises(Unsupported):
                warehouse.sql(f"CREATE VIEW v WITH ({refused}) AS UPDATE v[i] AS SELECT n FROM panes[i]")


def test_what_may_change_at_any_time_is_not_forgotten() -> None:
    with opened(views="CREATE TABLE t (k STRING)") as warehouse:
        for read in ("s[i] NATURAL JOIN t", "u[i]"):
            warehouse.sql("CREATE TABLE IF NOT EXISTS u (ts TIMESTAMP, k STRING) PARTITION BY ts EVERY 1 MINUTE")
            with pytest.raises(Unsupported, match="cannot forget its partitions"):
                warehouse.sql(f"CREATE VIEW v WITH (retain = '2 days') AS UPDATE v[i] AS SELECT k FROM {read}")
        with pytest.raises(Unsupported, match="has no partitions"):
            warehouse.sql("CREATE MATERIALIZED VIEW v WITH (retain = '2 days') AS SELECT k FROM s")
        warehouse.sql("CREATE VIEW past AS UPDATE past[i] AS SELECT k, COUNT(*) AS n FROM s[.. i] GROUP BY k")
        for number in range(20):
            warehouse.apply(rows(number))
        assert "but for all of past/feed:s" in warehouse.view("past").explain()
        assert sorted(n for _, _, n in warehouse.view("past").rows()) == [*range(1, 21)]


def test_declared_and_dropped(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE s (day DATE, n INT) PARTITION BY day EVERY 1 DAY LATENESS 2 DAYS RETAIN 1 WEEK")
        warehouse.apply({"s": [(+1, (date(2024, 1, 9), 1)), (+1, (None, 2))]})
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.apply({"s": [(+1, (date(2024, 1, day), 1)) for day in (6, 7)] + [(+1, (None, 2))]})
        assert warehouse.table("s_late").rows() == [(date(2024, 1, 6), 1, 1, 2)]
        cut = warehouse.table("s").definition.partitioning
        assert cut is not None and (cut.lateness, cut.retain) == (2 * cut.every, 7 * cut.every)
        with pytest.raises(Unsupported, match="goes with it"):
            warehouse.sql("DROP TABLE s_late")
        with pytest.raises(NameTaken):
            warehouse.sql("CREATE TABLE s_late (n INT)")
        warehouse.sql("CREATE MATERIALIZED VIEW late AS SELECT n FROM s_late")
        with pytest.raises(Unsupported, match="read by late"):
            warehouse.sql("DROP TABLE s")
        warehouse.sql("DROP VIEW late; DROP TABLE s; CREATE TABLE s_late (n INT); DROP TABLE s_late")
        warehouse.sql(f"CREATE STREAM {DECLARED} LATENESS 1 MINUTE")
        warehouse.apply({"s": [(+1, (datetime(2001, 1, 1), "a", 1))]})
        assert warehouse.table("s_late").rows() == []


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (f"{DECLARED} LATENESS 90 SECONDS ON ts", "should end before this"),
        ("s (ts TIMESTAMP, k STRING) LATENESS 90 SECONDS", "ON was expected"),
        ("s (ts TIMESTAMP, k STRING) LATENESS 90 SECONDS ON k", "cannot be judged by"),
        ("s (ts TIMESTAMP) RETAIN 1 MINUTE ON at", 'no column "at"'),
        (f"{DECLARED} LATENESS 2 MINUTES RETAIN 1 MINUTE", "RETAIN is shorter than LATENESS"),
        (f"{DECLARED} RETAIN 1 MINUTE LATENESS 1 MINUTE", "should end before this"),
        (f"{DECLARED} LATENESS 0 MINUTES", "a duration is positive"),
        ("s (ts TIMESTAMP, change INT) PARTITION BY ts EVERY 1 MINUTE RETAIN 1 HOUR", 'cannot have a column "change"'),
    ],
)
def test_refused(declared: str, told: str) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse, pytest.raises(SqlError, match=told) as refused:
        warehouse.sql(f"CREATE STREAM {declared}")
    assert refused.value.where
