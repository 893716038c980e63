"""LATENESS and RETAIN that come, change and go, and columns of tables that have them."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import NameTaken, TidemillError, UnknownName, Unsupported

START = dt.datetime(2026, 1, 1)


def at(hour: int) -> dt.datetime:
    return START + dt.timedelta(hours=hour)


class Model:
    """What a stream with bounds accepts: by its head, and by the floor below which it has forgotten all."""

    def __init__(self) -> None:
        self.accepted: list[tuple[int, int]] = []
        self.late: list[tuple[int, int]] = []
        self.head: int | None = None
        self.floor: int | None = None
        self.lateness: int | None = None
        self.retain: int | None = None

    def take(self, rows: list[tuple[int, int]]) -> None:
        bound = None
        if self.lateness is not None and self.head is not None:
            bound = max(self.head - self.lateness, -99 if self.floor is None else self.floor)
        for row in rows:
            (self.accepted if bound is None or row[0] >= bound else self.late).append(row)
        if self.lateness is not None:
            self.head = max([hour for hour, _ in rows] + ([] if self.head is None else [self.head]))

    @property
    def kept(self) -> int:
        found = [] if self.floor is None else [self.floor]
        found += [self.head - self.retain] if self.head is not None and self.retain is not None else []
        return max(found, default=-99)

    def replay(self) -> None:
        self.accepted += [row for row in self.late if row[0] >= self.kept]
        self.late = [row for row in self.late if row[0] < self.kept]

    def bound(self, word: str, length: int | None) -> str | None:
        """Another bound; the reason if that is refused."""
        lateness, retain = self.lateness, self.retain
        if word == "LATENESS" and length is None:
            if retain is not None and retain != lateness:
                return "cannot be without LATENESS"
            if lateness is not None:
                return "late changes|may have forgotten"  # there is a view by partitions
            return ""
        if word == "LATENESS":
            assert length is not None
            if retain is not None and length > retain:
                if retain != lateness:
                    return "RETAIN is shorter"
                retain = length
            lateness, retain = length, length if retain is None else retain
        elif length is None:
            retain = lateness
        else:
            if lateness is not None and length < lateness:
                if retain != lateness:
                    return "RETAIN is shorter"
                lateness = length
            lateness, retain = length if lateness is None else lateness, length
        if (lateness, retain) == (self.lateness, self.retain):
            return ""
        if self.lateness is not None and self.head is not None:
            self.floor = self.kept
        self.lateness, self.retain = lateness, retain
        return None


def run(path: Path | str, seed: int, turns: int) -> Model:
    draw, model = random.Random(seed), Model()
    wh = tidemill.open(path, runtime="native", backend="python")
    wh.sql("CREATE STREAM s (ts TIMESTAMP, x INT) PARTITION BY ts EVERY 1 HOUR")
    wh.sql("CREATE VIEW panes AS UPDATE panes[i] AS SELECT SUM(x) AS x FROM s[i]")
    wh.sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(x) AS x, COUNT(*) AS n FROM s")
    now, extra = 10, 0
    for turn in range(turns):
        match draw.choice(("rows", "rows", "rows", "bound", "replay", "column", "open")):
            case "rows":
                now += draw.choice((0, 0, 1, 2))
                rows = [(max(now - draw.randrange(9), 0), draw.randrange(100)) for _ in range(draw.randint(1, 3))]
                model.take(rows)
                wh.apply({"s": [(1, (at(hour), x, *[None] * extra)) for hour, x in rows]})
            case "bound":
                word, length = draw.choice(("LATENESS", "RETAIN")), draw.choice((None, 1, 2, 4, 6))
                refused = model.bound(word, length)
                change = f"DROP {word}" if length is None else f"SET {word} {length} HOURS"
                if refused:
                    with pytest.raises(Unsupported, match=refused):
                        wh.sql(f"ALTER STREAM s {change}")
                else:
                    wh.sql(f"ALTER STREAM s {change}")
            case "replay" if model.lateness is not None:
                model.replay()
                wh.sql("REPLAY LATE s")
            case "column" if extra < 3:
                extra += 1
                wh.sql(f"ALTER STREAM s ADD COLUMN c{turn} INT")
            case "open" if path != ":memory:":
                wh.close()
                wh = tidemill.open(path, runtime="native", backend="python")
        panes = Counter[dt.datetime]()
        for hour, x in model.accepted:
            panes[at(hour)] += x
        total = (sum(x for _, x in model.accepted), len(model.accepted))
        assert wh.view("total").rows() == [total if total[1] else (None, 0)]
        assert {start: x for start, x in wh.view("panes").rows() if x is not None} == panes
        if model.lateness is not None:
            late = Counter((row[0], row[1]) for row in wh.table("s_late").rows())
            assert late == Counter((at(hour), x) for hour, x in model.late)
    wh.close()
    return model


@pytest.mark.parametrize("seed", range(3))
def test_bounds_change_in_the_middle_of_changes(tmp_path: Path, seed: int) -> None:
    run(":memory:", seed, 40)
    run(tmp_path / "w", 10 + seed, 25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_bounds_change_for_longer(tmp_path: Path, seed: int) -> None:
    run(tmp_path / "w", seed, 200)


TABLE = """
CREATE TABLE t (ts TIMESTAMP, x INT) PARTITION BY ts EVERY 1 HOUR;
CREATE MATERIALIZED VIEW most AS SELECT MAX(x) AS m, COUNT(*) AS n FROM t;
INSERT INTO t VALUES (TIMESTAMP '2026-01-01 02:00:00', 9), (TIMESTAMP '2026-01-01 20:00:00', 5)
"""


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_table_begins_to_forget_and_its_readers_go_on(tmp_path: Path, place: str) -> None:
    """A view that could look rows up keeps what it needs from then on; longer retention brings nothing back."""
    folder = ":memory:" if place == "memory" else tmp_path / "w"
    with tidemill.open(folder, runtime="native", backend="python") as wh:
        wh.sql(TABLE)
        assert wh.sql("ALTER TABLE t SET RETAIN 3 HOURS").message == "altered table t; rebuilt most"
        wh.sql("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 22:00:00', 6)")
        wh.compact()  # forgets at once
        assert sorted(wh.table("t").rows()) == [(at(20), 5), (at(22), 6)]
        assert wh.view("most").rows() == [(9, 3)]
        with pytest.raises(Unsupported, match="cannot be without RETAIN"):
            wh.sql("ALTER TABLE t DROP RETAIN")
        wh.sql("ALTER TABLE t SET RETAIN 20 HOURS")
        wh.sql("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 18:00:00', 7), (TIMESTAMP '2026-01-01 19:00:00', 1)")
        assert [row[:2] for row in wh.table("t_late").rows()] == [(at(18), 7)]
        assert "LATENESS 3 HOURS RETAIN 20 HOURS" in wh.sql("SHOW CREATE TABLE t").rows()[0][0]
        wh.sql("DROP VIEW most; ALTER TABLE t DROP RETAIN; DELETE FROM t_late; ALTER TABLE t DROP LATENESS")
        wh.sql("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 01:00:00', 7)")
        assert (len(wh.table("t")), wh.tables()) == (4, ("t",))


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_columns_of_a_table_with_lateness(tmp_path: Path, place: str) -> None:
    """Late changes have the columns of their table, also those that came before."""
    folder = ":memory:" if place == "memory" else tmp_path / "w"
    wh = tidemill.open(folder, runtime="native", backend="python")
    wh.sql("CREATE TABLE t (ts TIMESTAMP, x INT) PARTITION BY ts EVERY 1 HOUR LATENESS 1 HOUR")
    wh.sql("CREATE MATERIALIZED VIEW gone AS SELECT x, COUNT(*) AS n FROM t_late GROUP BY x")
    wh.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM t_late")
    wh.sql("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 10:00:00', 1)")
    wh.sql("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 02:00:00', 2)")
    wh.sql("ALTER TABLE t ADD COLUMN y STRING DEFAULT 'old' AFTER ts; ALTER TABLE t RENAME COLUMN x TO z")
    wh.sql("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 03:00:00', 'new', 3)")
    assert sorted(row[:3] for row in wh.table("t_late").rows()) == [(at(2), "old", 2), (at(3), "new", 3)]
    if place == "disk":
        wh.close()
        wh = tidemill.open(folder, runtime="native", backend="python")
    assert sorted(wh.view("gone").rows()) == [(2, 1), (3, 1)]
    assert [f.name for f in wh.view("every").fields] == ["ts", "x", "change", "epoch"]
    with pytest.raises(Unsupported, match='column "z" of "t" cannot be dropped') as error:
        wh.sql("ALTER TABLE t DROP COLUMN z")
    assert error.value.detail == "It is read by gone, every."
    wh.sql("ALTER TABLE t ALTER COLUMN z TYPE BIGINT; REPLAY LATE t")
    assert sorted(wh.table("t").rows()) == [(at(2), "old", 2), (at(3), "new", 3), (at(10), "old", 1)]
    assert all(one.ok for one in wh.verify())
    assert wh.sql("ALTER TABLE t DROP COLUMN z CASCADE").message == "altered table t; dropped gone, every"
    wh.close()


REFUSED: list[tuple[str, type[TidemillError], str]] = [
    ("ALTER TABLE u SET LATENESS 1 HOUR", Unsupported, "is not partitioned|cannot have LATENESS"),
    ("ALTER STREAM s SET RETAIN 1 HOUR", Unsupported, "RETAIN is shorter than LATENESS"),
    ("ALTER STREAM s SET LATENESS 9 HOURS", Unsupported, "RETAIN is shorter than LATENESS"),
    ("ALTER STREAM s DROP LATENESS", Unsupported, "cannot be without LATENESS"),
    ("ALTER STREAM s ADD COLUMN epoch INT", NameTaken, "LATENESS or RETAIN"),
    ("ALTER STREAM s RENAME COLUMN x TO change", NameTaken, "LATENESS or RETAIN"),
    ("ALTER TABLE s_late ADD COLUMN y INT", Unsupported, 'takes the late changes of "s"'),
    ("ALTER TABLE w SET LATENESS 1 HOUR", NameTaken, "w_late"),
    ("ALTER TABLE e SET LATENESS 1 HOUR", NameTaken, "LATENESS or RETAIN"),
    ("ALTER STREAM u ADD COLUMN y INT", UnknownName, '"u" is a table'),
    ("ALTER STREAM nothing DROP RETAIN", UnknownName, "nothing"),
    ("ALTER TABLE k SET RETAIN 1 DAY", Unsupported, "forgets rows"),
]


@pytest.mark.parametrize(("statement", "error", "told"), REFUSED)
def test_refused(statement: str, error: type[TidemillError], told: str) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE STREAM s (ts TIMESTAMP, x INT) PARTITION BY ts EVERY 1 HOUR LATENESS 2 HOURS RETAIN 5 HOURS")
        wh.sql("CREATE TABLE u (x INT); CREATE TABLE w_late (x INT)")
        wh.sql("CREATE TABLE w (ts TIMESTAMP) PARTITION BY ts EVERY 1 HOUR")
        wh.sql("CREATE TABLE e (ts TIMESTAMP, epoch INT) PARTITION BY ts EVERY 1 HOUR")
        wh.sql("CREATE TABLE k (ts TIMESTAMP PRIMARY KEY) PARTITION BY ts EVERY 1 HOUR")
        wh.sql("CREATE TABLE c (ts TIMESTAMP REFERENCES k)")
        before = {name: wh.sql(f"SHOW CREATE TABLE {name}").rows() for name in wh.tables()}
        with pytest.raises(error) as raised:
            wh.sql(statement)
        raised.match(told)
        assert {name: wh.sql(f"SHOW CREATE TABLE {name}").rows() for name in wh.tables()} == before
